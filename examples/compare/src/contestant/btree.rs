//! `btree`: a sorted map from due ticks to the entries that are due then.
//!
//! It models the other timer that programs begin with: `BTreeMap` (or a red-black tree: `TreeMap`,
//! `std::map`, nginx) and a thread that sleeps until the first key is due.
//!
//! In its favour: one key a tick, not one a timeout, so the tree is as small as it can be and a tick is
//! taken out whole; and lazy deletion, which spares it the search for what is cancelled. Sweeps remove that.

use super::compared::Key;
use hashed_wheel::unstable::{Counters, Due, Entry, Liveness, Wheel};
use std::collections::BTreeMap;

/// How far ahead slots are fetched in a sweep, as in the crate's own wheels.
const LOOKAHEAD: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Btree {
    now: u64,
    filed: usize,
    ticks: BTreeMap<Key, Vec<Entry>>,
    /// The tick that the next sweep begins with.
    sweeping: u64,
    counters: Counters,
}

/// Removes the dead ones, keeping the order of the others.
fn sweep_tick(entries: &mut Vec<Entry>, liveness: &impl Liveness) {
    let mut kept = 0;
    for index in 0..entries.len() {
        if let Some(&ahead) = entries.get(index + LOOKAHEAD) {
            liveness.prefetch(ahead);
        }
        if !liveness.is_dead(entries[index]) {
            entries[kept] = entries[index];
            kept += 1;
        }
    }
    entries.truncate(kept);
    entries.shrink_to(2 * kept);
}

impl Wheel for Btree {
    #[inline]
    fn now(&self) -> u64 {
        self.now
    }

    #[inline]
    fn filed(&self) -> usize {
        self.filed
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let boundary = entry.due().max(self.now + 1);
        self.ticks.entry(Key(boundary)).or_default().push(entry);
        self.filed += 1;
    }

    #[inline]
    fn next_expiration(&self) -> Option<u64> {
        let (first, _) = self.ticks.first_key_value()?;
        Some(first.0)
    }

    fn advance(&mut self, to: u64, due: &mut Due<'_>) {
        self.now = to;
        while let Some(first) = self.ticks.first_entry() {
            if first.key().0 > to {
                return;
            }
            let entries = first.remove();
            self.filed -= entries.len();
            self.counters.bucket_visits += 1;
            for entry in entries {
                due.push(entry);
            }
        }
    }

    fn sweep(&mut self, limit: usize, liveness: &impl Liveness) -> usize {
        let mut looked = 0;
        let mut emptied = Vec::new();
        let mut next = 0;
        for (&tick, entries) in self.ticks.range_mut(Key(self.sweeping)..) {
            if looked >= limit {
                next = tick.0;
                break;
            }
            let before = entries.len();
            sweep_tick(entries, liveness);
            looked += before;
            self.filed -= before - entries.len();
            if entries.is_empty() {
                emptied.push(tick);
            }
        }
        for tick in emptied {
            self.ticks.remove(&tick);
        }
        self.sweeping = next;
        if looked == 0 && self.filed > 0 {
            // Nothing was behind where the last one ended: begin again.
            return self.sweep(limit, liveness);
        }
        looked
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    /// The buffers and, roughly, the nodes of the tree.
    fn bytes(&self) -> usize {
        let buffers: usize = self.ticks.values().map(Vec::capacity).sum();
        buffers * size_of::<Entry>() + self.ticks.len() * 2 * size_of::<(Key, Vec<Entry>)>()
    }
}

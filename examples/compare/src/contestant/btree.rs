//! `btree`: a sorted map from due ticks to the entries that are due then.
//!
//! It models the other timer that programs begin with: `BTreeMap` (or a red-black tree: `TreeMap`,
//! `std::map`, nginx) and a thread that sleeps until the first key is due.
//!
//! In its favour: one key a tick, not one a timeout, so the tree is as small as it can be and a tick is
//! taken out whole; and lazy deletion, which spares it the search for what is cancelled. Sweeps remove that.

use super::compared::Key;
use hashed_wheel::unstable::{Entry, Liveness, Tick, Wheel, WheelCounters};
use std::collections::BTreeMap;
use std::mem;

#[derive(Debug, Default)]
pub(crate) struct Btree {
    now: u64,
    filed: usize,
    ticks: BTreeMap<Key, Vec<Entry>>,
    /// The tick that the next sweep begins with.
    sweeping: u64,
    counters: WheelCounters,
}

impl Wheel for Btree {
    #[inline]
    fn now(&self) -> Tick {
        Tick(self.now)
    }

    #[inline]
    fn len(&self) -> usize {
        self.filed
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        let boundary = entry.due().0.max(self.now + 1);
        self.ticks.entry(Key(boundary)).or_default().push(entry);
        self.filed += 1;
    }

    #[inline]
    fn next_expiration(&self) -> Option<Tick> {
        let (first, _) = self.ticks.first_key_value()?;
        Some(Tick(first.0))
    }

    fn advance(&mut self, Tick(to): Tick, due: &mut Vec<Entry>, _: &dyn Liveness) {
        self.now = to;
        while let Some(first) = self.ticks.first_entry() {
            if first.key().0 > to {
                return;
            }
            let mut entries = first.remove();
            self.filed -= entries.len();
            self.counters.bucket_visits += 1;
            due.append(&mut entries);
        }
    }

    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let mut rest = self.ticks.range_mut(Key(self.sweeping)..);
        let Some((&tick, entries)) = rest.next() else {
            // Nothing is behind where the last one ended: begin again.
            let is_first = mem::take(&mut self.sweeping) == 0;
            return if is_first {
                0
            } else {
                self.sweep_bucket(liveness)
            };
        };
        let looked = entries.len();
        liveness.remove_dead(entries);
        entries.shrink_to(2 * entries.len());
        self.filed -= looked - entries.len();
        self.sweeping = tick.0 + 1;
        if entries.is_empty() {
            self.ticks.remove(&tick);
        }
        looked
    }

    fn counters(&self) -> WheelCounters {
        WheelCounters {
            levels: 1,
            ..self.counters
        }
    }

    /// The buffers and, roughly, the nodes of the tree.
    fn bytes(&self) -> usize {
        let buffers: usize = self.ticks.values().map(Vec::capacity).sum();
        buffers * size_of::<Entry>() + self.ticks.len() * 2 * size_of::<(Key, Vec<Entry>)>()
    }
}

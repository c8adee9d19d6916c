//! The base of the tests of both wheels: a wheel so simple that it is evidently right, a driver
//! that does everything to it and to the wheel under test, and numbers at random.

use super::Wheel;
use super::hashed::HashedWheel;
use super::hierarchical::HierarchicalWheel;
use crate::entry::{Entry, Liveness, SlotId};
use crate::time::Tick;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};

/// The last tick an entry may be due at.
pub(super) const LAST: u64 = Tick::NEVER.0 - 1;

pub(super) fn entry(due: u64, slot: u32) -> Entry {
    Entry::new(Tick(due), SlotId::from_number(slot))
}

/// A wheel that can be held against the model.
pub(super) trait Checked: Wheel + Sized {
    /// Sizes worth testing: the smallest, powers of two and not, one group of buckets and more.
    const SIZES: &[usize];
    /// What is due at one boundary comes out in the order of insertion.
    const KEEPS_ORDER: bool;
    /// `next_expiration` is the boundary of the earliest entry; otherwise it may be before it.
    const NAMES_THE_EARLIEST: bool;

    fn make(size: usize) -> Self;

    /// Panics if an invariant does not hold.
    fn check(&self);
}

impl Checked for HashedWheel {
    const SIZES: &[usize] = &[1, 2, 4, 16, 64, 128, 512, 8192];
    const KEEPS_ORDER: bool = true;
    const NAMES_THE_EARLIEST: bool = true;

    fn make(size: usize) -> Self {
        HashedWheel::new(size)
    }

    fn check(&self) {
        self.check();
    }
}

impl Checked for HierarchicalWheel {
    const SIZES: &[usize] = &[2, 3, 5, 20, 60, 64, 100, 1000];
    const KEEPS_ORDER: bool = false;
    const NAMES_THE_EARLIEST: bool = false;

    fn make(size: usize) -> Self {
        HierarchicalWheel::new(size)
    }

    fn check(&self) {
        self.check();
    }
}

/// Sweeps whole buckets until so many entries have been looked at, and none of them twice.
pub(super) fn sweep(wheel: &mut impl Wheel, limit: usize, liveness: &dyn Liveness) -> usize {
    let limit = limit.min(wheel.len());
    let mut looked = 0;
    while looked < limit {
        looked += wheel.sweep_bucket(liveness);
    }
    looked
}

/// A sorted map from boundaries to what is due at them.
#[derive(Debug, Default)]
pub(super) struct Model {
    filed: BTreeMap<u64, Vec<Entry>>,
}

impl Model {
    fn insert(&mut self, now: Tick, entry: Entry) {
        let boundary = entry.due().0.max(now.0 + 1);
        self.filed.entry(boundary).or_default().push(entry);
    }

    fn remove(&mut self, entry: Entry) {
        for entries in self.filed.values_mut() {
            entries.retain(|&other| other != entry);
        }
        self.filed.retain(|_, entries| !entries.is_empty());
    }

    /// Removes the entry if it is dead: whether it is.
    fn bury(&mut self, dead: &HashSet<u32>, entry: Entry) -> bool {
        let is_dead = dead.contains(&entry.slot().number());
        if is_dead {
            self.remove(entry);
        }
        is_dead
    }

    fn earliest(&self) -> Option<Tick> {
        self.filed.keys().next().map(|&boundary| Tick(boundary))
    }

    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.filed.values().flatten().copied()
    }
}

/// A wheel and the model, in step.
#[derive(Debug)]
pub(super) struct Pair<W> {
    pub(super) wheel: W,
    model: Model,
    /// Slots of the entries that sweeps are told to remove.
    dead: HashSet<u32>,
    filed: u32,
}

impl<W: Checked> Pair<W> {
    pub(super) fn new(size: usize) -> Pair<W> {
        Pair {
            wheel: W::make(size),
            model: Model::default(),
            dead: HashSet::new(),
            filed: 0,
        }
    }

    /// Files an entry due at `due`. Its slot, which is returned, is its number.
    pub(super) fn insert(&mut self, due: u64) -> u32 {
        let slot = self.filed;
        self.filed += 1;
        let entry = entry(due.min(LAST), slot);
        self.model.insert(self.wheel.now(), entry);
        self.wheel.insert(entry);
        self.check();
        slot
    }

    /// Processes boundary `to` on both sides and returns the slots handed out.
    pub(super) fn advance(&mut self, to: u64) -> Vec<u32> {
        let mut due = Vec::new();
        let (dead, model) = (&self.dead, RefCell::new(&mut self.model));
        self.wheel.advance(Tick(to), &mut due, &|entry| {
            model.borrow_mut().bury(dead, entry)
        });
        let mut expected = self.model.filed.remove(&to).unwrap_or_default();
        let in_order = due.iter().map(|entry| entry.slot().number()).collect();
        if !W::KEEPS_ORDER {
            due.sort_by_key(|entry| entry.slot().number());
            expected.sort_by_key(|entry| entry.slot().number());
        }
        assert_eq!(due, expected, "handed out at {to}");
        assert_eq!(self.wheel.now(), Tick(to));
        self.check();
        in_order
    }

    /// Goes to the next boundary with work, if there is one.
    pub(super) fn work(&mut self) -> Option<u64> {
        let to = self.wheel.next_expiration()?.0;
        self.advance(to);
        Some(to)
    }

    /// Goes on until boundary `to` is processed, over all boundaries with work before it.
    pub(super) fn run_to(&mut self, to: u64) {
        while self.wheel.now().0 < to {
            let work = self
                .wheel
                .next_expiration()
                .map_or(to, |work| work.0.min(to));
            self.advance(work);
        }
    }

    /// Goes on until nothing is filed.
    pub(super) fn run_out(&mut self) {
        while self.work().is_some() {}
        assert_eq!(self.wheel.len(), 0);
    }

    pub(super) fn kill(&mut self, slot: u32) {
        self.dead.insert(slot);
    }

    /// One step of a sweep that removes what was killed.
    pub(super) fn sweep(&mut self, limit: usize) -> usize {
        let before = self.wheel.len();
        let (dead, model) = (&self.dead, RefCell::new(&mut self.model));
        let bury = |entry| model.borrow_mut().bury(dead, entry);
        let looked = sweep(&mut self.wheel, limit, &bury);
        // Whole buckets, and none of them twice.
        let enough = limit.min(before)..=before;
        assert!(enough.contains(&looked), "{looked} of {before}");
        self.check();
        looked
    }

    /// A whole round of sweeping, in steps: none of the killed may be left.
    pub(super) fn sweep_round(&mut self, step: usize) {
        let mut to_look_at = self.wheel.len();
        while to_look_at > 0 {
            to_look_at = to_look_at.saturating_sub(self.sweep(step));
        }
        assert!(
            self.model
                .entries()
                .all(|entry| !self.dead.contains(&entry.slot().number()))
        );
    }

    /// The slots of all that is filed.
    pub(super) fn slots(&self) -> Vec<u32> {
        self.model
            .entries()
            .map(|entry| entry.slot().number())
            .collect()
    }

    fn check(&self) {
        self.wheel.check();
        assert_eq!(self.wheel.len(), self.model.entries().count());
        let (work, earliest) = (self.wheel.next_expiration(), self.model.earliest());
        assert_eq!(work.is_some(), earliest.is_some());
        assert!(work.is_none_or(|work| work > self.wheel.now()));
        assert!(
            work <= earliest,
            "{work:?} would be too late for {earliest:?}"
        );
        assert!(work == earliest || !W::NAMES_THE_EARLIEST);
    }
}

pub(super) type HashedPair = Pair<HashedWheel>;
pub(super) type HierarchicalPair = Pair<HierarchicalWheel>;

impl HierarchicalPair {
    pub(super) fn cascaded(&self) -> u64 {
        self.wheel.counters().cascaded
    }

    pub(super) fn levels(&self) -> u64 {
        self.wheel.counters().levels
    }
}

/// Splitmix64: small, seeded, good enough.
#[derive(Debug)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `end`, without `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Of any order of magnitude up to 2^`bits`.
    pub(super) fn scaled(&mut self, bits: u64) -> u64 {
        let scale = self.below(bits + 1);
        self.below(1 << scale)
    }
}

/// Says which seed a test has failed with.
#[derive(Debug)]
pub(super) struct Seed(pub(super) u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with seed {}", self.0);
        }
    }
}

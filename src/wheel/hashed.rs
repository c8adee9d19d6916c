//! The hashed wheel: one row of buckets, a power of two of them, that time goes round and round.
//!
//! An entry due at tick `d` lies in bucket `d & (slots − 1)`. A bucket comes by once a revolution,
//! so an entry that is far away lets it pass a few times: its [`remaining_rounds`]. They are
//! derived from the due tick whenever they are needed; nothing is counted down.
//!
//! With 8 slots and `now` = 3, the next boundary being 4:
//!
//! | due | bucket | rounds left at 4 | handed out                       |
//! |-----|--------|------------------|----------------------------------|
//! | 6   | 6      | (6 − 4) / 8 = 0  | at 6                             |
//! | 11  | 3      | (11 − 4) / 8 = 0 | at 11                            |
//! | 14  | 6      | (14 − 4) / 8 = 1 | passed over at 6, at 14          |
//! | 30  | 6      | (30 − 4) / 8 = 3 | passed over at 6 and 14, at 30   |
//! | 2   | 4      | none: it is late | at 4, the next boundary          |
//!
//! At 22 bucket 6 comes by as well, but nothing in it is due: its earliest due tick, 30, tells
//! without a look at the entries. And since the wheel knows the earliest tick of all ([`Earliest`]),
//! the caller does not even come by: [`Wheel::next_work`] after 14 is 30.

use super::bucket::{Progress, Step};
use super::row::Row;
use super::{Judge, Wheel};
use crate::entry::Entry;
use crate::metrics::WheelCounters;
use crate::time::Tick;

/// See the head of the module.
#[derive(Debug)]
pub(crate) struct HashedWheel {
    slots: Slots,
    now: Tick,
    len: usize,
    buckets: Row,
    /// The earliest boundary with work, by groups of buckets.
    earliest: Earliest,
    sweeping: Sweeping,
    counters: WheelCounters,
}

/// Where the sweep stands.
#[derive(Clone, Copy, Debug, Default)]
struct Sweeping {
    slot: usize,
    progress: Progress,
}

/// The number of slots, a power of two.
#[derive(Clone, Copy, Debug)]
struct Slots {
    log2: u32,
}

impl Slots {
    fn of(self, tick: Tick) -> usize {
        (tick.0 & ((1 << self.log2) - 1)) as usize
    }
}

/// How many times the bucket of an entry due at `due` comes by without its being due, when
/// boundary `now` is the next to be processed: `(due − now) / slots`. None if it is late.
#[inline]
fn remaining_rounds(due: Tick, now: Tick, slots: Slots) -> u64 {
    due.0.saturating_sub(now.0) >> slots.log2
}

impl HashedWheel {
    /// An empty wheel.
    ///
    /// # Panics
    ///
    /// If `slots` is not a power of two.
    pub(crate) fn new(slots: usize) -> HashedWheel {
        assert!(
            slots.is_power_of_two(),
            "{slots} slots are not a power of two"
        );
        HashedWheel {
            slots: Slots {
                log2: slots.trailing_zeros(),
            },
            now: Tick::ZERO,
            len: 0,
            buckets: Row::new(slots),
            earliest: Earliest::new(slots.div_ceil(Row::GROUP)),
            sweeping: Sweeping::default(),
            counters: WheelCounters {
                levels: 1,
                ..WheelCounters::default()
            },
        }
    }

    /// Hands out what is due in the bucket of boundary `now`.
    fn expire(&mut self, due: &mut Vec<Entry>) {
        let (now, slots) = (self.now, self.slots);
        let slot = slots.of(now);
        let Some(bucket) = self.buckets.occupied_mut(slot) else {
            return;
        };
        let mut elsewhere = Progress::default();
        let progress = if self.sweeping.slot == slot {
            &mut self.sweeping.progress
        } else {
            &mut elsewhere
        };
        let before = due.len();
        let is_due = |entry: Entry| remaining_rounds(entry.due(), now, slots) == 0;
        let earliest = bucket.take_due(progress, is_due, due);
        let handed_out = due.len() - before;
        self.len -= handed_out;
        self.counters.bucket_visits += 1;
        self.counters.passed_over += bucket.len() as u64;
        if earliest.is_none() {
            self.buckets.expect(handed_out);
        }
        self.settle(slot, earliest);
    }

    /// Brings all that is derived from a bucket's entries up to date after some were removed:
    /// `earliest` is the earliest due tick of those that are left.
    fn settle(&mut self, slot: usize, earliest: Option<Tick>) {
        let coming = self.now.next();
        match (earliest, self.buckets.occupied_mut(slot)) {
            (Some(earliest), Some(bucket)) => bucket.boundary = earliest.max(coming),
            _ => self.buckets.close(slot),
        }
        let in_group = self.buckets.earliest_in_group(slot, coming);
        self.earliest.set(slot / Row::GROUP, in_group, coming);
    }

    /// One step of the sweep, within one bucket.
    fn sweep_one(&mut self, limit: usize, judge: &mut impl Judge) -> usize {
        let from = self.sweeping.slot;
        let next = self
            .buckets
            .next_occupied(from)
            .or_else(|| self.buckets.next_occupied(0));
        let Some(slot) = next else { return 0 };
        if slot != from {
            self.sweeping = Sweeping {
                slot,
                progress: Progress::default(),
            };
        }
        let Some(bucket) = self.buckets.occupied_mut(slot) else {
            return 0;
        };
        let progress = &mut self.sweeping.progress;
        let Step {
            looked,
            removed,
            finished,
        } = bucket.sweep(progress, limit, judge);
        self.len -= removed;
        if finished {
            if bucket.finish_sweep(progress) {
                let earliest = bucket.earliest_due();
                self.settle(slot, earliest);
            }
            self.sweeping.slot += 1;
        }
        looked
    }
}

impl Wheel for HashedWheel {
    #[inline]
    fn now(&self) -> Tick {
        self.now
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        debug_assert!(entry.due() < Tick::NEVER);
        let (coming, slots) = (self.now.next(), self.slots);
        let boundary = entry.due().max(coming);
        let slot = slots.of(boundary);
        let bucket = self.buckets.open(slot);
        // What shares a bucket differs by whole rounds, so fewer rounds is earlier.
        let rounds = remaining_rounds(boundary, coming, slots);
        if bucket.is_empty() || rounds < remaining_rounds(bucket.boundary, coming, slots) {
            bucket.boundary = boundary;
            self.earliest.lower(slot / Row::GROUP, boundary);
        }
        bucket.push(entry);
        self.len += 1;
    }

    #[inline]
    fn next_work(&self) -> Option<Tick> {
        self.earliest.first()
    }

    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, _: &mut impl Judge) {
        debug_assert!(self.now < to);
        debug_assert!(self.next_work().is_none_or(|work| to <= work));
        self.now = to;
        if self.next_work() == Some(to) {
            self.expire(due);
        }
    }

    fn sweep(&mut self, limit: usize, judge: &mut impl Judge) -> usize {
        // No more than once round.
        let limit = limit.clamp(1, self.len.max(1));
        let mut looked = 0;
        while looked < limit && self.len > 0 {
            looked += self.sweep_one(limit - looked, judge);
        }
        looked
    }

    fn counters(&self) -> WheelCounters {
        self.counters
    }

    fn bytes(&self) -> usize {
        self.buckets.bytes() + self.earliest.bytes()
    }
}

/// The earliest of many ticks: a tree with 64 children a node, each node the least of them.
///
/// Lowering a tick touches one node, as a rule, and never more than four; raising one looks at the
/// 64 siblings on each of at most four levels. The answer is the root.
#[derive(Debug)]
struct Earliest {
    /// The leaves first, the root (one node) last.
    levels: Vec<Vec<Tick>>,
}

impl Earliest {
    const CHILDREN: usize = 64;
    /// Later than any boundary: `Tick::NEVER` itself could be the boundary after the last.
    const NOTHING: Tick = Tick(u64::MAX);

    fn new(leaves: usize) -> Earliest {
        let mut levels = vec![vec![Self::NOTHING; leaves]];
        let mut nodes = leaves;
        while nodes > 1 {
            nodes = nodes.div_ceil(Self::CHILDREN);
            levels.push(vec![Self::NOTHING; nodes]);
        }
        Earliest { levels }
    }

    #[inline]
    fn first(&self) -> Option<Tick> {
        let root = self.levels.last()?.first()?;
        (*root != Self::NOTHING).then_some(*root)
    }

    /// The tick at `leaf` is now `tick` if that is earlier.
    fn lower(&mut self, leaf: usize, tick: Tick) {
        let mut node = leaf;
        for level in &mut self.levels {
            if level[node] <= tick {
                return;
            }
            level[node] = tick;
            node /= Self::CHILDREN;
        }
    }

    /// The tick at `leaf` is now `tick`, be it earlier or later than before. No leaf is earlier
    /// than `coming`.
    fn set(&mut self, leaf: usize, tick: Option<Tick>, coming: Tick) {
        let mut node = leaf;
        let mut least = tick.unwrap_or(Self::NOTHING);
        for level in &mut self.levels {
            level[node] = least;
            if least > coming {
                let first = node - node % Self::CHILDREN;
                let siblings = level[first..].iter().take(Self::CHILDREN);
                least = siblings.fold(least, |least, &tick| least.min(tick));
            }
            node /= Self::CHILDREN;
        }
    }

    fn bytes(&self) -> usize {
        self.levels
            .iter()
            .map(|level| level.capacity() * size_of::<Tick>())
            .sum()
    }
}

#[cfg(test)]
impl HashedWheel {
    /// Whether a bucket is swept in part, so that its boundary may be that of a removed entry.
    pub(super) fn is_inside_a_sweep(&self) -> bool {
        self.sweeping.progress.has_removed()
    }

    /// Holds everything that is derived against a naive search through all entries.
    pub(super) fn check(&self) {
        self.buckets.check();
        let coming = self.now.next();
        let mut len = 0;
        for (slot, bucket) in self.buckets.all_occupied() {
            let swept = self.sweeping.slot == slot;
            let progress = if swept {
                self.sweeping.progress
            } else {
                Progress::default()
            };
            let alive = bucket.alive(progress);
            len += alive.len();
            let boundaries = alive.iter().map(|entry| entry.due().max(coming));
            assert!(
                boundaries
                    .clone()
                    .all(|boundary| slot == self.slots.of(boundary))
            );
            let earliest = boundaries.min().expect("a bucket with nothing but a gap");
            let exact = bucket.boundary == earliest;
            assert!(exact || progress.has_removed() && bucket.boundary < earliest);
        }
        assert_eq!(len, self.len);
        self.check_earliest();
    }

    fn check_earliest(&self) {
        let mut expected = vec![Earliest::NOTHING; self.earliest.levels[0].len()];
        for (slot, bucket) in self.buckets.all_occupied() {
            let leaf = &mut expected[slot / Row::GROUP];
            *leaf = bucket.boundary.min(*leaf);
        }
        for level in &self.earliest.levels {
            assert_eq!(*level, expected);
            let parents = level.chunks(Earliest::CHILDREN);
            expected = parents
                .map(|children| *children.iter().min().unwrap())
                .collect();
        }
    }
}

#[cfg(test)]
mod tests;

//! The hashed wheel: a circular array of buckets, a power of two of them.
//!
//! An entry due at tick `d` is in bucket `d & (buckets − 1)`. A bucket expires once a revolution, so an entry that is far
//! away is passed over a few times: its [`remaining_rounds`]. They are derived from the due tick when needed; nothing is
//! counted down.
//!
//! With 8 buckets and `now` = 3, the next boundary being 4:
//!
//! | due | bucket | rounds left at 4 | handed out                       |
//! |-----|--------|------------------|----------------------------------|
//! | 6   | 6      | (6 − 4) / 8 = 0  | at 6                             |
//! | 11  | 3      | (11 − 4) / 8 = 0 | at 11                            |
//! | 14  | 6      | (14 − 4) / 8 = 1 | passed over at 6, at 14          |
//! | 30  | 6      | (30 − 4) / 8 = 3 | passed over at 6 and 14, at 30   |
//! | 2   | 4      | none: it is late | at 4, the next boundary          |
//!
//! At 22 bucket 6 is reached as well, but its earliest due tick, 30, shows that nothing in it is due. And since the wheel
//! knows the earliest tick of all ([`MinTree`]), the caller skips 22: [`Wheel::next_expiration`] after 14 is 30.

use super::Wheel;
use super::bucket_array::{BucketArray, GROUP};
use super::min_tree::MinTree;
use crate::entry::{Entry, Liveness};
use crate::metrics::WheelCounters;
use crate::time::Tick;

/// A hashed wheel.
#[derive(Debug)]
pub(crate) struct HashedWheel {
    bucket_count: BucketCount,
    now: Tick,
    len: usize,
    buckets: BucketArray,
    /// The earliest boundary with work, by groups of buckets.
    earliest: MinTree,
    /// The bucket at which the next step of a sweep begins.
    sweep_from: usize,
    counters: WheelCounters,
}

/// The number of buckets, a power of two.
#[derive(Clone, Copy, Debug)]
struct BucketCount {
    log2: u32,
}

impl BucketCount {
    fn of(self, tick: Tick) -> usize {
        (tick.0 & ((1 << self.log2) - 1)) as usize
    }
}

/// The number of revolutions before an entry due at `due` is due, when `now` is the next boundary:
/// `(due − now) / buckets`. 0 if it is late.
fn remaining_rounds(due: Tick, now: Tick, bucket_count: BucketCount) -> u64 {
    due.0.saturating_sub(now.0) >> bucket_count.log2
}

impl HashedWheel {
    /// An empty wheel.
    ///
    /// # Panics
    ///
    /// If `bucket_count` is not a power of two.
    pub(crate) fn new(bucket_count: usize) -> HashedWheel {
        assert!(
            bucket_count.is_power_of_two(),
            "{bucket_count} buckets are not a power of two"
        );
        HashedWheel {
            bucket_count: BucketCount {
                log2: bucket_count.trailing_zeros(),
            },
            now: Tick::ZERO,
            len: 0,
            buckets: BucketArray::new(bucket_count),
            earliest: MinTree::new(bucket_count.div_ceil(GROUP)),
            sweep_from: 0,
            counters: WheelCounters {
                levels: 1,
                ..WheelCounters::default()
            },
        }
    }

    /// Hands out what is due in the bucket of boundary `now`.
    fn expire(&mut self, due: &mut Vec<Entry>) {
        let (now, bucket_count) = (self.now, self.bucket_count);
        let index = bucket_count.of(now);
        let Some(bucket) = self.buckets.occupied_mut(index) else {
            return;
        };
        let before = due.len();
        let is_due = |entry: Entry| remaining_rounds(entry.due(), now, bucket_count) == 0;
        let earliest = bucket.take_due(is_due, due);
        let handed_out = due.len() - before;
        self.len -= handed_out;
        self.counters.bucket_visits += 1;
        self.counters.passed_over += bucket.len() as u64;
        if earliest.is_none() {
            self.buckets.set_capacity_hint(handed_out);
        }
        self.refresh_minimum(index, earliest);
    }

    /// Updates what is derived from a bucket's entries after some were removed. `earliest` is the earliest due tick of those
    /// that are left.
    #[inline(never)]
    fn refresh_minimum(&mut self, index: usize, earliest: Option<Tick>) {
        let coming = self.now.next();
        match (earliest, self.buckets.occupied_mut(index)) {
            (Some(earliest), Some(bucket)) => bucket.boundary = earliest.max(coming),
            _ => self.buckets.vacate(index),
        }
        let in_group = self.buckets.earliest_in_group(index, coming);
        self.earliest.set(index / GROUP, in_group, coming);
    }
}

impl Wheel for HashedWheel {
    fn now(&self) -> Tick {
        self.now
    }

    fn len(&self) -> usize {
        self.len
    }

    fn insert(&mut self, entry: Entry) {
        debug_assert!(entry.due() < Tick::NEVER);
        let (coming, bucket_count) = (self.now.next(), self.bucket_count);
        let boundary = entry.due().max(coming);
        let index = bucket_count.of(boundary);
        let bucket = self.buckets.occupy(index);
        // Boundaries that share a bucket differ by whole rounds, so fewer rounds is earlier.
        let rounds = remaining_rounds(boundary, coming, bucket_count);
        if bucket.is_empty() || rounds < remaining_rounds(bucket.boundary, coming, bucket_count) {
            bucket.boundary = boundary;
            self.earliest.lower(index / GROUP, boundary);
        }
        bucket.push(entry);
        self.len += 1;
    }

    fn next_expiration(&self) -> Option<Tick> {
        self.earliest.first()
    }

    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, _: &dyn Liveness) {
        debug_assert!(self.now < to);
        debug_assert!(self.next_expiration().is_none_or(|work| to <= work));
        self.now = to;
        if self.next_expiration() == Some(to) {
            self.expire(due);
        }
    }

    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let next = self
            .buckets
            .next_occupied(self.sweep_from)
            .or_else(|| self.buckets.next_occupied(0));
        let Some(index) = next else { return 0 };
        self.sweep_from = index + 1;
        let Some(bucket) = self.buckets.occupied_mut(index) else {
            return 0;
        };
        let looked = bucket.len();
        let removed = bucket.sweep(liveness);
        if removed > 0 {
            self.len -= removed;
            let earliest = bucket.earliest_due();
            self.refresh_minimum(index, earliest);
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

#[cfg(test)]
impl HashedWheel {
    /// Holds everything that is derived against a naive search through all entries.
    pub(super) fn check(&self) {
        self.buckets.check();
        let coming = self.now.next();
        let mut len = 0;
        for (index, bucket) in self.buckets.all_occupied() {
            len += bucket.len();
            let boundaries = bucket.entries().iter().map(|entry| entry.due().max(coming));
            assert!(
                boundaries
                    .clone()
                    .all(|boundary| index == self.bucket_count.of(boundary))
            );
            assert_eq!(Some(bucket.boundary), boundaries.min());
        }
        assert_eq!(len, self.len);
        self.check_earliest();
    }

    fn check_earliest(&self) {
        let mut expected = vec![MinTree::NOTHING; self.earliest.leaves()];
        for (index, bucket) in self.buckets.all_occupied() {
            let leaf = &mut expected[index / GROUP];
            *leaf = bucket.boundary.min(*leaf);
        }
        self.earliest.check(expected);
    }
}

#[cfg(test)]
mod tests;

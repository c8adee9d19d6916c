//! The hierarchical wheel, after Kafka's `TimingWheel`: levels of buckets, each coarser than the one below, and one
//! priority queue of the buckets that have entries.
//!
//! Level 1 has buckets of one tick; a bucket of level k + 1 is as long as all of level k. An entry is on the lowest level
//! whose span reaches it, in bucket (due / tick of the level) mod `wheel_size`. When time reaches the *start* of a bucket
//! on a higher level, its entries are inserted again, further down: the cascade. It cannot be later, for the first of
//! them may be due at that boundary; and it need not be earlier.
//!
//! With `wheel_size` 20 levels span 20, 400, 8 000, … ticks. Inserted at 0, an entry due at 450 goes
//!
//! | at  | to                                             | because            |
//! |-----|------------------------------------------------|--------------------|
//! | 0   | level 3, bucket 450 / 400 = 1: [400, 800)      | 450 ≥ 0 + 400      |
//! | 400 | level 2, bucket 450 / 20 mod 20 = 2: [440, 460)| 450 ≥ 400 + 20     |
//! | 440 | level 1, bucket 450 mod 20 = 10: [450, 451)    | 450 < 440 + 20     |
//! | 450 | the caller                                     | it is due          |
//!
//! Two rules make a bucket's meaning unique. An entry goes to level k + 1 only if level k does not reach it, so its
//! bucket starts after `now`; and a level reaches less than one revolution beyond its clock, so of all the intervals that
//! share a bucket only one is in use. So an item of the queue needs only start and level: the bucket follows, and so
//! does whether the item is still valid.
//!
//! A sweep may empty a bucket whose item is inside the queue. The item stays, is recognized by its empty bucket when it
//! reaches the head, and is discarded; a bucket that is emptied and filled again gets a second item, and the later one
//! is discarded. When half of the queue may be such stale items, they are removed.

use super::Wheel;
use super::bucket_array::BucketArray;
use crate::entry::{Entry, Liveness};
use crate::metrics::WheelCounters;
use crate::time::Tick;
use crate::tuning::KEPT_BUCKET;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::mem;

#[cfg(test)]
mod check;
#[cfg(test)]
mod tests;

/// A hierarchical wheel.
#[derive(Debug)]
pub(crate) struct HierarchicalWheel {
    wheel_size: usize,
    now: Tick,
    len: usize,
    /// Level 1 first. A level is added when a due tick needs it.
    levels: Vec<Level>,
    /// The buckets that have entries, ordered by start.
    queue: BinaryHeap<Queued>,
    /// The number of buckets emptied by sweeps since stale items were last removed.
    emptied: usize,
    /// The bucket at which the next step of a sweep begins.
    sweep_from: Place,
    counters: WheelCounters,
}

#[derive(Debug)]
struct Level {
    /// The length of a bucket, in ticks of level 1.
    tick: u64,
    /// The length of all buckets together; saturates.
    span: u64,
    /// `now`, rounded down to a whole `tick`.
    clock: Tick,
    buckets: BucketArray,
}

/// A bucket in the queue. The greatest comes first: the earliest start and, among those, the highest level, so that
/// entries cascade to a boundary before the boundary is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Queued {
    start: Reverse<Tick>,
    /// Index into `levels`.
    level: usize,
}

/// A bucket by its level (an index into `levels`) and its number there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    level: usize,
    bucket: usize,
}

impl Level {
    fn new(tick: u64, wheel_size: usize, now: Tick) -> Level {
        let span = tick.saturating_mul(wheel_size as u64);
        let mut level = Level {
            tick,
            span,
            clock: Tick::ZERO,
            buckets: BucketArray::new(wheel_size),
        };
        level.clock = level.round_down(now);
        level
    }

    fn reaches(&self, boundary: Tick) -> bool {
        boundary.0 < self.clock.0.saturating_add(self.span)
    }

    fn round_down(&self, tick: Tick) -> Tick {
        Tick(tick.0 - tick.0 % self.tick)
    }
}

impl HierarchicalWheel {
    /// An empty wheel with one level.
    ///
    /// # Panics
    ///
    /// If `wheel_size` is less than 2.
    pub(crate) fn new(wheel_size: usize) -> HierarchicalWheel {
        assert!(
            wheel_size >= 2,
            "a wheel size of {wheel_size} is less than 2"
        );
        HierarchicalWheel {
            wheel_size,
            now: Tick::ZERO,
            len: 0,
            levels: vec![Level::new(1, wheel_size, Tick::ZERO)],
            queue: BinaryHeap::new(),
            emptied: 0,
            sweep_from: Place::default(),
            counters: WheelCounters::default(),
        }
    }

    /// Inserts `entry` at `boundary`, which is after `now`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "every entry, and again at each level")]
    fn insert_at(&mut self, entry: Entry, boundary: Tick) {
        let lowest = self.levels.iter().position(|level| level.reaches(boundary));
        let index = lowest.unwrap_or_else(|| self.add_levels(boundary));
        let level = &mut self.levels[index];
        let number = boundary.0 / level.tick;
        let bucket = level
            .buckets
            .occupy((number % self.wheel_size as u64) as usize);
        if bucket.is_empty() {
            bucket.boundary = Tick(number * level.tick);
            self.queue.push(Queued {
                start: Reverse(bucket.boundary),
                level: index,
            });
        }
        bucket.push(entry);
    }

    /// Adds levels until one reaches `boundary`, and returns its index.
    #[cold]
    fn add_levels(&mut self, boundary: Tick) -> usize {
        loop {
            let highest = self.levels.len() - 1;
            if self.levels[highest].reaches(boundary) {
                return highest;
            }
            let tick = self.levels[highest].span;
            self.levels
                .push(Level::new(tick, self.wheel_size, self.now));
        }
    }

    fn move_clocks(&mut self) {
        for level in &mut self.levels {
            let clock = level.round_down(self.now);
            if clock == level.clock {
                // The clocks of the levels above are coarser: they have not moved either.
                return;
            }
            level.clock = clock;
        }
    }

    fn place_of(&self, queued: Queued) -> Place {
        let level = &self.levels[queued.level];
        let number = queued.start.0.0 / level.tick;
        Place {
            level: queued.level,
            bucket: (number % self.wheel_size as u64) as usize,
        }
    }

    /// Pops the first bucket of the queue if it starts by `now`.
    fn next_started(&mut self) -> Option<Place> {
        let head = self.queue.peek_mut()?;
        if head.start.0 > self.now {
            return None;
        }
        let queued = PeekMut::pop(head);
        Some(self.place_of(queued))
    }

    /// Hands out the bucket at `place`, or cascades it.
    fn expire(&mut self, place: Place, due: &mut Vec<Entry>, liveness: &dyn Liveness) {
        let array = &mut self.levels[place.level].buckets;
        let Some(bucket) = array.occupied_mut(place.bucket) else {
            return;
        };
        self.counters.bucket_visits += 1;
        let (is_lowest, mut entries) = (place.level == 0, Vec::new());
        let into = if is_lowest { &mut *due } else { &mut entries };
        let taken = bucket.take_all(into);
        array.vacate(place.bucket);
        array.set_capacity_hint(taken);
        if is_lowest {
            self.len -= taken;
        } else {
            self.cascade(entries, due, liveness);
        }
    }

    /// Inserts the entries of a bucket again, except the dead ones.
    fn cascade(&mut self, mut entries: Vec<Entry>, due: &mut Vec<Entry>, liveness: &dyn Liveness) {
        self.len -= entries.len();
        liveness.remove_dead(&mut entries);
        for entry in entries {
            if entry.due() <= self.now {
                due.push(entry);
            } else {
                self.insert_at(entry, entry.due());
                self.len += 1;
                self.counters.cascaded += 1;
            }
        }
    }

    /// Returns `true` if the item is stale: the bucket is empty, or was handed out by an equal item.
    fn is_stale(&self, queued: Queued) -> bool {
        let place = self.place_of(queued);
        self.levels[place.level]
            .buckets
            .occupied(place.bucket)
            .is_none()
    }

    /// Ensures that the head of the queue is a bucket with entries, and that stale items and unused memory are at most a
    /// constant factor of what is in use.
    fn tidy_queue(&mut self) {
        while self.queue.peek().is_some_and(|&head| self.is_stale(head)) {
            self.queue.pop();
        }
        if self.emptied > KEPT_BUCKET.max(self.queue.len() / 2) {
            self.emptied = 0;
            let mut queue = mem::take(&mut self.queue).into_sorted_vec();
            queue.retain(|&queued| !self.is_stale(queued));
            queue.dedup();
            self.queue = queue.into();
        }
        if self.queue.capacity() > KEPT_BUCKET && self.queue.len() < self.queue.capacity() / 4 {
            self.queue.shrink_to(self.queue.len() * 2);
        }
    }

    /// The first bucket from `place` on that has entries, in its level or above.
    fn next_occupied(&self, place: Place) -> Option<Place> {
        let mut from = place.bucket;
        for level in place.level..self.levels.len() {
            if let Some(bucket) = self.levels[level].buckets.next_occupied(from) {
                return Some(Place { level, bucket });
            }
            from = 0;
        }
        None
    }
}

impl Wheel for HierarchicalWheel {
    fn now(&self) -> Tick {
        self.now
    }

    fn len(&self) -> usize {
        self.len
    }

    fn insert(&mut self, entry: Entry) {
        debug_assert!(entry.due() < Tick::NEVER);
        self.insert_at(entry, entry.due().max(self.now.next()));
        self.len += 1;
    }

    fn next_expiration(&self) -> Option<Tick> {
        self.queue.peek().map(|head| head.start.0)
    }

    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, liveness: &dyn Liveness) {
        debug_assert!(self.now < to);
        debug_assert!(self.next_expiration().is_none_or(|work| to <= work));
        self.now = to;
        self.move_clocks();
        while let Some(place) = self.next_started() {
            self.expire(place, due, liveness);
        }
        self.tidy_queue();
    }

    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let next = self
            .next_occupied(self.sweep_from)
            .or_else(|| self.next_occupied(Place::default()));
        let Some(place) = next else { return 0 };
        self.sweep_from = Place {
            bucket: place.bucket + 1,
            ..place
        };
        let array = &mut self.levels[place.level].buckets;
        let Some(bucket) = array.occupied_mut(place.bucket) else {
            return 0;
        };
        let looked = bucket.len();
        self.len -= bucket.sweep(liveness);
        if bucket.is_empty() {
            array.vacate(place.bucket);
            self.emptied += 1;
            self.tidy_queue();
        }
        looked
    }

    fn counters(&self) -> WheelCounters {
        WheelCounters {
            levels: self.levels.len() as u64,
            ..self.counters
        }
    }

    fn bytes(&self) -> usize {
        let rows = self.levels.iter().map(|level| level.buckets.bytes());
        rows.sum::<usize>() + self.queue.capacity() * size_of::<Queued>()
    }
}

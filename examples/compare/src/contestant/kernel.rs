//! `kernel`: levels of buckets without a cascade. **Late by design**, never early.
//!
//! It models the timer wheel of the Linux kernel since version 4.8. Each level has 64 buckets and is eight
//! times as coarse as the one below. A timeout is filed on the first level that reaches far enough, rounded up
//! to that level's granularity, and stays there until it fires: nothing is ever moved.
//!
//! ```text
//! level  granularity  delays, in ticks       late by at most
//!   0             1   1 ..= 62                0 ticks
//!   1             8   63 ..= 503              7
//!   2            64   504 ..= 4 031          63
//!   n           8ⁿ    63·8ⁿ⁻¹ .. 63·8ⁿ   8ⁿ − 1, which is less than 8/63 of the delay: 12.7 %
//! ```
//!
//! The kernel files a timeout that lies beyond its last level at the end of that level, and fires it there,
//! early. Here such an entry is filed again when its bucket comes, because no contestant may be early.
//! With nine levels the reach is 63·8⁸ ticks, 12 days with a tick of 1 ms.
//!
//! In its favour: plain vectors of sixteen bytes an entry, and a bit for each bucket that is not empty, so
//! that the next one is found without looking at the buckets. What it does not model is the kernel's removal at
//! once of what is cancelled: that is the front's business here, as it is for all contestants, and dead
//! entries leave in sweeps, or when their bucket comes.

use hashed_wheel::unstable::{Entry, Liveness, Tick, Wheel, WheelCounters};
use std::mem;

const LEVELS: usize = 9;
const BUCKETS: usize = 64;
/// A level is 2³ times as coarse as the one below.
const SHIFT: u32 = 3;
/// The delays that a level takes, in units of its granularity. One bucket less than it has, because a delay
/// may begin in the middle of one.
const REACH: u64 = BUCKETS as u64 - 1;
/// Buffers up to this many entries, 16 KiB, are kept for the next use of their bucket.
const KEPT: usize = 1024;

#[derive(Debug)]
pub(crate) struct Kernel {
    now: u64,
    filed: usize,
    buckets: Vec<Vec<Entry>>,
    /// For each level, a bit for each bucket that is not empty.
    occupied: [u64; LEVELS],
    /// The first boundary at which a bucket expires.
    next: Option<u64>,
    /// The bucket that the next sweep begins with.
    sweeping: usize,
    counters: WheelCounters,
}

/// The level that takes a delay of so many ticks.
fn level_of(delay: u64) -> usize {
    let takes = |level: &usize| delay < REACH << (SHIFT * *level as u32);
    (0..LEVELS).find(takes).unwrap_or(LEVELS - 1)
}

/// By how many ticks a timeout that was filed so many ticks ahead may be late.
pub(crate) fn lateness(delay: u64) -> u64 {
    (1 << (SHIFT * level_of(delay) as u32)) - 1
}

impl Kernel {
    pub(crate) fn new() -> Kernel {
        Kernel {
            now: 0,
            filed: 0,
            buckets: vec![Vec::new(); LEVELS * BUCKETS],
            occupied: [0; LEVELS],
            next: None,
            sweeping: 0,
            counters: WheelCounters {
                levels: 1,
                ..WheelCounters::default()
            },
        }
    }

    /// The first boundary at which a bucket of this level expires.
    fn next_of(&self, level: usize) -> Option<u64> {
        let shift = SHIFT * level as u32;
        let coming = (self.now >> shift) + 1;
        let ahead = self.occupied[level].rotate_right((coming % BUCKETS as u64) as u32);
        (ahead != 0).then(|| (coming + u64::from(ahead.trailing_zeros())) << shift)
    }

    fn find_next(&mut self) {
        self.next = (0..LEVELS).filter_map(|level| self.next_of(level)).min();
    }

    /// Empties a bucket whose time has come.
    fn expire(&mut self, level: usize, place: usize, due: &mut Vec<Entry>) {
        self.occupied[level] &= !(1 << place);
        self.counters.bucket_visits += 1;
        let bucket = level * BUCKETS + place;
        let mut entries = mem::take(&mut self.buckets[bucket]);
        self.filed -= entries.len();
        for entry in entries.drain(..) {
            if entry.due().0 <= self.now {
                due.push(entry);
            } else {
                // It lay beyond the last level's reach.
                self.counters.passed_over += 1;
                self.insert(entry);
            }
        }
        if entries.capacity() <= KEPT && self.buckets[bucket].is_empty() {
            self.buckets[bucket] = entries;
        }
    }
}

impl Wheel for Kernel {
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
        let farthest = self.now + (REACH << (SHIFT * (LEVELS as u32 - 1))) - 1;
        let boundary = entry.due().0.max(self.now + 1).min(farthest);
        let level = level_of(boundary - self.now);
        let shift = SHIFT * level as u32;
        let number = boundary.div_ceil(1 << shift);
        let place = (number % BUCKETS as u64) as usize;
        self.buckets[level * BUCKETS + place].push(entry);
        self.occupied[level] |= 1 << place;
        self.filed += 1;
        let expires = number << shift;
        self.next = Some(self.next.map_or(expires, |next| next.min(expires)));
    }

    #[inline]
    fn next_expiration(&self) -> Option<Tick> {
        self.next.map(Tick)
    }

    /// Hands out what has come to its bucket's boundary: all of it was due at that boundary or before.
    fn advance(&mut self, Tick(to): Tick, due: &mut Vec<Entry>, _: &dyn Liveness) {
        self.now = to;
        for level in 0..LEVELS {
            let shift = SHIFT * level as u32;
            if to % (1 << shift) != 0 {
                break;
            }
            let place = ((to >> shift) % BUCKETS as u64) as usize;
            if self.occupied[level] >> place & 1 == 1 {
                self.expire(level, place, due);
            }
        }
        if self.next.is_some_and(|next| next <= to) {
            self.find_next();
        }
    }

    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let from = mem::take(&mut self.sweeping);
        let buckets = (from..self.buckets.len()).chain(0..from);
        let occupied = |bucket: &usize| !self.buckets[*bucket].is_empty();
        let Some(bucket) = { buckets }.find(occupied) else {
            return 0;
        };
        self.sweeping = bucket + 1;
        let entries = &mut self.buckets[bucket];
        let looked = entries.len();
        liveness.remove_dead(entries);
        entries.shrink_to(2 * entries.len());
        self.filed -= looked - entries.len();
        if entries.is_empty() {
            self.occupied[bucket / BUCKETS] &= !(1 << (bucket % BUCKETS));
            self.find_next();
        }
        looked
    }

    fn counters(&self) -> WheelCounters {
        self.counters
    }

    fn bytes(&self) -> usize {
        let buffers: usize = self.buckets.iter().map(Vec::capacity).sum();
        let tables = self.buckets.capacity() * size_of::<Vec<Entry>>();
        buffers * size_of::<Entry>() + tables
    }
}

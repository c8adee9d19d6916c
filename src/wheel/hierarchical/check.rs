//! A look inside the wheel, for its tests.

use super::{HierarchicalWheel, Place, Queued};
use crate::entry::Entry;
use crate::time::Tick;
use std::cmp::Reverse;

impl HierarchicalWheel {
    /// Level (from 1) and bucket of the entry for `slot`.
    pub(in crate::wheel) fn locate(&self, slot: u32) -> Option<(usize, usize)> {
        let mut found = None;
        self.each_bucket(|place, entries| {
            if entries.iter().any(|entry| entry.slot().number() == slot) {
                found = Some((place.level + 1, place.bucket));
            }
        });
        found
    }

    /// The clocks of the levels, level 1 first.
    pub(in crate::wheel) fn clocks(&self) -> Vec<Tick> {
        self.levels.iter().map(|level| level.clock).collect()
    }

    /// The number of items in the queue, leftovers included.
    pub(in crate::wheel) fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// The number of items that the queue has memory for.
    pub(in crate::wheel) fn queue_capacity(&self) -> usize {
        self.queue.capacity()
    }

    fn each_bucket(&self, mut visit: impl FnMut(Place, &[Entry])) {
        for (level, row) in self.levels.iter().map(|level| &level.buckets).enumerate() {
            for (bucket, entries) in row.all_occupied() {
                visit(Place { level, bucket }, entries.entries());
            }
        }
    }

    /// Holds everything that is derived against a naive search through all entries.
    pub(in crate::wheel) fn check(&self) {
        self.check_levels();
        let coming = self.now.next();
        let mut len = 0;
        let mut expected = Vec::new();
        self.each_bucket(|place, entries| {
            let tick = self.levels[place.level].tick;
            let boundaries = entries.iter().map(|entry| entry.due().max(coming));
            let mut numbers: Vec<u64> = boundaries.map(|boundary| boundary.0 / tick).collect();
            numbers.dedup();
            assert_eq!(
                numbers.len(),
                1,
                "more than one stretch of time in {place:?}"
            );
            assert_eq!(numbers[0] % self.wheel_size as u64, place.bucket as u64);
            let start = Tick(numbers[0] * tick);
            assert!(start > self.now, "{place:?} is overdue");
            expected.push(Queued {
                start: Reverse(start),
                level: place.level,
            });
            len += entries.len();
        });
        assert_eq!(len, self.len);
        self.check_queue(&expected);
    }

    fn check_levels(&self) {
        let mut tick = 1;
        for level in &self.levels {
            level.buckets.check();
            assert_eq!(level.tick, tick);
            assert_eq!(level.clock.0, self.now.0 / tick * tick);
            tick = tick.saturating_mul(self.wheel_size as u64);
        }
    }

    fn check_queue(&self, expected: &[Queued]) {
        let queue = self.queue.clone().into_sorted_vec();
        assert!(
            expected
                .iter()
                .all(|bucket| queue.binary_search(bucket).is_ok())
        );
        assert!(queue.iter().all(|queued| queued.start.0 > self.now));
        assert_eq!(self.queue.peek(), expected.iter().max());
        let left_over = queue.len() - expected.len();
        assert!(
            left_over <= self.emptied,
            "{left_over} leftovers of {}",
            self.emptied
        );
    }
}

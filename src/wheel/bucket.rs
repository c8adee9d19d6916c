//! A bucket: a vector of entries in the order of insertion.
//!
//! # Sweeping a bucket in steps
//!
//! A bucket may hold a million entries; a step of a sweep looks at a few thousand. Between two steps a bucket looks like
//! this, with `kept` = 2 and `seen` = 5:
//!
//! ```text
//! [ alive, alive, (gap), (gap), (gap), unseen, unseen, … ]
//!                 ^ kept               ^ seen
//! ```
//!
//! New entries are pushed behind the unseen ones. The gap is closed when the sweep reaches the end of the bucket, when it
//! is half of the bucket, or when the bucket expires. The wheel keeps the [`Progress`], since it sweeps one bucket at a
//! time.

use super::LOOKAHEAD;
use crate::entry::{Entry, Liveness};
use crate::time::Tick;
use std::mem;

/// Buffers of up to this many entries, 1 KiB, are not shrunk.
pub(super) const SMALL: usize = 64;

/// Entries in the order of insertion.
#[derive(Debug)]
pub(super) struct Bucket {
    entries: Vec<Entry>,
    /// The first boundary at which this bucket has work. Undefined while it is empty.
    pub(super) boundary: Tick,
}

/// The progress of a sweep in a bucket: see the head of this module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    kept: usize,
    seen: usize,
    /// Entries were removed, so the bucket's boundary may be that of one of them.
    removed: bool,
}

/// The position of a wheel's sweep: a bucket, and the progress in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sweep<P> {
    pub(super) place: P,
    pub(super) progress: Progress,
}

impl<P: Copy + PartialEq> Sweep<P> {
    /// Goes to the bucket at `place`, to its beginning unless the sweep is there already.
    pub(super) fn go_to(&mut self, place: P) {
        if self.place != place {
            let progress = Progress::default();
            *self = Sweep { place, progress };
        }
    }

    /// The progress in the bucket at `place`: `none` unless the sweep is there.
    pub(super) fn progress_at<'a>(
        &'a mut self,
        place: P,
        none: &'a mut Progress,
    ) -> &'a mut Progress {
        if self.place == place {
            &mut self.progress
        } else {
            none
        }
    }
}

/// The result of one step of a sweep in one bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) looked: usize,
    pub(super) removed: usize,
    /// The end of the bucket was reached.
    pub(super) finished: bool,
}

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket {
        entries: Vec::new(),
        boundary: Tick::NEVER,
    };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Reserves capacity in an empty bucket.
    pub(super) fn reserve(&mut self, entries: usize) {
        self.entries.reserve_exact(entries);
    }

    /// Frees the buffer of an empty bucket.
    pub(super) fn release(&mut self) {
        debug_assert!(self.is_empty(), "releasing a bucket that has entries");
        self.entries = Vec::new();
    }

    /// Bytes of the buffer.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
    }

    /// The earliest due tick in here; `None` when empty. Looks at every entry.
    pub(super) fn earliest_due(&self) -> Option<Tick> {
        self.entries.iter().map(|entry| entry.due()).min()
    }

    /// Appends the entries for which `is_due` holds to `due`, keeping the order of both them and the others. Returns the
    /// earliest due tick of those that stay, if any.
    pub(super) fn take_due(
        &mut self,
        progress: &mut Progress,
        is_due: impl Fn(Entry) -> bool,
        due: &mut Vec<Entry>,
    ) -> Option<Tick> {
        self.close_gap(progress);
        if self.entries.iter().all(|&entry| is_due(entry)) {
            self.take_all(progress, due);
            return None;
        }
        let seen = &self.entries[..progress.seen];
        let seen_and_kept = seen.iter().filter(|&&entry| !is_due(entry)).count();
        *progress = Progress {
            kept: seen_and_kept,
            seen: seen_and_kept,
            removed: false,
        };
        let earliest = self.split_off_due(is_due, due);
        self.give_slack_back();
        Some(earliest)
    }

    /// The part of [`Bucket::take_due`] for a bucket with entries to keep. One plain loop: `retain` and a second pass for
    /// the minimum take half as long again.
    fn split_off_due(&mut self, is_due: impl Fn(Entry) -> bool, due: &mut Vec<Entry>) -> Tick {
        let mut kept = 0;
        let mut earliest = Tick::NEVER;
        for index in 0..self.entries.len() {
            let entry = self.entries[index];
            if is_due(entry) {
                due.push(entry);
            } else {
                self.entries[kept] = entry;
                kept += 1;
                earliest = earliest.min(entry.due());
            }
        }
        self.entries.truncate(kept);
        earliest
    }

    /// Appends all entries to `due`, and returns their number.
    pub(super) fn take_all(&mut self, progress: &mut Progress, due: &mut Vec<Entry>) -> usize {
        self.close_gap(progress);
        *progress = Progress::default();
        let taken = self.entries.len();
        if due.is_empty() {
            // The common case moves no entry, however many there are.
            mem::swap(due, &mut self.entries);
        } else {
            due.append(&mut self.entries);
        }
        taken
    }

    /// Looks at up to `limit` entries from where `progress` stands and removes the dead ones.
    pub(super) fn sweep(
        &mut self,
        progress: &mut Progress,
        limit: usize,
        liveness: &impl Liveness,
    ) -> Step {
        let Progress { mut kept, seen, .. } = *progress;
        let end = self.entries.len().min(seen.saturating_add(limit));
        for index in seen..end {
            if let Some(&ahead) = self.entries.get(index + LOOKAHEAD) {
                liveness.prefetch(ahead);
            }
            let entry = self.entries[index];
            if !liveness.is_dead(entry) {
                self.entries[kept] = entry;
                kept += 1;
            }
        }
        let looked = end - seen;
        let removed = looked - (kept - progress.kept);
        let step = Step {
            looked,
            removed,
            finished: end == self.entries.len(),
        };
        *progress = Progress {
            kept,
            seen: end,
            removed: progress.removed || removed > 0,
        };
        // A bucket that grows as fast as it is swept would otherwise never close its gap. This moves no more entries than
        // were removed.
        if end - kept > self.entries.len() / 2 {
            self.close_gap(progress);
            self.give_slack_back();
        }
        step
    }

    /// Ends the sweep of this bucket. Returns whether it has removed anything.
    pub(super) fn finish_sweep(&mut self, progress: &mut Progress) -> bool {
        let removed = progress.removed;
        self.close_gap(progress);
        *progress = Progress::default();
        self.give_slack_back();
        removed
    }

    fn close_gap(&mut self, progress: &mut Progress) {
        self.entries.drain(progress.kept..progress.seen);
        progress.seen = progress.kept;
    }

    fn give_slack_back(&mut self) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > SMALL && len < capacity / 4 {
            // Twice the length, so that the next few entries need no reallocation.
            self.entries.shrink_to(len * 2);
        }
    }
}

#[cfg(test)]
impl Bucket {
    /// The entries, without the gap that a sweep may have left.
    pub(super) fn alive(&self, progress: Progress) -> Vec<Entry> {
        let (kept, unseen) = (
            &self.entries[..progress.kept],
            &self.entries[progress.seen..],
        );
        [kept, unseen].concat()
    }
}

#[cfg(test)]
impl Progress {
    pub(super) fn has_removed(self) -> bool {
        self.removed
    }
}

#[cfg(test)]
mod tests;

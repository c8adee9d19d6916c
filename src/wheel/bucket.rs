//! A bucket: a vector of entries in the order of insertion.

use crate::entry::{Entry, Liveness};
use crate::time::Tick;
use crate::tuning::KEPT_BUCKET;
use std::mem;

/// Entries in the order of insertion.
#[derive(Debug)]
pub(super) struct Bucket {
    entries: Vec<Entry>,
    /// The first boundary at which this bucket has work. Undefined while it is empty.
    pub(super) boundary: Tick,
}

impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket {
        entries: Vec::new(),
        boundary: Tick::NEVER,
    };

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

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
        is_due: impl Fn(Entry) -> bool,
        due: &mut Vec<Entry>,
    ) -> Option<Tick> {
        if self.entries.iter().all(|&entry| is_due(entry)) {
            self.take_all(due);
            return None;
        }
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
    pub(super) fn take_all(&mut self, due: &mut Vec<Entry>) -> usize {
        let taken = self.entries.len();
        if due.is_empty() {
            // The common case moves no entry, however many there are.
            mem::swap(due, &mut self.entries);
        } else {
            due.append(&mut self.entries);
        }
        taken
    }

    /// Removes the dead entries, keeps the order of the others, and returns the number removed.
    pub(super) fn sweep(&mut self, liveness: &dyn Liveness) -> usize {
        let before = self.entries.len();
        liveness.remove_dead(&mut self.entries);
        if 2 * self.entries.len() > before {
            liveness.remove_equal(&mut self.entries);
        }
        self.give_slack_back();
        before - self.entries.len()
    }

    fn give_slack_back(&mut self) {
        let (len, capacity) = (self.entries.len(), self.entries.capacity());
        if capacity > KEPT_BUCKET && len < capacity / 4 {
            // Twice the length, so that the next few entries need no reallocation.
            self.entries.shrink_to(len * 2);
        }
    }
}

#[cfg(test)]
impl Bucket {
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

#[cfg(test)]
mod tests;

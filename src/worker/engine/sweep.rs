//! Removing dead entries from the wheel, a step at a time.

use super::Engine;
use crate::shared::Shared;
use crate::tuning::{MAX_DEAD, SWEEP_STEP};

/// One round of a sweep through the wheel.
///
/// More than half of the entries are dead when a round begins, and it looks at each of them, so it removes more than
/// half of those it looks at. It may miss dead ones: an entry whose tick differs from `filed` by a multiple of 2^29 looks alive.
/// After a round that removes less than an eighth, the next begins when half as many entries have been transferred as
/// it looked at. So sweeping comes to an end, and costs each entry that is transferred a few looks at most.
#[derive(Default)]
pub(super) struct Round {
    /// Entries that it has yet to look at; 0 between two rounds.
    left: usize,
    looked: usize,
    removed: usize,
    /// The next round begins when this many entries have been transferred.
    not_before: u64,
}

impl Round {
    /// Notes a step.
    fn step(&mut self, looked: usize, removed: usize, transferred: u64) {
        self.looked += looked;
        self.removed += removed;
        self.left = self.left.saturating_sub(looked);
        if self.left == 0 {
            if self.removed < self.looked / 8 {
                self.not_before = transferred + self.looked as u64 / 2;
            }
            self.end();
        }
    }

    fn end(&mut self) {
        (self.left, self.looked, self.removed) = (0, 0, 0);
    }
}

impl Engine {
    /// Removes some dead entries if there are too many. Returns `true` if there were.
    pub(in crate::worker) fn sweep(&mut self, shared: &Shared) -> bool {
        let filed = self.wheel.len();
        // A pending timeout has at most one entry that counts. The others are dead.
        if filed <= MAX_DEAD || filed as u64 <= 2 * shared.pending() + MAX_DEAD as u64 {
            self.round.end();
            return false;
        }
        if self.round.left == 0 {
            if self.transferred < self.round.not_before {
                return false;
            }
            self.round.left = filed;
        }
        // At least twice the entries that have come in since the last step, so that a round ends.
        let come_in = (self.transferred - self.swept_at) as usize;
        self.swept_at = self.transferred;
        let step = SWEEP_STEP.max(2 * come_in).min(filed);
        let mut looked = 0;
        while looked < step && self.wheel.len() > 0 {
            looked += self.wheel.sweep_bucket(shared);
        }
        let removed = filed - self.wheel.len();
        self.swept += removed as u64;
        self.round.step(looked, removed, self.transferred);
        self.publish_counters(shared);
        true
    }
}

#[cfg(test)]
mod tests;

//! Removing dead entries from the wheel, a step at a time.

use super::{Engine, InSlots};
use crate::shared::Shared;
use crate::tuning::{MAX_DEAD, SWEEP_STEP};

impl Engine {
    /// Removes some dead entries if there are too many. Returns `true` if there were.
    ///
    /// A pending timeout needs one entry, or one number in a late lane. All other entries are found dead when they are looked at.
    /// So after a walk through all buckets there are few enough, unless more timeouts have ended meanwhile: sweeping comes to an end.
    #[inline]
    pub(in crate::worker) fn sweep(&mut self, shared: &Shared) -> bool {
        let filed = self.wheel.len();
        filed > MAX_DEAD && self.sweep_step(shared, filed)
    }

    #[inline(never)]
    fn sweep_step(&mut self, shared: &Shared, filed: usize) -> bool {
        let (pending, late) = (shared.pending(), self.reader.late_len() as u64);
        if filed as u64 + late.min(pending) <= 2 * pending + MAX_DEAD as u64 {
            return false;
        }
        // More than half of all are dead, so twice those that have come in since the last step make up for them.
        let come_in = (self.transferred - self.swept_at) as usize;
        self.swept_at = self.transferred;
        let step = SWEEP_STEP.max(2 * come_in).min(filed);
        let mut looked = 0;
        while looked < step && self.wheel.len() > 0 {
            looked += self.wheel.sweep_bucket(&InSlots(shared));
        }
        self.swept += (filed - self.wheel.len()) as u64;
        self.publish_counters(shared);
        true
    }
}

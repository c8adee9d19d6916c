//! Tasks that hold the timer thread for long: counted, and logged if the builder was told to.

use super::{Shared, TaskName};
use crate::catch_panic::log_catching;
use crate::entry::SlotId;
use crate::tuning::SLOW_TASK_PAUSE_NANOS;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Shared {
    /// Notes how long a run has taken that has just ended, and returns the current time. The slot is not free yet.
    #[inline]
    pub(crate) fn note_duration(&self, slot: SlotId, begun: u64) -> u64 {
        let ended = self.recent();
        let taken = ended.saturating_sub(begun);
        self.metrics.shared.longest_task.raise_to(taken);
        if taken > self.least_slow {
            self.note_slow_task(slot, taken, ended);
        }
        ended
    }

    #[cold]
    fn note_slow_task(&self, slot: SlotId, taken: u64, now: u64) {
        if taken > self.settings.scale.tick() {
            self.metrics.shared.slow_tasks.add(1);
        }
        // Relaxed: only the timer thread, one at a time, gets as far as that.
        let is_time = || now >= self.next_slow_line.load(Ordering::Relaxed);
        if taken <= self.settings.slow_task || !self.is_driven_here() || !is_time() {
            return;
        }
        let next = now.saturating_add(SLOW_TASK_PAUSE_NANOS);
        self.next_slow_line.store(next, Ordering::Relaxed);
        let name = TaskName("a task", self, slot);
        let taken = Duration::from_nanos(taken);
        let limit = Duration::from_nanos(self.settings.slow_task);
        log_catching(
            log::Level::Warn,
            format_args!("{name} held the timer thread for {taken:?}; slow_task is {limit:?}"),
        );
    }
}

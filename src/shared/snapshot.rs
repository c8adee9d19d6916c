//! What a timer has done and what it holds, read while other threads work.

use super::{Shared, Timeout};
use crate::metrics::Stats;
use crate::slots::Slot;
use crate::sync::Ordering;
use std::time::Duration;

impl Shared {
    pub(crate) fn pending(&self) -> u64 {
        let unprocessed = self.metrics.shared.unprocessed.get();
        self.counters.totals().pending(unprocessed)
    }

    pub(crate) fn pending_timeouts(&self) -> usize {
        // A call that is about to see the stop may have counted its timeout already.
        if self.is_done() {
            return 0;
        }
        if self.settings.max_pending != usize::MAX {
            // One counter, so that no reading exceeds the limit.
            return self.limited.load(Ordering::Relaxed);
        }
        self.pending() as usize
    }

    fn is_done(&self) -> bool {
        self.lifecycle.is_shutdown() && self.lifecycle.is_done()
    }

    pub(crate) fn stats(&self) -> Stats {
        let (shared, worker) = (&self.metrics.shared, &self.metrics.worker);
        let (queued, done) = (self.queue.len() as u64, self.is_done());
        // Before the totals: a timeout counted as unprocessed is then also counted as scheduled.
        let unprocessed = shared.unprocessed.get();
        let totals = self.counters.totals();
        let pending = totals.pending(unprocessed);
        let slots = self.held_slots() * size_of::<Slot<Timeout>>();
        let mut stats = Stats {
            scheduled: totals.scheduled,
            expired: totals.expired,
            cancelled: totals.cancelled,
            rejected: shared.rejected.get(),
            panicked: shared.panicked.get(),
            unprocessed,
            pending: if done { 0 } else { pending },
            periodic_runs: shared.periodic_runs.get(),
            dropped_jobs: shared.dropped_jobs.get(),
            wakeups: worker.wakeups.get(),
            resets: self.counters.resets(),
            tick: self.processed.get(),
            transferred: worker.transferred.get(),
            bucket_visits: worker.bucket_visits.get(),
            passed_over: worker.passed_over.get(),
            cascaded: worker.cascaded.get(),
            levels: worker.levels.get(),
            swept: worker.swept.get(),
            bytes: (slots + self.queue.bytes()) as u64,
            slow_tasks: shared.slow_tasks.get(),
            longest_task: Duration::from_nanos(shared.longest_task.get()),
            ..Stats::default()
        };
        self.metrics.lateness.read(&mut stats.lateness);
        stats.max_lateness = stats.lateness.max();
        // When the timer has ended, its queue and its wheel are gone.
        if !done {
            stats.queued = queued + worker.taken.get();
            stats.filed = worker.filed.get();
            stats.bytes += worker.wheel_bytes.get();
            stats.dead = (stats.queued + stats.filed).saturating_sub(stats.pending);
        }
        stats
    }
}

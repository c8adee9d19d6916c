//! The counters of a timer: shared by all threads, of the worker, and of its wheel.

use super::histogram::Recorder;
use crate::memory::BoxTable;
use crate::tuning::TOTALS_ATTEMPTS;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one timer, without those that each thread keeps.
#[derive(Default)]
pub(crate) struct Metrics {
    pub(crate) shared: SharedCounters,
    pub(crate) worker: WorkerCounters,
    pub(crate) lateness: Recorder,
}

/// Counters that several threads change, rarely enough to share.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SharedCounters {
    pub(crate) rejected: Counter,
    pub(crate) panicked: Counter,
    pub(crate) unprocessed: Counter,
    pub(crate) periodic_runs: Counter,
    pub(crate) dropped_jobs: Counter,
    pub(crate) slow_tasks: Counter,
    /// Nanoseconds.
    pub(crate) longest_task: Counter,
}

/// A counter that any thread may change. Relaxed throughout: a statistic, which orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn raise_to(&self, value: u64) {
        // The load keeps the common case free of a locked instruction.
        if value > self.0.load(Ordering::Relaxed) {
            self.0.fetch_max(value, Ordering::Relaxed);
        }
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The worker's counters, as last published.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    pub(crate) wakeups: Counter,
    pub(crate) transferred: Counter,
    pub(crate) swept: Counter,
    /// Read from the queue and not in the wheel yet.
    pub(crate) taken: Counter,
    pub(crate) filed: Counter,
    pub(crate) wheel_bytes: Counter,
    pub(crate) bucket_visits: Counter,
    pub(crate) passed_over: Counter,
    pub(crate) cascaded: Counter,
    pub(crate) levels: Counter,
}

impl WorkerCounters {
    pub(crate) fn publish_wheel(&self, counters: WheelCounters) {
        self.bucket_visits.set(counters.bucket_visits);
        self.passed_over.set(counters.passed_over);
        self.cascaded.set(counters.cascaded);
        self.levels.set(counters.levels);
    }
}

/// The counters of a wheel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WheelCounters {
    /// Buckets expired or cascaded.
    pub bucket_visits: u64,
    /// Entries in an expired bucket that were not due.
    pub passed_over: u64,
    /// Entries moved to a lower level.
    pub cascaded: u64,
    /// Levels that exist; 1 on a hashed wheel.
    pub levels: u64,
}

/// A thread's share of the hot counters. Only that thread writes; any thread may read.
///
/// The stores are Release and the loads Acquire, so that a thread that sees an end also sees its beginning.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ThreadCounters {
    pub(crate) scheduled: SingleWriterCounter,
    pub(crate) cancelled: SingleWriterCounter,
    pub(crate) expired: SingleWriterCounter,
    pub(crate) resets: SingleWriterCounter,
}

/// A counter with one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct SingleWriterCounter(AtomicU64);

impl SingleWriterCounter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: this thread wrote it last.
        let now = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(now, Ordering::Release);
    }

    /// Takes back an addition. On another thread's counter, if need be: only the sum means anything.
    pub(crate) fn take_back(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// The counters of all threads of a timer, by the number of the thread, without a lock.
pub(crate) struct CounterTable(BoxTable<ThreadCounters>);

impl CounterTable {
    pub(crate) fn new() -> CounterTable {
        CounterTable(BoxTable::new())
    }

    #[inline]
    pub(crate) fn of_thread(&self, thread: u32) -> &ThreadCounters {
        self.0.get_or_insert(thread, ThreadCounters::default)
    }

    fn sum(&self, counter: impl Fn(&ThreadCounters) -> &SingleWriterCounter) -> u64 {
        let add = |sum: u64, (_, thread)| sum.wrapping_add(counter(thread).get());
        self.0.iter().fold(0, add)
    }

    pub(crate) fn resets(&self) -> u64 {
        self.sum(|thread| &thread.resets)
    }

    /// Returns `true` only if all that was scheduled has been cancelled or has expired. What is counted meanwhile may or may
    /// not be seen.
    pub(crate) fn all_have_ended(&self) -> bool {
        // The ends first: what is scheduled meanwhile makes the difference larger.
        let cancelled = self.sum(|thread| &thread.cancelled);
        let ended = cancelled.wrapping_add(self.sum(|thread| &thread.expired));
        self.sum(|thread| &thread.scheduled) == ended
    }

    /// Adds up the counters of all threads. What is counted as ended is also counted as scheduled.
    pub(crate) fn totals(&self) -> Totals {
        let ends = || {
            (
                self.sum(|thread| &thread.cancelled),
                self.sum(|thread| &thread.expired),
            )
        };
        let (mut scheduled, mut after) = (0, ends());
        // An end that is seen makes its beginning visible to what is read later, so what is counted as
        // ended is also counted as scheduled. If the ends are the same before and after, the three
        // figures belong together; under load, after a few attempts, the later ends come closer.
        for _ in 0..TOTALS_ATTEMPTS {
            let before = after;
            scheduled = self.sum(|thread| &thread.scheduled);
            after = ends();
            if before == after {
                break;
            }
        }
        let (cancelled, expired) = after;
        Totals {
            scheduled: scheduled.max(cancelled.wrapping_add(expired)),
            cancelled,
            expired,
        }
    }
}

/// The sums of the counters of all threads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
}

impl Totals {
    /// The number of timeouts that are pending, if so many were `unprocessed` when the timer stopped.
    pub(crate) fn pending(self, unprocessed: u64) -> u64 {
        let over = self.expired + self.cancelled + unprocessed;
        self.scheduled.saturating_sub(over)
    }
}

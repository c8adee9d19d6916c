//! The counters of a timer: shared by all threads, of the worker, and of its wheel.

use super::histogram::Recorder;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one timer, without those that each thread keeps.
pub(crate) struct Metrics {
    pub(crate) shared: SharedCounters,
    pub(crate) worker: WorkerCounters,
    pub(crate) lateness: Recorder,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            shared: SharedCounters::default(),
            worker: WorkerCounters::default(),
            lateness: Recorder::new(),
        }
    }
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
    pub(super) bucket_visits: Counter,
    pub(super) passed_over: Counter,
    pub(super) cascaded: Counter,
    pub(super) levels: Counter,
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
pub(crate) struct WheelCounters {
    /// Buckets expired or cascaded.
    pub(crate) bucket_visits: u64,
    /// Entries in an expired bucket that were not due.
    pub(crate) passed_over: u64,
    /// Entries moved to a lower level.
    pub(crate) cascaded: u64,
    /// Levels that exist; 1 on a hashed wheel.
    pub(crate) levels: u64,
}

/// The totals of the counters that each thread keeps.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
}

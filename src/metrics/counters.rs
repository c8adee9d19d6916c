//! The counters of a timer: of all threads, of the worker, and of its wheel.

use super::histogram::Recorder;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a timer counts outside the threads' own counters.
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

/// What several threads may count, seldom enough for a shared counter.
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

/// A counter that anybody may change. Relaxed throughout: it is a figure, and orders nothing.
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

/// What only the worker counts, as it last told.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerCounters {
    pub(crate) wakeups: Counter,
    pub(crate) transferred: Counter,
    pub(crate) swept: Counter,
    /// Taken out of the queue, and not in the wheel yet.
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

/// What a wheel has done since it was made, for `Stats` and for comparing designs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WheelCounters {
    /// Buckets whose entries were looked at, when expiring or cascading.
    pub(crate) bucket_visits: u64,
    /// Entries met while expiring that were not due.
    pub(crate) passed_over: u64,
    /// Entries moved to a lower level.
    pub(crate) cascaded: u64,
    /// Levels that exist; 1 on a hashed wheel.
    pub(crate) levels: u64,
}

/// The sums of the counters of all threads.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Totals {
    pub(crate) scheduled: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
}

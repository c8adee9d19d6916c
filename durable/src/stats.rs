//! Counters, and what is told of failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashed_wheel::Lateness;

/// A snapshot of a timer's counters, since it was opened.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = DurableTimer::builder().on("mail", |_| Outcome::Done).open_in_memory(&clock)?;
/// timer.job("mail").key("a").after(Duration::from_secs(1))?;
/// timer.job("mail").key("b").after(Duration::from_secs(2))?;
/// timer.cancel("b")?;
/// clock.advance(Duration::from_secs(3));
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled, stats.cancelled, stats.fired), (2, 1, 1));
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Stats {
    /// Jobs that were made or replaced.
    pub scheduled: u64,
    /// Runs of handlers that have begun.
    pub fired: u64,
    /// Runs after which the job was put back.
    pub retried: u64,
    /// Jobs that gave up.
    pub dead: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Jobs in memory now: claimed, and running or about to.
    pub in_memory: u64,
    /// Transactions that were written.
    pub commits: u64,
    /// How late handlers have begun, by the wall clock: from the time that a run was due to its start. So waiting for a thread is in it, and so is what
    /// was overdue when the timer was opened.
    pub lateness: Lateness,
}

/// Where it is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) scheduled: AtomicU64,
    pub(crate) fired: AtomicU64,
    pub(crate) retried: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) commits: AtomicU64,
}

/// Counts one more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// Counts so many more.
pub(crate) fn add(counter: &AtomicU64, many: u64) {
    // Relaxed: figures for people.
    counter.fetch_add(many, Ordering::Relaxed);
}

/// What has been told of a store that fails and answers again: one line for a change, and at most one a second.
#[derive(Debug, Default)]
pub(crate) struct Told {
    failing: bool,
    at: Option<Instant>,
}

impl Told {
    /// Is this to be told now?
    pub(crate) fn tell(&mut self, failing: bool, now: Instant) -> bool {
        let lately = |at| now.saturating_duration_since(at) < Duration::from_secs(1);
        let tell = failing != self.failing && !self.at.is_some_and(lately);
        if tell {
            *self = Told {
                failing,
                at: Some(now),
            };
        }
        tell
    }
}

impl Counters {
    pub(crate) fn snapshot(&self, in_memory: usize, lateness: Lateness) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            scheduled: read(&self.scheduled),
            fired: read(&self.fired),
            retried: read(&self.retried),
            dead: read(&self.dead),
            cancelled: read(&self.cancelled),
            in_memory: in_memory as u64,
            commits: read(&self.commits),
            lateness,
        }
    }
}

//! The public snapshot of a timer's counters.

use super::histogram::Lateness;
use std::time::Duration;

/// A snapshot of a timer's counters.
///
/// They count from the making of the timer and are never reset, except `pending`, `queued`,
/// `filed`, `dead`, `bytes` and `levels`, which show the present. The fields are read one after the
/// other: while other threads use the timer, they need not agree exactly. At rest,
/// `scheduled = expired + cancelled + unprocessed + pending`.
///
/// # Which to watch
///
/// | question | fields |
/// |---|---|
/// | Do tasks run in time? | `lateness`: its p99 is about one tick if they do |
/// | If not, is a task too slow for the timer thread? | `slow_tasks`, `longest_task`: give it to an executor |
/// | Or do timeouts come faster than they are filed? | `transferred` grows by `max_transfers_per_tick` at each tick |
/// | Is something failing? | `rejected`, `panicked`, `dropped_jobs` |
/// | What does it hold? | `pending`, `bytes`, and `dead` for what cancelled timeouts have left behind |
/// | Does it rest when there is nothing to do? | `wakeups` |
///
/// ```
/// # use hashed_wheel::{HashedWheelTimer, ManualClock};
/// # use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
/// timer.new_timeout(|_| {}, Duration::from_secs(1)).unwrap();
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled, stats.pending, stats.expired), (1, 1, 0));
/// clock.advance(Duration::from_secs(1));
/// let stats = timer.stats();
/// assert_eq!((stats.scheduled, stats.pending, stats.expired), (1, 0, 1));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timeouts that were taken, periodic ones once.
    pub scheduled: u64,
    /// One-shot timeouts that have fired. With an executor, they count when their job is handed over.
    pub expired: u64,
    /// Timeouts that were cancelled, futures that were dropped among them.
    pub cancelled: u64,
    /// Timeouts that were refused, for any reason.
    pub rejected: u64,
    /// Panics of tasks, of their captures' drops in `stop`, of wakers and of the executor.
    pub panicked: u64,
    /// Timeouts that were pending when the timer stopped.
    pub unprocessed: u64,
    /// Timeouts that are scheduled and have neither fired nor been cancelled.
    pub pending: u64,
    /// Runs of periodic tasks.
    pub periodic_runs: u64,
    /// Jobs that the executor dropped without running them.
    pub dropped_jobs: u64,
    /// Times that the worker woke up; on a manual clock, boundaries visited.
    pub wakeups: u64,
    /// Resets that returned true.
    pub resets: u64,
    /// The last boundary processed: its tasks have begun to run, or it had none. 0 is the timer's start. A worker
    /// that sleeps counts the boundaries that it sleeps through when it wakes.
    pub tick: u64,
    /// Entries moved from the pending queue to the wheel.
    pub transferred: u64,
    /// Buckets whose entries were looked at.
    pub bucket_visits: u64,
    /// Entries met in a bucket that were not due.
    pub passed_over: u64,
    /// Entries moved to a lower level of the hierarchical wheel.
    pub cascaded: u64,
    /// Levels of the wheel: 1 on the hashed wheel.
    pub levels: u64,
    /// Entries that wait in the pending queue now, those of cancelled timeouts among them. A worker leaves
    /// those of timeouts that are due later there, and all while it sleeps.
    pub queued: u64,
    /// Entries that are in the wheel now, those of cancelled timeouts among them. As of the last
    /// boundary that was visited; 0 when the timer has stopped.
    pub filed: u64,
    /// Entries that belong to no timeout any more, as it was cancelled or moved to an earlier time, and
    /// that wait to be met or swept out. An estimate, `queued + filed - pending` or 0 if that is less:
    /// `filed` may be a boundary old, and a timeout that never fires is pending without an entry.
    pub dead: u64,
    /// Entries of cancelled timeouts that a sweep has removed from the wheel.
    pub swept: u64,
    /// Bytes that the timer holds for timeouts, queue and wheel, in use or kept for later. Tasks that
    /// do not fit into their slot and what they own are not in it.
    pub bytes: u64,
    /// Runs of tasks that took longer than a tick, wherever they ran. On the timer thread, such a task
    /// makes others late. Always 0 on a manual clock, which stands still while a task runs.
    pub slow_tasks: u64,
    /// The longest that one run of a task has taken.
    pub longest_task: Duration,
    /// The longest that a task has begun after its deadline: [`Lateness::max`] of `lateness`.
    pub max_lateness: Duration,
    /// The distribution of how late tasks begin.
    pub lateness: Lateness,
}

//! Runs a claimed task: on this thread or through an executor, once or periodically.

use crate::catch_panic::log_catching;
use crate::entry::Entry;
use crate::shared::{Activity, Job, Shared, Timeout, When};
use crate::slots::{Kind, ReleaseResult, Running, StoredTask};
use crate::time::{FOREVER, Period, Tick, nanos, next_at_fixed_rate};
use std::sync::Arc;

/// Takes jobs.
pub(crate) type Executor = Box<dyn Fn(Job) + Send + Sync>;

/// Runs a task on this thread. `begun` is the current time. Returns the entry of the next run, if any, which was
/// [announced](rearm_periodic), and the time after the run.
#[inline]
pub(crate) fn run(
    shared: &Arc<Shared>,
    running: Running,
    task: StoredTask<Timeout>,
    begun: u64,
    announce: impl FnOnce(Entry),
) -> (Option<Entry>, u64) {
    if task.kind() == Kind::Periodic {
        let task = run_periodic(shared, &running, task);
        let ended = note_duration(shared, begun);
        return (rearm_periodic(shared, running, task, announce), ended);
    }
    run_once(shared, running, task);
    (None, note_duration(shared, begun))
}

/// Passes a task to the executor.
pub(crate) fn dispatch(
    shared: &Arc<Shared>,
    executor: &Executor,
    running: Running,
    task: StoredTask<Timeout>,
) {
    let mut claimed = DispatchedJob {
        shared: Arc::clone(shared),
        content: Some((running, task)),
    };
    let job: Job = Box::new(move || claimed.run());
    shared.catch_panic("the executor", || executor(job));
}

/// Counts a one-shot timeout as over, before its task runs: the task may schedule another one under a full limit.
#[inline]
pub(crate) fn count_expired(shared: &Shared) {
    shared.count(|counters| counters.expired.add(1));
    shared.release_pending();
}

#[inline]
fn run_once(shared: &Arc<Shared>, running: Running, task: StoredTask<Timeout>) {
    let timeout = Timeout::of_runner(shared, running.slot());
    shared.catch_panic("a task", || task.run(&timeout));
    end(shared, running);
}

fn run_periodic(
    shared: &Arc<Shared>,
    running: &Running,
    mut task: StoredTask<Timeout>,
) -> StoredTask<Timeout> {
    shared.metrics().shared.periodic_runs.add(1);
    let timeout = Timeout::of_runner(shared, running.slot());
    shared.catch_panic("a periodic task", || task.run_again(&timeout));
    task
}

/// Ends a run whose task is gone.
#[inline]
fn end(shared: &Arc<Shared>, running: Running) {
    let id = running.slot();
    if shared.slot(id).finish_run(running) == ReleaseResult::Abandoned {
        shared.free_after_run(id);
    }
}

/// Arms a periodic task for its next run, or drops it if it was cancelled or stopped during this one. Calls `announce` with
/// the entry while the runner still owns the slot, and returns the entry once the slot is armed.
fn rearm_periodic(
    shared: &Arc<Shared>,
    running: Running,
    task: StoredTask<Timeout>,
    announce: impl FnOnce(Entry),
) -> Option<Entry> {
    let slot = shared.slot(running.slot());
    let (due, deadline) = next_run(shared, slot.deadline(), task.period());
    let entry = slot.next_entry(&running, due);
    announce(entry);
    match slot.rearm(running, task, due, deadline) {
        Ok(()) => (due != Tick::NEVER).then_some(entry),
        Err((running, task)) => {
            shared.catch_panic("the drop of a task", || drop(task));
            end(shared, running);
            None
        }
    }
}

/// The due tick and deadline of the next run after deadline `last`.
fn next_run(shared: &Shared, last: u64, period: Period) -> (Tick, u64) {
    let started = shared.started_at();
    let deadline = match period {
        Period::FixedRate(period) => {
            let passed = shared.scale().time_of(shared.passed());
            next_at_fixed_rate(last, nanos(period), passed.unwrap_or(FOREVER))
        }
        Period::FixedDelay(delay) => {
            let now = shared.now().saturating_sub(started);
            now.saturating_add(nanos(delay))
        }
    };
    shared.deadline(When::At(deadline.saturating_add(started)))
}

/// Notes how long a run has taken that has just ended, and returns the current time.
fn note_duration(shared: &Shared, begun: u64) -> u64 {
    let ended = shared.recent();
    let taken = ended.saturating_sub(begun);
    shared.metrics().shared.longest_task.raise_to(taken);
    if taken > shared.scale().tick() {
        shared.metrics().shared.slow_tasks.add(1);
    }
    ended
}

/// A task passed to an executor. However the job ends, the slot is released.
struct DispatchedJob {
    shared: Arc<Shared>,
    /// `None` after the run.
    content: Option<(Running, StoredTask<Timeout>)>,
}

impl DispatchedJob {
    fn run(&mut self) {
        let Some((running, task)) = self.content.take() else {
            return;
        };
        let shared = &self.shared;
        let _job = shared.enter(Activity::Job);
        // Push while this run owns the slot: after that it may be cancelled and freed.
        let push = |entry| shared.enqueue(entry);
        run(shared, running, task, shared.recent(), push);
    }
}

impl Drop for DispatchedJob {
    fn drop(&mut self) {
        let Some((running, task)) = self.content.take() else {
            return;
        };
        let shared = &self.shared;
        shared.metrics().shared.dropped_jobs.add(1);
        log_catching(
            log::Level::Error,
            format_args!(
                "the executor of {} dropped a job without running it",
                shared.name()
            ),
        );
        if task.kind() == Kind::Periodic {
            rearm_periodic(shared, running, task, |entry| shared.enqueue(entry));
        } else {
            shared.catch_panic("the drop of a task", || drop(task));
            end(shared, running);
        }
    }
}

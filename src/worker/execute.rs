//! Runs a claimed task: on this thread or through an executor, once or periodically.

use crate::catch_panic::log_catching;
use crate::entry::SlotId;
use crate::shared::{Activity, Job, Shared, TaskName, Timeout, When};
use crate::slots::{Kind, ReleaseResult, Running, StoredTask};
use crate::time::{FOREVER, Period, Tick, nanos, next_at_fixed_rate};
use std::sync::Arc;

/// Passes tasks to the user's executor. A program without one contains no code for it.
pub(crate) struct Executor(Box<Dispatch>);

type Dispatch = dyn Fn(&Arc<Shared>, Running, StoredTask<Timeout>) + Send + Sync;

impl Executor {
    pub(crate) fn new(execute: impl Fn(Job) + Send + Sync + 'static) -> Executor {
        Executor(Box::new(move |shared, running, task| {
            dispatch(shared, &execute, running, task);
        }))
    }

    #[inline(never)]
    pub(super) fn dispatch(
        &self,
        shared: &Arc<Shared>,
        running: Running,
        task: StoredTask<Timeout>,
    ) {
        self.0(shared, running, task);
    }
}

/// Runs a task on this thread. `begun` is the current time. Returns the tick of the next run, if any, and the time after the
/// run.
#[inline]
pub(crate) fn run(
    shared: &Arc<Shared>,
    running: Running,
    task: StoredTask<Timeout>,
    begun: u64,
) -> (Option<Tick>, u64) {
    if task.kind() == Kind::Periodic {
        return run_periodic(shared, running, task, begun);
    }
    let timeout = Timeout::of_runner(shared, running.slot());
    shared.catch_panic_of("a task", running.slot(), || task.run(&timeout));
    let ended = shared.note_duration(running.slot(), begun);
    end(shared, running);
    (None, ended)
}

fn dispatch(
    shared: &Arc<Shared>,
    execute: &dyn Fn(Job),
    running: Running,
    task: StoredTask<Timeout>,
) {
    let mut claimed = DispatchedJob {
        shared: Arc::clone(shared),
        content: Some((running, task)),
    };
    let job: Job = Box::new(move || claimed.run());
    shared.catch_panic("the executor", || execute(job));
}

/// Counts a one-shot timeout as over, before its task runs: the task may schedule another one under a full limit.
#[inline]
pub(crate) fn count_expired(shared: &Shared) {
    shared.count(|counters| counters.expired.add(1));
    shared.release_pending();
}

fn run_periodic(
    shared: &Arc<Shared>,
    running: Running,
    mut task: StoredTask<Timeout>,
    begun: u64,
) -> (Option<Tick>, u64) {
    shared.metrics().shared.periodic_runs.add(1);
    let timeout = Timeout::of_runner(shared, running.slot());
    let run = || task.run_again(&timeout);
    shared.catch_panic_of("a periodic task", running.slot(), run);
    let ended = shared.note_duration(running.slot(), begun);
    (rearm_periodic(shared, running, task), ended)
}

/// Ends a run whose task is gone.
#[inline]
fn end(shared: &Arc<Shared>, running: Running) {
    let id = running.slot();
    if shared.slot(id).finish_run(running) == ReleaseResult::Abandoned {
        shared.free_after_run(id);
    }
}

/// Arms a periodic task for its next run, or drops it if it was cancelled or stopped during this one. Returns the tick at which
/// the slot is due then: the timer thread must be made to find it.
fn rearm_periodic(
    shared: &Arc<Shared>,
    running: Running,
    mut task: StoredTask<Timeout>,
) -> Option<Tick> {
    let period = task.period_mut();
    *period = shared.take_period(running.slot()).unwrap_or(*period);
    let (id, slot) = (running.slot(), shared.slot(running.slot()));
    let last = shared.deadline_of(id, slot.status().due);
    let deadline = next_run(shared, last, *period);
    let (due, early) = shared.due(When::At(deadline));
    let early = shared.early(id, early);
    match slot.rearm(running, task, shared.next_stamp(), due, early) {
        Ok(()) => Some(due),
        Err((running, task)) => {
            shared.catch_panic_of("the drop of a task", id, || drop(task));
            end(shared, running);
            None
        }
    }
}

/// The deadline of the next run after deadline `last`, on the timer's clock.
fn next_run(shared: &Shared, last: u64, period: Period) -> u64 {
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
    deadline.saturating_add(started)
}

/// Sees to it that the timer thread finds a slot that was armed for its next run. It may have been cancelled and freed since.
fn make_findable(shared: &Shared, id: SlotId, again: Option<Tick>) {
    if let Some(due) = again {
        shared.make_findable_for(id, due, When::After(0));
    }
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
        let id = running.slot();
        let (again, _) = run(shared, running, task, shared.recent());
        make_findable(shared, id, again);
    }
}

impl Drop for DispatchedJob {
    fn drop(&mut self) {
        let Some((running, task)) = self.content.take() else {
            return;
        };
        let (shared, id) = (&self.shared, running.slot());
        shared.metrics().shared.dropped_jobs.add(1);
        let (timer, job) = (shared.name(), TaskName("a job", shared, id));
        log_catching(
            log::Level::Error,
            format_args!("the executor of {timer} dropped {job} without running it"),
        );
        if task.kind() == Kind::Periodic {
            let again = rearm_periodic(shared, running, task);
            make_findable(shared, id, again);
        } else {
            shared.catch_panic_of("the drop of a task", id, || drop(task));
            end(shared, running);
        }
    }
}

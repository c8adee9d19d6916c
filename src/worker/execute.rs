//! Running a task that has been claimed: here, or through an executor; once, or again.

use crate::catch_panic::{contain, log_contained};
use crate::entry::Entry;
use crate::shared::reentrancy::Activity;
use crate::shared::timeout::Timeout;
use crate::shared::{Inner, When};
use crate::slots::slot::{Left, Running};
use crate::slots::stored_task::{Job, Kind, Period, StoredTask};
use crate::time::clock::nanos;
use crate::time::tick::Tick;
use crate::worker::engine::next_at_fixed_rate;
use std::sync::Arc;

/// Where jobs go.
pub(crate) type Executor = Box<dyn Fn(Job) + Send + Sync>;

/// Runs a task on the timer thread, which it is on since `begun`. Returns the entry to be filed if
/// it comes again, and the time.
#[inline]
pub(crate) fn run_here(
    inner: &Arc<Inner>,
    running: Running,
    task: StoredTask,
    begun: u64,
) -> (Option<Entry>, u64) {
    if task.kind() == Kind::Periodic {
        let task = run_periodic(inner, &running, task);
        let ended = inner.clock.now();
        note_duration(inner, begun, ended);
        return (come_again(inner, running, task, |_| ()), ended);
    }
    count_expired(inner);
    run_once(inner, running, task);
    let ended = inner.clock.now();
    note_duration(inner, begun, ended);
    (None, ended)
}

/// Gives a task to the executor.
pub(crate) fn hand_over(
    inner: &Arc<Inner>,
    executor: &Executor,
    running: Running,
    task: StoredTask,
) {
    if task.kind() == Kind::Once {
        count_expired(inner);
    }
    let mut claimed = Claimed {
        inner: Arc::clone(inner),
        content: Some((running, task)),
    };
    let job: Job = Box::new(move || claimed.run());
    if contain("the executor", || executor(job)) {
        inner.tally.panicked.add(1);
    }
}

/// A one-shot timeout is over before its task runs, so that the task can schedule its successor
/// under a full limit.
#[inline]
fn count_expired(inner: &Inner) {
    inner.count(|counters| counters.expired.add(1));
    inner.release_one();
}

#[inline]
fn run_once(inner: &Arc<Inner>, running: Running, task: StoredTask) {
    let timeout = Timeout::of_runner(inner, running.slot());
    if contain("a task", || task.run(&timeout)) {
        inner.tally.panicked.add(1);
    }
    end(inner, running);
}

fn run_periodic(inner: &Arc<Inner>, running: &Running, mut task: StoredTask) -> StoredTask {
    inner.tally.periodic_runs.add(1);
    let timeout = Timeout::of_runner(inner, running.slot());
    if contain("a periodic task", || task.run_again(&timeout)) {
        inner.tally.panicked.add(1);
    }
    task
}

/// Ends a run whose task is gone.
#[inline]
fn end(inner: &Inner, running: Running) {
    let number = running.slot();
    if inner.slot(number).finish(running) == Left::Abandoned {
        inner.free(number);
    }
}

/// Puts a periodic task back for its next run, or drops it if it was cancelled or stopped during
/// this one. `announce` is told the entry while the slot is still the runner's; what is returned is the
/// entry once it is armed.
fn come_again(
    inner: &Arc<Inner>,
    running: Running,
    task: StoredTask,
    announce: impl FnOnce(Entry),
) -> Option<Entry> {
    let number = running.slot();
    let slot = inner.slot(number);
    let (due, deadline) = next_run(inner, slot.deadline(), task.period());
    let entry = slot.next_entry(&running, due);
    announce(entry);
    match slot.rearm(running, task, due, deadline) {
        Ok(()) => (due != Tick::NEVER).then_some(entry),
        Err((running, task)) => {
            drop_task(inner, task);
            end(inner, running);
            None
        }
    }
}

/// When a periodic task is due again whose last deadline was `last`.
fn next_run(inner: &Inner, last: u64, period: Period) -> (Tick, u64) {
    let started = inner.lifecycle.started_at();
    let now = inner.clock.now().saturating_sub(started);
    let deadline = match period {
        Period::FixedRate(period) => {
            let passed = inner.scale.moment(inner.scale.passed(now)).unwrap_or(now);
            next_at_fixed_rate(last, nanos(period), passed)
        }
        Period::FixedDelay(delay) => now.saturating_add(nanos(delay)),
    };
    inner.deadline(When::At(deadline.saturating_add(started)))
}

fn drop_task(inner: &Inner, task: StoredTask) {
    if contain("the drop of a task", || drop(task)) {
        inner.tally.panicked.add(1);
    }
}

fn note_duration(inner: &Inner, begun: u64, ended: u64) {
    let taken = ended.saturating_sub(begun);
    inner.tally.longest_task.raise_to(taken);
    if taken > inner.scale.tick() {
        inner.tally.slow_tasks.add(1);
    }
}

/// A task on its way through an executor. However the job ends, the slot is settled.
struct Claimed {
    inner: Arc<Inner>,
    /// `None` once it has been run.
    content: Option<(Running, StoredTask)>,
}

impl Claimed {
    fn run(&mut self) {
        let Some((running, task)) = self.content.take() else {
            return;
        };
        let inner = &self.inner;
        let _job = inner.enter(Activity::Job);
        let begun = inner.clock.now();
        if task.kind() == Kind::Periodic {
            let task = run_periodic(inner, &running, task);
            note_duration(inner, begun, inner.clock.now());
            // Pushed while the slot is still this run's: after that it may be cancelled and freed.
            come_again(inner, running, task, |entry| inner.submit(entry));
        } else {
            run_once(inner, running, task);
            note_duration(inner, begun, inner.clock.now());
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let Some((running, task)) = self.content.take() else {
            return;
        };
        let inner = &self.inner;
        inner.tally.dropped_jobs.add(1);
        log_contained(
            log::Level::Error,
            format_args!(
                "the executor of {} dropped a job without running it",
                inner.name
            ),
        );
        if task.kind() == Kind::Periodic {
            come_again(inner, running, task, |entry| inner.submit(entry));
        } else {
            drop_task(inner, task);
            end(inner, running);
        }
    }
}

//! The whole timer with an executor, whose job ends while the timeout is cancelled or stopped.

use super::{Probe, TICK, builder, check_figures, explore};
use crate::{HashedWheelTimer, Job, ManualClock, Period, Timeout};
use loom::thread;
use std::sync::{Arc, Mutex};

/// A timer with a periodic timeout whose first run has been given to the executor, as `job`. The others
/// go to `jobs`.
struct Fixture {
    timer: HashedWheelTimer,
    timeout: Timeout,
    clock: ManualClock,
    jobs: Arc<Mutex<Vec<Job>>>,
    job: Job,
    probe: Probe,
}

impl Fixture {
    fn new() -> Fixture {
        let (clock, probe) = (ManualClock::new(), Probe::default());
        let jobs = Arc::new(Mutex::new(Vec::new()));
        let executor = {
            let jobs = Arc::clone(&jobs);
            move |job| jobs.lock().unwrap().push(job)
        };
        let timer = builder().clock(&clock).executor(executor).build().unwrap();
        let run = probe.hold();
        let timeout = timer
            .new_periodic(move |_| run(), TICK, Period::FixedDelay(TICK))
            .unwrap();
        clock.advance(TICK);
        let job = jobs.lock().unwrap().pop().expect("it is due");
        Fixture {
            timer,
            timeout,
            clock,
            jobs,
            job,
            probe,
        }
    }
}

/// The slot may be given up, and the timer's memory go, as soon as the word is armed again.
#[test]
fn an_executors_rearm_touches_nothing_after_the_word_is_given_up() {
    let ends = ["cancelled during its run", "cancelled after it"];
    explore(ends, move || {
        let Fixture {
            timer,
            timeout,
            job,
            probe,
            ..
        } = Fixture::new();
        let handle = timer.handle();
        let memory = Arc::downgrade(handle.shared());
        let runner = thread::spawn(move || {
            job();
            thread::current().id()
        });
        assert!(timeout.cancel());
        drop(timeout);
        assert_eq!(timer.stop().unwrap().len(), 0);
        let runner = runner.join().unwrap();

        assert!(probe.is_gone() && probe.runs() == 1);
        let stats = check_figures(&handle);
        assert_eq!((stats.cancelled, stats.periodic_runs), (1, 1));
        drop((timer, handle));
        // Unless the slot was freed while nobody looked yet: the next timer sees to it.
        drop(builder().clock(&ManualClock::new()).build().unwrap());
        assert_eq!(memory.strong_count(), 0);
        if probe.dropped_on(runner) {
            ends[0]
        } else {
            ends[1]
        }
    });
}

#[test]
fn a_stop_during_an_executors_run_returns_the_timeout_with_its_task_or_without() {
    explore(["with its task", "without, it was running"], || {
        let Fixture {
            timer,
            timeout,
            job,
            probe,
            ..
        } = Fixture::new();
        let runner = thread::spawn(job);
        let left = timer.stop().unwrap();
        assert_eq!(left.len(), 1);
        assert!(timeout.is_cancelled() && !timeout.cancel());
        let task = left[0].take_task();
        runner.join().unwrap();
        assert_eq!((probe.runs(), probe.is_gone()), (1, task.is_none()));
        assert_eq!(check_figures(&timer.handle()).unprocessed, 1);
        if task.is_some() {
            "with its task"
        } else {
            "without, it was running"
        }
    });
}

/// A boundary is processed while the job ends: the entry of the next run may be met before its
/// slot is armed.
#[test]
fn a_run_that_ends_while_its_next_boundary_comes_is_not_forgotten() {
    explore(["came again at once", "came again later"], || {
        let Fixture {
            timer,
            timeout,
            clock,
            jobs,
            job,
            probe,
        } = Fixture::new();
        let runner = thread::spawn(job);
        clock.advance(TICK);
        runner.join().unwrap();
        let at_once = jobs.lock().unwrap().len();
        clock.advance(2 * TICK);
        assert_eq!(jobs.lock().unwrap().len(), 1, "again, and once");
        assert!(timeout.cancel());
        // The executor drops the job, and with it the task.
        jobs.lock().unwrap().clear();
        assert!(probe.is_gone() && probe.runs() == 1);
        check_figures(&timer.handle());
        if at_once == 1 {
            "came again at once"
        } else {
            "came again later"
        }
    });
}

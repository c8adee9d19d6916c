//! Tasks handed to an executor: when they count as expired, and what a bad executor does.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread;

use common::{
    Count, FAR, Guard, Kind, Record, Timer, assert_counts_add_up, logs, ms, on_both_timers, recv,
};
use hashed_wheel::{Job, ManualClock, StopError, Timeout, TimerState};

on_both_timers![
    a_timeout_counts_as_expired_when_its_job_is_handed_over,
    a_job_runs_later_on_any_thread_and_sees_its_timeout,
    a_job_that_is_dropped_unrun_is_counted_and_its_task_dropped,
    a_job_never_unwinds,
    a_panic_in_the_executor_is_caught_and_counted,
    an_executor_that_runs_inline_is_the_timer_thread,
    stop_may_be_called_from_another_thread_of_the_executor,
    jobs_held_over_the_end_of_the_timer_still_run,
    the_executor_may_call_the_timer,
    wakers_do_not_go_through_the_executor,
    a_real_worker_hands_over_in_order_of_boundaries,
    a_dropped_timeout_still_runs_through_the_executor,
];

/// A timer on a manual clock whose executor puts the jobs on a list.
fn with_list(kind: Kind) -> (ManualClock, Timer, Record<Job>) {
    let (clock, jobs) = (ManualClock::new(), Record::new());
    let list = jobs.clone();
    let timer = kind
        .builder()
        .clock(&clock)
        .executor(move |job| list.push(job))
        .build();
    (clock, timer, jobs)
}

fn a_timeout_counts_as_expired_when_its_job_is_handed_over(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let runs = Count::new();
    let timeout = timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(9));
    assert_eq!((jobs.len(), timeout.is_expired()), (0, false));
    clock.advance(ms(1));
    assert_eq!((jobs.len(), timeout.is_expired(), runs.get()), (1, true, 0));
    assert_eq!((timer.stats().expired, timer.pending_timeouts()), (1, 0));
    assert!(!timeout.cancel(), "it is too late");
    assert!(!timeout.reset(ms(10)));
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!((runs.get(), timer.stats().expired), (1, 1));
    assert!(timeout.is_expired());
    assert_counts_add_up(&timer);
}

fn a_job_runs_later_on_any_thread_and_sees_its_timeout(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let seen = Record::new();
    let note = seen.clone();
    let task = move |t: &Timeout| {
        note.push((
            t.is_expired(),
            t.is_cancelled(),
            t.cancel(),
            t.reset(ms(1)),
            t.remaining(),
        ));
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(50));
    let job = jobs.take().pop().unwrap();
    thread::spawn(job).join().unwrap();
    assert_eq!(seen.take(), [(true, false, false, false, ms(0))]);
}

fn a_job_that_is_dropped_unrun_is_counted_and_its_task_dropped(kind: Kind) {
    logs::keep();
    let (clock, timer, jobs) = with_list(kind);
    let (guard, drops) = Guard::new();
    let timeout = timer.new_timeout(move |_| drop(guard), ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!((timer.stats().dropped_jobs, drops.len()), (0, 0));
    let lines = logs::of_this_thread(None).len();
    drop(jobs.take());
    assert_eq!((timer.stats().dropped_jobs, drops.len()), (1, 1));
    let logged = logs::of_this_thread(None).split_off(lines);
    let name = match kind {
        Kind::Hashed => "hashed-wheel-timer",
        Kind::Hierarchical => "hierarchical-wheel-timer",
    };
    assert_eq!(
        logged[0].text,
        format!("the executor of {name} dropped a job without running it")
    );
    assert_eq!((timer.stats().expired, timer.stats().panicked), (1, 0));
    assert!(timeout.is_expired() && !timeout.is_cancelled());
    assert_counts_add_up(&timer);
}

fn a_job_never_unwinds(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    for _ in 0..3 {
        timer.new_timeout(|_| panic!("on purpose"), ms(10)).unwrap();
    }
    clock.advance(ms(10));
    for (n, job) in jobs.take().into_iter().enumerate() {
        assert!(catch_unwind(AssertUnwindSafe(job)).is_ok());
        assert_eq!(timer.stats().panicked, n as u64 + 1);
    }
    assert_eq!((timer.stats().dropped_jobs, timer.stats().expired), (0, 3));
}

fn a_panic_in_the_executor_is_caught_and_counted(kind: Kind) {
    logs::keep();
    let clock = ManualClock::new();
    let calls = Count::new();
    let count = calls.clone();
    let text = format!("on purpose: the executor, {kind:?}");
    let message = text.clone();
    let executor = move |job: Job| {
        assert!(count.add() != 2, "{message}");
        job();
    };
    let timer = kind.builder().clock(&clock).executor(executor).build();
    let (runs, drops) = (Count::new(), Record::new());
    for _ in 0..3 {
        let (count, guard) = (runs.clone(), Guard::on(&drops));
        let task = move |_: &Timeout| {
            let _held = guard;
            count.add();
        };
        timer.new_timeout(task, ms(10)).unwrap();
    }
    clock.advance(ms(10));
    assert_eq!((calls.get(), runs.get(), drops.len()), (3, 2, 3));
    let s = timer.stats();
    assert_eq!((s.panicked, s.dropped_jobs, s.expired), (1, 1, 3));
    assert_eq!(logs::containing(&text).len(), 1);
    assert_counts_add_up(&timer);
}

fn an_executor_that_runs_inline_is_the_timer_thread(kind: Kind) {
    let timer = kind.builder().tick(ms(1)).executor(|job| job()).build();
    let (done, answer) = mpsc::channel();
    let task = move |t: &Timeout| {
        let refused = matches!(t.timer().stop(), Err(StopError::FromTimerThread));
        done.send(refused).unwrap();
    };
    timer.new_timeout(task, ms(1)).unwrap();
    assert!(recv(&answer));
    assert_eq!(timer.state(), TimerState::Started);
}

/// A real timer with a thread that runs its jobs.
fn with_thread(kind: Kind) -> Timer {
    let (submit, jobs) = mpsc::channel::<Job>();
    thread::spawn(move || jobs.into_iter().for_each(|job| job()));
    let executor = move |job| submit.send(job).unwrap();
    kind.builder().tick(ms(1)).executor(executor).build()
}

fn stop_may_be_called_from_another_thread_of_the_executor(kind: Kind) {
    let timer = with_thread(kind);
    timer.new_timeout(|_| {}, FAR).unwrap();
    let (done, answer) = mpsc::channel();
    let task = move |t: &Timeout| done.send(t.timer().stop().map(|left| left.len())).unwrap();
    timer.new_timeout(task, ms(1)).unwrap();
    assert!(matches!(recv(&answer), Ok(1)));
    assert_eq!(timer.state(), TimerState::Shutdown);
}

fn jobs_held_over_the_end_of_the_timer_still_run(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let runs = Count::new();
    let held = timer.new_timeout(runs.task(), ms(10)).unwrap();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(10));
    let mut jobs = jobs.take();
    assert!(
        timer.stop().unwrap().is_empty(),
        "what was handed over is not returned"
    );
    let handle = timer.handle();
    drop(timer);
    drop(jobs.pop());
    for job in jobs {
        job();
    }
    assert_eq!(runs.get(), 2);
    assert_eq!(
        (handle.stats().expired, handle.stats().dropped_jobs),
        (3, 1)
    );
    assert!(held.is_expired());
}

fn the_executor_may_call_the_timer(kind: Kind) {
    let clock = ManualClock::new();
    let jobs = Record::new();
    let handle = std::sync::Arc::new(std::sync::OnceLock::<hashed_wheel::TimerHandle>::new());
    let (list, inside) = (jobs.clone(), std::sync::Arc::clone(&handle));
    let executor = move |job: Job| {
        let timer = inside.get().unwrap();
        assert_eq!(timer.state(), TimerState::Started);
        assert!(timer.stop().is_err());
        assert!(timer.new_timeout(|_| {}, FAR).unwrap().cancel());
        list.push((timer.pending_timeouts(), timer.stats().dropped_jobs));
        job();
    };
    let timer = kind.builder().clock(&clock).executor(executor).build();
    handle.set(timer.handle()).unwrap();
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!((runs.get(), timer.stats().panicked), (1, 0));
    assert_eq!(jobs.take(), [(0, 0)]);
}

fn wakers_do_not_go_through_the_executor(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let (woken, waker) = common::poll::Wakes::new();
    let mut sleep = std::pin::pin!(timer.sleep(ms(10)));
    assert!(common::poll::poll_with(sleep.as_mut(), &waker).is_pending());
    clock.advance(ms(10));
    assert_eq!((woken.get(), jobs.len()), (1, 0));
    assert!(common::poll::poll_once(sleep).is_ready());
}

fn a_real_worker_hands_over_in_order_of_boundaries(kind: Kind) {
    let timer = with_thread(kind);
    let (done, order) = mpsc::channel();
    let send = |done: &Sender<u64>, n| {
        let done = done.clone();
        move |_: &Timeout| done.send(n).unwrap()
    };
    for n in 0..50 {
        timer.new_timeout(send(&done, n), ms(2 * n)).unwrap();
    }
    let order: Vec<_> = (0..50).map(|_| recv(&order)).collect();
    assert!(order.is_sorted(), "{order:?}");
    assert_eq!(timer.stats().expired, 50);
}

fn a_dropped_timeout_still_runs_through_the_executor(kind: Kind) {
    let (clock, timer, jobs) = with_list(kind);
    let runs = Count::new();
    let early = timer.new_timeout(runs.task(), ms(10)).unwrap();
    let late = timer.new_timeout(runs.task(), ms(10)).unwrap();
    drop(early);
    clock.advance(ms(10));
    drop(late);
    // Others take the places that have become free.
    for _ in 0..100 {
        assert!(timer.new_timeout(|_| {}, FAR).unwrap().cancel());
    }
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(runs.get(), 2);
}

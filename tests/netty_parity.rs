//! The fifteen tests of the original's test class, under its names: virtual time where time is all
//! that matters, the real worker where the worker is.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Count, FAR, Guard, Record, ms, now_ms, recv};
use hashed_wheel::{HashedWheelTimer, HashedWheelTimerBuilder, Job, ManualClock, RejectReason};
use hashed_wheel::{Rejected, TimerHandle, TimerState};

/// The default timer, in virtual time.
fn on_manual_clock() -> (ManualClock, HashedWheelTimer) {
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    (clock, timer)
}

fn with_limit_of_two() -> HashedWheelTimerBuilder {
    HashedWheelTimer::builder()
        .tick_duration(ms(100))
        .ticks_per_wheel(32)
        .max_pending_timeouts(2)
}

#[test]
fn schedule_timeout_should_not_run_before_delay() {
    let (clock, timer) = on_manual_clock();
    let runs = Count::new();
    let timeout = timer.new_timeout(runs.task(), ms(10_000)).unwrap();
    clock.advance(ms(3_000));
    assert_eq!(runs.get(), 0);
    assert!(!timeout.is_expired());
    assert_eq!(timer.stop().unwrap().len(), 1);
}

#[test]
fn schedule_timeout_should_run_after_delay() {
    let (clock, timer) = on_manual_clock();
    let runs = Count::new();
    let timeout = timer.new_timeout(runs.task(), ms(2_000)).unwrap();
    clock.advance(ms(3_000));
    assert_eq!(runs.get(), 1);
    assert!(timeout.is_expired());
    assert!(timer.stop().unwrap().is_empty());
}

#[test]
fn stop_timer() {
    let processed = HashedWheelTimer::default();
    let (done, signal) = mpsc::channel();
    for _ in 0..3 {
        let done = done.clone();
        processed
            .new_timeout(move |_| done.send(()).unwrap(), ms(1))
            .unwrap();
    }
    (0..3).for_each(|_| recv(&signal));
    assert!(processed.stop().unwrap().is_empty(), "all were processed");

    let (clock, unprocessed) = on_manual_clock();
    let runs = Count::new();
    for _ in 0..5 {
        unprocessed.new_timeout(runs.task(), ms(5_000)).unwrap();
    }
    clock.advance(ms(1_000));
    assert_eq!(unprocessed.stop().unwrap().len(), 5);
    assert_eq!(runs.get(), 0);
}

#[test]
fn timer_should_reject_new_timeouts_after_shutdown() {
    let timer = HashedWheelTimer::default();
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert_eq!(timer.state(), TimerState::Shutdown);
    let rejected = timer.new_timeout(|_| {}, ms(1)).unwrap_err();
    assert!(
        matches!(rejected.reason, RejectReason::Stopped),
        "{rejected}"
    );
}

#[test]
fn timer_overflow_wheel_length() {
    fn arm(timer: &TimerHandle, runs: &Count) {
        let again = runs.clone();
        let task = move |timeout: &hashed_wheel::Timeout| {
            arm(&timeout.timer(), &again);
            again.add();
        };
        timer.new_timeout(task, ms(100)).unwrap();
    }
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder()
        .tick_duration(ms(100))
        .ticks_per_wheel(32)
        .clock(&clock)
        .build()
        .unwrap();
    let runs = Count::new();
    arm(&timer.handle(), &runs);
    clock.advance(ms(300));
    assert_eq!(runs.get(), 3);
    assert_eq!(timer.stop().unwrap().len(), 1, "the fourth");
}

#[test]
fn execution_on_time() {
    const TASKS: usize = 100_000;
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder()
        .tick_duration(ms(200))
        .clock(&clock)
        .build()
        .unwrap();
    let elapsed = Record::new();
    for _ in 0..TASKS {
        let (elapsed, clock) = (elapsed.clone(), clock.clone());
        timer
            .new_timeout(move |_| elapsed.push(now_ms(&clock)), ms(125))
            .unwrap();
    }
    clock.advance(ms(650));
    let elapsed = elapsed.take();
    assert_eq!(elapsed.len(), TASKS);
    assert!(
        elapsed.iter().all(|ms| (125..650).contains(ms)),
        "{:?}",
        elapsed.last()
    );
}

#[test]
fn execution_on_time_in_real_time_is_never_early() {
    const TASKS: usize = 1_000;
    let timer = HashedWheelTimer::new(ms(200), 512);
    let (done, signal) = mpsc::channel();
    for _ in 0..TASKS {
        let done = done.clone();
        let start = Instant::now();
        timer
            .new_timeout(move |_| done.send(start.elapsed()).unwrap(), ms(125))
            .unwrap();
    }
    for _ in 0..TASKS {
        let elapsed = recv(&signal);
        assert!(elapsed >= ms(125), "{elapsed:?}");
    }
}

#[test]
fn execution_on_task_executor() {
    let (submit, jobs) = mpsc::channel::<Job>();
    let own_thread = thread::spawn(move || {
        let executed = Count::new();
        for job in jobs {
            executed.add();
            job();
        }
        executed.get()
    });
    let timer = with_limit_of_two()
        .executor(move |job| submit.send(job).unwrap())
        .build()
        .unwrap();
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(thread::current().id()).unwrap(), ms(10))
        .unwrap();
    assert_eq!(recv(&signal), own_thread.thread().id());
    drop(timer);
    assert_eq!(
        own_thread.join().unwrap(),
        1,
        "the dropped timer let go of its executor"
    );
}

#[test]
fn rejected_when_too_many_timeouts_are_added_back_to_back() {
    let timer = with_limit_of_two().build().unwrap();
    timer.new_timeout(|_| {}, ms(5_000)).unwrap();
    timer.new_timeout(|_| {}, ms(5_000)).unwrap();
    let Rejected { reason, .. } = timer.new_timeout(|_| {}, ms(1)).unwrap_err();
    assert!(
        matches!(reason, RejectReason::TooManyPending { max: 2 }),
        "{reason}"
    );
    assert_eq!(timer.pending_timeouts(), 2);
}

#[test]
fn accepted_again_when_an_existing_timeout_is_cancelled() {
    let timer = with_limit_of_two().build().unwrap();
    timer.new_timeout(|_| {}, FAR).unwrap();
    let second = timer.new_timeout(|_| {}, FAR).unwrap();
    assert!(second.cancel());
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(90))
        .unwrap();
    recv(&signal);
}

#[test]
fn accepted_again_when_an_existing_timeout_is_executed() {
    let timer = HashedWheelTimer::builder()
        .tick_duration(ms(25))
        .ticks_per_wheel(4)
        .max_pending_timeouts(2)
        .build()
        .unwrap();
    timer.new_timeout(|_| {}, FAR).unwrap();
    let (done, signal) = mpsc::channel();
    let again = done.clone();
    timer
        .new_timeout(move |_| done.send(1).unwrap(), ms(90))
        .unwrap();
    assert_eq!(recv(&signal), 1);
    timer
        .new_timeout(move |_| again.send(2).unwrap(), ms(90))
        .unwrap();
    assert_eq!(recv(&signal), 2);
}

#[test]
fn report_pending_timeouts() {
    let (clock, counted) = on_manual_clock();
    counted.new_timeout(|_| {}, FAR).unwrap();
    counted.new_timeout(|_| {}, FAR).unwrap();
    counted.new_timeout(|_| {}, ms(90)).unwrap();
    assert_eq!(counted.pending_timeouts(), 3);
    clock.advance(ms(100));
    assert_eq!(counted.pending_timeouts(), 2);

    let timer = HashedWheelTimer::default();
    let (done, signal) = mpsc::channel();
    let first = timer.new_timeout(|_| {}, FAR).unwrap();
    let second = timer.new_timeout(|_| {}, FAR).unwrap();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(90))
        .unwrap();
    assert!(first.cancel());
    assert!(second.cancel());
    recv(&signal);
    assert_eq!(timer.pending_timeouts(), 0, "at once");
}

#[test]
fn overflow() {
    let (clock, timer) = on_manual_clock();
    let runs = Count::new();
    let timeout = timer.new_timeout(runs.task(), Duration::MAX).unwrap();
    clock.advance(ms(1_000));
    assert_eq!(runs.get(), 0);
    assert!(timeout.cancel());
}

#[test]
fn stop_timer_cancels_pending_tasks() {
    let timer = HashedWheelTimer::default();
    for _ in 0..5 {
        timer
            .new_timeout(|_| panic!("must not run"), ms(5_000))
            .unwrap();
    }
    let unprocessed = timer.stop().unwrap();
    assert_eq!(unprocessed.len(), 5);
    assert!(unprocessed.iter().all(hashed_wheel::Timeout::is_cancelled));
}

#[test]
fn cancel_releases_the_task() {
    let timer = HashedWheelTimer::default();
    let (guard, drops) = Guard::new();
    let timeout = timer.new_timeout(move |_| drop(guard), ms(90_000)).unwrap();
    assert_eq!(drops.len(), 0);
    assert!(timeout.cancel());
    assert_eq!(drops.take(), [thread::current().id()]);
}

#[test]
fn pending_timeouts_counted_correctly_when_cancelled_within_goal_tick() {
    let timer = HashedWheelTimer::default();
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let (after, finished) = mpsc::channel();
    let blocker = move |_: &hashed_wheel::Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    timer.new_timeout(blocker, ms(200)).unwrap();
    let others: Vec<_> = (0..10)
        .map(|_| {
            timer
                .new_timeout(|_| panic!("must not run"), ms(200))
                .unwrap()
        })
        .collect();
    recv(&inside);
    assert!(others.iter().all(hashed_wheel::Timeout::cancel));
    assert_eq!(timer.pending_timeouts(), 0, "at once");
    drop(release);
    timer
        .new_timeout(move |_| after.send(()).unwrap(), ms(1))
        .unwrap();
    recv(&finished);
    assert_eq!(
        timer.pending_timeouts(),
        0,
        "and after the tick has passed over them"
    );
    assert_eq!(timer.stats().panicked, 0);
}

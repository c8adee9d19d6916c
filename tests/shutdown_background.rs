//! The end of an owner that waits for nobody.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{Count, FAR, Guard, Kind, eventually, in_thread, ms, on_both_timers, recv};
use hashed_wheel::{HashedWheelTimer, ManualClock, RejectReason, TimerState};

on_both_timers![
    it_does_not_wait_for_the_running_task,
    nothing_begins_after_it,
    what_was_pending_is_dropped_without_running,
    futures_end_with_their_error,
    it_ends_a_timer_that_never_started,
    it_ends_a_timer_that_is_being_stopped_without_waiting,
    on_a_manual_clock_it_is_done_when_it_returns,
];

fn it_does_not_wait_for_the_running_task(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let runs = Count::new();
    let count = runs.clone();
    let task = move |_: &_| {
        begun.send(()).unwrap();
        recv(&goes);
        count.add();
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    recv(&begins);
    // The task waits until this has returned.
    recv(&in_thread(move || timer.shutdown_background()));
    assert_eq!(handle.state(), TimerState::Shutdown);
    assert_eq!(runs.get(), 0);
    let rejected = handle.new_timeout(|_| {}, ms(1)).unwrap_err();
    assert!(matches!(rejected.reason, RejectReason::Stopped));
    go.send(()).unwrap();
    // Who wants to know waits.
    assert!(handle.stop().unwrap().is_empty());
    assert_eq!(
        (runs.get(), handle.stats().expired),
        (1, 1),
        "it ran to its end"
    );
}

fn nothing_begins_after_it(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let runs = Count::new();
    let task = move |_: &_| {
        begun.send(()).unwrap();
        recv(&goes);
    };
    let at = timer.now();
    timer.new_timeout_at(task, at).unwrap();
    recv(&begins);
    timer.new_timeout_at(runs.task(), at).unwrap();
    timer.shutdown_background();
    go.send(()).unwrap();
    assert!(handle.stop().unwrap().is_empty());
    let stats = handle.stats();
    assert_eq!((runs.get(), stats.expired, stats.unprocessed), (0, 1, 1));
}

fn what_was_pending_is_dropped_without_running(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    let (_, drops) = Guard::new();
    drops.take();
    let timeouts: Vec<_> = (0..100)
        .map(|_| {
            let held = Guard::on(&drops);
            timer.new_timeout(move |_| drop(held), FAR).unwrap()
        })
        .collect();
    timer.shutdown_background();
    eventually("the tasks are dropped", || drops.len() == 100);
    handle.stop().unwrap();
    assert!(timeouts.iter().all(hashed_wheel::Timeout::is_cancelled));
    assert!(timeouts.iter().all(|timeout| timeout.take_task().is_none()));
    let stats = handle.stats();
    assert_eq!((stats.unprocessed, stats.pending), (100, 0));
    let here = thread::current().id();
    assert!(drops.take().iter().all(|thread| *thread != here));
}

fn futures_end_with_their_error(kind: Kind) {
    let timer = kind.real(ms(1));
    let mut sleep = Box::pin(timer.sleep(FAR));
    assert!(common::poll::poll_once(sleep.as_mut()).is_pending());
    timer.shutdown_background();
    let ended = common::poll::block_on(sleep);
    assert!(matches!(ended, Err(RejectReason::Stopped)));
}

fn it_ends_a_timer_that_never_started(kind: Kind) {
    let timer = kind.real(ms(1));
    let handle = timer.handle();
    timer.shutdown_background();
    assert_eq!(handle.state(), TimerState::Shutdown);
    assert!(handle.stop().unwrap().is_empty());
}

fn it_ends_a_timer_that_is_being_stopped_without_waiting(kind: Kind) {
    let timer = kind.real(ms(1));
    let ((begun, begins), (go, goes)) = (mpsc::channel(), mpsc::channel::<()>());
    let task = move |_: &_| {
        begun.send(()).unwrap();
        recv(&goes);
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    let left = timer.new_timeout(|_| {}, FAR).unwrap();
    recv(&begins);
    let handle = timer.handle();
    let stopping = handle.clone();
    let stopped = in_thread(move || stopping.stop().unwrap().len());
    eventually("it is being stopped", || {
        handle.state() == TimerState::Shutdown
    });
    recv(&in_thread(move || timer.shutdown_background()));
    go.send(()).unwrap();
    assert_eq!(recv(&stopped), 1, "who stops gets what was pending");
    assert!(left.is_cancelled());
}

fn on_a_manual_clock_it_is_done_when_it_returns(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let handle = timer.handle();
    let (held, drops) = Guard::new();
    timer.new_timeout(move |_| drop(held), ms(50)).unwrap();
    timer.new_timeout(runs.task(), ms(50)).unwrap();
    timer.shutdown_background();
    assert_eq!(drops.len(), 1);
    assert_eq!(
        (handle.pending_timeouts(), handle.stats().unprocessed),
        (0, 2)
    );
    clock.advance(ms(100));
    assert_eq!(runs.get(), 0);
}

#[test]
fn a_task_ends_its_own_timer() {
    let timer = HashedWheelTimer::new(ms(1), 64);
    let handle = timer.handle();
    let (told, heard) = mpsc::channel();
    let (owner, owners) = mpsc::channel::<HashedWheelTimer>();
    let task = move |_: &_| {
        recv(&owners).shutdown_background();
        told.send(()).unwrap();
    };
    timer.new_timeout(task, Duration::ZERO).unwrap();
    owner.send(timer).unwrap();
    recv(&heard);
    assert_eq!(handle.state(), TimerState::Shutdown);
    handle.stop().unwrap();
}

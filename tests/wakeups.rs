//! An idle worker sleeps, whatever is pending, and wakes for what comes earlier.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{FAR, Kind, Timer, ms, on_both_timers, recv};
use hashed_wheel::Timeout;

on_both_timers![
    nothing_pending_means_no_wake_up,
    one_far_timeout_means_no_wake_up,
    a_million_far_timeouts_mean_no_wake_up,
    a_new_earlier_timeout_wakes_the_worker,
    a_reset_to_earlier_wakes_the_worker,
    cancel_never_wakes_the_worker,
    a_reset_to_later_never_wakes_the_worker,
    a_cancelled_plan_costs_at_most_one_wake_up,
    a_queue_that_fills_within_one_tick_takes_everything,
];

/// How long an idle worker is watched.
const WATCH: Duration = ms(300);

/// How long the worker has not woken when it counts as asleep: on a busy machine it may be that long on its way to sleep.
const SETTLED: Duration = ms(150);

/// The number of wake-ups after the worker has gone to sleep: a worker that ticks never gets here.
fn settled(timer: &Timer) -> u64 {
    let start = Instant::now();
    loop {
        let before = timer.stats().wakeups;
        thread::sleep(SETTLED);
        if timer.stats().wakeups == before {
            return before;
        }
        assert!(
            start.elapsed() < common::WATCHDOG,
            "the worker never comes to rest"
        );
    }
}

fn assert_sleeps(timer: &Timer) {
    let before = settled(timer);
    thread::sleep(WATCH);
    assert_eq!(timer.stats().wakeups, before, "woken without work");
}

fn with_far_timeouts(kind: Kind, n: u64) -> Timer {
    let timer = kind.builder().buckets(64).tick(ms(1)).build();
    timer.start().unwrap();
    for i in 0..n {
        timer.new_timeout(|_| {}, FAR + ms(i % 1_000)).unwrap();
    }
    timer
}

fn nothing_pending_means_no_wake_up(kind: Kind) {
    assert_sleeps(&with_far_timeouts(kind, 0));
}

fn one_far_timeout_means_no_wake_up(kind: Kind) {
    assert_sleeps(&with_far_timeouts(kind, 1));
}

fn a_million_far_timeouts_mean_no_wake_up(kind: Kind) {
    let timer = with_far_timeouts(kind, 1_000_000);
    assert_sleeps(&timer);
    assert_eq!(timer.pending_timeouts(), 1_000_000);
    assert_eq!((timer.stats().expired, timer.stats().passed_over), (0, 0));
}

fn a_new_earlier_timeout_wakes_the_worker(kind: Kind) {
    let timer = with_far_timeouts(kind, 10);
    for delay in [ms(20), ms(5), ms(0)] {
        let before = settled(&timer);
        let (done, signal) = mpsc::channel();
        timer
            .new_timeout(move |_| done.send(()).unwrap(), delay)
            .unwrap();
        recv(&signal);
        assert!(timer.stats().wakeups > before);
    }
    assert_sleeps(&timer);
}

fn a_reset_to_earlier_wakes_the_worker(kind: Kind) {
    let timer = with_far_timeouts(kind, 10);
    let (done, signal) = mpsc::channel();
    let timeout = timer
        .new_timeout(move |_| done.send(()).unwrap(), FAR)
        .unwrap();
    settled(&timer);
    assert!(timeout.reset(ms(5)));
    recv(&signal);
    assert_sleeps(&timer);
}

fn cancel_never_wakes_the_worker(kind: Kind) {
    let timer = kind.real(ms(1));
    let held: Vec<_> = (0..2_000)
        .map(|_| timer.new_timeout(|_| {}, FAR).unwrap())
        .collect();
    let before = settled(&timer);
    assert!(held.iter().all(Timeout::cancel));
    drop(held);
    thread::sleep(WATCH);
    assert_eq!(timer.stats().wakeups, before);
}

fn a_reset_to_later_never_wakes_the_worker(kind: Kind) {
    let timer = kind.real(ms(1));
    let timeout = timer.new_timeout(|_| {}, FAR).unwrap();
    let before = settled(&timer);
    for n in 0..1_000 {
        assert!(timeout.reset(FAR + ms(10 * n)));
    }
    thread::sleep(WATCH);
    assert_eq!(timer.stats().wakeups, before);
}

fn a_cancelled_plan_costs_at_most_one_wake_up(kind: Kind) {
    let timer = with_far_timeouts(kind, 10);
    settled(&timer);
    // Long enough ahead that the worker has gone back to sleep with it when it is cancelled.
    let timeout = timer.new_timeout(|_| {}, ms(800)).unwrap();
    let before = settled(&timer);
    if timeout.cancel() {
        thread::sleep(ms(1000));
        let woken = settled(&timer) - before;
        // On the hierarchy the plan may be for a bucket on the way down: still one plan.
        assert!(
            woken <= 1,
            "{woken} wake-ups for a timeout that was cancelled"
        );
    }
}

fn a_queue_that_fills_within_one_tick_takes_everything(kind: Kind) {
    let timer = kind.real(FAR);
    for n in 0..100_000 {
        let timeout = timer.new_timeout(|_| {}, ms(n)).unwrap();
        if n % 2 == 0 {
            assert!(timeout.cancel());
        }
    }
    assert_eq!(timer.pending_timeouts(), 50_000);
    assert_eq!(timer.stop().unwrap().len(), 50_000);
}

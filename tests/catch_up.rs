//! A worker that was held up catches up in order, and no number of ticks makes the clock drift.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Kind, Record, Timer, in_thread, ms, now_ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, Timeout, TimerHandle};

on_both_timers![
    a_held_up_worker_runs_every_missed_boundary_in_order,
    what_was_added_while_the_worker_was_held_up_is_not_lost,
    lateness_and_the_longest_task_are_measured,
    a_chain_of_timeouts_does_not_drift,
    a_chain_off_the_boundaries_rounds_up_each_time,
    real_boundaries_do_not_creep_forward,
    a_task_that_blocks_a_manual_clock_makes_nobody_late,
];

/// A real timer whose worker stays inside a task until the sender is dropped.
fn held_up(kind: Kind, tick: Duration) -> (Timer, mpsc::Sender<()>) {
    let timer = kind.real(tick);
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let task = move |_: &Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    timer.new_timeout(task, ms(0)).unwrap();
    recv(&inside);
    (timer, release)
}

fn a_held_up_worker_runs_every_missed_boundary_in_order(kind: Kind) {
    const TICK: Duration = ms(2);
    let timer = kind.real(TICK);
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let (done, order) = mpsc::channel();
    let blocker = move |_: &Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    timer.new_timeout(blocker, ms(20)).unwrap();
    // The latest first. Between which two moments each deadline lies, the caller can tell.
    for n in (1..=20_u32).rev() {
        let done = done.clone();
        let delay = ms(100) + ms(5) * n;
        let earliest = Instant::now() + delay;
        let (tell, told) = mpsc::channel();
        let task = move |_: &Timeout| done.send((earliest, told.recv().unwrap())).unwrap();
        timer.new_timeout(task, delay).unwrap();
        tell.send(Instant::now() + delay).unwrap();
    }
    recv(&inside);
    // Long enough that all of them are due when the worker is let go.
    thread::sleep(ms(220));
    assert!(order.try_recv().is_err(), "the worker is held up");
    drop(release);
    let order: Vec<_> = (0..20).map(|_| recv(&order)).collect();
    for (n, (earliest, _)) in order.iter().enumerate() {
        for (_, latest) in &order[n + 1..] {
            assert!(*latest + TICK >= *earliest, "a later boundary ran first");
        }
    }
}

fn what_was_added_while_the_worker_was_held_up_is_not_lost(kind: Kind) {
    let (timer, release) = held_up(kind, ms(1));
    let (done, order) = mpsc::channel();
    for n in 0..50_u64 {
        let done = done.clone();
        timer
            .new_timeout(move |_| done.send(n).unwrap(), ms(n * 2))
            .unwrap();
    }
    drop(release);
    let order: Vec<_> = (0..50).map(|_| recv(&order)).collect();
    assert!(
        order.is_sorted(),
        "each has a boundary of its own: {order:?}"
    );
}

fn lateness_and_the_longest_task_are_measured(kind: Kind) {
    let (timer, release) = held_up(kind, ms(1));
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(1))
        .unwrap();
    // The lateness to be measured.
    thread::sleep(ms(60));
    drop(release);
    recv(&signal);
    let stats = timer.stats();
    assert!(stats.longest_task >= ms(60), "{:?}", stats.longest_task);
    // Its boundary lies at most two ticks after the call.
    assert!(stats.max_lateness >= ms(57), "{:?}", stats.max_lateness);
}

fn chain(timer: &TimerHandle, seen: &Record<u64>, clock: &ManualClock, step: Duration) {
    let (seen, clock) = (seen.clone(), clock.clone());
    let task = move |t: &Timeout| {
        seen.push(now_ms(&clock));
        chain(&t.timer(), &seen, &clock, step);
    };
    timer.new_timeout(task, step).unwrap();
}

fn a_chain_of_timeouts_does_not_drift(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    chain(&timer, &seen, &clock, ms(10));
    for part in [1, 3, 7, 89, 900, 9_000, 90_000] {
        clock.advance(ms(part));
    }
    assert_eq!(now_ms(&clock), 100_000);
    let expected: Vec<_> = (1..=10_000).map(|n| n * 10).collect();
    assert_eq!(seen.take(), expected);
}

fn a_chain_off_the_boundaries_rounds_up_each_time(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    chain(&timer, &seen, &clock, ms(11));
    clock.advance(ms(20_000));
    let expected: Vec<_> = (1..=1_000).map(|n| n * 20).collect();
    assert_eq!(seen.take(), expected);
}

fn real_boundaries_do_not_creep_forward(kind: Kind) {
    // A worker that slept a tick at a time would come ever later, one that counted short sleeps
    // ever earlier. Earlier is what a test can tell in real time.
    let timer = kind.real(ms(2));
    let (done, moments) = mpsc::channel();
    let start = Instant::now();
    let task = move |_: &Timeout| {
        let _ = done.send(start.elapsed());
    };
    let periodic = timer
        .new_periodic(task, ms(2), Period::FixedRate(ms(2)))
        .unwrap();
    for n in 1..=150 {
        let elapsed = recv(&moments);
        assert!(elapsed >= ms(2) * n, "run {n} came after {elapsed:?}");
    }
    assert!(periodic.cancel());
}

fn a_task_that_blocks_a_manual_clock_makes_nobody_late(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let (release, gate) = mpsc::channel::<()>();
    let blocker = move |_: &Timeout| {
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    timer.new_timeout(blocker, ms(10)).unwrap();
    for n in (1..=20_u64).rev() {
        timer
            .new_timeout(common::noting(&seen, &clock, n * 10), ms(n * 10))
            .unwrap();
    }
    let other = clock.clone();
    let advanced = in_thread(move || other.advance(ms(200)));
    assert!(
        advanced.recv_timeout(ms(30)).is_err(),
        "advance runs the tasks before it returns"
    );
    drop(release);
    recv(&advanced);
    let mut seen = seen.take();
    assert_eq!(seen.len(), 20);
    assert!(seen.iter().all(|(due, fired)| due == fired), "{seen:?}");
    seen.dedup();
    assert!(seen.is_sorted());
}

//! The numbers for operators: lateness, slow tasks, backlog, dead entries and bytes.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use common::{FAR, Kind, Rng, assert_counts_add_up, eventually, ms, on_both_timers, recv};
use hashed_wheel::{Lateness, ManualClock, Period, Stats};

on_both_timers![
    lateness_is_that_of_a_model,
    periodic_runs_and_futures_are_late_too,
    a_task_slower_than_a_tick_is_counted_wherever_it_runs,
    on_a_manual_clock_no_task_is_slow,
    the_backlog_falls_by_what_a_boundary_may_move,
    what_cancelled_timeouts_leave_behind_is_dead_until_it_is_met,
    a_stopped_timer_holds_no_entries,
    an_empty_wheel_holds_its_table,
    a_snapshot_adds_up_while_other_threads_work,
];

/// What a histogram may say of this value.
fn is_within_bound(told: Duration, exact: Duration) -> bool {
    told >= exact && told < exact + (exact / 8).max(Duration::from_nanos(1024))
}

fn lateness_is_that_of_a_model(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let (mut rng, mut model) = (Rng(5), Vec::new());
    for _ in 0..1000 {
        let now = clock.now();
        let delay = Duration::from_nanos(rng.below(300_000_000));
        timer.new_timeout(|_| {}, delay).unwrap();
        // The first boundary of 10 ms at or after the deadline that has not been processed.
        let deadline = (now + delay).as_nanos() as u64;
        let boundary = deadline.next_multiple_of(10_000_000);
        let coming = (now.as_nanos() as u64 / 10_000_000 + 1) * 10_000_000;
        model.push(boundary.max(coming) - deadline);
        clock.advance(Duration::from_nanos(rng.below(3_000_000)));
    }
    clock.advance(ms(300));
    model.sort_unstable();
    let Stats {
        lateness,
        max_lateness,
        expired,
        ..
    } = timer.stats();
    assert_eq!((lateness.count(), expired), (1000, 1000));
    let exact = |place: usize| Duration::from_nanos(model[place - 1]);
    assert_eq!([lateness.max(), max_lateness], [exact(1000); 2]);
    for (told, place) in [
        (lateness.p50(), 500),
        (lateness.p90(), 900),
        (lateness.p99(), 990),
        (lateness.quantile(0.999), 999),
    ] {
        assert!(
            is_within_bound(told, exact(place)),
            "{place}: {told:?}, {:?}",
            exact(place)
        );
    }
}

fn periodic_runs_and_futures_are_late_too(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let period = Period::FixedRate(ms(15));
    timer.new_periodic(|_| {}, ms(15), period).unwrap();
    let mut sleep = Box::pin(timer.sleep(ms(42)));
    assert!(common::poll::poll_once(sleep.as_mut()).is_pending());
    clock.advance(ms(60));
    // 15, 30, 45 and 60, and the sleep of 42: at 20, 30, 50, 60 and 50.
    let lateness = timer.stats().lateness;
    assert_eq!((lateness.count(), lateness.max()), (5, ms(8)));
    let late: u64 = lateness
        .buckets()
        .filter(|(latest, _)| *latest > ms(4))
        .map(|(_, runs)| runs)
        .sum();
    assert_eq!(late, 3);
}

fn a_task_slower_than_a_tick_is_counted_wherever_it_runs(kind: Kind) {
    let on_thread = kind.real(ms(2));
    let elsewhere = kind
        .builder()
        .tick(ms(2))
        .executor(|job| drop(thread::spawn(job)))
        .build();
    for timer in [on_thread, elsewhere] {
        let (done, ended) = mpsc::channel();
        let again = done.clone();
        timer
            .new_timeout(
                move |_| {
                    // Longer than a tick; the same below.
                    thread::sleep(ms(20));
                    done.send(()).unwrap();
                },
                ms(0),
            )
            .unwrap();
        let period = Period::FixedDelay(ms(0));
        let slow = move |_: &_| {
            thread::sleep(ms(20));
            let _ = again.send(());
        };
        timer.new_periodic(slow, ms(0), period).unwrap();
        recv(&ended);
        recv(&ended);
        eventually("both are counted", || timer.stats().slow_tasks >= 2);
        assert!(timer.stats().longest_task >= ms(20));
    }
}

fn on_a_manual_clock_no_task_is_slow(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer
        .new_timeout(|_| thread::sleep(ms(15)), ms(10))
        .unwrap();
    clock.advance(ms(10));
    let stats = timer.stats();
    assert_eq!((stats.expired, stats.slow_tasks), (1, 0));
}

fn the_backlog_falls_by_what_a_boundary_may_move(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_transfers(30).clock(&clock).build();
    for _ in 0..100 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    for (queued, filed) in [(100, 0), (70, 30), (40, 60), (10, 90), (0, 100), (0, 100)] {
        let stats = timer.stats();
        assert_eq!((stats.queued, stats.filed, stats.dead), (queued, filed, 0));
        clock.advance(ms(10));
    }
}

fn what_cancelled_timeouts_leave_behind_is_dead_until_it_is_met(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let timeouts: Vec<_> = (0..100)
        .map(|n| timer.new_timeout(|_| {}, ms(50 + n)).unwrap())
        .collect();
    for timeout in &timeouts[..30] {
        timeout.cancel();
    }
    let dead = || timer.stats().dead;
    assert_eq!(dead(), 30);
    clock.advance(ms(10));
    assert_eq!(dead(), 0, "dead entries are not filed");
    for timeout in &timeouts[30..70] {
        timeout.cancel();
    }
    assert_eq!(dead(), 40, "in the wheel");
    // Moved to an earlier time: an entry is left behind.
    assert!(timeouts[99].reset(ms(20)));
    assert_eq!(dead(), 41);
    clock.advance(ms(200));
    let stats = timer.stats();
    assert_eq!((stats.dead, stats.filed, stats.pending), (0, 0, 0));
    assert_counts_add_up(&timer);
}

fn a_stopped_timer_holds_no_entries(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for _ in 0..50 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    clock.advance(ms(10));
    timer.new_timeout(|_| {}, FAR).unwrap().cancel();
    let stats = timer.stats();
    assert_eq!((stats.queued, stats.filed, stats.dead), (1, 50, 1));
    assert!(stats.bytes > 50 * 64);
    drop(timer.stop().unwrap());
    let stats = timer.stats();
    assert_eq!((stats.queued, stats.filed, stats.dead), (0, 0, 0));
    assert_eq!((stats.unprocessed, stats.pending), (50, 0));
}

fn an_empty_wheel_holds_its_table(kind: Kind) {
    let small = kind
        .builder()
        .buckets(64)
        .clock(&ManualClock::new())
        .build();
    let large = kind.builder().buckets(1 << 20);
    let large = large.clock(&ManualClock::new()).build();
    // At least a pointer for each group of 64 buckets, less what the small one has: 128 KiB on 64 bits.
    let grown = large.stats().bytes - small.stats().bytes;
    assert!(grown > 15_000 * size_of::<usize>() as u64, "{grown}");
}

fn a_snapshot_adds_up_while_other_threads_work(kind: Kind) {
    let timer = kind.real(ms(1));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    timer.new_timeout(|_| {}, ms(1)).unwrap();
                    timer.new_timeout(|_| {}, FAR).unwrap().cancel();
                }
            });
        }
        for _ in 0..2000 {
            let s = timer.stats();
            assert_eq!(
                s.scheduled,
                s.expired + s.cancelled + s.unprocessed + s.pending
            );
        }
        over.store(true, Ordering::Relaxed);
    });
    eventually("all have fired", || timer.pending_timeouts() == 0);
    assert_counts_add_up(&timer);
}

#[test]
fn a_snapshot_can_be_compared_copied_and_printed() {
    let timer = Kind::Hashed.on(&ManualClock::new());
    let stats = timer.stats();
    assert_eq!(stats, stats.clone());
    assert_eq!(stats.lateness, Lateness::default());
    let text = format!("{stats:?}");
    assert!(text.contains("lateness: Lateness { count: 0"), "{text}");
    assert!(text.len() < 1000, "not 256 counters: {text}");
}

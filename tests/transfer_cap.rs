//! How much moves from the queue to the wheel at a boundary, and what order survives it.

mod common;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

use common::{Count, Kind, Record, assert_counts_add_up, ms, noting, on_both_timers, recv};
use hashed_wheel::{ManualClock, Timeout};

on_both_timers![
    the_cap_delays_what_it_leaves_behind_by_whole_boundaries,
    a_backlog_is_filed_before_it_is_due_where_time_allows,
    cancelled_entries_are_not_charged,
    cancelled_entries_alone_never_delay_a_live_one,
    one_more_than_a_hundred_thousand_takes_two_boundaries,
    what_tasks_add_is_charged_to_the_next_boundary,
    several_threads_share_the_cap,
    a_real_worker_under_a_small_cap_gets_everything_done,
];

/// How many fired at each time.
fn histogram<T>(seen: &Record<(T, u64)>) -> Vec<(u64, usize)> {
    let mut counts = BTreeMap::new();
    for (_, at) in seen.take() {
        *counts.entry(at).or_default() += 1;
    }
    counts.into_iter().collect()
}

fn the_cap_delays_what_it_leaves_behind_by_whole_boundaries(kind: Kind) {
    for single_jump in [true, false] {
        let (clock, seen) = (ManualClock::new(), Record::new());
        let timer = kind.builder().max_transfers(3).clock(&clock).build();
        for n in 0..10 {
            timer.new_timeout(noting(&seen, &clock, n), ms(0)).unwrap();
        }
        if single_jump {
            clock.advance(ms(1_000));
        } else {
            for boundary in 1..=4 {
                clock.advance(ms(10));
                assert_eq!(timer.stats().transferred, (boundary * 3).min(10));
            }
        }
        assert_eq!(histogram(&seen), [(10, 3), (20, 3), (30, 3), (40, 1)]);
        assert_eq!((timer.stats().transferred, timer.stats().wakeups), (10, 4));
        assert_counts_add_up(&timer);
    }
}

fn a_backlog_is_filed_before_it_is_due_where_time_allows(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(3).clock(&clock).build();
    for n in 0..10 {
        timer.new_timeout(noting(&seen, &clock, n), ms(30)).unwrap();
    }
    clock.advance(ms(20));
    assert_eq!(
        timer.stats().transferred,
        6,
        "three at 10 ms and three at 20 ms"
    );
    clock.advance(ms(80));
    assert_eq!(histogram(&seen), [(30, 9), (40, 1)]);
}

fn cancelled_entries_are_not_charged(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(3).clock(&clock).build();
    let held: Vec<_> = (0..40)
        .map(|n| timer.new_timeout(noting(&seen, &clock, n), ms(0)).unwrap())
        .collect();
    // Four of five: eight stay alive, which is two full boundaries and a rest.
    let dead = held.iter().enumerate().filter(|(n, _)| n % 5 != 0);
    assert!(dead.map(|(_, t)| t).all(Timeout::cancel));
    clock.advance(ms(100));
    assert_eq!(histogram(&seen), [(10, 3), (20, 3), (30, 2)]);
    assert_eq!(timer.stats().transferred, 8);
}

fn cancelled_entries_alone_never_delay_a_live_one(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(1).clock(&clock).build();
    for _ in 0..20_000 {
        assert!(timer.new_timeout(|_| {}, ms(10)).unwrap().cancel());
    }
    timer
        .new_timeout(noting(&seen, &clock, 'x'), ms(10))
        .unwrap();
    clock.advance(ms(10));
    assert_eq!(seen.take(), [('x', 10)]);
    assert_eq!(timer.stats().transferred, 1);
}

fn one_more_than_a_hundred_thousand_takes_two_boundaries(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    for n in 0..100_001_u32 {
        timer.new_timeout(noting(&seen, &clock, n), ms(0)).unwrap();
    }
    clock.advance(ms(10));
    assert_eq!((seen.len(), timer.pending_timeouts()), (100_000, 1));
    clock.advance(ms(10));
    assert_eq!((seen.len(), timer.pending_timeouts()), (100_001, 0));
}

#[test]
fn one_threads_order_is_kept_when_the_queue_overflows() {
    const ADDS: u64 = 250_000;
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed
        .builder()
        .max_transfers(60_000)
        .clock(&clock)
        .build();
    let add = |n, delay| {
        timer
            .new_timeout(noting(&seen, &clock, n), ms(delay))
            .is_ok()
    };
    assert!((0..ADDS / 2).all(|n| add(n, 100)));
    // In between some of the queue is taken, so that ring and overflow both hold a part.
    clock.advance(ms(10));
    assert!((ADDS / 2..ADDS).all(|n| add(n, 90)));
    clock.advance(ms(90));
    let seen = seen.take();
    assert_eq!(seen.len() as u64, ADDS);
    assert!(
        seen.iter()
            .zip(0..)
            .all(|((n, at), expected)| *n == expected && *at == 100)
    );
}

#[test]
fn order_is_kept_when_the_cap_cuts_a_burst() {
    const ADDS: u64 = 30_000;
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed
        .builder()
        .max_transfers(7_000)
        .clock(&clock)
        .build();
    for n in 0..ADDS {
        timer.new_timeout(noting(&seen, &clock, n), ms(0)).unwrap();
    }
    clock.advance(ms(100));
    let order: Vec<_> = seen.take();
    let expected = (0..ADDS).map(|n| (n, (n / 7_000 + 1) * 10));
    assert!(order.into_iter().eq(expected));
}

#[test]
fn order_is_kept_by_a_real_worker_that_was_held_up() {
    const ADDS: u64 = 100_000;
    let timer = Kind::Hashed
        .builder()
        .tick(ms(1))
        .max_transfers(10_000)
        .build();
    let (entered, inside) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let blocker = move |_: &Timeout| {
        entered.send(()).unwrap();
        let _ = gate.recv_timeout(common::WATCHDOG);
    };
    timer.new_timeout(blocker, ms(0)).unwrap();
    recv(&inside);
    let seen = Record::new();
    for n in 0..ADDS {
        let seen = seen.clone();
        timer.new_timeout(move |_| seen.push(n), ms(0)).unwrap();
    }
    drop(release);
    common::eventually("all have run", || seen.len() as u64 == ADDS);
    assert!(
        seen.take().is_sorted(),
        "later calls have later deadlines, and ties keep their order"
    );
}

fn what_tasks_add_is_charged_to_the_next_boundary(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(2).clock(&clock).build();
    let (record, time) = (seen.clone(), clock.clone());
    let task = move |t: &Timeout| {
        for n in 0..5 {
            t.timer()
                .new_timeout(noting(&record, &time, n), ms(0))
                .unwrap();
        }
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(histogram(&seen), [(20, 2), (30, 2), (40, 1)]);
}

fn several_threads_share_the_cap(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(10).clock(&clock).build();
    timer.start().unwrap();
    thread::scope(|scope| {
        for thread in 0..8 {
            let (timer, clock, seen) = (&timer, &clock, &seen);
            scope.spawn(move || {
                for n in 0..10 {
                    timer
                        .new_timeout(noting(seen, clock, (thread, n)), ms(0))
                        .unwrap();
                }
            });
        }
    });
    clock.advance(ms(1_000));
    let expected: Vec<_> = (1..=8).map(|boundary| (boundary * 10, 10)).collect();
    assert_eq!(histogram(&seen), expected);
}

fn a_real_worker_under_a_small_cap_gets_everything_done(kind: Kind) {
    let timer = kind.builder().tick(ms(1)).max_transfers(100).build();
    let runs = Count::new();
    for _ in 0..5_000 {
        timer.new_timeout(runs.task(), ms(1)).unwrap();
    }
    common::eventually("all have run", || runs.get() == 5_000);
    // However long it takes: what was copied to the wheel is not moved again when it is 200 ms old.
    assert_eq!(timer.stats().transferred, 5_000);
    assert_counts_add_up(&timer);
}

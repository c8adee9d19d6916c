//! The limit on pending timeouts: exact, never overshot, and free again in time for a successor.

mod common;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

use common::{Count, FAR, Kind, assert_counts_add_up, ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, RejectReason, Timeout, TimerHandle};

on_both_timers![
    the_limit_is_exact_and_the_task_comes_back,
    a_cancelled_or_fired_timeout_makes_room,
    a_full_limit_is_never_overshot_by_eight_threads,
    adding_and_cancelling_on_eight_threads_never_overshoots,
    a_task_schedules_its_successor_under_a_full_limit,
    the_real_worker_makes_room_before_the_task_runs,
    a_periodic_task_takes_one_place,
    without_a_limit_there_is_none,
];

fn the_limit_is_exact_and_the_task_comes_back(kind: Kind) {
    let timer = kind
        .builder()
        .max_pending(3)
        .clock(&ManualClock::new())
        .build();
    for _ in 0..3 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    let runs = Count::new();
    let mut task = runs.task();
    for n in 1..=5 {
        let rejected = timer.new_timeout(task, FAR).unwrap_err();
        assert!(
            matches!(rejected.reason, RejectReason::TooManyPending { max: 3 }),
            "{rejected}"
        );
        assert!(rejected.to_string().contains('3'), "{rejected}");
        assert_eq!((timer.pending_timeouts(), timer.stats().rejected), (3, n));
        task = rejected.task;
    }
    assert_counts_add_up(&timer);
    let left = timer.stop().unwrap();
    assert_eq!((left.len(), runs.get()), (3, 0));
    task(&left[0]);
    assert_eq!(runs.get(), 1, "it came back whole");
}

fn a_cancelled_or_fired_timeout_makes_room(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(2).clock(&clock).build();
    for _ in 0..100 {
        let first = timer.new_timeout(|_| {}, ms(10)).unwrap();
        timer.new_timeout(|_| {}, ms(10)).unwrap();
        assert!(timer.new_timeout(|_| {}, ms(10)).is_err());
        assert!(first.cancel());
        timer.new_timeout(|_| {}, ms(10)).unwrap();
        assert!(timer.new_timeout(|_| {}, ms(10)).is_err());
        clock.advance(ms(10));
        assert_eq!(timer.pending_timeouts(), 0);
    }
    assert_eq!(
        (timer.stats().cancelled, timer.stats().rejected),
        (100, 200)
    );
}

fn a_full_limit_is_never_overshot_by_eight_threads(kind: Kind) {
    const LIMIT: usize = 100;
    for _ in 0..20 {
        let timer = kind
            .builder()
            .max_pending(LIMIT)
            .clock(&ManualClock::new())
            .build();
        let barrier = Barrier::new(8);
        let accepted: usize = thread::scope(|scope| {
            let add = || {
                barrier.wait();
                (0..50)
                    .filter(|_| timer.new_timeout(|_| {}, FAR).is_ok())
                    .count()
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(add)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!(accepted, LIMIT, "not one more, not one less");
        assert_eq!(timer.pending_timeouts(), LIMIT);
        assert_eq!(timer.stats().rejected, (8 * 50 - LIMIT) as u64);
    }
}

fn adding_and_cancelling_on_eight_threads_never_overshoots(kind: Kind) {
    const LIMIT: usize = 4;
    let timer = kind.builder().max_pending(LIMIT).tick(ms(1)).build();
    // What a thread holds is counted after it was accepted and until before it is cancelled.
    let held = AtomicUsize::new(0);
    let (accepted, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (over, seen_over) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    if let Ok(timeout) = timer.new_timeout(|_| {}, FAR) {
                        accepted.fetch_add(1, Ordering::Relaxed);
                        let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                        let seen = timer.pending_timeouts();
                        over.fetch_or(now > LIMIT, Ordering::SeqCst);
                        seen_over.fetch_max(seen, Ordering::SeqCst);
                        thread::yield_now();
                        held.fetch_sub(1, Ordering::SeqCst);
                        assert!(timeout.cancel());
                    } else {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert!(!over.into_inner(), "more than {LIMIT} were held at once");
    let seen = seen_over.into_inner();
    assert!(seen <= LIMIT, "{seen} were reported pending");
    let s = timer.stats();
    assert_eq!(s.scheduled, accepted.into_inner() as u64);
    assert_eq!(
        (s.cancelled, s.rejected),
        (s.scheduled, refused.into_inner() as u64)
    );
    assert_eq!(timer.pending_timeouts(), 0);
}

fn chain(timer: &TimerHandle, runs: &Count, left: usize) {
    let count = runs.clone();
    let task = move |t: &Timeout| {
        count.add();
        if left > 0 {
            chain(&t.timer(), &count, left - 1);
        }
    };
    timer.new_timeout(task, ms(10)).unwrap();
}

fn a_task_schedules_its_successor_under_a_full_limit(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    let runs = Count::new();
    chain(&timer, &runs, 50);
    clock.advance(ms(500));
    assert_eq!(runs.get(), 50);
    assert_eq!(timer.pending_timeouts(), 1);
    clock.advance(ms(10));
    assert_eq!((runs.get(), timer.pending_timeouts()), (51, 0));
    assert_eq!((timer.stats().panicked, timer.stats().rejected), (0, 0));
}

fn the_real_worker_makes_room_before_the_task_runs(kind: Kind) {
    let timer = kind.builder().max_pending(1).tick(ms(1)).build();
    let (done, answer) = mpsc::channel();
    let task = move |t: &Timeout| {
        let pending = t.timer().pending_timeouts();
        let accepted = t.timer().new_timeout(|_| {}, FAR).is_ok();
        done.send((pending, accepted, t.timer().pending_timeouts()))
            .unwrap();
    };
    timer.new_timeout(task, ms(1)).unwrap();
    assert_eq!(recv(&answer), (0, true, 1));
}

fn a_periodic_task_takes_one_place(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    let runs = Count::new();
    let count = runs.clone();
    let task = move |_: &Timeout| {
        count.add();
    };
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    for n in 1..=5 {
        clock.advance(ms(10));
        assert_eq!((runs.get(), timer.pending_timeouts()), (n, 1));
        let second = timer.new_periodic(|_| {}, ms(10), Period::FixedDelay(ms(10)));
        let reason = second.unwrap_err().reason;
        assert!(
            matches!(reason, RejectReason::TooManyPending { max: 1 }),
            "{reason}"
        );
    }
    assert!(periodic.cancel());
    timer.new_timeout(|_| {}, ms(10)).unwrap();
}

fn without_a_limit_there_is_none(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    for _ in 0..20_000 {
        timer.new_timeout(|_| {}, FAR).unwrap();
    }
    assert_eq!(
        (timer.pending_timeouts(), timer.stats().rejected),
        (20_000, 0)
    );
}

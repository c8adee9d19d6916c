//! The counters: every timeout is in exactly one of them whenever the timer is at rest.

mod common;

use std::sync::mpsc;

use common::{Count, FAR, Kind, Record, Rng, assert_counts_add_up, ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, Timeout};

on_both_timers![
    a_new_timer_counts_nothing,
    each_end_is_counted_once,
    pending_falls_at_cancel_itself,
    pending_falls_before_the_task_runs,
    pending_is_zero_after_stop,
    a_rejected_timeout_is_not_scheduled,
    random_schedules_always_add_up,
    a_periodic_task_is_one_timeout_with_many_runs,
    futures_are_counted_like_timeouts,
    the_work_of_the_worker_is_counted,
    a_snapshot_stands_still,
];

fn a_new_timer_counts_nothing(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    timer.start().unwrap();
    let s = timer.stats();
    let ends = [
        s.scheduled,
        s.expired,
        s.cancelled,
        s.rejected,
        s.unprocessed,
        s.pending,
    ];
    assert_eq!(ends, [0; 6]);
    let rest = [
        s.panicked,
        s.periodic_runs,
        s.dropped_jobs,
        s.wakeups,
        s.transferred,
    ];
    assert_eq!(rest, [0; 5]);
    assert_eq!([s.bucket_visits, s.passed_over, s.cascaded], [0; 3]);
    assert_eq!(s.levels, 1);
    assert_eq!([s.longest_task, s.max_lateness], [ms(0); 2]);
}

fn each_end_is_counted_once(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let ends = || {
        let s = timer.stats();
        [
            s.scheduled,
            s.expired,
            s.cancelled,
            s.unprocessed,
            s.pending,
        ]
    };
    let held: Vec<_> = [10, 20, 30, 40]
        .map(|delay| timer.new_timeout(|_| {}, ms(delay)).unwrap())
        .into();
    assert_eq!(ends(), [4, 0, 0, 0, 4]);
    clock.advance(ms(10));
    assert_eq!(ends(), [4, 1, 0, 0, 3]);
    assert!(held[1].cancel());
    assert_eq!(ends(), [4, 1, 1, 0, 2]);
    assert!(!held[0].cancel());
    assert!(!held[1].cancel());
    clock.advance(ms(20));
    assert_eq!(ends(), [4, 2, 1, 0, 1]);
    drop(timer.stop().unwrap());
    assert_eq!(ends(), [4, 2, 1, 1, 0]);
    drop(held);
    assert_eq!(ends(), [4, 2, 1, 1, 0]);
}

fn pending_falls_at_cancel_itself(kind: Kind) {
    let (manual, real) = (kind.on(&ManualClock::new()), kind.real(ms(1)));
    for timer in [manual, real] {
        let held: Vec<_> = (0..10)
            .map(|_| timer.new_timeout(|_| {}, FAR).unwrap())
            .collect();
        for (n, timeout) in held.iter().enumerate() {
            assert_eq!(timer.pending_timeouts(), 10 - n);
            assert!(timeout.cancel());
            assert_eq!(timer.pending_timeouts(), 9 - n);
        }
    }
}

fn pending_falls_before_the_task_runs(kind: Kind) {
    let clock = ManualClock::new();
    let (manual, real) = (kind.on(&clock), kind.real(ms(1)));
    let (done, seen) = mpsc::channel();
    for timer in [&manual, &real] {
        let done = done.clone();
        let task = move |t: &Timeout| {
            done.send((t.timer().pending_timeouts(), t.timer().stats().pending))
                .unwrap();
        };
        timer.new_timeout(task, ms(10)).unwrap();
    }
    clock.advance(ms(10));
    assert_eq!(recv(&seen), (0, 0));
    assert_eq!(recv(&seen), (0, 0));
}

fn pending_is_zero_after_stop(kind: Kind) {
    for transferred in [false, true] {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        for _ in 0..10 {
            timer.new_timeout(|_| {}, FAR).unwrap();
        }
        if transferred {
            clock.advance(ms(10));
        }
        let left = timer.stop().unwrap();
        assert_eq!((left.len(), timer.pending_timeouts()), (10, 0));
        assert_eq!((timer.stats().pending, timer.stats().unprocessed), (0, 10));
        assert!(timer.new_timeout(|_| {}, ms(1)).is_err());
        assert_eq!(timer.pending_timeouts(), 0);
        assert_counts_add_up(&timer);
    }
}

fn a_rejected_timeout_is_not_scheduled(kind: Kind) {
    let timer = kind
        .builder()
        .max_pending(1)
        .clock(&ManualClock::new())
        .build();
    timer.new_timeout(|_| {}, FAR).unwrap();
    assert!(timer.new_timeout(|_| {}, FAR).is_err());
    assert!(
        timer
            .new_periodic(|_| {}, FAR, Period::FixedRate(FAR))
            .is_err()
    );
    timer.stop().unwrap();
    assert!(timer.new_timeout(|_| {}, FAR).is_err());
    assert_eq!(
        (timer.stats().scheduled, timer.stats().rejected),
        (1, 3),
        "for any reason"
    );
    assert_counts_add_up(&timer);
}

fn random_schedules_always_add_up(kind: Kind) {
    for seed in 0..20 {
        let mut random = Rng(seed);
        let clock = ManualClock::new();
        let timer = kind.builder().max_transfers(5).clock(&clock).build();
        let runs = Count::new();
        let mut held = Vec::new();
        let (mut cancelled, mut scheduled) = (0, 0);
        for _ in 0..300 {
            match random.below(10) {
                0..5 => {
                    held.push(
                        timer
                            .new_timeout(runs.task(), ms(random.below(400)))
                            .unwrap(),
                    );
                    scheduled += 1;
                }
                5..7 if !held.is_empty() => {
                    let n = random.below(held.len() as u64) as usize;
                    cancelled += u64::from(held.swap_remove(n).cancel());
                }
                7 if !held.is_empty() => {
                    let n = random.below(held.len() as u64) as usize;
                    held[n].reset(ms(random.below(400)));
                }
                _ => clock.advance(ms(random.below(60))),
            }
            assert_counts_add_up(&timer);
            let s = timer.stats();
            assert_eq!((s.scheduled, s.cancelled), (scheduled, cancelled));
            assert_eq!(s.expired, runs.get() as u64);
        }
        let pending = timer.pending_timeouts();
        assert_eq!(timer.stop().unwrap().len(), pending);
        assert_counts_add_up(&timer);
        assert_eq!(timer.pending_timeouts(), 0);
    }
}

fn a_periodic_task_is_one_timeout_with_many_runs(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let periodic = timer
        .new_periodic(|_| {}, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    timer
        .new_periodic(|_| {}, ms(10), Period::FixedDelay(ms(20)))
        .unwrap();
    for n in 1..=10_u64 {
        clock.advance(ms(10));
        let s = timer.stats();
        assert_eq!((s.scheduled, s.expired, s.pending), (2, 0, 2));
        assert_eq!(s.periodic_runs, n + n.div_ceil(2));
    }
    assert!(periodic.cancel());
    assert_counts_add_up(&timer);
    assert_eq!(timer.stats().cancelled, 1);
    assert_eq!(timer.stop().unwrap().len(), 1);
    assert_eq!((timer.stats().unprocessed, timer.stats().expired), (1, 0));
    assert_counts_add_up(&timer);
}

fn futures_are_counted_like_timeouts(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleeps: Vec<_> = (1..=3).map(|n| Box::pin(timer.sleep(ms(n * 10)))).collect();
    assert_eq!(
        timer.stats().scheduled,
        0,
        "a future is armed by its first poll"
    );
    for sleep in &mut sleeps {
        assert!(common::poll::poll_once(sleep.as_mut()).is_pending());
    }
    assert_eq!((timer.stats().scheduled, timer.pending_timeouts()), (3, 3));
    clock.advance(ms(10));
    assert_eq!((timer.stats().expired, timer.pending_timeouts()), (1, 2));
    drop(sleeps.swap_remove(1));
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 1));
    assert!(timer.stop().unwrap().is_empty(), "futures are not returned");
    assert_eq!(timer.stats().unprocessed, 1, "but counted");
    assert_counts_add_up(&timer);
}

fn the_work_of_the_worker_is_counted(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for delay in [10, 20, 20, 50] {
        timer.new_timeout(|_| {}, ms(delay)).unwrap();
    }
    clock.advance(ms(100));
    let s = timer.stats();
    assert_eq!(s.transferred, 4);
    assert_eq!(
        s.wakeups, 3,
        "10, 20 and 50 ms; the boundaries between have no work"
    );
    assert!(s.bucket_visits >= 3, "{s:?}");
}

fn a_snapshot_stands_still(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let before = timer.stats();
    let seen = Record::new();
    let note = seen.clone();
    timer
        .new_timeout(move |t| note.push(t.timer().stats().clone()), ms(10))
        .unwrap();
    clock.advance(ms(10));
    assert_eq!(before.scheduled, 0);
    assert_eq!(seen.take()[0].scheduled, 1);
    assert!(format!("{:?}", timer.stats()).contains("scheduled"));
}

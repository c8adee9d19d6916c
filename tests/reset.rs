//! Moving a pending timeout in place: earlier, later, again and again.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use common::{Count, Kind, Record, Rng, assert_counts_add_up, ms, noting, on_both_timers, recv};
use hashed_wheel::{ManualClock, Period, Timeout};

on_both_timers![
    a_reset_moves_a_timeout_later_or_earlier,
    a_reset_counts_from_now_and_not_from_the_first_call,
    a_reset_works_before_and_after_the_transfer,
    the_last_of_many_resets_counts,
    a_reset_of_what_is_over_is_false_and_does_nothing,
    a_reset_from_a_task_of_the_same_boundary_moves_it_to_the_next,
    a_watchdog_that_is_reset_in_time_never_fires,
    ten_thousand_earlier_resets_fire_once,
    alternating_resets_fire_once_at_the_last_deadline,
    random_resets_fire_at_the_rounded_deadline,
    a_reset_changes_no_counter_but_its_own,
    stop_returns_a_reset_timeout_with_its_new_time,
    a_reset_of_an_undue_timeout_survives_a_full_queue,
    racing_resets_are_never_early_and_fire_once,
    a_reset_that_returned_true_is_never_early,
];

fn a_reset_moves_a_timeout_later_or_earlier(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let make = |label| {
        timer
            .new_timeout(noting(&seen, &clock, label), ms(50))
            .unwrap()
    };
    let [later, earlier, same] = ["later", "earlier", "same"].map(make);
    assert!(later.reset(ms(95)));
    assert!(earlier.reset(ms(15)));
    assert!(same.reset(ms(50)));
    assert_eq!(
        [&later, &earlier, &same].map(Timeout::remaining),
        [ms(95), ms(15), ms(50)]
    );
    clock.advance(ms(1_000));
    assert_eq!(seen.take(), [("earlier", 20), ("same", 50), ("later", 100)]);
    assert!(later.is_expired() && earlier.is_expired() && same.is_expired());
}

fn a_reset_counts_from_now_and_not_from_the_first_call(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let timeout = timer
        .new_timeout(noting(&seen, &clock, ()), ms(50))
        .unwrap();
    clock.advance(ms(33));
    assert!(timeout.reset(ms(50)));
    clock.advance(ms(56));
    assert_eq!(seen.len(), 0);
    clock.advance(ms(1));
    assert_eq!(seen.take(), [((), 90)]);
}

fn a_reset_works_before_and_after_the_transfer(kind: Kind) {
    for advanced in [0, 5, 15, 45] {
        for delay in [0, 5, 20, 100, 5_000] {
            let (clock, seen) = (ManualClock::new(), Record::new());
            let timer = kind.on(&clock);
            let timeout = timer
                .new_timeout(noting(&seen, &clock, ()), ms(50))
                .unwrap();
            clock.advance(ms(advanced));
            assert!(timeout.reset(ms(delay)));
            clock.advance(ms(10_000));
            let due = (advanced + delay).div_ceil(10).max(advanced / 10 + 1) * 10;
            assert_eq!(
                seen.take(),
                [((), due)],
                "reset at {advanced} ms by {delay} ms"
            );
        }
    }
}

fn the_last_of_many_resets_counts(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let timeout = timer
        .new_timeout(noting(&seen, &clock, ()), ms(50))
        .unwrap();
    for delay in [10, 1_000, 20, 500, 2_000, 30] {
        assert!(timeout.reset(ms(delay)));
    }
    clock.advance(ms(5_000));
    assert_eq!(seen.take(), [((), 30)]);
}

fn a_reset_of_what_is_over_is_false_and_does_nothing(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let [fired, cancelled] = [0, 1].map(|_| timer.new_timeout(runs.task(), ms(10)).unwrap());
    assert!(cancelled.cancel());
    clock.advance(ms(10));
    let period = Period::FixedRate(ms(1_000));
    let periodic = timer.new_periodic(|_| {}, ms(1_000), period).unwrap();
    for timeout in [&fired, &cancelled, &periodic] {
        assert!(!timeout.reset(ms(10)));
    }
    clock.advance(ms(500));
    assert_eq!((runs.get(), timer.stats().periodic_runs), (1, 0));
    assert_eq!(periodic.remaining(), ms(500), "not touched");
    assert!(fired.is_expired() && cancelled.is_cancelled());
}

fn a_reset_from_a_task_of_the_same_boundary_moves_it_to_the_next(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    // Whichever of the two comes first resets the other, which then resets nothing any more.
    let pair: Arc<std::sync::OnceLock<[Timeout; 2]>> = Arc::default();
    let [a, b] = [0, 1].map(|me: usize| {
        let (pair, note) = (Arc::clone(&pair), noting(&seen, &clock, ()));
        let task = move |t: &Timeout| {
            pair.get().unwrap()[1 - me].reset(Duration::ZERO);
            note(t);
        };
        timer.new_timeout(task, ms(30)).unwrap()
    });
    assert!(pair.set([a, b]).is_ok());
    clock.advance(ms(100));
    assert_eq!(seen.take(), [((), 30), ((), 40)]);
}

fn a_watchdog_that_is_reset_in_time_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let dog = timer.new_timeout(runs.task(), ms(100)).unwrap();
    for _ in 0..1_000 {
        clock.advance(ms(95));
        assert!(dog.reset(ms(100)));
    }
    assert_eq!(runs.get(), 0);
    clock.advance(ms(110));
    assert_eq!(runs.get(), 1);
}

fn ten_thousand_earlier_resets_fire_once(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().tick(ms(1)).clock(&clock).build();
    let timeout = timer
        .new_timeout(noting(&seen, &clock, ()), ms(30_000))
        .unwrap();
    clock.advance(ms(1));
    for n in 0..20_000 {
        assert!(timeout.reset(ms(29_000 - n)));
    }
    clock.advance(ms(100_000));
    assert_eq!(seen.take(), [((), 9_002)]);
    assert_eq!(timer.stats().expired, 1);
}

fn alternating_resets_fire_once_at_the_last_deadline(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let timeout = timer
        .new_timeout(noting(&seen, &clock, ()), ms(500))
        .unwrap();
    for n in 0..5_000 {
        assert!(timeout.reset(ms(if n % 2 == 0 { 5_000 } else { 200 })));
        if n % 100 == 0 {
            clock.advance(ms(1));
        }
    }
    clock.advance(ms(10_000));
    assert_eq!(seen.take(), [((), 250)], "the last was at 50 ms, to 250 ms");
}

fn random_resets_fire_at_the_rounded_deadline(kind: Kind) {
    for seed in 0..10 {
        let mut random = Rng(seed);
        let (clock, seen) = (ManualClock::new(), Record::new());
        let timer = kind.builder().tick(ms(3)).buckets(4).clock(&clock).build();
        let mut now = 0;
        let mut all: Vec<_> = (0..100)
            .map(|n| {
                let delay = 200 + random.below(500);
                (
                    timer
                        .new_timeout(noting(&seen, &clock, n), ms(delay))
                        .unwrap(),
                    delay,
                )
            })
            .collect();
        while now < 200 {
            let step = [1, 4, 7][random.below(3) as usize];
            clock.advance(ms(step));
            now += step;
            for (timeout, deadline) in &mut all {
                // Between boundaries only: on one, whether it is over depends on its work.
                if now % 3 != 0 && random.below(4) == 0 {
                    let delay = random.below(700);
                    if timeout.reset(ms(delay)) {
                        *deadline = now + delay;
                    }
                }
            }
        }
        clock.advance(ms(2_000));
        let mut seen = seen.take();
        seen.sort_unstable();
        let due = all
            .iter()
            .zip(0..)
            .map(|((_, deadline), n)| (n, deadline.div_ceil(3) * 3));
        assert_eq!(seen, due.collect::<Vec<_>>(), "seed {seed}");
    }
}

fn a_reset_changes_no_counter_but_its_own(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    let timeout = timer.new_timeout(|_| {}, ms(50)).unwrap();
    // Earlier, later, within the same tick, earlier.
    for (resets, delay) in (1..).zip([10, 100, 95, 20]) {
        assert!(timeout.reset(ms(delay)));
        let s = timer.stats();
        assert_eq!(
            (s.scheduled, s.cancelled, s.expired, s.pending, s.resets),
            (1, 0, 0, 1, resets)
        );
    }
    clock.advance(ms(20));
    assert_eq!((timer.stats().expired, timer.pending_timeouts()), (1, 0));
    assert!(!timeout.reset(ms(10)));
    assert_eq!(timer.stats().resets, 4, "one that returned false");
    clock.advance(ms(200));
    assert_counts_add_up(&timer);
}

fn stop_returns_a_reset_timeout_with_its_new_time(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut held = Vec::new();
    for delay in [1_000, 20] {
        let timeout = timer.new_timeout(|_| {}, ms(500)).unwrap();
        clock.advance(ms(10));
        assert!(timeout.reset(ms(delay)));
        held.push(timeout);
    }
    let mut left: Vec<_> = timer
        .stop()
        .unwrap()
        .iter()
        .map(Timeout::remaining)
        .collect();
    left.sort_unstable();
    assert_eq!(left, [ms(20), ms(990)], "each once");
    assert!(held.iter().all(|t| t.is_cancelled() && !t.reset(ms(1))));
}

fn a_reset_of_an_undue_timeout_survives_a_full_queue(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().max_transfers(10).clock(&clock).build();
    let timeout = timer
        .new_timeout(noting(&seen, &clock, ()), ms(5_000))
        .unwrap();
    clock.advance(ms(10));
    for _ in 0..100 {
        timer.new_timeout(|_| {}, ms(9_000)).unwrap();
    }
    // Behind a hundred others it is filed only at 120 ms, and then fires at once.
    assert!(timeout.reset(ms(20)));
    clock.advance(ms(1_000));
    let fired = seen.take();
    assert_eq!(fired.len(), 1);
    assert!((30..=120).contains(&fired[0].1), "{fired:?}");
}

fn racing_resets_are_never_early_and_fire_once(kind: Kind) {
    let timer = kind.real(ms(1));
    for _ in 0..20 {
        let (done, signal) = mpsc::channel();
        // Every call asks for 5 ms from then, so the first bounds all of them.
        let start = Instant::now();
        let timeout = timer
            .new_timeout(move |_| done.send(Instant::now()).unwrap(), ms(5))
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..200).filter(|_| timeout.reset(ms(5))).count());
            }
        });
        assert!(recv(&signal) >= start + ms(5));
        assert!(signal.recv().is_err(), "once: the task is gone");
        assert!(timeout.is_expired());
    }
    assert_counts_add_up(&timer);
}

fn a_reset_that_returned_true_is_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    for round in 0..100_u64 {
        let not_before = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let (bound, (done, signal)) = (Arc::clone(&not_before), mpsc::channel());
        let task = move |_: &Timeout| {
            let now = start.elapsed().as_nanos() as u64;
            done.send(now >= bound.load(Ordering::SeqCst)).unwrap();
        };
        let timeout = timer
            .new_timeout(task, Duration::from_micros(500 + 20 * round))
            .unwrap();
        for _ in 0..round % 5 {
            // Resets before, at and after the time at which it fires.
            thread::sleep(Duration::from_micros(300));
            // The task cannot run between here and a successful reset's deadline.
            let bound = start.elapsed() + ms(2);
            if timeout.reset(ms(2)) {
                not_before.store(bound.as_nanos() as u64, Ordering::SeqCst);
            }
        }
        assert!(recv(&signal), "round {round}: fired before its deadline");
    }
}

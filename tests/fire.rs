//! When a timeout fires, in which order, and what it sees of itself while it does.

mod common;

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use common::{Count, Kind, Record, ms, noting, now_ms, on_both_timers, recv};
use hashed_wheel::{ManualClock, Timeout};

on_both_timers![
    a_deadline_on_a_boundary_fires_at_that_boundary,
    a_deadline_between_boundaries_fires_at_the_next,
    a_zero_delay_fires_at_the_next_boundary_and_never_inline,
    a_zero_delay_from_a_task_fires_one_tick_later,
    every_delay_fires_at_its_rounded_up_boundary,
    boundaries_are_counted_from_the_start_of_the_timer,
    an_earlier_boundary_runs_before_a_later_one,
    a_task_sees_its_own_timeout_expired,
    a_fired_timeout_stays_expired,
    remaining_counts_down_to_zero,
    a_task_may_hold_much_or_nothing,
    a_task_is_consumed_when_it_has_run,
    real_timeouts_are_never_early,
    the_task_runs_on_the_timer_thread,
];

fn a_deadline_on_a_boundary_fires_at_that_boundary(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer.new_timeout(noting(&seen, &clock, 0), ms(30)).unwrap();
    clock.advance(ms(29));
    assert_eq!(seen.len(), 0, "not early");
    clock.advance(ms(1));
    assert_eq!(seen.take(), [(0, 30)], "and no tick later");
}

fn a_deadline_between_boundaries_fires_at_the_next(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer
        .new_timeout(noting(&seen, &clock, 'a'), ms(30) + Duration::from_nanos(1))
        .unwrap();
    timer
        .new_timeout(noting(&seen, &clock, 'b'), ms(31))
        .unwrap();
    clock.advance(Duration::from_nanos(39_999_999));
    assert_eq!(seen.len(), 0);
    clock.advance(Duration::from_nanos(1));
    let mut seen = seen.take();
    seen.sort_unstable();
    assert_eq!(seen, [('a', 40), ('b', 40)]);
}

fn a_zero_delay_fires_at_the_next_boundary_and_never_inline(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    timer
        .new_timeout(noting(&seen, &clock, 'a'), Duration::ZERO)
        .unwrap();
    assert_eq!(seen.len(), 0, "time zero counts as processed");
    clock.advance(Duration::ZERO);
    assert_eq!(seen.len(), 0);
    clock.advance(ms(15));
    timer
        .new_timeout(noting(&seen, &clock, 'b'), Duration::ZERO)
        .unwrap();
    clock.advance(ms(4));
    assert_eq!(seen.take(), [('a', 10)]);
    clock.advance(ms(1));
    assert_eq!(seen.take(), [('b', 20)]);
}

fn a_zero_delay_from_a_task_fires_one_tick_later(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let inner = noting(&seen, &clock, "inner");
    let outer = move |timeout: &Timeout| {
        timeout.timer().new_timeout(inner, Duration::ZERO).unwrap();
    };
    timer.new_timeout(outer, ms(10)).unwrap();
    clock.advance(ms(19));
    assert_eq!(
        seen.len(),
        0,
        "the boundary at 10 ms counts as processed from its first task on"
    );
    clock.advance(ms(1));
    assert_eq!(seen.take(), [("inner", 20)]);
}

fn every_delay_fires_at_its_rounded_up_boundary(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().tick(ms(7)).buckets(4).clock(&clock).build();
    for delay in (0..2_000).rev() {
        timer
            .new_timeout(noting(&seen, &clock, delay), ms(delay))
            .unwrap();
    }
    clock.advance(ms(3_000));
    let seen = seen.take();
    assert_eq!(seen.len(), 2_000);
    for (delay, fired) in seen {
        assert_eq!(fired, delay.div_ceil(7).max(1) * 7, "delay {delay} ms");
    }
}

fn boundaries_are_counted_from_the_start_of_the_timer(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    clock.advance(ms(3));
    timer
        .new_timeout(noting(&seen, &clock, 'a'), ms(10))
        .unwrap();
    clock.advance(ms(2));
    timer
        .new_timeout(noting(&seen, &clock, 'b'), ms(10))
        .unwrap();
    clock.advance(ms(100));
    assert_eq!(
        seen.take(),
        [('a', 13), ('b', 23)],
        "the first call started it at 3 ms"
    );
}

fn an_earlier_boundary_runs_before_a_later_one(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    for delay in [500, 20, 90, 10, 400, 80, 30, 170, 160] {
        timer
            .new_timeout(noting(&seen, &clock, delay), ms(delay))
            .unwrap();
    }
    clock.advance(ms(1_000));
    let expected = [10, 20, 30, 80, 90, 160, 170, 400, 500].map(|t| (t, t));
    assert_eq!(seen.take(), expected);
}

#[test]
fn tasks_of_one_boundary_run_in_the_order_they_were_scheduled() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = Kind::Hashed.on(&clock);
    let later = |n: u64, delay: u64| {
        timer
            .new_timeout(noting(&seen, &clock, n), ms(delay))
            .unwrap();
    };
    (0..100).for_each(|n| later(n, 400 - n % 10));
    // From another starting point, with other rounds between them, and some taken out again.
    clock.advance(ms(33));
    let cancelled: Vec<_> = (0..100)
        .map(|n| {
            later(100 + n, 367 - n % 10);
            timer
                .new_timeout(|_| panic!("must not run"), ms(360))
                .unwrap()
        })
        .collect();
    assert!(cancelled.iter().all(Timeout::cancel));
    clock.advance(ms(400));
    let expected: Vec<_> = (0..200).map(|n| (n, 400)).collect();
    assert_eq!(seen.take(), expected);
}

fn a_task_sees_its_own_timeout_expired(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let seen = Record::new();
    let note = seen.clone();
    let task = move |t: &Timeout| {
        note.push((
            t.is_expired(),
            t.is_cancelled(),
            t.cancel(),
            t.reset(ms(10)),
            t.remaining(),
        ));
        note.push((
            t.is_expired(),
            t.is_cancelled(),
            t.take_task().is_some(),
            false,
            ms(0),
        ));
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(100));
    let expected = [(true, false, false, false, ms(0)); 2];
    assert_eq!(
        seen.take(),
        expected,
        "expired, and neither cancel nor reset changes it"
    );
    assert_eq!(timer.pending_timeouts(), 0);
}

fn a_fired_timeout_stays_expired(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let held: Vec<_> = (0..50)
        .map(|_| timer.new_timeout(|_| {}, ms(5)).unwrap())
        .collect();
    assert!(held.iter().all(|t| !t.is_expired() && !t.is_cancelled()));
    clock.advance(ms(10));
    for round in 0..200 {
        let others: Vec<_> = (0..50)
            .map(|_| timer.new_timeout(|_| {}, ms(5)).unwrap())
            .collect();
        if round % 2 == 0 {
            assert!(others.iter().all(Timeout::cancel));
        }
        clock.advance(ms(10));
        assert!(held.iter().all(|t| t.is_expired() && !t.is_cancelled()));
    }
    assert!(
        held.iter()
            .all(|t| !t.cancel() && !t.reset(ms(1)) && t.take_task().is_none())
    );
}

fn remaining_counts_down_to_zero(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let timeout = timer.new_timeout(|_| {}, ms(95)).unwrap();
    assert_eq!(timeout.remaining(), ms(95));
    clock.advance(ms(33));
    assert_eq!(
        timeout.remaining(),
        ms(62),
        "to the deadline, not to the boundary"
    );
    clock.advance(ms(62));
    assert_eq!(timeout.remaining(), ms(0), "due");
    assert!(!timeout.is_expired(), "but its boundary lies at 100 ms");
    clock.advance(ms(5));
    assert!(timeout.is_expired());
    assert_eq!(timeout.remaining(), ms(0), "fired");
}

fn a_task_may_hold_much_or_nothing(kind: Kind) {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Aligned(u64);
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let sum = Record::new();
    let (small, large, aligned) = (sum.clone(), sum.clone(), sum.clone());
    let bytes = [7_u8; 5_000];
    let wide = Aligned(3);
    timer.new_timeout(|_| {}, ms(1)).unwrap();
    timer.new_timeout(move |_| small.push(1), ms(1)).unwrap();
    timer
        .new_timeout(
            move |_| large.push(bytes.iter().map(|b| u64::from(*b)).sum()),
            ms(1),
        )
        .unwrap();
    let task = move |_: &Timeout| {
        let wide = &wide;
        assert_eq!(std::ptr::from_ref(wide).addr() % 128, 0);
        aligned.push(wide.0);
    };
    timer.new_timeout(task, ms(1)).unwrap();
    clock.advance(ms(10));
    let mut sum = sum.take();
    sum.sort_unstable();
    assert_eq!(sum, [1, 3, 35_000]);
    assert_eq!(timer.stats().panicked, 0);
}

fn a_task_is_consumed_when_it_has_run(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (guard, drops) = common::Guard::new();
    let inside = drops.clone();
    let task = move |_: &Timeout| {
        let _held = &guard;
        assert_eq!(inside.len(), 0);
    };
    let timeout = timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(
        drops.take(),
        [thread::current().id()],
        "on the thread that ran it"
    );
    drop(timeout);
    drop(timer);
    assert_eq!(drops.len(), 0, "once");
}

fn real_timeouts_are_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    let (done, elapsed) = mpsc::channel();
    for n in 0..200_u64 {
        let delay = Duration::from_micros(n * 337);
        let done = done.clone();
        let start = Instant::now();
        timer
            .new_timeout(move |_| done.send((delay, start.elapsed())).unwrap(), delay)
            .unwrap();
    }
    for _ in 0..200 {
        let (delay, elapsed) = recv(&elapsed);
        assert!(elapsed >= delay, "{delay:?} fired after {elapsed:?}");
    }
}

fn the_task_runs_on_the_timer_thread(kind: Kind) {
    let timer = kind.builder().thread_name("the timer of this test").build();
    let (done, name) = mpsc::channel();
    let count = Count::new();
    let inline = count.clone();
    let task = move |_: &Timeout| {
        inline.add();
        done.send(thread::current().name().map(String::from))
            .unwrap();
    };
    timer.new_timeout(task, ms(0)).unwrap();
    assert_eq!(recv(&name).as_deref(), Some("the timer of this test"));
    assert_eq!(count.get(), 1);
}

#[test]
fn a_tick_that_does_not_divide_a_second_keeps_exact_boundaries() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let tick = Duration::from_nanos(3_333_333);
    let timer = Kind::Hashed.builder().tick(tick).clock(&clock).build();
    for n in 1..=1_000_u32 {
        let (seen, clock) = (seen.clone(), clock.clone());
        timer
            .new_timeout(move |_| seen.push((n, clock.now())), tick * n)
            .unwrap();
    }
    clock.advance(tick * 1_000);
    let expected: Vec<_> = (1..=1_000).map(|n| (n, tick * n)).collect();
    assert_eq!(seen.take(), expected);
    assert_eq!(now_ms(&clock), 3_333);
}

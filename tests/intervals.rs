//! The interval: one tick a period, in phase, and none lost by giving up a wait.

mod common;

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::poll::{Wakes, block_on, poll_once, poll_with};
use common::{Kind, assert_counts_add_up, ms, on_both_timers};
use hashed_wheel::{Interval, ManualClock, MissedTicks, RejectReason};

on_both_timers![
    the_first_tick_comes_after_one_period_and_the_phase_is_kept,
    a_tick_given_up_is_not_lost,
    missed_ticks_are_skipped_and_the_phase_is_kept,
    a_tick_whose_boundary_has_passed_is_ready_at_once,
    a_period_of_zero_ticks_once_at_each_boundary,
    an_interval_of_a_stopped_timer_ends_with_an_error,
    a_dropped_interval_leaves_nothing_behind,
    a_real_interval_is_never_early,
];

/// Whether a tick is there now. The future is dropped again: a tick that is not there stays to come.
fn ticks(interval: &mut Interval) -> bool {
    match poll_once(pin!(interval.tick())) {
        Poll::Ready(result) => result.is_ok(),
        Poll::Pending => false,
    }
}

fn the_first_tick_comes_after_one_period_and_the_phase_is_kept(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(5));
    let mut interval = timer.interval(ms(25));
    let mut seen = Vec::new();
    for now in 6..=200 {
        let (woken, waker) = Wakes::new();
        let mut tick = pin!(interval.tick());
        if poll_with(tick.as_mut(), &waker).is_ready() {
            seen.push(now - 1);
        }
        let before = woken.get();
        clock.advance(ms(1));
        assert!(before == 0 && woken.get() <= 1);
    }
    // At the deadline or at its boundary: a wait that was given up is taken up again.
    assert_eq!(seen.len(), 7, "{seen:?}");
    for (n, at) in (1..).zip(seen) {
        let deadline: u64 = 5 + 25 * n;
        assert!(
            (deadline..=deadline.next_multiple_of(10)).contains(&at),
            "{deadline}: {at}"
        );
    }
}

fn a_tick_given_up_is_not_lost(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer.interval(ms(20));
    assert!(!ticks(&mut interval));
    clock.advance(ms(10));
    assert!(!ticks(&mut interval), "given up and asked again");
    clock.advance(ms(10));
    assert!(ticks(&mut interval));
    {
        // Fired, but dropped before it was polled again: the tick is still there.
        let mut tick = pin!(interval.tick());
        assert!(poll_once(tick.as_mut()).is_pending());
        clock.advance(ms(20));
    }
    assert!(ticks(&mut interval));
    assert!(!ticks(&mut interval), "once");
    clock.advance(ms(20));
    assert!(ticks(&mut interval), "in phase");
}

fn missed_ticks_are_skipped_and_the_phase_is_kept(kind: Kind) {
    for armed in [false, true] {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        timer.start().unwrap();
        let mut interval = timer.interval(ms(10));
        if armed {
            assert!(!ticks(&mut interval));
        }
        clock.advance(ms(45));
        let at_once = (0..5).filter(|_| ticks(&mut interval)).count();
        assert!(at_once <= 1, "no burst: {at_once}");
        clock.advance(ms(4));
        assert!(!ticks(&mut interval));
        clock.advance(ms(1));
        assert!(ticks(&mut interval), "50 ms");
        clock.advance(ms(9));
        assert!(!ticks(&mut interval));
        clock.advance(ms(1));
        assert!(ticks(&mut interval), "60 ms");
        assert_counts_add_up(&timer);
    }
}

fn a_tick_whose_boundary_has_passed_is_ready_at_once(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
        let interval = || timer.interval(ms(25)).missed_ticks(missed);
        let [mut too_early, mut in_time] = [interval(), interval()];
        let scheduled = timer.stats().scheduled;
        // Its deadline has passed, its boundary has not.
        clock.advance(ms(25));
        assert!(!ticks(&mut too_early), "{missed:?}");
        assert_eq!(timer.stats().scheduled, scheduled + 1);
        clock.advance(ms(5));
        assert!(ticks(&mut in_time), "{missed:?}");
        assert_eq!(timer.stats().scheduled, scheduled + 1, "without a timeout");
        assert!(!ticks(&mut in_time), "once");
        clock.advance(ms(20));
    }
}

fn a_period_of_zero_ticks_once_at_each_boundary(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(15));
    for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
        let mut interval = timer.interval(Duration::ZERO).missed_ticks(missed);
        for _ in 0..3 {
            assert!(!ticks(&mut interval), "{missed:?}");
            assert!(!ticks(&mut interval), "{missed:?}");
            clock.advance(ms(10));
            assert!(ticks(&mut interval), "{missed:?}");
        }
        // Late, and on a boundary.
        clock.advance(ms(35));
        assert!(ticks(&mut interval) && !ticks(&mut interval), "{missed:?}");
        clock.advance(ms(5));
    }
}

fn an_interval_of_a_stopped_timer_ends_with_an_error(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer.interval(ms(20));
    {
        let (woken, waker) = Wakes::new();
        let mut tick = pin!(interval.tick());
        assert!(poll_with(tick.as_mut(), &waker).is_pending());
        assert!(timer.stop().unwrap().is_empty());
        assert_eq!(woken.get(), 1);
        assert!(matches!(
            poll_once(tick),
            Poll::Ready(Err(RejectReason::Stopped))
        ));
    }
    for _ in 0..2 {
        assert!(
            matches!(block_on(interval.tick()), Err(RejectReason::Stopped)),
            "every time"
        );
    }
    assert_counts_add_up(&timer);
}

fn a_dropped_interval_leaves_nothing_behind(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer.interval(ms(20));
    assert_eq!(timer.stats().scheduled, 0, "armed by its first poll");
    assert!(!ticks(&mut interval));
    drop(interval);
    assert_eq!(timer.pending_timeouts(), 0);
    assert_counts_add_up(&timer);
}

fn a_real_interval_is_never_early(kind: Kind) {
    let timer = kind.real(ms(1));
    let start = Instant::now();
    let mut interval = timer.interval(ms(3));
    for n in 1..=20_u32 {
        block_on(interval.tick()).unwrap();
        let elapsed = start.elapsed();
        assert!(
            elapsed >= Duration::from_millis(3) * n,
            "tick {n} after {elapsed:?}"
        );
    }
}

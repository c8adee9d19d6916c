//! What an interval does about ticks that nobody waited for, and its reset.

mod common;

use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{Kind, ms, now_ms, on_both_timers};
use hashed_wheel::{Interval, ManualClock, MissedTicks, RejectReason};

on_both_timers![
    skip_keeps_the_phase,
    burst_gives_each_missed_one_at_once_and_without_a_timer,
    burst_gives_the_one_of_this_very_boundary,
    burst_waits_for_the_boundary_of_a_tick,
    burst_of_a_stopped_timer_ends_with_the_error,
    burst_without_a_period_does_not_spin,
    delay_counts_from_the_poll_of_the_late_tick,
    delay_keeps_the_phase_of_ticks_in_time,
    a_reset_starts_anew_in_every_mode,
    a_reset_of_an_interval_that_was_never_polled,
    a_reset_of_a_stopped_interval_is_still_stopped,
    intervals_of_extreme_periods_never_end_early,
];

fn poll(interval: &mut Interval) -> Poll<Result<(), RejectReason>> {
    interval.poll_tick(&mut Context::from_waker(Waker::noop()))
}

fn ticks(interval: &mut Interval) -> bool {
    matches!(poll(interval), Poll::Ready(Ok(())))
}

/// The times, on the clock, of the next `count` ticks, polled every 10 ms.
fn next_ticks(interval: &mut Interval, clock: &ManualClock, count: usize) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.len() < count {
        if ticks(interval) {
            seen.push(now_ms(clock));
        } else {
            clock.advance(ms(10));
        }
    }
    seen
}

/// An interval of 100 ms whose first tick is polled at 350.
fn late(kind: Kind, clock: &ManualClock, missed: MissedTicks) -> (common::Timer, Interval) {
    let timer = kind.on(clock);
    timer.start().unwrap();
    let mut interval = timer.interval(ms(100)).missed_ticks(missed);
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(350));
    (timer, interval)
}

fn skip_keeps_the_phase(kind: Kind) {
    let clock = ManualClock::new();
    let (_timer, mut interval) = late(kind, &clock, MissedTicks::default());
    assert_eq!(next_ticks(&mut interval, &clock, 4), [350, 400, 500, 600]);
    assert_eq!(MissedTicks::default(), MissedTicks::Skip);
}

fn burst_gives_each_missed_one_at_once_and_without_a_timer(kind: Kind) {
    let clock = ManualClock::new();
    let (timer, mut interval) = late(kind, &clock, MissedTicks::Burst);
    for _ in [100, 200, 300] {
        assert!(ticks(&mut interval));
        assert_eq!((timer.stats().scheduled, timer.pending_timeouts()), (1, 0));
    }
    assert!(poll(&mut interval).is_pending());
    assert_eq!(timer.pending_timeouts(), 1);
    assert_eq!(next_ticks(&mut interval, &clock, 3), [400, 500, 600]);
}

fn burst_gives_the_one_of_this_very_boundary(kind: Kind) {
    let clock = ManualClock::new();
    let (_timer, mut interval) = late(kind, &clock, MissedTicks::Burst);
    clock.advance(ms(50));
    let at_once = (0..9).take_while(|_| ticks(&mut interval)).count();
    assert_eq!(at_once, 4, "those of 100, 200, 300 and 400");
}

fn burst_waits_for_the_boundary_of_a_tick(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut interval = timer.interval(ms(33)).missed_ticks(MissedTicks::Burst);
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(68));
    // 33 was due at 40; 66 is due at 70, which has not come.
    assert!(ticks(&mut interval));
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(1));
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(1));
    assert!(ticks(&mut interval));
}

fn burst_of_a_stopped_timer_ends_with_the_error(kind: Kind) {
    let clock = ManualClock::new();
    let (timer, mut interval) = late(kind, &clock, MissedTicks::Burst);
    assert!(ticks(&mut interval));
    timer.stop().unwrap();
    for _ in 0..3 {
        let ended = poll(&mut interval);
        assert!(matches!(ended, Poll::Ready(Err(RejectReason::Stopped))));
    }
}

fn burst_without_a_period_does_not_spin(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer
        .interval(Duration::ZERO)
        .missed_ticks(MissedTicks::Burst);
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(100));
    assert!(ticks(&mut interval));
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(10));
    assert!(ticks(&mut interval));
}

fn delay_counts_from_the_poll_of_the_late_tick(kind: Kind) {
    let clock = ManualClock::new();
    let (_timer, mut interval) = late(kind, &clock, MissedTicks::Delay);
    assert_eq!(next_ticks(&mut interval, &clock, 4), [350, 450, 550, 650]);
    // Late, but none missed.
    assert!(poll(&mut interval).is_pending());
    clock.advance(ms(120));
    assert_eq!(next_ticks(&mut interval, &clock, 2), [770, 870]);
}

fn delay_keeps_the_phase_of_ticks_in_time(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut interval = timer.interval(ms(33)).missed_ticks(MissedTicks::Delay);
    // 33, 66, 99, 132: each at its boundary, and no rounding adds up.
    assert_eq!(next_ticks(&mut interval, &clock, 4), [40, 70, 100, 140]);
}

fn a_reset_starts_anew_in_every_mode(kind: Kind) {
    for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
        let clock = ManualClock::new();
        let (timer, mut interval) = late(kind, &clock, missed);
        assert!(ticks(&mut interval));
        interval.reset();
        assert_eq!(
            next_ticks(&mut interval, &clock, 2),
            [450, 550],
            "{missed:?}"
        );
        // While it waits.
        assert!(poll(&mut interval).is_pending());
        clock.advance(ms(80));
        interval.reset();
        assert_eq!(
            next_ticks(&mut interval, &clock, 2),
            [730, 830],
            "{missed:?}"
        );
        assert_eq!(timer.pending_timeouts(), 0);
        assert_eq!(interval.period(), ms(100));
    }
}

fn a_reset_of_an_interval_that_was_never_polled(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut interval = timer.interval(ms(100));
    clock.advance(ms(60));
    interval.reset();
    assert_eq!(next_ticks(&mut interval, &clock, 2), [160, 260]);
}

fn a_reset_of_a_stopped_interval_is_still_stopped(kind: Kind) {
    let clock = ManualClock::new();
    let (timer, mut interval) = late(kind, &clock, MissedTicks::Delay);
    timer.stop().unwrap();
    interval.reset();
    let ended = poll(&mut interval);
    assert!(matches!(ended, Poll::Ready(Err(RejectReason::Stopped))));
}

fn intervals_of_extreme_periods_never_end_early(kind: Kind) {
    for missed in [MissedTicks::Skip, MissedTicks::Burst, MissedTicks::Delay] {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        timer.start().unwrap();
        let mut never = timer.interval(Duration::MAX).missed_ticks(missed);
        assert!(poll(&mut never).is_pending());
        let mut rare = timer
            .interval_at(timer.now(), Duration::MAX)
            .missed_ticks(missed);
        assert!(poll(&mut rare).is_pending());
        clock.advance(ms(10));
        assert!(ticks(&mut rare));
        assert!(poll(&mut rare).is_pending());
        clock.advance(Duration::from_secs(1 << 33));
        assert!(poll(&mut never).is_pending() && poll(&mut rare).is_pending());
    }
}

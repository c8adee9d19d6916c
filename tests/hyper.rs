//! The handle as hyper's timer. Against hyper's own server it is tried in `examples/async`.
#![cfg(feature = "hyper")]

mod common;

use std::pin::Pin;
use std::time::{Duration, Instant};

use common::poll::{Wakes, block_on, poll_once, poll_with};
use common::{FAR, Kind, assert_counts_add_up, ms, on_both_timers};
use hashed_wheel::{ManualClock, TimerHandle};
use hyper::rt::{Sleep, Timer};

on_both_timers![
    sleeps_end_at_their_boundaries,
    a_sleep_is_reset_in_place,
    a_sleep_that_is_over_or_of_another_timer_can_be_reset,
    the_present_of_a_manual_clock_goes_with_its_sleeps,
    a_deadline_in_the_past_is_over_at_the_first_poll,
    a_sleep_of_a_stopped_timer_is_over,
    a_sleep_that_is_refused_is_over,
    real_sleeps_are_never_early,
];

fn sleeps_end_at_their_boundaries(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(ms(3));
    let (woken, waker) = Wakes::new();
    let mut sleeps = [
        Timer::sleep(&*timer, ms(20)),
        Timer::sleep_until(&*timer, timer.now() + ms(20)),
    ];
    for sleep in &mut sleeps {
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    }
    clock.advance(ms(26));
    assert_eq!(woken.get(), 0);
    clock.advance(ms(1));
    assert_eq!(woken.get(), 2, "23 ms: at the boundary of 30 ms");
    for sleep in &mut sleeps {
        assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    }
    assert_counts_add_up(&timer);
}

fn a_sleep_is_reset_in_place(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let (woken, waker) = Wakes::new();
    let mut sleep = Timer::sleep_until(&*timer, timer.now() + ms(50));
    let before: *const dyn Sleep = &raw const *sleep;
    // Before it is armed, then later, then earlier.
    timer.reset(&mut sleep, timer.now() + ms(60));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    timer.reset(&mut sleep, timer.now() + ms(100));
    clock.advance(ms(60));
    assert_eq!(woken.get(), 0);
    timer.reset(&mut sleep, timer.now() + ms(20));
    clock.advance(ms(20));
    assert_eq!(woken.get(), 1);
    assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    assert_eq!((timer.stats().scheduled, timer.stats().expired), (1, 1));
    assert!(std::ptr::addr_eq(before, &raw const *sleep));
}

fn a_sleep_that_is_over_or_of_another_timer_can_be_reset(kind: Kind) {
    struct Foreign;
    impl Future for Foreign {
        type Output = ();
        fn poll(
            self: Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Self::Output> {
            std::task::Poll::Ready(())
        }
    }
    impl Sleep for Foreign {}

    let clock = ManualClock::new();
    let (timer, other) = (kind.on(&clock), kind.on(&clock));
    let mut over = Timer::sleep(&*timer, ms(10));
    assert!(poll_once(over.as_mut()).is_pending());
    clock.advance(ms(10));
    let sleeps: [Pin<Box<dyn Sleep>>; 3] = [over, Timer::sleep(&*other, FAR), Box::pin(Foreign)];
    for mut sleep in sleeps {
        let (woken, waker) = Wakes::new();
        timer.reset(&mut sleep, timer.now() + ms(20));
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        clock.advance(ms(20));
        assert_eq!(woken.get(), 1);
        assert!(poll_with(sleep.as_mut(), &waker).is_ready());
    }
    assert_eq!((timer.stats().expired, other.stats().scheduled), (4, 0));
}

fn the_present_of_a_manual_clock_goes_with_its_sleeps(kind: Kind) {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(7));
    let (timer, other) = (kind.on(&clock), kind.on(&clock));
    let before = timer.now();
    assert_eq!([timer.now(), other.now()], [before; 2], "it stands still");
    clock.advance(ms(1234));
    assert_eq!(timer.now() - before, ms(1234));
    clock.advance(Duration::MAX);
    assert_eq!(
        timer.now() - before,
        Duration::from_nanos(u64::MAX) - Duration::from_secs(7)
    );
}

fn a_deadline_in_the_past_is_over_at_the_first_poll(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    clock.advance(ms(25));
    for before in [ms(0), ms(5), FAR] {
        let Some(deadline) = timer.now().checked_sub(before) else {
            continue;
        };
        let mut sleep = Timer::sleep_until(&*timer, deadline);
        assert!(poll_once(sleep.as_mut()).is_ready());
    }
}

fn a_sleep_of_a_stopped_timer_is_over(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let (woken, waker) = Wakes::new();
    let mut armed = Timer::sleep(&*timer, FAR);
    assert!(poll_with(armed.as_mut(), &waker).is_pending());
    timer.stop().unwrap();
    assert_eq!(woken.get(), 1);
    assert!(poll_with(armed.as_mut(), &waker).is_ready());
    timer.reset(&mut armed, timer.now() + FAR);
    assert!(poll_once(armed.as_mut()).is_ready());
    block_on(Timer::sleep(&*timer, FAR));
    assert_counts_add_up(&timer);
}

fn a_sleep_that_is_refused_is_over(kind: Kind) {
    let timer = kind
        .builder()
        .max_pending(1)
        .clock(&ManualClock::new())
        .build();
    let _blocker = timer.new_timeout(|_| {}, FAR).unwrap();
    block_on(Timer::sleep(&*timer, FAR));
    assert_eq!(timer.stats().rejected, 1);
}

fn real_sleeps_are_never_early(kind: Kind) {
    fn is_a_timer<T: Timer + Send + Sync + Clone + 'static>(_: &T) {}
    let timer = kind.real(ms(1));
    let handle: TimerHandle = timer.handle();
    is_a_timer(&handle);
    for delay in [ms(0), ms(1), ms(7), ms(20)] {
        let start = Instant::now();
        assert!(handle.now() >= start, "the system's own clock");
        block_on(Timer::sleep(&handle, delay));
        assert!(start.elapsed() >= delay);
        let deadline = handle.now() + delay;
        let mut sleep = Timer::sleep_until(&handle, deadline + FAR);
        assert!(poll_once(sleep.as_mut()).is_pending());
        handle.reset(&mut sleep, deadline);
        block_on(sleep);
        assert!(Instant::now() >= deadline);
    }
}

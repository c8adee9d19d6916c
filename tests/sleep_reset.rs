//! `Sleep::reset`: in place while it waits, from the start when it is over.

mod common;

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use common::poll::{Wakes, block_on, poll_once, poll_with};
use common::{FAR, Kind, Rng, assert_counts_add_up, ms, now_ms, on_both_timers};
use hashed_wheel::{ManualClock, RejectReason};

on_both_timers![
    a_sleep_that_waits_is_moved_in_place,
    a_sleep_that_was_not_polled_is_moved_without_a_timeout,
    a_sleep_that_is_over_can_be_used_again,
    a_sleep_of_a_stopped_timer_stays_stopped,
    random_resets_end_at_the_boundary_of_the_last,
    a_reset_that_races_with_the_end_loses_no_wake_up,
];

fn a_sleep_that_waits_is_moved_in_place(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (woken, waker) = Wakes::new();
    let mut sleep = pin!(timer.sleep(ms(50)));
    assert!(poll_with(sleep.as_mut(), &waker).is_pending());
    clock.advance(ms(40));
    sleep.reset(ms(100));
    clock.advance(ms(50));
    assert_eq!(woken.get(), 0, "later");
    sleep.reset(ms(10));
    clock.advance(ms(10));
    assert_eq!(woken.get(), 1, "earlier, and nobody has polled it again");
    assert!(matches!(poll_with(sleep, &waker), Poll::Ready(Ok(()))));
    assert_eq!((timer.stats().scheduled, timer.stats().cancelled), (1, 0));
    assert_counts_add_up(&timer);
}

fn a_sleep_that_was_not_polled_is_moved_without_a_timeout(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let mut sleep = pin!(timer.sleep(FAR));
    clock.advance(ms(10));
    sleep.reset(ms(20));
    assert_eq!(timer.stats().scheduled, 0);
    assert!(poll_once(sleep.as_mut()).is_pending());
    clock.advance(ms(19));
    assert!(poll_once(sleep.as_mut()).is_pending());
    clock.advance(ms(1));
    assert!(poll_once(sleep).is_ready());
}

fn a_sleep_that_is_over_can_be_used_again(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.sleep(ms(10)));
    for polled in [true, false, true] {
        let (woken, waker) = Wakes::new();
        assert!(poll_with(sleep.as_mut(), &waker).is_pending());
        clock.advance(ms(10));
        assert_eq!(woken.get(), 1);
        if polled {
            assert!(matches!(poll_once(sleep.as_mut()), Poll::Ready(Ok(()))));
        }
        sleep.reset(ms(10));
    }
    assert_eq!((timer.stats().expired, timer.pending_timeouts()), (3, 0));
}

fn a_sleep_of_a_stopped_timer_stays_stopped(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let mut sleep = pin!(timer.sleep(ms(10)));
    assert!(poll_once(sleep.as_mut()).is_pending());
    timer.stop().unwrap();
    for _ in 0..2 {
        sleep.reset(ms(10));
        let result = poll_once(sleep.as_mut());
        assert!(matches!(result, Poll::Ready(Err(RejectReason::Stopped))));
    }
    assert_counts_add_up(&timer);
}

fn random_resets_end_at_the_boundary_of_the_last(kind: Kind) {
    let mut rng = Rng(11);
    for _ in 0..300 {
        let clock = ManualClock::new();
        let timer = kind.on(&clock);
        timer.start().unwrap();
        let (woken, waker) = Wakes::new();
        let mut deadline = rng.below(200);
        let mut sleep = pin!(timer.sleep(ms(deadline)));
        let mut ended = None;
        for _ in 0..20 {
            // The last boundary that has been processed, and the one at which it is due.
            let processed = now_ms(&clock) / 10;
            let due = deadline.div_ceil(10).max(processed + 1) * 10;
            let is_ready = poll_with(sleep.as_mut(), &waker).is_ready();
            assert_eq!(is_ready, ended.is_some());
            if is_ready {
                break;
            }
            let step = rng.below(40);
            clock.advance(ms(step));
            if now_ms(&clock) >= due {
                ended = Some(due);
                continue;
            }
            if rng.below(3) > 0 {
                let delay = rng.below(150);
                deadline = now_ms(&clock) + delay;
                sleep.reset(ms(delay));
            }
        }
        if ended.is_none() {
            clock.advance(ms(200));
        }
        assert_eq!(woken.get(), 1);
        assert!(timer.stats().scheduled == 1, "never a second timeout");
        assert_counts_add_up(&timer);
    }
}

fn a_reset_that_races_with_the_end_loses_no_wake_up(kind: Kind) {
    let timer = kind.real(ms(1));
    for round in 0..100 {
        let mut sleep = pin!(timer.sleep(ms(1)));
        assert!(poll_once(sleep.as_mut()).is_pending());
        // About when it fires.
        std::thread::sleep(Duration::from_micros(700 + 10 * round));
        let start = Instant::now();
        sleep.reset(ms(2));
        block_on(sleep).unwrap();
        assert!(start.elapsed() >= ms(2));
    }
    assert_counts_add_up(&timer);
}

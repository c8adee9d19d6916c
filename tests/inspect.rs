//! All pending timeouts at once: shown and cancelled.

mod common;

use common::poll::{Wakes, poll_with};
use common::{Kind, on_both_timers};
use hashed_wheel::{ManualClock, Pending, Period, Timeout};
use std::collections::HashSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const NEVER: u64 = (1 << 45) - 1;

on_both_timers!(
    a_passed_moment_is_due_at_a_tick_that_is_to_come,
    every_pending_timeout_is_shown_once,
    the_tick_that_a_timeout_is_shown_with_is_the_one_it_fires_at,
    what_the_closure_does_to_the_timer_is_allowed,
    a_periodic_timeout_is_pending_while_it_runs,
    all_are_cancelled_with_and_without_a_handle,
    futures_are_shown_and_not_cancelled,
    a_future_is_shown_while_its_waker_is_exchanged,
    a_panicking_drop_does_not_spare_the_others,
    a_run_that_is_cancelled_with_all_comes_to_its_end,
    threads_that_schedule_and_cancel_do_not_disturb_each_other,
);

fn every_pending_timeout_is_shown_once(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut none = true;
    timer.for_each_pending(|_| none = false);
    assert!(none, "a timer that has not started has none");
    timer.start().unwrap();
    let held: Vec<_> = (1..=1000)
        .map(|number| timer.new_timeout(|_| {}, SECOND * number).unwrap())
        .collect();
    timer
        .new_periodic(|_| {}, SECOND / 2, Period::FixedRate(SECOND))
        .unwrap();
    timer.new_timeout(|_| {}, Duration::MAX).unwrap();
    for gone in held.iter().skip(900) {
        gone.cancel();
    }
    clock.advance(SECOND * 100);
    let mut shown = Vec::new();
    timer.for_each_pending(|pending| shown.push(pending));
    assert_eq!(shown.len(), timer.pending_timeouts());
    let (periodic, once): (Vec<Pending>, Vec<_>) = shown.into_iter().partition(|one| one.periodic);
    assert_eq!(periodic.len(), 1);
    assert_eq!(periodic[0].remaining, SECOND / 2);
    let remaining: HashSet<_> = once.iter().map(|one| one.remaining).collect();
    let mut expected: HashSet<_> = (1..=800).map(|number| SECOND * number).collect();
    expected.insert(Duration::MAX);
    assert_eq!(remaining, expected);
    let never = once
        .iter()
        .find(|one| one.remaining == Duration::MAX)
        .unwrap();
    assert_eq!(never.due_tick, NEVER);
    assert_eq!(once.len(), 801);
}

fn the_tick_that_a_timeout_is_shown_with_is_the_one_it_fires_at(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    timer.new_timeout(|_| {}, SECOND).unwrap();
    let mut due = 0;
    timer.for_each_pending(|pending| due = pending.due_tick);
    clock.advance(SECOND);
    assert_eq!((timer.stats().expired, timer.stats().tick), (1, due));
}

fn what_the_closure_does_to_the_timer_is_allowed(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for _ in 0..10 {
        timer.new_timeout(|_| {}, SECOND).unwrap();
    }
    let mut shown = 0;
    timer.for_each_pending(|_| {
        shown += 1;
        if shown == 3 {
            timer.new_timeout(|_| {}, SECOND * 2).unwrap();
            assert_eq!(timer.cancel_all(), 11);
        }
    });
    assert_eq!(shown, 3, "the rest was gone when it was come to");
    timer.new_timeout(|_| {}, SECOND).unwrap();
    let mut left = 0;
    timer.for_each_pending(|_| left += timer.stop().unwrap().len());
    assert_eq!(left, 1);
}

fn a_periodic_timeout_is_pending_while_it_runs(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let shown = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&shown);
    let task = move |itself: &Timeout| {
        itself.timer().for_each_pending(|pending| {
            assert!(pending.periodic);
            count.fetch_add(1, Ordering::Relaxed);
        });
    };
    timer
        .new_periodic(task, SECOND, Period::FixedDelay(SECOND))
        .unwrap();
    clock.advance(SECOND * 3);
    assert_eq!(shown.load(Ordering::Relaxed), 3);
}

fn all_are_cancelled_with_and_without_a_handle(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    assert_eq!(timer.cancel_all(), 0);
    let alive = Arc::new(());
    let task = || {
        let held = Arc::clone(&alive);
        move |_: &Timeout| drop(held)
    };
    let kept: Vec<_> = (0..100)
        .map(|_| timer.new_timeout(task(), SECOND).unwrap())
        .collect();
    for _ in 0..100 {
        timer.new_timeout(task(), SECOND).unwrap();
    }
    let held = Arc::clone(&alive);
    let tick = timer
        .new_periodic(move |_| _ = &held, SECOND, Period::FixedRate(SECOND))
        .unwrap();
    assert_eq!(timer.cancel_all(), 201);
    assert_eq!(Arc::strong_count(&alive), 1, "the tasks are dropped");
    assert!(
        kept.iter()
            .all(|timeout| timeout.is_cancelled() && !timeout.cancel())
    );
    assert!(
        kept.iter()
            .all(|timeout| timeout.remaining() == Duration::ZERO)
    );
    assert!(tick.is_cancelled());
    let stats = timer.stats();
    assert_eq!(
        (stats.scheduled, stats.cancelled, stats.pending),
        (201, 201, 0)
    );
    assert_eq!(timer.cancel_all(), 0);
    // The timer goes on, and the slots are used again.
    clock.advance(SECOND * 2);
    timer.new_timeout(|_| {}, SECOND).unwrap();
    clock.advance(SECOND);
    assert_eq!(timer.stats().expired, 1);
    assert!(timer.stop().unwrap().is_empty());
}

fn futures_are_shown_and_not_cancelled(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut sleep = pin!(timer.sleep(SECOND));
    let mut context = Context::from_waker(Waker::noop());
    assert!(sleep.as_mut().poll(&mut context).is_pending());
    timer.new_timeout(|_| {}, SECOND).unwrap();
    let mut shown = 0;
    timer.for_each_pending(|_| shown += 1);
    assert_eq!((shown, timer.cancel_all()), (2, 1));
    clock.advance(SECOND);
    assert!(matches!(sleep.poll(&mut context), Poll::Ready(Ok(()))));
}

fn a_future_is_shown_while_its_waker_is_exchanged(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let mut sleep = timer.sleep(SECOND);
    let wakers = [Wakes::new().1, Wakes::new().1];
    assert!(poll_with(Pin::new(&mut sleep), &wakers[0]).is_pending());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                for waker in &wakers {
                    assert!(poll_with(Pin::new(&mut sleep), waker).is_pending());
                }
            }
        });
        let missed = (0..20_000).find(|_| {
            let mut shown = 0;
            timer.for_each_pending(|_| shown += 1);
            shown != 1
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(missed, None);
    });
}

fn a_panicking_drop_does_not_spare_the_others(kind: Kind) {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{}", self.0);
        }
    }
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for name in ["first", "second"] {
        let bomb = Bomb(name);
        timer.new_timeout(move |_| _ = &bomb, SECOND).unwrap();
        timer.new_timeout(|_| {}, SECOND).unwrap();
    }
    let panic = catch_unwind(AssertUnwindSafe(|| timer.cancel_all())).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(["first", "second"].contains(&message.as_str()));
    assert_eq!((timer.pending_timeouts(), timer.stats().cancelled), (0, 4));
}

fn a_run_that_is_cancelled_with_all_comes_to_its_end(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let task = move |itself: &Timeout| {
        count.fetch_add(1, Ordering::Relaxed);
        assert_eq!(itself.timer().cancel_all(), 1);
        assert!(!itself.cancel(), "somebody else was faster");
    };
    drop(
        timer
            .new_periodic(task, SECOND, Period::FixedRate(SECOND))
            .unwrap(),
    );
    clock.advance(SECOND * 5);
    assert_eq!(
        (runs.load(Ordering::Relaxed), Arc::strong_count(&runs)),
        (1, 1)
    );
}

fn threads_that_schedule_and_cancel_do_not_disturb_each_other(kind: Kind) {
    let timer = kind.real(Duration::from_millis(1));
    let cancelled: usize = thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let held: Vec<_> = (0..100)
                        .map(|_| timer.new_timeout(|_| {}, SECOND * 60).unwrap())
                        .collect();
                    for timeout in held.iter().step_by(2) {
                        timeout.cancel();
                    }
                }
            });
        }
        let all = (0..20).map(|_| {
            timer.for_each_pending(|pending| assert!(pending.remaining <= SECOND * 60));
            timer.cancel_all()
        });
        all.sum()
    });
    let left = timer.cancel_all();
    let stats = timer.stats();
    assert_eq!(stats.pending, 0);
    assert_eq!((stats.scheduled, stats.cancelled), (40_000, 40_000));
    assert!(stats.cancelled >= (cancelled + left) as u64);
}

/// On a clock that two timers share, a task of one schedules moments on the other, which has had nothing to do so far.
fn a_passed_moment_is_due_at_a_tick_that_is_to_come(kind: Kind) {
    let ms = Duration::from_millis;
    for (moment, due_tick) in [(10, 5), (40, 5), (50, 5), (51, 6), (70, 7)] {
        let clock = ManualClock::new();
        let [one, other] = [kind.on(&clock), kind.on(&clock)];
        let (handle, moment) = (other.handle(), one.now() + ms(moment));
        other.start().unwrap();
        let (seen, time) = (Arc::new(Mutex::new(Vec::new())), clock.clone());
        let noted = Arc::clone(&seen);
        let schedule = move |_: &Timeout| {
            let ran = Arc::clone(&noted);
            let task = move |_: &Timeout| ran.lock().unwrap().push(time.now());
            handle.new_timeout_at(task, moment).unwrap();
            handle.for_each_pending(|pending| {
                let time = ms(10) * u32::try_from(pending.due_tick).unwrap();
                noted.lock().unwrap().push(time);
            });
        };
        one.new_timeout(schedule, ms(50)).unwrap();
        clock.advance(SECOND);
        assert_eq!(*seen.lock().unwrap(), [ms(10) * due_tick; 2], "{moment:?}");
        assert!(other.stats().max_lateness <= ms(10));
    }
}

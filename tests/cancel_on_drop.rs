//! The guard that cancels its timeout.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use common::{Count, Guard, Kind, assert_counts_add_up, ms, on_both_timers};
use hashed_wheel::{CancelOnDrop, ManualClock, Period, Timeout};

on_both_timers![
    a_dropped_guard_cancels,
    a_guard_is_its_timeout,
    a_guard_that_is_given_up_cancels_nothing,
    a_guard_of_what_is_over_does_nothing,
    a_guard_cancels_a_periodic_one,
    a_guard_cancels_when_the_scope_panics,
    a_task_whose_drop_panics_leaves_nothing_behind,
    a_guard_outlives_its_timer,
    a_task_drops_the_guard_of_another,
];

#[test]
fn guards_can_be_sent_and_shared() {
    fn check<T: Send + Sync + std::fmt::Debug + 'static>() {}
    check::<CancelOnDrop>();
}

fn a_dropped_guard_cancels(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let (held, drops) = Guard::new();
    let task = move |_: &_| drop(held);
    let guard = timer.new_timeout(task, ms(50)).unwrap().cancel_on_drop();
    let kept = timer.new_timeout(runs.task(), ms(50)).unwrap();
    drop(guard);
    assert_eq!(
        drops.take(),
        [thread::current().id()],
        "the task is dropped here"
    );
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 1));
    clock.advance(ms(100));
    assert!(kept.is_expired());
    assert_counts_add_up(&timer);
}

fn a_guard_is_its_timeout(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let guard = timer.new_timeout(|_| {}, ms(50)).unwrap().cancel_on_drop();
    assert!(guard.reset(ms(100)));
    assert_eq!(guard.remaining(), ms(100));
    assert!(format!("{guard:?}").contains("pending"), "{guard:?}");
    assert!(guard.cancel() && guard.is_cancelled());
    drop(guard);
    assert_eq!(timer.stats().cancelled, 1);
}

fn a_guard_that_is_given_up_cancels_nothing(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let guard = timer
        .new_timeout(runs.task(), ms(50))
        .unwrap()
        .cancel_on_drop();
    let timeout: Timeout = guard.into_timeout();
    assert!(!timeout.is_cancelled());
    // And again, from a guard to a guard.
    let timeout = timeout.cancel_on_drop().into_timeout();
    clock.advance(ms(50));
    assert!(timeout.is_expired());
    assert_eq!(runs.get(), 1);
    drop(timeout);
    assert_counts_add_up(&timer);
}

fn a_guard_of_what_is_over_does_nothing(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let guard = timer
        .new_timeout(runs.task(), ms(50))
        .unwrap()
        .cancel_on_drop();
    clock.advance(ms(50));
    drop(guard);
    assert_eq!((runs.get(), timer.stats().cancelled), (1, 0));
}

fn a_guard_cancels_a_periodic_one(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let count = runs.clone();
    let task = move |_: &_| {
        count.add();
    };
    let rate = Period::FixedRate(ms(10));
    let guard = timer
        .new_periodic(task, ms(10), rate)
        .unwrap()
        .cancel_on_drop();
    clock.advance(ms(30));
    drop(guard);
    clock.advance(ms(100));
    assert_eq!((runs.get(), timer.stats().cancelled), (3, 1));
}

fn a_guard_cancels_when_the_scope_panics(kind: Kind) {
    let timer = kind.on(&ManualClock::new());
    let scope = AssertUnwindSafe(|| {
        let _guard = timer.new_timeout(|_| {}, ms(50)).unwrap().cancel_on_drop();
        panic!("on purpose");
    });
    assert!(catch_unwind(scope).is_err());
    assert_eq!((timer.stats().cancelled, timer.pending_timeouts()), (1, 0));
}

fn a_task_whose_drop_panics_leaves_nothing_behind(kind: Kind) {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for _ in 0..100 {
        let held = Panics;
        let task = move |_: &_| drop(held);
        let guard = timer.new_timeout(task, ms(50)).unwrap().cancel_on_drop();
        assert!(catch_unwind(AssertUnwindSafe(|| drop(guard))).is_err());
    }
    assert_eq!(
        (timer.stats().cancelled, timer.pending_timeouts()),
        (100, 0)
    );
    clock.advance(ms(100));
    assert_counts_add_up(&timer);
}

fn a_guard_outlives_its_timer(kind: Kind) {
    let timer = kind.real(ms(1));
    let guard = timer
        .new_timeout(|_| {}, ms(60_000))
        .unwrap()
        .cancel_on_drop();
    let other = timer
        .new_timeout(|_| {}, ms(60_000))
        .unwrap()
        .cancel_on_drop();
    drop(timer);
    assert!(guard.is_cancelled());
    drop(guard);
    drop(other.into_timeout());
}

fn a_task_drops_the_guard_of_another(kind: Kind) {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = kind.on(&clock);
    let guard = timer
        .new_timeout(runs.task(), ms(60))
        .unwrap()
        .cancel_on_drop();
    timer.new_timeout(move |_| drop(guard), ms(50)).unwrap();
    clock.advance(ms(100));
    assert_eq!((runs.get(), timer.stats().cancelled), (0, 1));
}

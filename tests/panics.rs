//! Foreign code that panics: tasks, their payloads, their drops, and the logger.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::mpsc;

use common::{
    Count, FAR, Guard, Kind, Record, assert_counts_add_up, logs, message_of, ms, on_both_timers,
    recv,
};
use hashed_wheel::{ManualClock, Period, Timeout};

on_both_timers![
    a_panic_is_counted_and_logged_and_the_neighbours_run,
    a_panic_with_any_payload_is_contained,
    a_payload_whose_own_drop_panics_is_contained,
    the_real_worker_survives_a_panic,
    captures_that_panic_after_the_run_are_contained,
    a_drop_that_panics_leaves_cancel_and_the_timer_stays_usable,
    drops_that_panic_in_the_returned_vector_are_caught,
    drops_that_panic_in_the_owners_drop_are_caught,
    a_periodic_task_cancelled_in_its_run_may_panic_in_its_drop,
    an_executor_that_panics_in_its_drop_is_contained,
    a_logger_may_call_the_timer,
    a_logger_that_panics_does_not_take_the_worker_down,
];

/// Panics when it is dropped.
struct Bomb(&'static str);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "dropped on purpose: {}", self.0);
    }
}

/// A text that no other test logs.
fn unique(text: &str, kind: Kind) -> String {
    format!("on purpose: {text}, {kind:?}")
}

fn a_panic_is_counted_and_logged_and_the_neighbours_run(kind: Kind) {
    logs::keep();
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let text = unique("a neighbour", kind);
    let message = text.clone();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    let bad = timer
        .new_timeout(move |_| panic!("{message}"), ms(10))
        .unwrap();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    timer.new_timeout(runs.task(), ms(20)).unwrap();
    clock.advance(ms(20));
    assert_eq!(runs.get(), 3);
    assert!(bad.is_expired());
    assert_eq!((timer.stats().panicked, timer.stats().expired), (1, 4));
    assert_eq!(logs::containing(&text).len(), 1, "logged with its message");
    assert_counts_add_up(&timer);
}

fn a_panic_with_any_payload_is_contained(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.new_timeout(|_| panic!("on purpose"), ms(10)).unwrap();
    timer
        .new_timeout(|_| panic!("{} purpose", "on"), ms(10))
        .unwrap();
    timer.new_timeout(|_| panic_any(42), ms(10)).unwrap();
    timer
        .new_timeout(|_| panic_any(Box::new(())), ms(10))
        .unwrap();
    clock.advance(ms(10));
    assert_eq!((timer.stats().panicked, timer.stats().expired), (4, 4));
}

fn a_payload_whose_own_drop_panics_is_contained(kind: Kind) {
    let clock = ManualClock::new();
    let (manual, real) = (kind.on(&clock), kind.real(ms(1)));
    let (done, signal) = mpsc::channel();
    for timer in [&manual, &real] {
        let done = done.clone();
        timer
            .new_timeout(|_| panic_any(Bomb("the payload")), ms(10))
            .unwrap();
        timer
            .new_timeout(move |_| done.send(()).unwrap(), ms(20))
            .unwrap();
    }
    clock.advance(ms(20));
    recv(&signal);
    recv(&signal);
    assert!(manual.stats().panicked >= 1);
    assert!(real.stats().panicked >= 1);
}

fn the_real_worker_survives_a_panic(kind: Kind) {
    let timer = kind.real(ms(1));
    for n in 1..=3 {
        let (done, signal) = mpsc::channel();
        timer.new_timeout(|_| panic!("on purpose"), ms(1)).unwrap();
        timer
            .new_timeout(move |_| done.send(()).unwrap(), ms(3))
            .unwrap();
        recv(&signal);
        assert_eq!(timer.stats().panicked, n);
    }
    assert!(timer.stop().unwrap().is_empty());
}

fn captures_that_panic_after_the_run_are_contained(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let (bomb, count) = (Bomb("after the run"), runs.clone());
    let task = move |_: &Timeout| {
        let _held = &bomb;
        count.add();
    };
    timer.new_timeout(task, ms(10)).unwrap();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(runs.get(), 2);
    assert_eq!((timer.stats().panicked, timer.stats().expired), (1, 2));
}

fn a_drop_that_panics_leaves_cancel_and_the_timer_stays_usable(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().max_pending(1).clock(&clock).build();
    for round in 1..=20 {
        let bomb = Bomb("in cancel");
        let timeout = timer.new_timeout(move |_| drop(bomb), ms(50)).unwrap();
        if round % 2 == 0 {
            clock.advance(ms(10));
        }
        let unwound = catch_unwind(AssertUnwindSafe(|| timeout.cancel())).unwrap_err();
        assert!(
            message_of(&*unwound).contains("in cancel"),
            "the panic is the caller's own"
        );
        assert!(timeout.is_cancelled());
        assert!(!timeout.cancel());
        assert_eq!(
            (timer.pending_timeouts(), timer.stats().cancelled),
            (0, round)
        );
    }
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(runs.get(), 1);
    assert_counts_add_up(&timer);
}

/// A timer with two bombs among three guarded tasks; some handles are kept.
fn with_bombs(kind: Kind) -> (common::Timer, Vec<Timeout>, Record<std::thread::ThreadId>) {
    let timer = kind.on(&ManualClock::new());
    let (guard, drops) = Guard::new();
    let mut held = vec![timer.new_timeout(move |_| drop(guard), FAR).unwrap()];
    for n in 0..2 {
        let (bomb, guard) = (Bomb("at the end"), Guard::on(&drops));
        let timeout = timer.new_timeout(move |_| drop(bomb), FAR).unwrap();
        timer.new_timeout(move |_| drop(guard), FAR).unwrap();
        if n == 0 {
            held.push(timeout);
        }
    }
    (timer, held, drops)
}

fn drops_that_panic_in_the_returned_vector_are_caught(kind: Kind) {
    let (timer, held, drops) = with_bombs(kind);
    let left = timer.stop().unwrap();
    assert_eq!(left.len(), 5);
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(left)));
    assert!(
        dropped.is_ok(),
        "a second panic while the vector unwinds would abort"
    );
    assert_eq!(drops.len(), 3, "the rest is still dropped");
    assert_eq!((timer.stats().panicked, timer.stats().unprocessed), (2, 5));
    assert!(held.iter().all(Timeout::is_cancelled));
}

fn drops_that_panic_in_the_owners_drop_are_caught(kind: Kind) {
    let (timer, held, drops) = with_bombs(kind);
    let handle = timer.handle();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(timer))).is_ok());
    assert_eq!(drops.len(), 3, "the rest is still dropped");
    assert_eq!(
        (handle.stats().panicked, handle.stats().unprocessed),
        (2, 5)
    );
    assert!(held.iter().all(Timeout::is_cancelled));
}

fn an_executor_that_panics_in_its_drop_is_contained(kind: Kind) {
    let clock = ManualClock::new();
    let bomb = Bomb("an executor");
    let executor = move |job: hashed_wheel::Job| {
        let _kept = &bomb;
        job();
    };
    let timer = kind.builder().clock(&clock).executor(executor).build();
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(10)).unwrap();
    clock.advance(ms(10));
    timer.stop().unwrap();
    // The next advance drops it.
    assert!(catch_unwind(AssertUnwindSafe(|| clock.advance(ms(10)))).is_ok());
    assert_eq!(runs.get(), 1);
}

fn a_periodic_task_cancelled_in_its_run_may_panic_in_its_drop(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let bomb = Bomb("at the end of a run");
    let runs = Count::new();
    let count = runs.clone();
    let task = move |t: &Timeout| {
        let _held = &bomb;
        count.add();
        assert!(t.cancel());
    };
    let periodic = timer
        .new_periodic(task, ms(10), Period::FixedRate(ms(10)))
        .unwrap();
    timer.new_timeout(runs.task(), ms(30)).unwrap();
    clock.advance(ms(100));
    assert_eq!(runs.get(), 2);
    assert!(periodic.is_cancelled());
    assert_eq!(timer.stats().panicked, 1);
    assert_counts_add_up(&timer);
}

fn a_logger_may_call_the_timer(kind: Kind) {
    let timer = kind.real(ms(1));
    let text = unique("the logger calls", kind);
    let (handle, marker) = (timer.handle(), text.clone());
    let (done, signal) = mpsc::channel();
    logs::on_each_line(move |line| {
        if line.text.contains(&marker) {
            let done = done.clone();
            assert_eq!(
                (handle.stats().scheduled, handle.pending_timeouts()),
                (1, 0)
            );
            assert!(handle.stop().is_err(), "this is the timer thread");
            assert!(handle.new_timeout(|_| {}, FAR).unwrap().cancel());
            handle
                .new_timeout(move |_| done.send(()).unwrap(), ms(1))
                .unwrap();
        }
    });
    timer.new_timeout(move |_| panic!("{text}"), ms(1)).unwrap();
    recv(&signal);
}

fn a_logger_that_panics_does_not_take_the_worker_down(kind: Kind) {
    let timer = kind.real(ms(1));
    let text = unique("the logger panics", kind);
    let marker = text.clone();
    logs::on_each_line(move |line| {
        assert!(!line.text.contains(&marker), "the logger fails on purpose");
    });
    timer.new_timeout(move |_| panic!("{text}"), ms(1)).unwrap();
    let (done, signal) = mpsc::channel();
    timer
        .new_timeout(move |_| done.send(()).unwrap(), ms(5))
        .unwrap();
    recv(&signal);
    assert!(timer.stats().panicked >= 1);
}

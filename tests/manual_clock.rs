//! The rules of virtual time: boundary by boundary, several timers merged, one thread at a time.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use common::{
    Count, Kind, Record, Timer, assert_counts_add_up, message_of, ms, noting, now_ms,
    on_both_timers,
};
use hashed_wheel::{ManualClock, StopError, Timeout, TimerState};

on_both_timers![
    timers_on_one_clock_are_merged_by_boundary_time,
    timers_started_at_different_times_keep_their_own_boundaries,
    a_task_reads_its_own_boundary,
    what_a_task_schedules_fires_within_the_same_advance,
    a_task_schedules_on_another_timer_of_the_clock,
    a_task_makes_a_new_timer_on_the_clock,
    advance_from_a_task_panics_and_is_contained,
    two_threads_take_turns,
    stop_from_a_task_is_refused_on_the_advancing_thread,
    another_threads_timeouts_join_a_running_advance,
    a_hundred_years_over_a_handful_of_timeouts_return_at_once,
    an_idle_timer_visits_nothing,
    wakeups_count_the_boundaries_visited,
    at_a_boundary_without_work_a_zero_delay_waits_for_the_next_advance,
    a_stopped_or_dropped_timer_is_left_behind,
];

fn every_ten(kind: Kind, clock: &ManualClock) -> Timer {
    kind.on(clock)
}

fn every_fifteen(kind: Kind, clock: &ManualClock) -> Timer {
    kind.builder().tick(ms(15)).clock(clock).build()
}

#[test]
fn a_clock_stands_still_until_it_is_told() {
    let clock = ManualClock::new();
    assert_eq!(clock.now(), Duration::ZERO);
    let same = clock.clone();
    clock.advance(ms(5));
    same.advance(Duration::from_nanos(7));
    assert_eq!(clock.now(), Duration::from_nanos(5_000_007));
    assert_eq!(same.now(), clock.now(), "a clone is the same clock");
    assert_eq!(ManualClock::default().now(), Duration::ZERO);
    clock.advance(Duration::ZERO);
    assert_eq!(clock.now(), same.now());
}

#[test]
fn the_clock_saturates() {
    let clock = ManualClock::new();
    clock.advance(ms(1));
    for _ in 0..2 {
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
    }
    clock.advance(ms(1));
    assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
}

fn timers_on_one_clock_are_merged_by_boundary_time(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let (tens, fifteens) = (every_ten(kind, &clock), every_fifteen(kind, &clock));
    for n in (1..=30).rev() {
        fifteens
            .new_timeout(noting(&seen, &clock, ("fifteens", n * 15)), ms(n * 15))
            .unwrap();
        tens.new_timeout(noting(&seen, &clock, ("tens", n * 10)), ms(n * 10))
            .unwrap();
    }
    clock.advance(ms(500));
    let seen = seen.take();
    assert_eq!(seen.len(), 60);
    assert!(seen.iter().all(|((_, due), at)| due == at), "{seen:?}");
    assert!(seen.is_sorted_by_key(|(_, at)| *at), "{seen:?}");
}

fn timers_started_at_different_times_keep_their_own_boundaries(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timers = [0, 1, 2].map(|_| every_ten(kind, &clock));
    for (n, timer) in timers.iter().enumerate() {
        timer.new_timeout(noting(&seen, &clock, n), ms(25)).unwrap();
        clock.advance(ms(3));
    }
    clock.advance(ms(100));
    assert_eq!(seen.take(), [(0, 30), (1, 33), (2, 36)]);
}

fn a_task_reads_its_own_boundary(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = every_ten(kind, &clock);
    for delay in [5, 95, 995] {
        timer
            .new_timeout(noting(&seen, &clock, delay), ms(delay))
            .unwrap();
    }
    clock.advance(ms(12_345));
    assert_eq!(seen.take(), [(5, 10), (95, 100), (995, 1_000)]);
    assert_eq!(
        now_ms(&clock),
        12_345,
        "and after it the clock is where it was sent"
    );
}

fn what_a_task_schedules_fires_within_the_same_advance(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = every_ten(kind, &clock);
    let (inner, too_late) = (
        noting(&seen, &clock, "due"),
        noting(&seen, &clock, "not yet"),
    );
    let task = move |t: &Timeout| {
        let near = t.timer().new_timeout(inner, ms(35)).unwrap();
        assert_eq!(near.remaining(), ms(35), "relative to the task's boundary");
        t.timer().new_timeout(too_late, ms(100)).unwrap();
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(seen.take(), [("due", 50)]);
    clock.advance(ms(10));
    assert_eq!(seen.take(), [("not yet", 110)]);
    assert_eq!(timer.stats().panicked, 0);
}

fn a_task_schedules_on_another_timer_of_the_clock(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let (tens, fifteens) = (every_ten(kind, &clock), every_fifteen(kind, &clock));
    fifteens.start().unwrap();
    let (other, inner) = (fifteens.handle(), noting(&seen, &clock, "fifteens"));
    tens.new_timeout(noting(&seen, &clock, "tens"), ms(40))
        .unwrap();
    tens.new_timeout(
        move |_| drop(other.new_timeout(inner, ms(6)).unwrap()),
        ms(20),
    )
    .unwrap();
    clock.advance(ms(100));
    assert_eq!(seen.take(), [("fifteens", 30), ("tens", 40)]);
}

fn a_task_makes_a_new_timer_on_the_clock(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = every_ten(kind, &clock);
    let made: Record<Timer> = Record::new();
    let (keep, clock_inside, inner) = (made.clone(), clock.clone(), noting(&seen, &clock, "new"));
    let task = move |_: &Timeout| {
        let new = every_fifteen(kind, &clock_inside);
        new.new_timeout(inner, ms(1)).unwrap();
        keep.push(new);
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(
        seen.take(),
        [("new", 25)],
        "its time zero is the task's boundary"
    );
    assert_eq!(made.len(), 1);
}

fn advance_from_a_task_panics_and_is_contained(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = every_ten(kind, &clock);
    let messages = Record::new();
    let (inside, note) = (clock.clone(), messages.clone());
    let catching = move |_: &Timeout| {
        let result = catch_unwind(AssertUnwindSafe(|| inside.advance(ms(50))));
        note.push(message_of(&*result.expect_err("it panics")));
    };
    timer.new_timeout(catching, ms(10)).unwrap();
    let inside = clock.clone();
    timer
        .new_timeout(move |_| inside.advance(ms(50)), ms(20))
        .unwrap();
    timer
        .new_timeout(noting(&seen, &clock, "after"), ms(30))
        .unwrap();
    clock.advance(ms(40));
    let messages = messages.take();
    assert!(
        messages[0].contains("advance"),
        "a clear message, not {:?}",
        messages[0]
    );
    assert_eq!((timer.stats().panicked, now_ms(&clock)), (1, 40));
    assert_eq!(seen.take(), [("after", 30)]);
    timer
        .new_timeout(noting(&seen, &clock, "again"), ms(10))
        .unwrap();
    clock.advance(ms(10));
    assert_eq!(
        seen.take(),
        [("again", 50)],
        "the clock is as good as before"
    );
}

fn two_threads_take_turns(kind: Kind) {
    const STEPS: u64 = 200;
    let clock = ManualClock::new();
    let timer = every_ten(kind, &clock);
    let (inside, seen) = (Arc::new(AtomicBool::new(false)), Record::new());
    for n in 1..=STEPS {
        let (inside, seen, clock) = (Arc::clone(&inside), seen.clone(), clock.clone());
        let task = move |_: &Timeout| {
            assert!(!inside.swap(true, Ordering::SeqCst), "two tasks at once");
            thread::yield_now();
            seen.push((n * 20, now_ms(&clock)));
            inside.store(false, Ordering::SeqCst);
        };
        timer.new_timeout(task, ms(n * 20)).unwrap();
    }
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..STEPS {
                    clock.advance(ms(10));
                }
            });
        }
    });
    assert_eq!((now_ms(&clock), timer.stats().panicked), (STEPS * 20, 0));
    let seen = seen.take();
    assert_eq!(seen.len() as u64, STEPS);
    assert!(
        seen.is_sorted() && seen.iter().all(|(due, at)| due == at),
        "{seen:?}"
    );
}

fn stop_from_a_task_is_refused_on_the_advancing_thread(kind: Kind) {
    let clock = ManualClock::new();
    let (timer, sibling) = (every_ten(kind, &clock), every_ten(kind, &clock));
    sibling.new_timeout(|_| {}, ms(500)).unwrap();
    let (other, answers) = (sibling.handle(), Record::new());
    let note = answers.clone();
    let task = move |t: &Timeout| {
        note.push(matches!(t.timer().stop(), Err(StopError::FromTimerThread)));
        note.push(matches!(other.stop(), Err(StopError::FromTimerThread)));
    };
    timer.new_timeout(task, ms(10)).unwrap();
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(20)).unwrap();
    clock.advance(ms(100));
    assert_eq!(
        answers.take(),
        [true, true],
        "this thread is the thread of both"
    );
    assert_eq!((timer.state(), runs.get()), (TimerState::Started, 1));
    assert_eq!(
        (sibling.state(), sibling.pending_timeouts()),
        (TimerState::Started, 1)
    );
    assert!(
        timer.stop().unwrap().is_empty(),
        "between advances it is an ordinary thread"
    );
}

fn another_threads_timeouts_join_a_running_advance(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = every_ten(kind, &clock);
    let (handle, inner) = (timer.handle(), noting(&seen, &clock, "joined"));
    let task = move |_: &Timeout| {
        let add = move || drop(handle.new_timeout(inner, ms(15)).unwrap());
        thread::spawn(add).join().unwrap();
    };
    timer.new_timeout(task, ms(10)).unwrap();
    clock.advance(ms(100));
    assert_eq!(seen.take(), [("joined", 30)]);
}

fn a_hundred_years_over_a_handful_of_timeouts_return_at_once(kind: Kind) {
    const YEAR: u64 = 365 * 24 * 3_600 * 1_000;
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().tick(ms(1)).buckets(20).clock(&clock).build();
    let delays = [1, 1_000, 60_000, YEAR, 10 * YEAR + 1, 99 * YEAR];
    for delay in delays {
        timer
            .new_timeout(noting(&seen, &clock, delay), ms(delay))
            .unwrap();
    }
    clock.advance(ms(100 * YEAR));
    assert_eq!(seen.take(), delays.map(|delay| (delay, delay)));
    let s = timer.stats();
    // "At once", counted: a boundary each, on the hierarchy one more for each step down.
    assert!(s.wakeups <= 6 + s.cascaded, "{s:?}");
    assert!(s.cascaded <= 6 * s.levels, "{s:?}");
}

fn an_idle_timer_visits_nothing(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().tick(ms(1)).clock(&clock).build();
    timer.start().unwrap();
    clock.advance(Duration::from_secs(3_600));
    assert_eq!((timer.stats().wakeups, timer.stats().bucket_visits), (0, 0));
}

fn wakeups_count_the_boundaries_visited(kind: Kind) {
    let clock = ManualClock::new();
    let timer = every_ten(kind, &clock);
    timer.new_timeout(|_| {}, ms(40)).unwrap();
    clock.advance(ms(9));
    assert_eq!(timer.stats().wakeups, 0);
    clock.advance(ms(21));
    assert_eq!(timer.stats().wakeups, 1, "10 ms: the queue was not empty");
    clock.advance(ms(1_000));
    assert_eq!(timer.stats().wakeups, 2, "40 ms");
    assert_counts_add_up(&timer);
}

fn at_a_boundary_without_work_a_zero_delay_waits_for_the_next_advance(kind: Kind) {
    let clock = ManualClock::new();
    let timer = every_ten(kind, &clock);
    timer.start().unwrap();
    clock.advance(ms(30));
    let runs = Count::new();
    timer.new_timeout(runs.task(), Duration::ZERO).unwrap();
    assert_eq!(runs.get(), 0, "never inline");
    clock.advance(ms(10));
    assert_eq!(runs.get(), 1);
}

fn a_stopped_or_dropped_timer_is_left_behind(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let [stopped, dropped, alive] = [0, 1, 2].map(|_| every_ten(kind, &clock));
    for (n, timer) in [&stopped, &dropped, &alive].into_iter().enumerate() {
        timer.new_timeout(noting(&seen, &clock, n), ms(50)).unwrap();
    }
    clock.advance(ms(20));
    assert_eq!(stopped.stop().unwrap().len(), 1);
    drop(dropped);
    clock.advance(ms(100));
    assert_eq!(seen.take(), [(2, 50)]);
    drop(clock);
    assert_eq!(
        alive.state(),
        TimerState::Started,
        "a timer keeps its clock"
    );
    assert!(alive.stop().unwrap().is_empty());
}

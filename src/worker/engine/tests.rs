//! The steps of an engine, taken one by one: what a boundary has room for, and what is caught up with.
//!
//! The timer is on a manual clock, but the test has put its own engine in its place: the clock moves time, and nothing
//! happens unless the test does it.

use super::Engine;
use crate::entry::SlotId;
use crate::shared::{Settings, Shared, in_loop};
use crate::time::{Clock, Scale, Tick};
use crate::tuning::{LATE_STEP, MAX_DEAD, SOON_NANOS, SWEEP_STEP};
use crate::{ManualClock, Timeout, TimerHandle};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
const FAR: Duration = Duration::from_secs(3600);

struct Bench {
    clock: ManualClock,
    shared: Arc<Shared>,
    timer: TimerHandle,
    engine: Engine,
}

impl Bench {
    fn new(max_transfers: usize) -> Bench {
        Bench::with(max_transfers, u64::MAX)
    }

    /// With late lanes, as a timer with a thread has them.
    fn lazy() -> Bench {
        Bench::with(usize::MAX, SOON_NANOS)
    }

    fn with(max_transfers: usize, soon: u64) -> Bench {
        let clock = ManualClock::new();
        let settings = Settings {
            name: "bench",
            scale: Scale::new(TICK.as_nanos() as u64),
            clock: Clock::Manual(clock.clone()),
            soon,
            max_pending: usize::MAX,
            has_executor: false,
            without_thread: Some(in_loop),
            is_driven: true,
            fine_ticks: false,
            slow_task: u64::MAX,
            is_global: false,
        };
        let driver = crate::worker::driver(crate::worker::hashed(1), None, 1);
        let shared = Shared::new(settings, driver, None);
        shared.start().unwrap();
        Bench {
            clock,
            timer: TimerHandle::new(Arc::clone(&shared)),
            shared,
            engine: Engine::new(crate::worker::hashed(512), None, max_transfers),
        }
    }

    /// Not at the clock's zero, where a difference and a sum are the same.
    fn late() -> Bench {
        let bench = Bench::new(usize::MAX);
        bench.clock.advance(3 * FAR + TICK / 2);
        bench
    }

    fn push(&self, count: usize, delay: Duration) -> Vec<Timeout> {
        (0..count)
            .map(|_| self.timer.new_timeout(|_| {}, delay).unwrap())
            .collect()
    }

    fn transfer(&mut self) -> u64 {
        self.engine.settle(&self.shared);
        self.timer.stats().transferred
    }

    /// Visits a boundary; how many have been moved and how many have fired after it.
    fn process_tick(&mut self, boundary: u64) -> (u64, u64) {
        self.engine
            .process_tick(&self.shared, Tick(boundary), Tick(boundary));
        let stats = self.timer.stats();
        (stats.transferred, stats.expired)
    }

    fn next_tick(&mut self) -> u64 {
        self.engine.next_tick(&self.shared).0
    }

    fn step(&mut self, passed: u64) -> bool {
        self.engine.step(&self.shared, Tick(passed))
    }

    /// Files so many entries in the wheel.
    fn file(&mut self, count: usize) -> Vec<Timeout> {
        let timeouts = (0..count)
            .map(|_| self.timer.new_timeout(|_| {}, FAR).unwrap())
            .collect();
        self.transfer();
        timeouts
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.shared.drop_driver();
        self.shared.drop_owner(false);
    }
}

#[test]
fn what_is_moved_early_is_charged_to_the_coming_boundary() {
    let mut bench = Bench::new(10);
    bench.push(35, Duration::ZERO);
    assert_eq!(bench.transfer(), 10);
    assert_eq!(bench.transfer(), 10, "there is no more room");
    assert_eq!(
        bench.process_tick(1),
        (10, 10),
        "nor at the boundary itself"
    );
    assert_eq!(bench.process_tick(2), (20, 20));
    assert_eq!(bench.transfer(), 30);
    assert_eq!(bench.process_tick(3), (30, 30));
    assert_eq!(bench.process_tick(4), (35, 35));
}

#[test]
fn a_worker_without_room_does_not_sleep_beyond_the_next_boundary() {
    let mut bench = Bench::new(1);
    assert!(bench.engine.can_transfer_before(Tick(1)), "there is room");
    bench.push(1, FAR);
    assert_eq!(bench.transfer(), 1);
    // It may have overlooked this one, which is due soon.
    bench.push(1, TICK);
    assert_eq!(bench.transfer(), 1);
    assert_eq!(bench.next_tick(), 1);
    assert!(
        !bench.engine.can_transfer_before(Tick(1)),
        "crowds need not wake it"
    );
    assert!(
        bench.engine.can_transfer_before(Tick(2)),
        "a boundary lies between"
    );
    assert_eq!(bench.process_tick(1), (1, 0));
    assert_eq!(bench.process_tick(2), (2, 1));
    assert_eq!(bench.next_tick(), 360_000);
}

#[test]
fn a_look_moves_nothing_and_the_very_next_boundary_has_work_while_anything_waits() {
    let mut bench = Bench::late();
    let next = |bench: &mut Bench| bench.engine.next_tick(&bench.shared);
    assert_eq!(next(&mut bench), Tick::NEVER);
    for delay in [100, 200, 5, 1] {
        bench.push(1, delay * TICK);
        assert_eq!(next(&mut bench), bench.engine.wheel.now().next());
    }
    assert_eq!(bench.engine.transferred, 0);
    bench.engine.settle(&bench.shared);
    assert_eq!(bench.engine.transferred, 4);
    let due = bench.shared.passed().0 + 2;
    assert_eq!(next(&mut bench), Tick(due), "nothing waits any more");
}

#[test]
fn after_a_sleep_no_boundary_is_skipped_at_which_what_was_pushed_is_due() {
    let mut bench = Bench::late();
    bench
        .engine
        .skip_idle_ticks(&bench.shared, bench.shared.passed());
    let due = bench.shared.passed().0 + 2;
    bench.push(1, TICK);
    bench.clock.advance(10 * TICK);
    bench
        .engine
        .account_for_sleep(&bench.shared, bench.shared.passed());
    assert_eq!(bench.engine.wheel.now(), Tick(due - 1));
    assert!(bench.engine.step(&bench.shared, bench.shared.passed()));
    assert_eq!(
        (bench.engine.fired, bench.engine.wheel.now()),
        (1, Tick(due))
    );
}

#[test]
fn after_a_sleep_boundaries_without_work_count_as_processed() {
    let mut bench = Bench::new(10);
    bench.clock.advance(100 * TICK + Duration::from_nanos(1));
    // Too few to have been waiting for long: they came just now.
    bench.push(35, Duration::ZERO);
    bench.engine.account_for_sleep(&bench.shared, Tick(100));
    assert_eq!(bench.next_tick(), 101);
    assert_eq!(bench.transfer(), 10);
    assert_eq!(bench.process_tick(101), (10, 10));
    assert_eq!(bench.process_tick(102), (20, 20));
}

#[test]
fn after_a_sleep_a_backlog_gets_the_room_of_the_boundaries_it_waited_through() {
    const BACKLOG: usize = 20_000;
    let mut bench = Bench::new(3_000);
    bench.push(BACKLOG, FAR);
    bench.clock.advance(100 * TICK);
    bench.engine.account_for_sleep(&bench.shared, Tick(99));
    // It needs six boundaries beside the one that comes: 7 × 3 000 ≥ 20 000.
    assert_eq!(bench.next_tick(), 94);
    for boundary in 94..=99 {
        let moved = (boundary - 93) * 3_000;
        assert_eq!(bench.process_tick(boundary), (moved, 0), "one room each");
    }
    assert_eq!(bench.process_tick(100), (BACKLOG as u64, 0));
    assert_eq!(bench.next_tick(), 360_000);
}

#[test]
fn a_backlog_that_has_not_waited_long_is_not_given_more_than_it_missed() {
    let mut bench = Bench::new(1_000);
    bench.clock.advance(98 * TICK);
    bench.push(20_000, FAR);
    bench.clock.advance(2 * TICK);
    bench.engine.account_for_sleep(&bench.shared, Tick(99));
    assert_eq!(bench.next_tick(), 99, "since 98");
}

#[test]
fn a_sweep_keeps_pace_with_what_comes_in_at_every_boundary() {
    let mut bench = Bench::new(usize::MAX);
    for boundary in 1..=30 {
        let held: Vec<_> = (0..20_000)
            .map(|_| bench.timer.new_timeout(|_| {}, FAR).unwrap())
            .collect();
        bench.process_tick(boundary);
        for timeout in &held {
            assert!(timeout.cancel());
        }
        drop(held);
        // One step after each boundary is all that a worker has time for that is always behind.
        bench.engine.sweep(&bench.shared);
        let filed = bench.timer.stats().filed;
        assert!(filed <= 4 * 20_000, "{filed} filed after {boundary} rounds");
    }
}

impl Bench {
    /// One turn of the thread's loop at that boundary. Returns the next one that has work.
    fn turn(&mut self, passed: u64) -> u64 {
        while self.step(passed) {}
        self.engine.skip_idle_ticks(&self.shared, Tick(passed));
        self.transfer();
        while self.engine.take_late(&self.shared, Tick(passed)) {}
        while self.engine.sweep(&self.shared) {}
        self.next_tick()
    }
}

#[test]
fn what_is_due_late_stays_in_the_queue_until_it_is_due() {
    let mut bench = Bench::lazy();
    bench.push(1_000, Duration::from_secs(30));
    bench.push(1, 2 * TICK);
    assert_eq!(bench.turn(0), 2);
    let stats = bench.timer.stats();
    assert_eq!((stats.transferred, stats.queued), (1, 1_000));
    assert_eq!(bench.turn(3), 3_000);
    bench.push(1, Duration::from_secs(10));
    assert_eq!(bench.turn(4), 1_000, "earlier than the others");
    for (boundary, expired) in [(999, 1), (1_000, 2), (2_999, 2), (3_000, 1_002)] {
        bench.turn(boundary);
        assert_eq!(bench.timer.stats().expired, expired, "at {boundary}");
    }
    assert_eq!(bench.turn(3_001), Tick::NEVER.0);
}

#[test]
fn many_late_numbers_are_taken_in_parts_that_begin_earlier() {
    let mut bench = Bench::lazy();
    let parts = 5;
    bench.push(parts * LATE_STEP, Duration::from_secs(30));
    let begins = 3_000 - parts as u64;
    assert_eq!(bench.turn(0), begins);
    assert_eq!(bench.turn(begins - 1), begins);
    for part in 1..parts {
        bench.turn(begins + part as u64 - 1);
        let transferred = bench.engine.transferred as usize;
        assert_eq!(transferred, part * LATE_STEP);
    }
    bench.turn(3_000);
    let stats = bench.timer.stats();
    assert_eq!(stats.expired as usize, parts * LATE_STEP);
}

#[test]
fn late_numbers_of_cancelled_timeouts_are_taken_when_there_are_many() {
    let mut bench = Bench::lazy();
    let far = Duration::from_secs(30);
    let cancelled = bench.push(3 * MAX_DEAD, far);
    bench.turn(0);
    assert!(cancelled.iter().all(Timeout::cancel));
    bench.turn(1);
    let stats = bench.timer.stats();
    assert_eq!((stats.queued as usize, stats.transferred), (MAX_DEAD, 0));
    // Few enough are left alone, and serve the timeouts that use their slots again.
    drop(cancelled);
    let again = bench.push(2 * MAX_DEAD, far);
    let queued = bench.timer.stats().queued as usize;
    assert!(queued < 3 * MAX_DEAD, "{queued}");
    bench.turn(4_000);
    assert_eq!(bench.timer.stats().expired as usize, again.len());
}

#[test]
fn a_step_processes_no_boundary_before_its_time() {
    let mut bench = Bench::new(1);
    assert!(!bench.step(9), "nothing is pending");
    bench.push(1, 5 * TICK);
    bench.transfer();
    assert!(!bench.step(4), "not yet");
    assert!(bench.step(6));
    assert_eq!(bench.engine.wheel.now(), Tick(5));
    assert!(!bench.step(6), "nothing is left");
}

#[test]
fn no_room_is_given_for_a_boundary_that_was_processed_before() {
    let mut bench = Bench::new(10);
    bench.process_tick(1);
    bench.push(35, FAR);
    assert_eq!(bench.transfer(), 10);
    bench.engine.skip_to(&bench.shared, Tick(1));
    assert_eq!(bench.transfer(), 10);
    bench.engine.skip_idle_ticks(&bench.shared, Tick(2));
    assert_eq!(bench.engine.wheel.now(), Tick(1), "what waits may be due");
    bench.engine.skip_to(&bench.shared, Tick(2));
    assert_eq!(bench.transfer(), 20);
}

#[test]
fn an_entry_that_is_pushed_once_a_later_boundary_was_chosen_comes_first() {
    let mut bench = Bench::new(10);
    bench.push(1, 5 * TICK);
    bench.transfer();
    assert_eq!(bench.next_tick(), 5);
    bench.push(1, TICK);
    assert_eq!(bench.process_tick(5), (2, 1));
    assert_eq!(bench.engine.wheel.now(), Tick(1));
    assert_eq!(bench.next_tick(), 5);
    assert_eq!(bench.process_tick(5), (2, 2));
}

/// An entry of a later boundary is in the wheel, and many slots that are due earlier wait: they come first, in one step or more.
#[test]
fn no_boundary_comes_before_what_waits_for_an_earlier_one() {
    const MANY: usize = 10_000;
    let mut bench = Bench::late();
    let later = Arc::new(AtomicU64::new(0));
    let fired = Arc::clone(&later);
    let (clock, task_clock) = (bench.clock.clone(), bench.clock.clone());
    let order = move |_: &Timeout| {
        fired.store(task_clock.now().as_nanos() as u64, Ordering::Relaxed);
    };
    bench.timer.new_timeout(order, 3 * TICK).unwrap();
    bench.engine.settle(&bench.shared);
    bench.push(MANY, TICK);
    clock.advance(20 * TICK);
    let passed = bench.shared.passed();
    while bench.engine.fired < MANY as u64 {
        assert!(bench.engine.step(&bench.shared, passed));
        assert_eq!(later.load(Ordering::Relaxed), 0, "the later one has run");
    }
    assert!(bench.engine.step(&bench.shared, passed));
    assert_ne!(later.load(Ordering::Relaxed), 0);
}

/// With a cap, what waits belongs to the next boundary, and what is in the wheel for that runs with it.
#[test]
fn under_the_cap_boundaries_run_in_order_and_what_was_scheduled_first_moves_first() {
    let mut bench = Bench::new(2);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |n: u32| {
        let seen = Arc::clone(&seen);
        move |_: &Timeout| seen.lock().unwrap().push(n)
    };
    let first: Vec<_> = (0..4)
        .map(|n| bench.timer.new_timeout(note(n), TICK).unwrap())
        .collect();
    // Armed again in the slots that wait in front: they are the last now.
    for (n, timeout) in (4..).zip(first.into_iter().take(2)) {
        assert!(timeout.cancel());
        drop(timeout);
        bench.timer.new_timeout(note(n), TICK).unwrap();
    }
    let slots = (0..6).filter(|n| bench.shared.slot(SlotId::from_number(*n)).find().is_some());
    assert_eq!(slots.count(), 4, "slots were used again");
    bench.clock.advance(TICK);
    assert_eq!(bench.process_tick(1), (2, 2));
    assert_eq!(*seen.lock().unwrap(), [2, 3]);
    bench.timer.new_timeout(note(9), TICK).unwrap();
    assert_eq!(bench.process_tick(2), (4, 4));
    assert_eq!(*seen.lock().unwrap(), [2, 3, 4, 5], "as they were armed");
    assert_eq!(bench.process_tick(3), (5, 5));
}

#[test]
fn a_backlog_that_ends_with_the_budget_gives_its_memory_back() {
    let mut bench = Bench::new(1_000);
    bench.push(5_000, FAR);
    for boundary in 1..=5 {
        bench.process_tick(boundary);
    }
    assert_eq!(bench.timer.stats().transferred, 5_000);
    assert!(bench.engine.backlog.is_empty());
    assert!(bench.engine.backlog.capacity() < 100);
}

#[test]
fn the_few_dead_entries_that_a_plan_sweeps_are_counted() {
    let mut bench = Bench::late();
    let timeouts = bench.push(5, 5 * TICK);
    bench.engine.settle(&bench.shared);
    for timeout in &timeouts[..3] {
        assert!(timeout.cancel());
    }
    let due = Tick(bench.shared.passed().0 + 6);
    assert_eq!(bench.engine.announce_plan(&bench.shared), Some(due));
    assert_eq!((bench.engine.swept, bench.engine.wheel.len()), (3, 2));
    assert!(timeouts[3].cancel());
    bench.clock.advance(TICK);
    bench.engine.end_planned_sleep(&bench.shared);
    assert_eq!(bench.engine.announce_plan(&bench.shared), Some(due));
    assert_eq!((bench.engine.swept, bench.engine.wheel.len()), (4, 1));
}

#[test]
fn a_sweep_begins_when_more_than_half_and_a_few_thousand_are_dead() {
    const LIVE: usize = 5_000;
    let mut bench = Bench::new(usize::MAX);
    let live = bench.file(LIVE);
    assert!(!bench.engine.sweep(&bench.shared), "none is dead");
    for timeout in bench.file(LIVE + MAX_DEAD) {
        assert!(timeout.cancel());
    }
    assert!(!bench.engine.sweep(&bench.shared), "not yet");
    assert!(live[0].cancel());
    assert!(bench.engine.sweep(&bench.shared));
    assert_eq!(bench.timer.stats().filed as usize, LIVE - 1);
}

#[test]
fn a_step_of_a_sweep_is_twice_what_has_come_in_and_no_less_than_some() {
    const BUCKETS: u32 = 400;
    const IN_EACH: usize = 100;
    let step = |come_in: u64| {
        let mut bench = Bench::new(usize::MAX);
        for bucket in 0..BUCKETS {
            bench.push(IN_EACH, FAR + bucket * TICK);
        }
        bench.transfer();
        bench.timer.cancel_all();
        bench.engine.swept_at = bench.engine.transferred - come_in;
        assert!(bench.engine.sweep(&bench.shared));
        let stats = bench.timer.stats();
        assert_eq!(
            stats.swept + stats.filed,
            u64::from(BUCKETS) * IN_EACH as u64
        );
        stats.swept as usize
    };
    assert_eq!(step(0), SWEEP_STEP.next_multiple_of(IN_EACH));
    assert_eq!(step(10_000), 20_000);
}

#[test]
fn the_bytes_of_the_wheel_are_counted_anew_after_a_large_change() {
    let mut bench = Bench::new(usize::MAX);
    bench.transfer();
    assert_eq!(bench.engine.weighed.get(), 0, "the empty wheel");
    bench.push(1_333, FAR);
    bench.transfer();
    assert_eq!(bench.engine.weighed.get(), 0, "1 000 and a quarter");
    let before = bench.timer.stats().bytes;
    bench.push(1, FAR);
    bench.transfer();
    assert_eq!(bench.engine.weighed.get(), 1_334);
    assert!(bench.timer.stats().bytes > before + 16 * 1_334);
}

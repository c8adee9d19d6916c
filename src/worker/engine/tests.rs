//! The steps of an engine, taken one by one: what a boundary has room for, and what is caught up with.
//!
//! The timer is on a manual clock, but the test has put its own engine in its place: the clock moves time, and nothing
//! happens unless the test does it.

use super::sweep::{MAX_DEAD, SWEEP_STEP};
use super::{Engine, MOVE_NANOS, TRANSFER_NANOS};
use crate::entry::{Entry, Liveness, SlotId};
use crate::metrics::WheelCounters;
use crate::shared::{Driver, Settings, Shared};
use crate::time::{Clock, Scale, Tick};
use crate::wheel::Wheel;
use crate::wheel::hashed::HashedWheel;
use crate::{HashedWheelTimer, ManualClock, Timeout, TimerHandle};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
const FAR: Duration = Duration::from_secs(3600);

struct Bench {
    clock: ManualClock,
    timer: HashedWheelTimer,
    shared: Arc<Shared>,
    engine: Engine<HashedWheel>,
    /// The timer's own, which has nothing to do meanwhile.
    unused: Option<Box<dyn Driver>>,
}

impl Bench {
    fn new(max_transfers: usize) -> Bench {
        let clock = ManualClock::new();
        let timer = HashedWheelTimer::builder()
            .tick_duration(TICK)
            .max_transfers_per_tick(max_transfers)
            .clock(&clock)
            .build()
            .unwrap();
        timer.start().unwrap();
        let shared = Arc::clone(timer.handle().shared());
        let unused = shared.driver().lock().take();
        Bench {
            clock,
            timer,
            shared,
            engine: Engine::new(HashedWheel::new(512), None, max_transfers),
            unused,
        }
    }

    fn push(&self, count: usize, delay: Duration) {
        for _ in 0..count {
            self.timer.new_timeout(|_| {}, delay).unwrap();
        }
    }

    fn transfer(&mut self) -> u64 {
        self.engine.transfer(&self.shared);
        self.timer.stats().transferred
    }

    /// Visits a boundary; how many have been moved and how many have fired after it.
    fn process_tick(&mut self, boundary: u64) -> (u64, u64) {
        self.engine.process_tick(&self.shared, Tick(boundary));
        let stats = self.timer.stats();
        (stats.transferred, stats.expired)
    }

    fn next_tick(&mut self) -> Option<u64> {
        let next = self.engine.next_tick(&self.shared);
        next.map(|boundary| boundary.0)
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
    /// The timer's driver goes back, or nobody could stop the timer.
    fn drop(&mut self) {
        *self.shared.driver().lock() = self.unused.take();
    }
}

/// A wheel whose first insertion takes a while.
struct SlowWheel {
    wheel: HashedWheel,
    clock: ManualClock,
    pause: Duration,
}

impl Wheel for SlowWheel {
    fn now(&self) -> Tick {
        self.wheel.now()
    }

    fn len(&self) -> usize {
        self.wheel.len()
    }

    fn insert(&mut self, entry: Entry) {
        self.clock.advance(mem::take(&mut self.pause));
        self.wheel.insert(entry);
    }

    fn next_expiration(&self) -> Option<Tick> {
        self.wheel.next_expiration()
    }

    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, liveness: &impl Liveness) {
        self.wheel.advance(to, due, liveness);
    }

    fn sweep(&mut self, limit: usize, liveness: &impl Liveness) -> usize {
        self.wheel.sweep(limit, liveness)
    }

    fn counters(&self) -> WheelCounters {
        self.wheel.counters()
    }

    fn bytes(&self) -> usize {
        self.wheel.bytes()
    }
}

/// As [`Bench`], on the way of a system clock: what is due soon is copied, the rest stays in the queue.
struct Loop {
    clock: ManualClock,
    shared: Arc<Shared>,
    timer: TimerHandle,
    engine: Engine<SlowWheel>,
}

impl Loop {
    /// `pause` is what the first insertion in the wheel takes.
    fn new(pause: Duration) -> Loop {
        let clock = ManualClock::new();
        let settings = Settings {
            name: "loop",
            scale: Scale::new(TICK.as_nanos() as u64),
            clock: Clock::Manual(clock.clone()),
            max_pending: usize::MAX,
            factory: None,
            thread_name: None,
            has_executor: false,
            is_driven: true,
            fine_ticks: false,
        };
        let shared = Shared::new(settings, crate::worker::hashed(1)(None, 1));
        shared.start_driven();
        let wheel = SlowWheel {
            wheel: HashedWheel::new(512),
            clock: clock.clone(),
            pause,
        };
        // Not at the clock's zero, where a difference and a sum are the same.
        clock.advance(3 * FAR + TICK / 2);
        Loop {
            clock,
            timer: TimerHandle::new(Arc::clone(&shared)),
            shared,
            engine: Engine::new(wheel, None, usize::MAX),
        }
    }

    fn push(&self, count: usize, delay: Duration) -> Vec<Timeout> {
        (0..count)
            .map(|_| self.timer.new_timeout(|_| {}, delay).unwrap())
            .collect()
    }
}

impl Drop for Loop {
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
    assert_eq!(bench.engine.next_wakeup(&bench.shared), Tick(1));
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
    assert_eq!(bench.engine.next_wakeup(&bench.shared), Tick(360_000));
}

#[test]
fn the_last_look_before_a_sleep_finds_what_has_come() {
    let mut bench = Bench::new(100);
    bench.push(1, FAR);
    bench.transfer();
    let wakeup = bench.engine.next_wakeup(&bench.shared);
    assert!(!bench.engine.transfer_and_recheck(&bench.shared, wakeup));
    bench.push(1, FAR + TICK);
    assert!(
        !bench.engine.transfer_and_recheck(&bench.shared, wakeup),
        "later than the plan"
    );
    bench.push(1, 5 * TICK);
    assert!(bench.engine.transfer_and_recheck(&bench.shared, wakeup));
    assert_eq!(bench.engine.next_wakeup(&bench.shared), Tick(5));
}

#[test]
fn after_a_sleep_boundaries_without_work_count_as_processed() {
    let mut bench = Bench::new(10);
    bench.clock.advance(100 * TICK + Duration::from_nanos(1));
    // Too few to have been waiting for long: they came just now.
    bench.push(35, Duration::ZERO);
    bench.engine.account_for_sleep(&bench.shared, Tick(100));
    assert_eq!(bench.next_tick(), Some(101));
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
    assert_eq!(bench.next_tick(), Some(94));
    for boundary in 94..=99 {
        let moved = (boundary - 93) * 3_000;
        assert_eq!(bench.process_tick(boundary), (moved, 0), "one room each");
    }
    assert_eq!(bench.process_tick(100), (BACKLOG as u64, 0));
    assert_eq!(bench.next_tick(), Some(360_000));
}

#[test]
fn a_backlog_that_has_not_waited_long_is_not_given_more_than_it_missed() {
    let mut bench = Bench::new(1_000);
    bench.clock.advance(98 * TICK);
    bench.push(20_000, FAR);
    bench.clock.advance(2 * TICK);
    bench.engine.account_for_sleep(&bench.shared, Tick(99));
    assert_eq!(bench.next_tick(), Some(99), "since 98");
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

/// As after `seq` has wrapped within one life: entries that no look can tell from the live one.
#[test]
fn a_sweep_that_finds_nothing_dead_comes_to_an_end() {
    let mut bench = Bench::new(usize::MAX);
    bench.push(1, FAR);
    let shared = Arc::clone(&bench.shared);
    let id = SlotId::from_number(0);
    let slot = shared.slot(id);
    let (due, seq) = (slot.status().due, slot.seq());
    let copy = Entry::new(due, seq, id, 0);
    assert_eq!(slot.live_due(copy), Some(due));
    let mut filed = 0;
    let mut steps = 0;
    for round in 1..=20 {
        for _ in 0..5_000 {
            bench.shared.enqueue(copy);
        }
        filed += 5_000;
        bench.process_tick(round);
        while bench.engine.sweep(&bench.shared) {
            steps += 1;
            assert!(steps < 1_000, "it does not end");
        }
        assert_eq!(bench.timer.stats().filed, filed + 1, "all look alive");
    }
    // Not anew for every entry that comes.
    assert!(steps < 300, "{steps} steps");
    // When they turn out to be dead, they go with the next round.
    assert!(slot.cancel(|| shared.count(|counters| counters.cancelled.add(1))));
    bench.push(60_000, FAR);
    bench.process_tick(21);
    while bench.engine.sweep(&shared) {}
    let stats = bench.timer.stats();
    assert!(stats.filed <= 2 * stats.pending + 4096, "{stats:?}");
}

#[test]
fn the_worker_wakes_so_early_that_all_that_waits_can_be_moved() {
    let lead = |max_transfers: usize, waiting: usize| {
        let mut bench = Bench::new(max_transfers);
        bench.push(waiting, FAR);
        bench.engine.reader.look(bench.shared.queue(), 0);
        bench.engine.lead(&bench.shared)
    };
    assert_eq!(lead(10, 0), 1, "nothing waits");
    assert_eq!(lead(10, 25), 3, "two boundaries' worth");
    let in_a_tick = TICK.as_nanos() as usize / MOVE_NANOS as usize;
    assert_eq!(lead(usize::MAX, 2 * in_a_tick), 3, "two ticks of work");
}

#[test]
fn no_boundary_comes_before_its_time_or_before_the_queue_is_looked_at() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.engine.next_filed_tick(Tick(9)), None, "nothing filed");
    bench.push(1, 5 * TICK);
    bench.transfer();
    assert_eq!(bench.engine.next_filed_tick(Tick(4)), None, "not yet");
    assert_eq!(bench.engine.next_filed_tick(Tick(5)), Some(Tick(5)));
    assert_eq!(bench.engine.next_filed_tick(Tick(6)), Some(Tick(5)));
    bench.push(1, TICK);
    bench.transfer();
    assert_eq!(bench.engine.next_filed_tick(Tick(6)), None, "one is queued");
}

#[test]
fn no_room_is_given_for_a_boundary_that_was_processed_before() {
    let mut bench = Bench::new(10);
    bench.process_tick(1);
    bench.push(35, FAR);
    assert_eq!(bench.transfer(), 10);
    bench.engine.skip_idle_ticks(&bench.shared, Tick(1));
    assert_eq!(bench.transfer(), 10);
    bench.engine.skip_idle_ticks(&bench.shared, Tick(2));
    assert_eq!(bench.transfer(), 20);
}

#[test]
fn what_is_pushed_once_a_later_boundary_was_chosen_waits_for_the_next() {
    let mut bench = Bench::new(10);
    bench.push(1, 5 * TICK);
    bench.transfer();
    assert_eq!(bench.next_tick(), Some(5));
    bench.push(1, TICK);
    assert_eq!(bench.process_tick(5), (1, 1));
    assert_eq!(bench.next_tick(), Some(6));
    assert_eq!(bench.process_tick(6), (2, 2));
}

#[test]
fn what_has_to_leave_the_queue_takes_along_what_is_due_a_tenth_of_a_second_later() {
    let mut bench = Loop::new(Duration::ZERO);
    // A few would be taken out whole.
    bench.push(1_000, FAR);
    for (delay, moved) in [(12, 0), (5, 0), (0, 2), (9, 2), (0, 4), (100, 4)] {
        bench.push(1, delay * TICK);
        bench.engine.transfer(&bench.shared);
        assert_eq!(bench.engine.transferred, moved, "{delay} ticks");
    }
}

#[test]
fn a_transfer_goes_on_until_it_has_taken_its_time() {
    const MANY: usize = 10_000;
    let moved = |pause: u64| {
        let mut bench = Loop::new(Duration::from_nanos(pause));
        bench.push(MANY, Duration::ZERO);
        bench.engine.transfer(&bench.shared);
        let all = bench.engine.transferred >= MANY as u64;
        assert_eq!(bench.engine.is_transferring(), !all);
        all
    };
    assert!(moved(0));
    assert!(moved(TRANSFER_NANOS));
    assert!(!moved(TRANSFER_NANOS + 1));
}

#[test]
fn a_turn_knows_how_many_transfers_meet_all_that_waits() {
    let mut bench = Loop::new(Duration::ZERO);
    assert_eq!(bench.engine.transfers_to_go(&bench.shared), 0);
    bench.push(10_000, FAR);
    assert_eq!(bench.engine.transfers_to_go(&bench.shared), 3);
}

#[test]
fn a_plan_counts_the_few_dead_entries_that_it_sweeps() {
    let mut bench = Loop::new(Duration::ZERO);
    let timeouts = bench.push(5, 5 * TICK);
    bench.engine.transfer(&bench.shared);
    for timeout in &timeouts[..3] {
        assert!(timeout.cancel());
    }
    let due = bench.shared.passed().0 + 6;
    assert_eq!(bench.engine.plan(&bench.shared), Tick(due));
    assert_eq!((bench.engine.swept, bench.engine.wheel.len()), (3, 2));
    assert!(timeouts[3].cancel());
    bench.clock.advance(TICK);
    assert_eq!(bench.engine.plan(&bench.shared), Tick(due));
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
fn a_round_in_vain_is_followed_by_another_after_half_as_many_transfers() {
    let mut bench = Bench::new(usize::MAX);
    bench.push(1, FAR);
    bench.transfer();
    let id = SlotId::from_number(0);
    let slot = bench.shared.slot(id);
    // As if `seq` had wrapped: no look can tell it from the live one.
    let copy = Entry::new(slot.status().due, slot.seq(), id, 0);
    let mut file = |count: usize| {
        for _ in 0..count {
            bench.shared.enqueue(copy);
        }
        bench.engine.transfer(&bench.shared);
        bench.engine.sweep(&bench.shared)
    };
    assert!(file(9_999), "all 10 000 are looked at");
    assert!(!file(4_999));
    assert!(file(1));
}

#[test]
fn a_step_of_a_sweep_is_twice_what_has_come_in_and_no_less_than_some() {
    const DEAD: usize = 40_000;
    let step = |come_in: u64| {
        let mut bench = Bench::new(usize::MAX);
        for timeout in bench.file(DEAD) {
            assert!(timeout.cancel());
        }
        bench.engine.swept_at = bench.engine.transferred - come_in;
        assert!(bench.engine.sweep(&bench.shared));
        let stats = bench.timer.stats();
        assert_eq!(stats.swept + stats.filed, DEAD as u64);
        stats.swept as usize
    };
    assert_eq!(step(0), SWEEP_STEP);
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

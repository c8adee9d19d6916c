//! The driver against a naive model. The timer takes the way of a system clock, but reads a manual one, which nobody drives:
//! so what `turn` and `next_due` must answer is known to the nanosecond.

use super::TimerDriver;
use crate::api::timer::{self, WheelTimer};
use crate::shared::in_loop;
use crate::{
    HashedWheelTimer, HashedWheelTimerBuilder, HierarchicalWheelTimer,
    HierarchicalWheelTimerBuilder, ManualClock, Timeout, TimerHandle,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const TICK: u64 = 1_000_000;
/// So few that every entry of the wheel is looked at before the loop sleeps.
const MOST_SCHEDULED: usize = 60;

enum Owner {
    Hashed(HashedWheelTimer),
    Hierarchical(HierarchicalWheelTimer),
}

impl Owner {
    fn handle(&self) -> TimerHandle {
        match self {
            Owner::Hashed(timer) => timer.handle(),
            Owner::Hierarchical(timer) => timer.handle(),
        }
    }
}

fn on_clock(clock: &ManualClock, hierarchical: bool) -> (Owner, TimerDriver) {
    let tick = Duration::from_nanos(TICK);
    if hierarchical {
        let builder = HierarchicalWheelTimerBuilder::default().wheel_size(4);
        let shared = builder
            .tick_duration(tick)
            .clock(clock)
            .build_shared(Some(in_loop));
        let shared = shared.unwrap();
        let driver = TimerDriver::start(&shared);
        let owner = Owner::Hierarchical(WheelTimer::from_owner(timer::Owner::new(shared)));
        return (owner, driver);
    }
    let builder = HashedWheelTimerBuilder::default().ticks_per_wheel(8);
    let shared = builder
        .tick_duration(tick)
        .clock(clock)
        .build_shared(Some(in_loop));
    let shared = shared.unwrap();
    let driver = TimerDriver::start(&shared);
    (
        Owner::Hashed(WheelTimer::from_owner(timer::Owner::new(shared))),
        driver,
    )
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Mostly short, at times far away, rarely never.
    fn delay(&mut self) -> Duration {
        Duration::from_nanos(match self.below(8) {
            0 => 0,
            1..=4 => self.below(20 * TICK),
            5 => self.below(500 * TICK),
            6 => self.below(100_000 * TICK),
            _ => return Duration::MAX,
        })
    }
}

/// A timeout as the model knows it; the due time is `None` for one that never fires.
struct Known {
    timeout: Timeout,
    due: Option<u64>,
    pending: bool,
}

struct World {
    clock: ManualClock,
    timer: TimerHandle,
    /// The end of the timer.
    _owner: Owner,
    driver: TimerDriver,
    known: Vec<Known>,
    calls: Arc<AtomicUsize>,
    /// The number of calls that the hook ought to have had.
    expected_calls: usize,
    /// The last answer of `next_due`, while the loop sleeps and has not been woken.
    #[expect(clippy::option_option, reason = "awake, asleep for ever, asleep until")]
    asleep_until: Option<Option<u64>>,
    exact: bool,
}

impl World {
    fn new(hierarchical: bool) -> World {
        let clock = ManualClock::new();
        let (owner, mut driver) = on_clock(&clock, hierarchical);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        driver.on_wake(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        // Never on a boundary: whether that has been processed is not the question here.
        clock.advance(Duration::from_nanos(1));
        World {
            clock,
            timer: owner.handle(),
            _owner: owner,
            driver,
            known: Vec::new(),
            calls,
            expected_calls: 0,
            asleep_until: None,
            // A cascade is no timeout.
            exact: !hierarchical,
        }
    }

    fn now(&self) -> u64 {
        self.clock.nanos()
    }

    fn due(&self, delay: Duration) -> Option<u64> {
        let delay = u64::try_from(delay.as_nanos()).ok()?;
        Some((self.now() + delay).div_ceil(TICK) * TICK)
    }

    fn advance(&mut self, nanos: u64) {
        self.clock.advance(Duration::from_nanos(nanos));
        if self.now() % TICK == 0 {
            self.clock.advance(Duration::from_nanos(1));
        }
    }

    /// Something is now due then.
    fn note_due(&mut self, due: Option<u64>) {
        let Some(until) = self.asleep_until else {
            return;
        };
        let earlier = match (due, until) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(due), Some(until)) => due < until,
        };
        if earlier {
            self.expected_calls += 1;
            self.asleep_until = None;
        }
    }

    fn schedule(&mut self, delay: Duration) {
        let due = self.due(delay);
        let timeout = self.timer.new_timeout(|_| {}, delay).unwrap();
        self.known.push(Known {
            timeout,
            due,
            pending: true,
        });
        self.note_due(due);
    }

    fn cancel(&mut self, place: usize) {
        let known = &mut self.known[place];
        assert_eq!(known.timeout.cancel(), known.pending);
        known.pending = false;
    }

    fn reset(&mut self, place: usize, delay: Duration) {
        let due = self.due(delay);
        let known = &mut self.known[place];
        assert_eq!(known.timeout.reset(delay), known.pending);
        if known.pending {
            // An entry stays where it was, and wakes the loop once.
            self.exact &= due.is_some() && due <= known.due;
            known.due = due;
            self.note_due(due);
        }
    }

    fn turn(&mut self) {
        let now = self.now();
        let mut due = 0;
        for known in &mut self.known {
            if known.pending && known.due.is_some_and(|due| due <= now) {
                known.pending = false;
                due += 1;
            }
        }
        assert_eq!(self.driver.turn(), due, "at {now}");
        for known in &self.known {
            let expired = known.timeout.is_expired();
            assert_eq!(expired, !known.pending && !known.timeout.is_cancelled());
        }
        self.asleep_until = None;
    }

    /// Returns the answer.
    fn next_due(&mut self) -> Option<u64> {
        let now = self.now();
        let instant = self.driver.next_due();
        let answer = instant.map(|due| (due - self.clock.origin()).as_nanos() as u64);
        let pending = self.known.iter().filter(|known| known.pending);
        match (pending.filter_map(|known| known.due).min(), answer) {
            (None, answer) => assert!(!self.exact || answer.is_none(), "{answer:?} of nothing"),
            (Some(truth), Some(answer)) => {
                assert!(answer <= truth, "{answer} is later than {truth}");
                // A cascade or a dead entry may have passed: then the loop turns at once.
                let is_exact = self.exact && truth > now;
                assert!(!is_exact || answer > now, "{answer} has passed at {now}");
                assert!(
                    !self.exact || answer == truth,
                    "{answer} instead of {truth}"
                );
            }
            (Some(truth), None) => panic!("nothing instead of {truth}"),
        }
        self.asleep_until = Some(answer);
        answer
    }

    /// What a loop does: it comes to an end.
    fn run_loop(&mut self) {
        let mut rounds = 0;
        while let Some(due) = self.next_due() {
            self.advance(due.saturating_sub(self.now()));
            self.turn();
            rounds += 1;
            assert!(rounds < 2000, "it turns without end");
        }
        let pending = |known: &&Known| known.pending && known.due.is_some();
        assert_eq!(self.known.iter().filter(pending).count(), 0);
    }
}

fn run_case(seed: u64, hierarchical: bool) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mut world = World::new(hierarchical);
    for _ in 0..150 {
        let some = random.below(world.known.len().max(1) as u64) as usize;
        match random.below(10) {
            0..=3 if world.known.len() < MOST_SCHEDULED => {
                let delay = random.delay();
                world.schedule(delay);
            }
            4 if !world.known.is_empty() => world.cancel(some),
            5 if !world.known.is_empty() => {
                let delay = random.delay();
                world.reset(some, delay);
            }
            6 => world.turn(),
            7 => {
                let short = random.below(4 * TICK);
                world.advance(short);
            }
            8 => {
                let long = random.below(300 * TICK);
                world.advance(long);
            }
            _ => {
                world.next_due();
            }
        }
        assert_eq!(
            world.calls.load(Ordering::Relaxed),
            world.expected_calls,
            "calls of the hook"
        );
    }
    world.run_loop();
}

#[test]
fn what_the_driver_answers_is_what_the_model_says() {
    for seed in 1..=150 {
        run_case(seed, false);
        run_case(seed, true);
    }
}

#[test]
fn dead_entries_by_the_thousand_do_not_hide_that_nothing_is_pending() {
    for hierarchical in [false, true] {
        let clock = ManualClock::new();
        let (owner, mut driver) = on_clock(&clock, hierarchical);
        let schedule = |_| {
            let delay = Duration::from_nanos(50 * TICK);
            owner.handle().new_timeout(|_| {}, delay).unwrap()
        };
        let timeouts: Vec<_> = (0..5000).map(schedule).collect();
        assert!(driver.next_due().is_some());
        for timeout in &timeouts {
            timeout.cancel();
        }
        assert_eq!(driver.next_due(), None);
        clock.advance(Duration::from_nanos(100 * TICK));
        assert_eq!(driver.next_due(), None);
        assert_eq!(driver.turn(), 0);
    }
}

#[test]
fn no_boundary_counts_as_processed_before_the_tasks_of_an_earlier_one() {
    for hierarchical in [false, true] {
        let clock = ManualClock::new();
        let (owner, mut driver) = on_clock(&clock, hierarchical);
        let timer = owner.handle();
        let (inside, seen) = (timer.clone(), Arc::new(AtomicUsize::new(0)));
        let noted = Arc::clone(&seen);
        let task = move |_: &Timeout| noted.store(inside.stats().tick as usize, Ordering::Relaxed);
        timer
            .new_timeout(task, Duration::from_nanos(3 * TICK))
            .unwrap();
        // The loop finds out that it is due, and takes its time.
        for _ in 0..3 {
            clock.advance(Duration::from_nanos(10 * TICK));
            assert!(driver.next_due().is_some());
            assert!(timer.stats().tick < 3, "{}", timer.stats().tick);
        }
        assert_eq!(driver.turn(), 1);
        assert_eq!(seen.load(Ordering::Relaxed), 3);
        assert_eq!(timer.stats().tick, 30);
    }
}

#[test]
fn a_hook_that_comes_too_late_is_told_what_it_has_missed() {
    let clock = ManualClock::new();
    let (owner, mut driver) = on_clock(&clock, false);
    let calls = Arc::new(AtomicUsize::new(0));
    let hook = || {
        let calls = Arc::clone(&calls);
        move || {
            calls.fetch_add(1, Ordering::Relaxed);
        }
    };
    let schedule = || {
        let delay = Duration::from_nanos(TICK);
        owner.handle().new_timeout(|_| {}, delay).unwrap()
    };
    driver.next_due();
    schedule();
    driver.on_wake(hook());
    assert_eq!(calls.load(Ordering::Relaxed), 1, "at once");
    driver.on_wake(hook());
    assert_eq!(calls.load(Ordering::Relaxed), 1, "once");
    clock.advance(Duration::from_nanos(2 * TICK));
    assert_eq!(driver.turn(), 1);
    driver.next_due();
    schedule();
    assert_eq!(
        calls.load(Ordering::Relaxed),
        2,
        "by the one that was set last"
    );
}

//! The contract that all contestants keep: each fires exactly what a naive model says, once, at the boundary
//! it says. Whoever fires something else has no place in a comparison.
//!
//! `kernel` is late by design. The model gives each of its timeouts a window instead of a boundary: never
//! before it is due, and never later than the granularity of the level it was filed on. All others have a
//! window of one boundary.

use super::{Contestant, Sizes, TICK, Timer};
use crate::random::Random;
use hashed_wheel::{ManualClock, Timeout};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What has fired: the boundary, and which timeout.
type Fired = Arc<Mutex<Vec<(u64, usize)>>>;

/// A timer, and a list of what has to fire at which boundary.
struct Pair {
    contestant: Contestant,
    clock: ManualClock,
    timer: Timer,
    fired: Fired,
    /// By number; without those that were cancelled.
    model: BTreeMap<usize, Window>,
    timeouts: Vec<Timeout>,
}

/// The boundaries at which a timeout may fire.
#[derive(Clone, Copy, Debug)]
struct Window {
    due: u64,
    /// So many ticks later at most. 0 for all contestants but `kernel`.
    late: u64,
}

impl Window {
    fn contains(self, boundary: u64) -> bool {
        (self.due..=self.due + self.late).contains(&boundary)
    }
}

impl Pair {
    fn new(contestant: Contestant, slots: usize, wheel_size: usize) -> Pair {
        let clock = ManualClock::new();
        let sizes = Sizes { slots, wheel_size };
        let timer = Timer::manual(contestant, sizes, &clock);
        timer.handle.start().unwrap();
        Pair {
            contestant,
            clock,
            timer,
            fired: Fired::default(),
            model: BTreeMap::new(),
            timeouts: Vec::new(),
        }
    }

    fn now(&self) -> u64 {
        (self.clock.now().as_nanos() / TICK.as_nanos()) as u64
    }

    /// From the first boundary at or after the deadline that has not been processed.
    fn window(&self, delay: Duration) -> Window {
        let (now, tick) = (self.clock.now().as_nanos(), TICK.as_nanos());
        let deadline = now + delay.as_nanos();
        let due = deadline.div_ceil(tick).max(now / tick + 1) as u64;
        Window {
            due,
            late: self.contestant.lateness(due - self.now()),
        }
    }

    fn schedule(&mut self, delay: Duration) {
        let number = self.timeouts.len();
        let (fired, clock) = (Arc::clone(&self.fired), self.clock.clone());
        let task = move |_: &Timeout| {
            let boundary = (clock.now().as_nanos() / TICK.as_nanos()) as u64;
            fired.lock().unwrap().push((boundary, number));
        };
        let timeout = self.timer.handle.new_timeout(task, delay).unwrap();
        self.timeouts.push(timeout);
        self.model.insert(number, self.window(delay));
    }

    fn cancel(&mut self, number: usize) {
        let expected = self.model.contains_key(&number);
        assert_eq!(self.timeouts[number].cancel(), expected);
        self.model.remove(&number);
    }

    fn reset(&mut self, number: usize, delay: Duration) {
        let before = self.model.get(&number).copied();
        assert_eq!(self.timeouts[number].reset(delay), before.is_some());
        if let Some(before) = before {
            // A reset to later leaves the entry where it is, on the level of the longest delay so far.
            let mut window = self.window(delay);
            window.late = window.late.max(before.late);
            self.model.insert(number, window);
        }
    }

    /// Moves on, and holds what has fired against the model: each once, none early, none too late and
    /// none forgotten.
    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        let now = self.now();
        let fired = std::mem::take(&mut *self.fired.lock().unwrap());
        assert!(fired.is_sorted_by_key(|&(boundary, _)| boundary));
        for (boundary, number) in fired {
            let window = self.model.remove(&number);
            let window = window.unwrap_or_else(|| panic!("{number} fired twice or was cancelled"));
            assert!(window.contains(boundary), "at {boundary}: {window:?}");
        }
        for (number, window) in &self.model {
            assert!(
                window.due + window.late > now,
                "{number} forgotten: {window:?}"
            );
        }
        assert_eq!(self.timer.handle.pending_timeouts(), self.model.len());
    }
}

/// A time of any order of magnitude up to `longest` ticks, on and between boundaries.
fn time(random: &mut Random, longest: u64) -> Duration {
    let scale = random.below(u64::from(longest.ilog2()) + 1);
    let ticks = random.below(2 << scale);
    let part = random.below(4) * TICK.as_nanos() as u64 / 4;
    TICK * ticks as u32 + Duration::from_nanos(part)
}

fn random_schedules(contestant: Contestant) {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let slots = 1 << random.below(8);
        let mut pair = Pair::new(contestant, slots, 2 + random.below(30) as usize);
        for _ in 0..400 {
            let number = random.below(pair.timeouts.len() as u64 + 1) as usize;
            let is_one = number < pair.timeouts.len();
            match random.below(10) {
                0..5 => {
                    let delay = time(&mut random, 4000);
                    pair.schedule(delay);
                }
                5..7 if is_one => pair.cancel(number),
                7 if is_one => {
                    let delay = time(&mut random, 4000);
                    pair.reset(number, delay);
                }
                _ => {
                    let by = time(&mut random, 500);
                    pair.advance(by);
                }
            }
        }
        pair.advance(TICK * 10_000);
        assert!(pair.model.is_empty());
    }
}

/// Enough is cancelled for sweeps to set in, while others stay.
fn sweeps(contestant: Contestant) {
    let mut random = Random::new(1);
    let mut pair = Pair::new(contestant, 64, 20);
    for _ in 0..20_000 {
        let delay = time(&mut random, 4000) + TICK * 10;
        pair.schedule(delay);
    }
    pair.advance(TICK);
    for number in 0..20_000 {
        if number % 20 != 0 {
            pair.cancel(number);
        }
    }
    pair.advance(TICK);
    let stats = pair.timer.handle.stats();
    assert!(stats.swept > 0, "{stats:?}");
    assert!(stats.filed < 10_000, "{stats:?}");
    pair.advance(TICK * 10_000);
    assert!(pair.model.is_empty());
    assert_eq!(pair.timer.handle.stats().filed, 0);
}

/// What is pending comes back from `stop`.
fn stops(contestant: Contestant) {
    let mut pair = Pair::new(contestant, 8, 3);
    for number in 1..=100 {
        pair.schedule(TICK * number);
    }
    pair.advance(TICK * 40);
    assert_eq!(pair.timer.handle.stop().unwrap().len(), 60);
}

macro_rules! contract {
    ($($name:ident: $contestant:ident),*) => {$(
        mod $name {
            use crate::contestant::Contestant;

            #[test]
            fn fires_what_the_model_says_when_it_says() {
                super::random_schedules(Contestant::$contestant);
            }

            #[test]
            fn keeps_the_living_through_sweeps() {
                super::sweeps(Contestant::$contestant);
            }

            #[test]
            fn gives_back_what_is_pending() {
                super::stops(Contestant::$contestant);
            }
        }
    )*};
}

contract!(hashed: Hashed, hierarchical: Hierarchical, kernel: Kernel, classic: Classic, heap: Heap, btree: Btree);

/// What makes `classic` the baseline: it comes by at every tick, and passes each entry over once a round.
#[test]
fn the_classic_wheel_wakes_at_every_tick_and_counts_rounds_down() {
    let mut pair = Pair::new(Contestant::Classic, 8, 20);
    pair.schedule(TICK * 30);
    pair.advance(TICK * 100);
    let stats = pair.timer.handle.stats();
    // Bucket 6, passed over at 6, 14 and 22, and fired at 30.
    assert_eq!((stats.wakeups, stats.bucket_visits), (100, 100));
    assert_eq!((stats.passed_over, stats.expired), (3, 1));
}

/// The boundaries at which single timeouts fire on the kernel's wheel.
fn fired_at(delays: &[u64], from: u64, advance: u64) -> Vec<u64> {
    let mut pair = Pair::new(Contestant::Kernel, 8, 20);
    pair.clock.advance(TICK * from as u32);
    for &delay in delays {
        pair.schedule(Duration::from_nanos(delay * TICK.as_nanos() as u64));
    }
    pair.clock
        .advance(Duration::from_nanos(advance * TICK.as_nanos() as u64));
    let mut fired: Vec<_> = pair
        .fired
        .lock()
        .unwrap()
        .iter()
        .map(|&(at, who)| (who, at))
        .collect();
    fired.sort_unstable();
    fired.into_iter().map(|(_, boundary)| boundary).collect()
}

/// Worked by hand: the first multiple of the level's granularity at or after the deadline.
#[test]
fn the_kernels_wheel_rounds_up_to_the_granularity_of_the_level() {
    let delays = [1, 62, 63, 64, 65, 503, 504, 513, 4031, 4032];
    let expected = [1, 62, 64, 64, 72, 504, 512, 576, 4032, 4096];
    assert_eq!(fired_at(&delays, 0, 5_000), expected);
    // The same delays from tick 5 on: what counts is the deadline.
    let expected = [6, 67, 72, 72, 72, 512, 512, 576, 4096, 4096];
    assert_eq!(fired_at(&delays, 5, 5_000), expected);
}

/// On every level, from times next to the edges of its buckets, with delays next to the edges of its reach.
#[test]
fn the_kernels_wheel_keeps_to_its_windows_at_every_edge() {
    for level in 0..6 {
        let reach = 63_u64 << (3 * level);
        for from in [0, 1, 7, 8, 9, reach - 1, reach, reach + 1] {
            let delays: Vec<u64> = (reach.saturating_sub(9)..reach + 9)
                .filter(|&it| it > 0)
                .collect();
            let fired = fired_at(&delays, from, 2 * reach + 8 * 63);
            assert_eq!(fired.len(), delays.len());
            for (delay, at) in delays.into_iter().zip(fired) {
                let due = from + delay;
                let late = Contestant::Kernel.lateness(delay);
                assert!(
                    (due..=due + late).contains(&at),
                    "{delay} from {from} at {at}"
                );
                assert!(
                    late * 63 < delay * 8,
                    "more than 8/63 late: {late} of {delay}"
                );
            }
        }
    }
}

/// It does nothing for a timeout on its way, and wakes once for each bucket.
#[test]
fn the_kernels_wheel_moves_nothing() {
    let mut pair = Pair::new(Contestant::Kernel, 8, 20);
    for delay in 600..640 {
        pair.schedule(TICK * delay);
    }
    pair.advance(TICK * 1000);
    let stats = pair.timer.handle.stats();
    // One boundary to take them over, and one for the bucket of 577 to 640.
    assert_eq!(
        (stats.wakeups, stats.bucket_visits, stats.expired),
        (2, 1, 40)
    );
    assert_eq!((stats.passed_over, stats.cascaded), (0, 0));
}

/// What lies beyond the last level is filed again when its bucket comes, and is not early.
#[test]
fn the_kernels_wheel_waits_for_what_is_beyond_its_reach() {
    let reach = 63_u64 << 24;
    let far = 3 * reach + 12_345;
    let ticks = |ticks: u64| Duration::from_nanos(ticks * TICK.as_nanos() as u64);
    let mut pair = Pair::new(Contestant::Kernel, 8, 20);
    pair.schedule(ticks(far));
    pair.advance(ticks(far - 1));
    assert_eq!(pair.timer.handle.pending_timeouts(), 1);
    // By the wheel itself, once for each reach that it lay ahead.
    assert_eq!(pair.timer.handle.stats().passed_over, 3);
    pair.advance(ticks(1 << 24));
    assert!(pair.model.is_empty());
}

/// A bucket that a sweep has emptied has no boundary any more.
#[test]
fn a_swept_bucket_of_the_kernels_wheel_wakes_nobody() {
    let mut pair = Pair::new(Contestant::Kernel, 8, 20);
    for number in 0..10_000 {
        pair.schedule(TICK * (1_000 + number % 1_000));
    }
    pair.advance(TICK);
    for number in 0..10_000 {
        pair.cancel(number);
    }
    let stats = || pair.timer.handle.stats();
    while stats().filed > 5_000 {
        pair.clock.advance(TICK);
    }
    let (swept, wakeups) = (stats().swept, stats().wakeups);
    assert!(swept >= 5_000, "{swept}");
    pair.clock.advance(TICK * 3_000);
    // Buckets of 64 ticks: 16 in all, and less than half of the entries are left in them.
    assert!(stats().wakeups - wakeups <= 9, "{:?}", stats());
}

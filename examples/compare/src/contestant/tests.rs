//! The contract that all contestants keep: each fires exactly what a naive model says, at the boundary it
//! says. Whoever fires something else has no place in a comparison.

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
    clock: ManualClock,
    timer: Timer,
    fired: Fired,
    /// By number; `None` once it is cancelled.
    model: BTreeMap<usize, u64>,
    timeouts: Vec<Timeout>,
}

impl Pair {
    fn new(contestant: Contestant, slots: usize, wheel_size: usize) -> Pair {
        let clock = ManualClock::new();
        let sizes = Sizes { slots, wheel_size };
        let timer = Timer::manual(contestant, sizes, &clock);
        timer.handle.start().unwrap();
        Pair {
            clock,
            timer,
            fired: Fired::default(),
            model: BTreeMap::new(),
            timeouts: Vec::new(),
        }
    }

    /// The first boundary at or after the deadline that has not been processed.
    fn boundary(&self, delay: Duration) -> u64 {
        let (now, tick) = (self.clock.now().as_nanos(), TICK.as_nanos());
        let deadline = now + delay.as_nanos();
        deadline.div_ceil(tick).max(now / tick + 1) as u64
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
        self.model.insert(number, self.boundary(delay));
    }

    fn cancel(&mut self, number: usize) {
        let expected = self.model.contains_key(&number);
        assert_eq!(self.timeouts[number].cancel(), expected);
        self.model.remove(&number);
    }

    fn reset(&mut self, number: usize, delay: Duration) {
        let expected = self.model.contains_key(&number);
        assert_eq!(self.timeouts[number].reset(delay), expected);
        if expected {
            self.model.insert(number, self.boundary(delay));
        }
    }

    /// Moves on, and holds what has fired against the model.
    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        let now = (self.clock.now().as_nanos() / TICK.as_nanos()) as u64;
        let mut fired = std::mem::take(&mut *self.fired.lock().unwrap());
        assert!(fired.is_sorted_by_key(|&(boundary, _)| boundary));
        fired.sort_unstable();
        let mut expected: Vec<(u64, usize)> = self
            .model
            .iter()
            .filter(|(_, boundary)| **boundary <= now)
            .map(|(&number, &boundary)| (boundary, number))
            .collect();
        expected.sort_unstable();
        assert_eq!(fired, expected);
        self.model.retain(|_, boundary| *boundary > now);
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

contract!(hashed: Hashed, hierarchical: Hierarchical, classic: Classic, heap: Heap, btree: Btree);

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

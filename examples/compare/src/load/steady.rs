//! The steady load: so many timeouts pending at any time, as many coming as going.
//!
//! Delays are spread evenly from nothing to twice their mean. A share of the timeouts is cancelled, each
//! at a random moment of its life; the others fire. The timer is filled with what would be there if this had
//! gone on for ever, what was cancelled and is not yet due included; then it goes on for a while, and then a
//! stretch of time is measured.

use super::watch::{Times, watched};
use super::{Figures, Meter};
use crate::contestant::{Contestant, Sizes, TICK, Timer};
use crate::random::Random;
use hashed_wheel::{ManualClock, Timeout};
use std::time::Duration;

/// How many arrivals at one moment are few enough: what the front's queue holds without overflowing.
const FEW: f64 = 500.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    pub(crate) pending: usize,
    /// The mean delay, in ticks.
    pub(crate) delay: f64,
    /// The share that is cancelled, 0 to 1.
    pub(crate) cancelled: f64,
    /// How many timeouts come and go while it is measured.
    pub(crate) events: usize,
    pub(crate) sizes: Sizes,
}

/// How many entries the literal wheel may pass over before its figures are good enough.
const PATIENCE: f64 = 2e6;
/// How many ticks it may come by at.
const TICKS: f64 = 3e5;
/// How many timeouts come while their lateness is watched.
const WATCHED: usize = 10_000;

impl Steady {
    /// The same load for the literal wheel, which is watched for a shorter time where it would take
    /// minutes: figures are per timeout, and steady. To its advantage, if anything: its lists lie in order
    /// when they are new, and all over the memory when they are old.
    fn for_contestant(mut self, contestant: Contestant) -> Steady {
        if contestant == Contestant::Classic {
            let turns = self.delay / self.sizes.slots as f64;
            let ticks = self.mean_life() / self.pending as f64;
            let events = (PATIENCE / turns).min(TICKS / ticks);
            self.events = self.events.min(events as usize).max(20);
        }
        self
    }

    /// The time from a timeout's beginning to its end, in ticks.
    fn mean_life(&self) -> f64 {
        self.delay * (1.0 - self.cancelled / 2.0)
    }

    /// How many timeouts come and go before it is measured.
    pub(crate) fn warm_up(&self) -> usize {
        self.events / 4
    }
}

/// What a load is put on.
pub(crate) trait Target {
    type Handle;

    fn schedule(&mut self, delay: Duration) -> Self::Handle;
    fn cancel(&mut self, handle: Self::Handle);
    fn advance(&mut self, by: Duration);
}

/// Runs the load on a contestant that is a timer.
pub(crate) fn run(load: &Steady, contestant: Contestant) -> Figures {
    let load = load.for_contestant(contestant);
    let clock = ManualClock::new();
    let timer = Timer::manual(contestant, load.sizes, &clock);
    timer.handle.start().expect("a new timer starts");
    let mut source = Source::new(&load, OnTimer { clock, timer });
    source.fill();
    source.flow(load.warm_up());
    let before = Meter::read(&source.target.timer);
    source.flow(load.events);
    let mut figures = Meter::since(&source.target.timer, &before);
    let clock = source.target.clock.clone();
    let few = load.events.min(WATCHED);
    figures.extend(watched(&clock, || source.flow(few)));
    figures
}

struct OnTimer {
    clock: ManualClock,
    timer: Timer,
}

impl Target for OnTimer {
    type Handle = Timeout;

    #[inline]
    fn schedule(&mut self, delay: Duration) -> Timeout {
        let own = Times::new(self.clock.now(), delay);
        let task = move |_: &Timeout| own.fired();
        let scheduled = self.timer.handle.new_timeout(task, delay);
        scheduled.expect("a running timer takes a timeout")
    }

    #[inline]
    fn cancel(&mut self, timeout: Timeout) {
        timeout.cancel();
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
    }
}

/// Where the timeouts come from.
pub(crate) struct Source<T: Target> {
    load: Steady,
    pub(crate) target: T,
    random: Random,
    /// Nanoseconds of one step. All that comes during a step comes at its beginning.
    step: u64,
    /// Arrivals in one step.
    arrivals: f64,
    /// What is to be cancelled in a step: this one at `now`, the next behind it, and so round.
    doomed: Vec<Vec<T::Handle>>,
    now: usize,
}

/// A timeout before it is scheduled, in nanoseconds.
struct Drawn {
    delay: u64,
    cancelled_after: Option<u64>,
}

impl Drawn {
    fn life(&self) -> u64 {
        self.cancelled_after.unwrap_or(self.delay)
    }
}

impl<T: Target> Source<T> {
    pub(crate) fn new(load: &Steady, target: T) -> Source<T> {
        let a_tick = load.pending as f64 / load.mean_life();
        let ticks = (load.delay / 32.0).min(FEW / a_tick).floor().max(1.0);
        let step = ticks as u64 * TICK.as_nanos() as u64;
        let steps_of_a_life = 2.0 * load.delay / ticks;
        Source {
            load: *load,
            target,
            random: Random::new(1),
            step,
            arrivals: a_tick * ticks,
            doomed: (0..steps_of_a_life as usize + 2)
                .map(|_| Vec::new())
                .collect(),
            now: 0,
        }
    }

    fn longest(&self) -> u64 {
        (2.0 * self.load.delay * TICK.as_nanos() as f64) as u64
    }

    fn draw(&mut self) -> Drawn {
        let delay = 1 + self.random.below(self.longest());
        let cancelled = self.random.chance(self.load.cancelled);
        Drawn {
            delay,
            cancelled_after: cancelled.then(|| self.random.below(delay)),
        }
    }

    #[inline]
    fn schedule(&mut self, drawn: &Drawn) {
        let handle = self.target.schedule(Duration::from_nanos(drawn.delay));
        if let Some(after) = drawn.cancelled_after {
            let steps = (after / self.step) as usize;
            let place = (self.now + steps) % self.doomed.len();
            self.doomed[place].push(handle);
        }
    }

    /// Schedules what would be there now: of all that began at some moment of the past, what is not over
    /// yet; and what was cancelled, but whose entry is still in the wheel because it is not due.
    pub(crate) fn fill(&mut self) {
        let mut pending = 0;
        let mut dead = Vec::new();
        while pending < self.load.pending {
            let age = self.random.below(self.longest());
            let drawn = self.draw();
            if drawn.life() > age {
                self.schedule(&Drawn {
                    delay: drawn.delay - age,
                    cancelled_after: drawn.cancelled_after.map(|after| after - age),
                });
                pending += 1;
            } else if drawn.delay > age {
                let delay = Duration::from_nanos(drawn.delay - age);
                dead.push(self.target.schedule(delay));
            }
        }
        // What is cancelled before it is in the wheel would never get there.
        self.pass();
        for handle in dead {
            self.target.cancel(handle);
        }
    }

    /// A stretch of time in which so many come.
    pub(crate) fn flow(&mut self, events: usize) {
        let mut came = 0;
        let mut due = 0.0;
        while came < events {
            due += self.arrivals;
            while (came as f64) < due {
                let drawn = self.draw();
                self.schedule(&drawn);
                came += 1;
            }
            self.pass();
        }
    }

    /// One step of time.
    fn pass(&mut self) {
        for handle in std::mem::take(&mut self.doomed[self.now]) {
            self.target.cancel(handle);
        }
        self.now = (self.now + 1) % self.doomed.len();
        self.target.advance(Duration::from_nanos(self.step));
    }
}

#[cfg(test)]
mod tests {
    use super::{Steady, run};
    use crate::contestant::{Contestant, Sizes};
    use crate::load::{COUNTS, CPU_NS, LATE};

    fn load(cancelled: f64) -> Steady {
        Steady {
            pending: 5_000,
            delay: 1_000.0,
            cancelled,
            events: 5_000,
            sizes: Sizes::DEFAULT,
        }
    }

    #[test]
    fn counts_are_the_same_in_every_run() {
        for contestant in Contestant::TIMERS {
            let [once, again] = [(); 2].map(|()| {
                let mut figures = run(&load(0.5), contestant);
                figures.retain(|(name, _)| *name != CPU_NS);
                figures
            });
            assert_eq!(once.len(), COUNTS.len() + LATE.len() + 1);
            assert_eq!(once, again, "{contestant:?}");
        }
    }

    #[test]
    fn a_classic_wheel_passes_over_once_a_turn() {
        let figures = run(&load(0.0), Contestant::Classic);
        let passed = figures.iter().find(|(name, _)| *name == "passed_over");
        // Delays of 1 000 ticks in the mean, on a wheel of 512: (1 000 / 512) − 1/2, about.
        assert!((1.3..1.7).contains(&passed.unwrap().1), "{passed:?}");
    }

    #[test]
    fn the_kernels_wheel_is_late_by_a_share_of_the_delay_and_the_others_are_not() {
        for contestant in Contestant::TIMERS {
            let figures = run(&load(0.0), contestant);
            let of = |name| figures.iter().find(|it| it.0 == name).unwrap().1;
            let [p50, most] = LATE.map(of);
            if contestant == Contestant::Kernel {
                // Delays up to 2 000 ticks: granularities of 8 and 64, the latter for most.
                assert!((16.0..40.0).contains(&p50) && (60.0..65.0).contains(&most));
            } else {
                assert!(p50 == 0.0 && most == 0.0, "{contestant:?}: {p50} {most}");
            }
        }
    }

    #[test]
    fn the_number_pending_stays() {
        for cancelled in [0.0, 0.9, 1.0] {
            let clock = super::ManualClock::new();
            let timer = super::Timer::manual(Contestant::Heap, Sizes::DEFAULT, &clock);
            timer.handle.start().unwrap();
            let mut source = super::Source::new(&load(cancelled), super::OnTimer { clock, timer });
            source.fill();
            source.flow(5_000);
            let pending = source.target.timer.handle.pending_timeouts();
            assert!((4_500..5_500).contains(&pending), "{pending}");
        }
    }
}

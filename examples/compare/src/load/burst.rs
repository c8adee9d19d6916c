//! Many at once: a number of timeouts that fall due together, so many at a boundary, the boundaries
//! spread over a span of time. All are scheduled at its beginning, in random order.

use super::watch::{Times, watched};
use super::{Figures, Meter};
use crate::contestant::{Contestant, Sizes, TICK, Timer};
use crate::random::Random;
use hashed_wheel::{ManualClock, Timeout};
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) timeouts: usize,
    /// How many share a boundary.
    pub(crate) at_once: usize,
    /// Over how many ticks the boundaries are spread.
    pub(crate) span: u64,
    pub(crate) sizes: Sizes,
}

impl Burst {
    /// The delays in ticks, in the order of scheduling.
    fn delays(&self) -> Vec<u64> {
        let mut random = Random::new(1);
        let boundaries = (self.timeouts / self.at_once).max(1) as u64;
        let mut delays = Vec::with_capacity(self.timeouts);
        for number in 0..boundaries {
            let (from, to) = (
                number * self.span / boundaries,
                (number + 1) * self.span / boundaries,
            );
            let boundary = 1 + from + random.below(to - from);
            delays.extend(std::iter::repeat_n(boundary, self.at_once));
        }
        for place in (1..delays.len()).rev() {
            delays.swap(place, random.below(place as u64 + 1) as usize);
        }
        delays
    }
}

/// Twice on the same timer: the first time touches the memory, the second is measured.
pub(crate) fn run(load: &Burst, contestant: Contestant) -> Figures {
    let clock = ManualClock::new();
    let timer = Timer::manual(contestant, load.sizes, &clock);
    let delays = load.delays();
    let round = || {
        for &ticks in &delays {
            let delay = TICK * ticks as u32;
            let own = Times::new(clock.now(), delay);
            let task = move |_: &Timeout| own.fired();
            let scheduled = timer.handle.new_timeout(task, delay);
            drop(scheduled.expect("a running timer takes a timeout"));
        }
        let ticks = load.span + 1 + contestant.lateness(load.span + 1);
        clock.advance(Duration::from_nanos(ticks * TICK.as_nanos() as u64));
        assert_eq!(timer.handle.pending_timeouts(), 0);
    };
    round();
    let before = Meter::read(&timer);
    round();
    let mut figures = Meter::since(&timer, &before);
    figures.extend(watched(&clock, round));
    figures
}

#[cfg(test)]
mod tests {
    use super::{Burst, run};
    use crate::contestant::{Contestant, Sizes};

    const LOAD: Burst = Burst {
        timeouts: 4_096,
        at_once: 64,
        span: 8_192,
        sizes: Sizes::DEFAULT,
    };

    #[test]
    fn so_many_fall_due_at_each_boundary() {
        let mut delays = LOAD.delays();
        delays.sort_unstable();
        assert_eq!(delays.len(), 4_096);
        assert!(delays.iter().all(|delay| (1..=8_192).contains(delay)));
        let boundaries: Vec<_> = delays.chunk_by(|a, b| a == b).collect();
        assert_eq!(boundaries.len(), 64);
        assert!(boundaries.iter().all(|same| same.len() == 64));
    }

    #[test]
    fn all_of_them_fire_on_every_contestant() {
        for contestant in Contestant::TIMERS {
            assert!(!run(&LOAD, contestant).is_empty());
        }
    }
}

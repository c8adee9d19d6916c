//! tails: single calls of `new_timeout`, `cancel` and `reset`, each timed by itself, while F
//! timeouts per producer are in flight.
//!
//! Every round on every producer reads the clock twice in a row, schedules one timeout at 30 s
//! (+0..1 s), cancels the oldest, and resets one from the middle to 30 s (+0..1 s). The two readings in a row are
//! the figure `clock`: what the machine does to a call that does nothing. All figures have one
//! reading of the clock in them. Nothing is allocated by the measurement itself.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use super::churn::{Flight, delay, settle};
use super::{Count, Figures, tasks_run};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Timer};
use crate::histogram::Histogram;

const POINTS: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("p99.999", 0.99999),
];

struct Tails {
    clock: Histogram,
    arm: Histogram,
    cancel: Histogram,
    reset: Histogram,
}

impl Tails {
    fn new() -> Self {
        Self {
            clock: Histogram::new(),
            arm: Histogram::new(),
            cancel: Histogram::new(),
            reset: Histogram::new(),
        }
    }

    fn merge(&mut self, other: &Self) {
        self.clock.merge(&other.clock);
        self.arm.merge(&other.arm);
        self.cancel.merge(&other.cancel);
        self.reset.merge(&other.reset);
    }

    fn figures(&self, resets: bool) -> Figures {
        let mut figures = Figures::new();
        let mut add = |name: &str, histogram: &Histogram| {
            for (point, share) in POINTS {
                figures.push((format!("{name}/{point}_ns"), histogram.at(share) as f64));
            }
            figures.push((format!("{name}/max_ns"), histogram.max() as f64));
        };
        add("new_timeout", &self.arm);
        add("cancel", &self.cancel);
        if resets {
            add("reset", &self.reset);
        }
        add("clock", &self.clock);
        figures
    }
}

pub(super) fn run<C: Contestant>(case: &Case) -> Figures {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let calls = case.ops / case.producers as u64;
    let meeting = Barrier::new(case.producers + 1);
    let tails = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..case.producers)
            .map(|number| {
                let (timer, meeting) = (&timer, &meeting);
                scope.spawn(move || {
                    let mut flight = Flight::new(timer.producer(), number as u64, case.flight);
                    let mut tails = Tails::new();
                    meeting.wait();
                    meeting.wait();
                    for _ in 0..calls {
                        one_round::<C, _>(&mut flight, &mut tails);
                    }
                    // Nobody clears up while others measure.
                    meeting.wait();
                    tails
                })
            })
            .collect();
        meeting.wait();
        settle(case.flight * case.producers);
        meeting.wait();
        meeting.wait();
        let mut all = Tails::new();
        for thread in threads {
            all.merge(&thread.join().expect("a producer"));
        }
        all
    });
    assert_eq!(tasks_run(), 0, "a timeout of 30 s has fired");
    tails.figures(C::RESETS)
}

#[inline]
fn one_round<C: Contestant, P: Producer<Count>>(flight: &mut Flight<P>, tails: &mut Tails) {
    let start = Instant::now();
    let end = Instant::now();
    tails.clock.record(nanos(start, end));

    let after = delay(&mut flight.random);
    let start = Instant::now();
    let handle = flight.producer.arm(Count::new(), after);
    let end = Instant::now();
    tails.arm.record(nanos(start, end));
    flight.handles.push_back(handle);

    if let Some(oldest) = flight.handles.pop_front() {
        let start = Instant::now();
        flight.producer.cancel(oldest);
        let end = Instant::now();
        tails.cancel.record(nanos(start, end));
    }

    let middle = flight.handles.len() / 2;
    if C::RESETS
        && let Some(handle) = flight.handles.get_mut(middle)
    {
        let after = delay(&mut flight.random);
        let start = Instant::now();
        flight.producer.reset(handle, after);
        let end = Instant::now();
        tails.reset.record(nanos(start, end));
    }
}

#[inline]
fn nanos(start: Instant, end: Instant) -> u64 {
    let time: Duration = end.saturating_duration_since(start);
    time.as_nanos() as u64
}

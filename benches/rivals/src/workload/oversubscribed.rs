//! oversubscribed: a task every 1 ms beside more busy threads than processors.
//!
//! Two halves, each on a timer of its own, whose order changes from run to run: beside N threads that
//! only compute, and beside N threads that use the timer at full speed. Each of those keeps 10 000
//! timeouts in flight: every op schedules one at 30 s (+0..1 s) and cancels the oldest, and every 64th
//! also schedules one that is let fire after 1 to 50 ms. One in 64 is what the timer's thread can fire
//! in its share of the processors: with many more, any timer falls behind by the work alone.
//!
//! A gap is the time between two runs of the task; those before the first and after the last run
//! count too, so a task that never ran has one gap as long as the half.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::churn::Flight;
use super::{Count, Figures};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Repeats, Timer};
use crate::measure::Random;

const PERIOD: Duration = Duration::from_millis(1);
const LET_FIRE: u64 = 64;
const FIRE_SOON: Duration = Duration::from_millis(1);
const FIRE_SPREAD: Duration = Duration::from_millis(49);
const SAMPLE: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Spinning,
    Scheduling,
}

/// What one half has shown.
struct Half {
    gaps: Vec<u64>,
    queued: Option<u64>,
    ops: u64,
    wall: Duration,
}

pub(crate) fn run<C>(case: &Case) -> Figures
where
    C: Contestant<Timer<Count>: Repeats<Count>>,
{
    let (spinning, scheduling) = if case.round.is_multiple_of(2) {
        let first = half::<C>(case, Beside::Spinning);
        (first, half::<C>(case, Beside::Scheduling))
    } else {
        let first = half::<C>(case, Beside::Scheduling);
        (half::<C>(case, Beside::Spinning), first)
    };
    let mut figures = Figures::new();
    for (name, half) in [("spinning", &spinning), ("scheduling", &scheduling)] {
        figures.push((format!("{name}/runs"), half.runs() as f64));
        figures.push((format!("{name}/p99_gap_us"), half.gap(0.99)));
        figures.push((format!("{name}/max_gap_us"), half.gap(1.0)));
    }
    let ratio = scheduling.gap(0.99) / spinning.gap(0.99);
    figures.push(("scheduling/p99_ratio".to_owned(), ratio));
    let rate = scheduling.ops as f64 / scheduling.wall.as_secs_f64() / 1e6;
    figures.push(("scheduling/mops_per_s".to_owned(), rate));
    if let Some(queued) = scheduling.queued {
        figures.push(("scheduling/queued_peak".to_owned(), queued as f64));
    }
    figures
}

impl Half {
    fn runs(&self) -> usize {
        self.gaps.len() - 1
    }

    fn gap(&self, share: f64) -> f64 {
        let rank = (share * self.gaps.len() as f64).ceil() as usize;
        self.gaps[rank.clamp(1, self.gaps.len()) - 1] as f64 / 1_000.0
    }
}

fn half<C>(case: &Case, beside: Beside) -> Half
where
    C: Contestant<Timer<Count>: Repeats<Count>>,
{
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let (stop, ops) = (AtomicBool::new(false), AtomicU64::new(0));
    let room = 4 * case.watch_ms as usize;
    let runs = Arc::new(Runs::new(room));
    let (start, end, queued) = std::thread::scope(|scope| {
        for number in 0..case.producers as u64 {
            let (timer, stop, ops) = (&timer, &stop, &ops);
            scope.spawn(move || match beside {
                Beside::Spinning => spin(stop),
                Beside::Scheduling => {
                    let done = schedule::<C>(timer, case, number, stop);
                    ops.fetch_add(done, Ordering::Relaxed);
                }
            });
        }
        // The threads fill their flights first.
        std::thread::sleep(Duration::from_millis(200));
        let (start, record) = (Instant::now(), Arc::clone(&runs));
        timer.every(PERIOD, move || record.add(start));
        let queued = watch(&timer, case.watch());
        let end = start.elapsed().as_nanos() as u64;
        stop.store(true, Ordering::Relaxed);
        (start, end, queued)
    });
    Half {
        gaps: runs.gaps(end),
        queued,
        ops: ops.into_inner(),
        wall: start.elapsed() + Duration::from_millis(200),
    }
}

/// Waits, and returns the longest queue seen meanwhile.
fn watch<R: Repeats<Count>>(timer: &R, time: Duration) -> Option<u64> {
    let start = Instant::now();
    let mut peak = None;
    while start.elapsed() < time {
        std::thread::sleep(SAMPLE);
        peak = peak.max(timer.queued());
    }
    peak
}

fn spin(stop: &AtomicBool) {
    let mut random = Random::new(1);
    while !stop.load(Ordering::Relaxed) {
        black_box(random.below(1 << 20));
    }
}

fn schedule<C: Contestant>(
    timer: &C::Timer<Count>,
    case: &Case,
    number: u64,
    stop: &AtomicBool,
) -> u64 {
    let mut flight = Flight::new(timer.producer(), number, case.flight);
    // Handles whose drop would cancel are kept for as long as it takes to fire, and far beyond.
    let mut let_fire = VecDeque::with_capacity(case.flight + 1);
    let mut ops = 0;
    while !stop.load(Ordering::Relaxed) {
        flight.churn(LET_FIRE);
        ops += LET_FIRE;
        let delay = FIRE_SOON + flight.random.within(FIRE_SPREAD);
        let handle = flight.producer.arm_to_fire(Count::new(), delay);
        if C::DROP_CANCELS {
            let_fire.push_back(handle);
            if let_fire.len() > case.flight {
                let_fire.pop_front();
            }
        }
    }
    ops
}

/// The times at which the task has run, in nanoseconds since the start. Written by one thread at a time.
struct Runs {
    times: Box<[AtomicU64]>,
    count: AtomicU64,
}

impl Runs {
    fn new(room: usize) -> Self {
        Self {
            times: (0..room).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicU64::new(0),
        }
    }

    fn add(&self, start: Instant) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(time) = self.times.get(count as usize) {
            time.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Release);
        }
    }

    /// The gaps between the runs before `end`, and to the start and the end; smallest first.
    fn gaps(&self, end: u64) -> Vec<u64> {
        let count = self.count.load(Ordering::Acquire) as usize;
        let times = self.times[..count].iter();
        let times = times.map(|time| time.load(Ordering::Relaxed));
        let times: Vec<u64> = times.take_while(|&time| time < end).chain([end]).collect();
        let mut last = 0;
        let mut gaps: Vec<u64> = Vec::with_capacity(times.len());
        for time in times {
            gaps.push(time - last);
            last = time;
        }
        gaps.sort_unstable();
        gaps
    }
}

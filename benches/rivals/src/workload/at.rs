//! at: the churn with deadlines as instants, one reading of the clock for 64 of them, beside the
//! churn with delays; and `reset` and `reset_at` to the tick where the timeout is already.
//!
//! One thread, this crate's timers only. The halves of a pair change their order from run to run.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, Timeout, TimerHandle};

use super::{Count, Figures};
use crate::case::Case;
use crate::contestant::{Task as _, own};
use crate::measure::Random;

/// Calls that share one reading of the clock.
const SHARED: u64 = 64;
const DELAY: Duration = Duration::from_secs(30);
const JITTER: Duration = Duration::from_secs(1);

pub(crate) fn hashed(case: &Case) -> Figures {
    let timer: HashedWheelTimer = own::hashed(case.tick(), case.slots);
    run(case, &timer.handle())
}

pub(crate) fn hierarchical(case: &Case) -> Figures {
    let timer: HierarchicalWheelTimer = own::hierarchical(case.tick());
    run(case, &timer.handle())
}

fn run(case: &Case, timer: &TimerHandle) -> Figures {
    let mut flight = Flight {
        timer,
        handles: VecDeque::with_capacity(case.flight + 1),
        random: Random::new(1),
    };
    for _ in 0..case.flight {
        flight.schedule();
    }
    std::thread::sleep(Duration::from_millis(100));
    let mut delay = Duration::ZERO;
    let mut at = Duration::ZERO;
    let parts = 10;
    for part in case.round..case.round + 2 * parts {
        if part.is_multiple_of(2) {
            delay += flight.churn(case.ops / parts);
        } else {
            at += flight.churn_at(case.ops / parts);
        }
    }
    let (reset, reset_at) = flight.resets(case.ops / parts);
    let per_op = |time: Duration| time.as_nanos() as f64 / (case.ops / parts * parts) as f64;
    let per_reset = |time: Duration| time.as_nanos() as f64 / (case.ops / parts) as f64;
    vec![
        ("new_timeout_ns".to_owned(), per_op(delay)),
        ("new_timeout_at_ns".to_owned(), per_op(at)),
        ("reset_ns".to_owned(), per_reset(reset)),
        ("reset_at_ns".to_owned(), per_reset(reset_at)),
    ]
}

struct Flight<'a> {
    timer: &'a TimerHandle,
    handles: VecDeque<Timeout>,
    random: Random,
}

impl Flight<'_> {
    #[inline]
    fn schedule(&mut self) {
        let task = Count::new();
        let delay = DELAY + self.random.within(JITTER);
        let timeout = self.timer.new_timeout(move |_| task.run(), delay);
        self.handles.push_back(timeout.expect("a timeout"));
    }

    #[inline]
    fn schedule_at(&mut self, now: Instant) {
        let task = Count::new();
        let deadline = now + DELAY + self.random.within(JITTER);
        let timeout = self.timer.new_timeout_at(move |_| task.run(), deadline);
        self.handles.push_back(timeout.expect("a timeout"));
    }

    #[inline]
    fn cancel_oldest(&mut self) {
        if let Some(oldest) = self.handles.pop_front() {
            oldest.cancel();
        }
    }

    fn churn(&mut self, ops: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..ops {
            self.schedule();
            self.cancel_oldest();
        }
        start.elapsed()
    }

    fn churn_at(&mut self, ops: u64) -> Duration {
        let start = Instant::now();
        for _ in 0..ops / SHARED {
            let now = self.timer.now();
            for _ in 0..SHARED {
                self.schedule_at(now);
                self.cancel_oldest();
            }
        }
        start.elapsed()
    }

    /// One timeout, reset to where it is again and again.
    fn resets(&mut self, count: u64) -> (Duration, Duration) {
        let timeout = &self.handles[0];
        let hour = Duration::from_hours(1);
        timeout.reset(hour);
        let start = Instant::now();
        for _ in 0..count {
            timeout.reset(hour);
        }
        let reset = start.elapsed();
        let deadline = self.timer.now() + hour;
        timeout.reset_at(deadline);
        let start = Instant::now();
        for _ in 0..count {
            timeout.reset_at(deadline);
        }
        (reset, start.elapsed())
    }
}

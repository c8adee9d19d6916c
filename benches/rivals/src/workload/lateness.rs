//! lateness: timeouts due over 2 s, 1 s from now, in random order; the task stores how late it is.
//!
//! The deadline is taken from the clock just before the timeout is scheduled, so a task that runs
//! before it was run early beyond doubt.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::fire::wait_for_tasks;
use super::{count_run, touched};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::measure::Random;

const DELAY: Duration = Duration::from_secs(1);
const SPREAD: Duration = Duration::from_secs(2);

/// Stores its lateness in nanoseconds, negative if it is early.
struct Late {
    deadline: Instant,
    store: &'static AtomicI64,
}

impl Task for Late {
    fn run(self) {
        let now = Instant::now();
        let late = now.saturating_duration_since(self.deadline).as_nanos() as i64;
        let early = self.deadline.saturating_duration_since(now).as_nanos() as i64;
        self.store.store(late - early, Ordering::Relaxed);
        count_run();
    }
}

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let stores = (0..case.flight)
        .map(|_| AtomicI64::new(0))
        .collect::<Vec<_>>();
    let stores: &'static [AtomicI64] = stores.leak();
    let timer = <C::Timer<Late> as Timer<Late>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    let mut kept = touched(if C::DROP_CANCELS { case.flight } else { 0 });
    let mut random = Random::new(1);
    for store in stores {
        let delay = DELAY + random.within(SPREAD);
        let deadline = Instant::now() + delay;
        let handle = producer.arm_to_fire(Late { deadline, store }, delay);
        if C::DROP_CANCELS {
            kept.push(handle);
        }
    }
    wait_for_tasks(case.flight);
    let mut late: Vec<i64> = stores
        .iter()
        .map(|store| store.load(Ordering::Relaxed))
        .collect();
    late.sort_unstable();
    let early = late.partition_point(|&late| late < 0);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    vec![
        ("p50_us", at(0.5)),
        ("p99_us", at(0.99)),
        ("max_us", at(1.0)),
        ("early", early as f64),
    ]
}

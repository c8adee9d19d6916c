//! memory: what a pending timeout costs, and what a long churn or a burst leaves behind.

use std::time::Duration;

use super::churn::Flight;
use super::fire::wait_for_tasks;
use super::{Count, count_run, touched};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::measure::{Random, resident, wait_until_quiet};

const HOUR: Duration = Duration::from_hours(1);

/// A task that captures 24 bytes.
struct Capture([u64; 3]);

impl Task for Capture {
    fn run(self) {
        std::hint::black_box(self.0);
        count_run();
    }
}

/// Resident bytes per pending timeout, the task's 24 bytes included. A handle counts where the
/// timeout lives in it, and dies with it; elsewhere it is dropped at once.
pub(super) fn pending<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Capture> as Timer<Capture>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    let mut random = Random::new(1);
    let mut kept = Vec::with_capacity(if C::DROP_CANCELS { case.flight } else { 0 });
    let before = resident();
    for number in 0..case.flight as u64 {
        let task = Capture([number, number, number]);
        let handle = producer.arm(task, HOUR + random.within(HOUR));
        if C::DROP_CANCELS {
            kept.push(handle);
        }
    }
    settle();
    let bytes = resident().saturating_sub(before);
    vec![("bytes_per_timeout", bytes as f64 / case.flight as f64)]
}

/// Resident memory after `ops` of churn, after ten times as many, and the second over the first.
///
/// Contestants that keep what was cancelled until its deadline get a tenth of both: the ratio
/// shows it as well, and memory does not run out.
pub(super) fn churned<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let ops = if C::CANCEL_FREES {
        case.ops
    } else {
        case.ops / 10
    };
    let mut flight = Flight::new(timer.producer(), 0, case.flight);
    flight.churn(ops);
    settle();
    let short = resident() as f64;
    flight.churn(9 * ops);
    settle();
    let long = resident() as f64;
    vec![
        ("rss_mb_short", short / 1e6),
        ("rss_mb_long", long / 1e6),
        ("growth", long / short),
    ]
}

/// Resident memory before a burst of timeouts, at its peak, and 3 s after its end.
///
/// Every second one is cancelled, the others fire. After that one fires every 100 ms, so that a timer
/// which gives memory back when its thread wakes up has the occasion.
pub(super) fn burst<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Capture> as Timer<Capture>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    let mut random = Random::new(1);
    let task = |number| Capture([number, number, number]);
    let mut cancelled = touched(case.flight / 2);
    let mut firing = touched(if C::DROP_CANCELS { case.flight } else { 0 });
    let warm = producer.arm_to_fire(task(0), Duration::from_millis(1));
    wait_for_tasks(1);
    drop(warm);
    settle();
    let start = resident();
    for number in 0..case.flight as u64 / 2 {
        let delay = case.delay() + random.within(case.spread());
        cancelled.push(producer.arm(task(number), delay));
        let handle = producer.arm_to_fire(task(number), delay);
        if C::DROP_CANCELS {
            firing.push(handle);
        }
    }
    let peak = resident();
    for handle in cancelled.drain(..) {
        producer.cancel(handle);
    }
    wait_for_tasks(1 + case.flight / 2);
    firing.clear();
    for number in 0..30 {
        let handle = producer.arm_to_fire(task(number), Duration::from_millis(100));
        wait_for_tasks(2 + number as usize + case.flight / 2);
        drop(handle);
    }
    let end = resident();
    vec![
        ("rss_mb_start", start as f64 / 1e6),
        ("rss_mb_peak", peak.max(end) as f64 / 1e6),
        ("rss_mb_end", end as f64 / 1e6),
        ("left_mb", end.saturating_sub(start) as f64 / 1e6),
    ]
}

fn settle() {
    std::thread::sleep(Duration::from_secs(1));
    wait_until_quiet(Duration::from_secs(20));
}

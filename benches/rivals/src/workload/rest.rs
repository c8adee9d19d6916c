//! hold: a million timeouts due in 1 to 24 h, watched for 5 s.
//! idle: no timeout, or one due in an hour, watched for 5 s.
//!
//! Reported: the CPU time of the timer's thread as a share of one core, and how often it woke up.

use std::time::{Duration, Instant};

use super::fire::wait_for_tasks;
use super::{Count, touched};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Timer};
use crate::measure::{Random, wait_until_quiet, worker_cpu, worker_sleeps};

const HOUR: Duration = Duration::from_hours(1);

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    // A timer that has never had anything to do would be too easy.
    let first = producer.arm_to_fire(Count::new(), Duration::from_millis(20));
    let mut kept = touched(case.flight);
    let mut random = Random::new(1);
    for _ in 0..case.flight {
        let delay = HOUR + random.within(23 * HOUR);
        let handle = producer.arm(Count::new(), delay);
        if C::DROP_CANCELS {
            kept.push(handle);
        }
    }
    wait_for_tasks(1);
    drop(first);
    std::thread::sleep(Duration::from_secs(1));
    wait_until_quiet(Duration::from_secs(2));

    let (start, cpu, sleeps) = (Instant::now(), worker_cpu(), worker_sleeps());
    std::thread::sleep(case.watch());
    let (cpu, sleeps) = (worker_cpu().saturating_sub(cpu), worker_sleeps() - sleeps);
    let seconds = start.elapsed().as_secs_f64();
    vec![
        ("worker_cpu_percent", 100.0 * cpu.as_secs_f64() / seconds),
        ("wakeups_per_s", sleeps as f64 / seconds),
    ]
}

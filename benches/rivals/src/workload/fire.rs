//! fire: many timeouts due over 2 s, 3 s from now, in random order; the task counts.
//!
//! What is measured is the CPU time of the timer's thread from the first `new_timeout` to the last
//! task: taking over, filing, firing.

use std::time::{Duration, Instant};

use super::{Count, tasks_run, touched};
use crate::case::Case;
use crate::contestant::{Contestant, Producer, Timer};
use crate::measure::{Random, worker_cpu};

pub(super) fn run<C: Contestant>(case: &Case) -> Vec<(&'static str, f64)> {
    let timer = <C::Timer<Count> as Timer<Count>>::new(case.tick(), case.slots);
    let mut producer = timer.producer();
    let mut kept = touched(if C::DROP_CANCELS { case.flight } else { 0 });
    let mut random = Random::new(1);
    let cpu = worker_cpu();
    for _ in 0..case.flight {
        let delay = case.delay() + random.within(case.spread());
        let handle = producer.arm_to_fire(Count::new(), delay);
        if C::DROP_CANCELS {
            kept.push(handle);
        }
    }
    wait_for_tasks(case.flight);
    let cpu = worker_cpu().saturating_sub(cpu);
    vec![("worker_cpu_ns", cpu.as_nanos() as f64 / case.flight as f64)]
}

/// Waits until `count` tasks have run.
pub(super) fn wait_for_tasks(count: usize) {
    let start = Instant::now();
    while tasks_run() < count as u64 {
        let run = tasks_run();
        assert!(
            start.elapsed().as_secs() < 100,
            "{run} of {count} have fired"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! fire: many timeouts due over a while, from a while on, in random order; 4096 slots. What is
//! measured is the CPU time of the timer's thread from the first `new_timeout` to the last task.

use super::{schedule, wait_for_tasks};
use crate::contestant::{Contestant, Sizes, Timer};
use crate::load::{CPU_NS, Figures, late};
use crate::os::worker_cpu;
use crate::random::Random;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fire {
    pub(crate) timeouts: usize,
    pub(crate) tick: Duration,
    /// When the first is due.
    pub(crate) from: Duration,
    /// How long after that the last is due.
    pub(crate) over: Duration,
}

pub(crate) fn run(load: &Fire, contestant: Contestant) -> Figures {
    let timer = Timer::real(contestant, load.tick, Sizes::slots(4096));
    timer.handle.start().expect("a new timer starts");
    let mut random = Random::new(1);
    let cpu = worker_cpu();
    for _ in 0..load.timeouts {
        let after = Duration::from_nanos(random.below(load.over.as_nanos() as u64));
        drop(schedule(&timer, load.from + after));
    }
    wait_for_tasks(load.timeouts as u64);
    let cpu = worker_cpu().saturating_sub(cpu);
    let stats = timer.handle.stats();
    let delay = (load.from + load.over / 2).as_secs_f64() / load.tick.as_secs_f64();
    let mut figures = vec![
        (CPU_NS, cpu.as_nanos() as f64 / load.timeouts as f64),
        ("wakeups", stats.wakeups as f64 / load.timeouts as f64),
    ];
    figures.extend(late(&stats, load.tick, delay));
    figures
}

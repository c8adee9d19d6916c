//! hold: many timeouts due in 1 to 24 h. idle: none, or one. Watched for a while: what does the
//! timer's thread do while nothing is due? 512 slots.

use super::{schedule, wait_for_tasks};
use crate::contestant::{Contestant, Sizes, Timer};
use crate::load::Figures;
use crate::os::{wait_until_quiet, worker_cpu};
use crate::random::Random;
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest {
    pub(crate) pending: usize,
    pub(crate) tick: Duration,
    pub(crate) watch: Duration,
}

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn run(load: &Rest, contestant: Contestant) -> Figures {
    let timer = Timer::real(contestant, load.tick, Sizes::DEFAULT);
    // A timer that has never had anything to do would be too easy.
    drop(schedule(&timer, Duration::from_millis(5)));
    let mut random = Random::new(1);
    for _ in 0..load.pending {
        let delay = HOUR + Duration::from_nanos(random.below(23 * HOUR.as_nanos() as u64));
        drop(schedule(&timer, delay));
    }
    wait_for_tasks(1);
    let transfer = load.tick * (2 + load.pending as u32 / 100_000);
    thread::sleep(transfer.max(load.watch / 10));
    wait_until_quiet(Duration::from_secs(2));

    let wakeups = || timer.handle.stats().wakeups;
    let (start, cpu, before) = (Instant::now(), worker_cpu(), wakeups());
    thread::sleep(load.watch);
    let (cpu, woken) = (worker_cpu().saturating_sub(cpu), wakeups() - before);
    let seconds = start.elapsed().as_secs_f64();
    vec![
        ("cpu_percent", 100.0 * cpu.as_secs_f64() / seconds),
        ("wakeups_per_s", woken as f64 / seconds),
    ]
}

//! lateness: timeouts due over 2 s, 1 s from now, in random order; the task stores how late it is.
//! at-once: the same, due from 2 ms on, so that the first are due while the last are scheduled.
//! fine: fewer of them on a tick of 100 µs; then the timer is watched for idle wake-ups.
//!
//! The deadline is taken from the clock just before the timeout is scheduled, so a task that runs
//! before it was run early beyond doubt.
//!
//! Meanwhile a bare thread parks until each boundary of the same tick and notes how late it wakes:
//! what the machine does to anybody.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use super::fire::wait_for_tasks;
use super::{count_run, touched};
use crate::case::{Case, Workload};
use crate::contestant::{Contestant, Producer, Task, Timer};
use crate::histogram::Histogram;
use crate::measure::{Random, finest_timer_slack, wait_until_quiet, worker_sleeps};

/// Stores its lateness in nanoseconds, negative if it is early.
pub(super) struct Late {
    pub(super) deadline: Instant,
    pub(super) store: &'static AtomicI64,
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
    let done = AtomicBool::new(false);
    let bare = std::thread::scope(|scope| {
        let bare = scope.spawn(|| sleep_bare(case, &done));
        for store in stores {
            let delay = case.delay() + random.within(case.spread());
            let deadline = Instant::now() + delay;
            let handle = producer.arm_to_fire(Late { deadline, store }, delay);
            if C::DROP_CANCELS {
                kept.push(handle);
            }
        }
        wait_for_tasks(case.flight);
        done.store(true, Ordering::Relaxed);
        bare.join().expect("the bare thread")
    });
    let mut late: Vec<i64> = stores
        .iter()
        .map(|store| store.load(Ordering::Relaxed))
        .collect();
    late.sort_unstable();
    let early = late.partition_point(|&late| late < 0);
    let at = |share: f64| late[((late.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    let bare_at = |share: f64| bare.at(share) as f64 / 1_000.0;
    let mut figures = vec![
        ("p50_us", at(0.5)),
        ("p99_us", at(0.99)),
        ("p99.9_us", at(0.999)),
        ("max_us", at(1.0)),
        ("early", early as f64),
        ("bare_p50_us", bare_at(0.5)),
        ("bare_p99.9_us", bare_at(0.999)),
        ("bare_max_us", bare_at(1.0)),
    ];
    if case.workload == Workload::Fine {
        figures.push(("idle_wakeups_per_s", idle_wakeups(case)));
    }
    figures
}

/// How often the timer's thread wakes up with nothing pending.
fn idle_wakeups(case: &Case) -> f64 {
    std::thread::sleep(Duration::from_millis(200));
    wait_until_quiet(Duration::from_secs(2));
    let (start, sleeps) = (Instant::now(), worker_sleeps());
    std::thread::sleep(case.watch());
    (worker_sleeps() - sleeps) as f64 / start.elapsed().as_secs_f64()
}

/// Parks until each boundary in turn, until `done`.
fn sleep_bare(case: &Case, done: &AtomicBool) -> Histogram {
    if case.workload == Workload::Fine {
        finest_timer_slack();
    }
    let mut late = Histogram::new();
    let (start, tick) = (Instant::now(), case.tick());
    let mut boundary = start + tick;
    while !done.load(Ordering::Relaxed) {
        let now = Instant::now();
        if let Some(left) = boundary
            .checked_duration_since(now)
            .filter(|left| !left.is_zero())
        {
            std::thread::park_timeout(left);
            continue;
        }
        late.record(now.duration_since(boundary).as_nanos() as u64);
        let passed = now.duration_since(start).as_nanos() / tick.as_nanos();
        boundary = start + tick * (passed as u32 + 1);
    }
    late
}

//! The workloads on the system's clock, with the timer's own thread: what a program would see.

pub(crate) mod churn;
pub(crate) mod fire;
pub(crate) mod memory;
pub(crate) mod rest;

use hashed_wheel::Timeout;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::contestant::Timer;

/// How many tasks have run. The timer's one thread runs them all, so a plain addition does.
static RUN: AtomicU64 = AtomicU64::new(0);

fn tasks_run() -> u64 {
    RUN.load(Ordering::Acquire)
}

/// Schedules a task that counts, and captures one word.
#[inline]
fn schedule(timer: &Timer, delay: Duration) -> Timeout {
    let run = &RUN;
    let task = move |_: &Timeout| run.store(run.load(Ordering::Relaxed) + 1, Ordering::Release);
    let scheduled = timer.handle.new_timeout(task, delay);
    scheduled.expect("a running timer takes a timeout")
}

/// Waits until `count` tasks have run.
fn wait_for_tasks(count: u64) {
    let start = Instant::now();
    while tasks_run() < count {
        let run = tasks_run();
        assert!(start.elapsed().as_secs() < 100, "{run} of {count} fired");
        thread::sleep(Duration::from_millis(5));
    }
}

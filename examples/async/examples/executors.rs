//! Slow tasks belong on an executor: rayon, tokio, or worker threads behind a channel.
//!
//! Without one, a task runs on the timer thread, and one that takes longer than a tick makes the
//! others late. An executor is a function that is given a [`Job`] and has it run elsewhere. It is
//! called on the timer thread, so it must not wait.
//!
//! ```text
//! cargo run --release -p async-examples --example executors
//! ```

use hashed_wheel::{HashedWheelTimer, Job, Stats};
use std::error::Error;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);
const TASKS: u32 = 20;

type Executor = Box<dyn Fn(Job) + Send + Sync>;

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().skip(1).any(|option| option != "--quick") {
        eprintln!("usage: executors [--quick]");
        std::process::exit(2);
    }
    println!(
        "{TASKS} tasks of 30 ms each, due at once, on each executor; the tick is {TICK:?}, so up to that is in time\n"
    );
    report("the timer thread itself", &run(None)?);

    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build()?;
    report("rayon", &run(Some(Box::new(move |job| pool.spawn(job))))?);

    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let handle = runtime.handle().clone();
    // These tasks block, so they go to tokio's threads for blocking. One that only spawns a future or
    // sends a message would be `handle.spawn(async { job() })`.
    let blocking = move |job| drop(handle.spawn_blocking(job));
    report("tokio", &run(Some(Box::new(blocking)))?);

    report("a channel for 1000 jobs", &run(Some(workers(1000)))?);
    // What does not fit is dropped, and that is counted and logged.
    report("a channel for 8 jobs", &run(Some(workers(8)))?);
    Ok(())
}

/// Four worker threads behind a channel. They end when the executor is dropped with its timer.
fn workers(capacity: usize) -> Executor {
    let (jobs, queue) = mpsc::sync_channel::<Job>(capacity);
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..4 {
        let queue = Arc::clone(&queue);
        thread::spawn(move || {
            loop {
                // The lock is let go before the job runs.
                let next = queue.lock().map(|queue| queue.recv());
                let Ok(Ok(job)) = next else { return };
                job();
            }
        });
    }
    // Never `send`: it would hold up the timer thread while the channel is full.
    Box::new(move |job| drop(jobs.try_send(job)))
}

/// Runs the load on a timer with this executor; its counters.
fn run(executor: Option<Executor>) -> Result<Stats, Box<dyn Error>> {
    let mut builder = HashedWheelTimer::builder().tick_duration(TICK);
    if let Some(executor) = executor {
        builder = builder.executor(executor);
    }
    let timer = builder.build()?;
    let (ended, ends) = mpsc::channel();
    for _ in 0..TASKS {
        let ended = ended.clone();
        let slow = move |_: &_| {
            thread::sleep(Duration::from_millis(30));
            let _ = ended.send(());
        };
        timer.new_timeout(slow, Duration::from_millis(50))?;
    }
    // When the last task has run or was dropped, the channel is closed.
    drop(ended);
    ends.iter().for_each(drop);
    thread::sleep(TICK);
    Ok(timer.stats())
}

fn report(name: &str, stats: &Stats) {
    println!(
        "{name:<24} {:>2} ran, {:>2} dropped; late by {:>8.1?} in the median and {:>8.1?} at most",
        u64::from(TASKS) - stats.dropped_jobs,
        stats.dropped_jobs,
        stats.lateness.p50(),
        stats.lateness.max(),
    );
}

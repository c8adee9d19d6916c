//! A time limit around a future, and a delay queue, side by side with tokio's, in one run:
//!
//! ```text
//! cargo run --release -p async-examples --bin beside_tokio             one minute
//! cargo run --release -p async-examples --bin beside_tokio -- --quick  some seconds, rough
//! ```
//!
//! Every figure is the median of several runs, in which the contestants take turns. Ratios hold on another machine; the
//! nanoseconds do not.

#[path = "../sleeps_and_resets/clock.rs"]
#[allow(dead_code)] // only a part of it is used here
mod clock;
mod queues;
#[path = "../sleeps_and_resets/table.rs"]
mod table;
mod timeouts;

use async_examples::options;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
struct Effort {
    /// How often each contestant has its turn.
    runs: usize,
    /// Operations of each thread in a run.
    operations: u32,
}

fn main() {
    let quick = options::quick("usage: beside_tokio [--quick]");
    let effort = if quick {
        Effort {
            runs: 3,
            operations: 50_000,
        }
    } else {
        Effort {
            runs: 11,
            operations: 500_000,
        }
    };
    println!("medians of {} alternating runs", effort.runs);
    println!(
        "\na time limit of 30 s around a future that is ready, and around one that is ready when polled again"
    );
    println!("ns for each: wall / CPU of the process\n");
    timeouts::compare(effort).print();
    println!("\ndelay queue: insert and remove, 1000 values in flight for each thread, 30 s");
    println!("ns for each pair: wall / CPU of the process\n");
    queues::compare(effort).print();
}

/// Wall and CPU nanoseconds for each of so many operations.
fn figures(watch: clock::Stopwatch, operations: u32, threads: u32) -> [f64; 2] {
    let all = f64::from(operations) * f64::from(threads);
    [watch.wall(), watch.cpu()].map(|time| time.as_secs_f64() * 1e9 / all)
}

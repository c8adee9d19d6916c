//! `insert` and `remove` of a delay queue that threads share.

use crate::clock::Stopwatch;
use crate::table::Table;
use crate::{Effort, figures};
use hashed_wheel::{DelayQueue, HashedWheelTimer, Timeout};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hint::black_box;
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio_util::time::DelayQueue as TokioQueue;

const DELAY: Duration = Duration::from_secs(30);
/// Values of each thread between its insert and its remove.
const IN_FLIGHT: usize = 1000;
const THREADS: [u32; 3] = [1, 2, 4];
const ROWS: [&str; 3] = [
    "hashed_wheel::DelayQueue",
    "tokio-util's DelayQueue in a mutex",
    "a timeout: new_timeout and cancel",
];

/// Inserts and removes on so many threads, the oldest first.
fn race<K>(
    effort: Effort,
    threads: u32,
    runtime: &Handle,
    insert: impl Fn(u32) -> K + Sync,
    remove: impl Fn(K) + Sync,
) -> [f64; 2] {
    let watch = Stopwatch::start();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // The other's timer is found by the thread.
                let _entered = runtime.enter();
                let mut keys = VecDeque::with_capacity(IN_FLIGHT);
                for n in 0..effort.operations {
                    if keys.len() == IN_FLIGHT {
                        keys.pop_front().into_iter().for_each(&remove);
                    }
                    keys.push_back(insert(n));
                }
                keys.into_iter().for_each(&remove);
            });
        }
    });
    figures(watch, effort.operations, threads)
}

pub(crate) fn compare(effort: Effort) -> Table {
    let mut table = Table::new(THREADS.map(|threads| format!("{threads} threads")), &ROWS);
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    for _ in 0..effort.runs {
        for (column, threads) in THREADS.into_iter().enumerate() {
            let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
            let queue = DelayQueue::new(&timer);
            let insert = |n| queue.insert(n, DELAY).expect("it runs");
            let remove = |key| assert!(queue.remove(&key).is_some());
            table.add(
                0,
                column,
                &race(effort, threads, runtime.handle(), insert, remove),
                &[0, 0],
            );

            let insert = |n| {
                let task = move |_: &Timeout| _ = black_box(n);
                timer.new_timeout(task, DELAY).expect("it runs")
            };
            let remove = |timeout: Timeout| assert!(timeout.cancel());
            let measured = race(effort, threads, runtime.handle(), insert, remove);
            table.add(2, column, &measured, &[0, 0]);

            // Nobody polls it, which would cost more.
            let queue = Mutex::new(TokioQueue::new());
            let insert = |n| queue.lock().insert(n, DELAY);
            let remove = |key| _ = black_box(queue.lock().remove(&key));
            table.add(
                1,
                column,
                &race(effort, threads, runtime.handle(), insert, remove),
                &[0, 0],
            );
        }
    }
    table
}

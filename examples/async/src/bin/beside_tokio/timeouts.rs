//! `timeout` around a future.

use crate::clock::Stopwatch;
use crate::table::Table;
use crate::{Effort, figures};
use std::future::ready;
use std::hint::black_box;
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

const LIMIT: Duration = Duration::from_secs(30);

const ROWS: [&str; 5] = [
    "ready: tokio::time::timeout",
    "ready: hashed_wheel::timeout",
    "slow: no limit",
    "slow: tokio::time::timeout",
    "slow: hashed_wheel::timeout",
];

/// A kind of runtime, and how many threads work.
const COLUMNS: [(&str, bool, u32); 4] = [
    ("current-thread, 1", false, 1),
    ("current-thread, 2 of them", false, 2),
    ("multi-thread, 1 worker", true, 1),
    ("multi-thread, 2 workers", true, 2),
];

async fn work(row: usize, operations: u32) {
    for n in 0..operations {
        let in_time = match row {
            0 => tokio::time::timeout(LIMIT, ready(n)).await.is_ok(),
            1 => hashed_wheel::timeout(LIMIT, ready(n)).await.is_ok(),
            2 => {
                yield_now().await;
                true
            }
            3 => tokio::time::timeout(LIMIT, yield_now()).await.is_ok(),
            _ => hashed_wheel::timeout(LIMIT, yield_now()).await.is_ok(),
        };
        assert!(black_box(in_time));
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime")
}

pub(crate) fn compare(effort: Effort) -> Table {
    let mut table = Table::new(COLUMNS.map(|(name, ..)| name.to_owned()), &ROWS);
    let operations = effort.operations;
    for _ in 0..effort.runs {
        for (column, (_, multi, threads)) in COLUMNS.into_iter().enumerate() {
            for row in 0..ROWS.len() {
                let measured = if multi {
                    let mut builder = Builder::new_multi_thread();
                    builder.worker_threads(threads as usize).enable_time();
                    let runtime = builder.build().expect("a runtime");
                    let watch = Stopwatch::start();
                    let tasks: Vec<_> = (0..threads)
                        .map(|_| runtime.spawn(work(row, operations)))
                        .collect();
                    for task in tasks {
                        runtime.block_on(task).expect("no panic");
                    }
                    figures(watch, operations, threads)
                } else {
                    let watch = Stopwatch::start();
                    thread::scope(|scope| {
                        for _ in 0..threads {
                            scope.spawn(|| current_thread().block_on(work(row, operations)));
                        }
                    });
                    figures(watch, operations, threads)
                };
                table.add(row, column, &measured, &[0, 0]);
            }
        }
    }
    table
}

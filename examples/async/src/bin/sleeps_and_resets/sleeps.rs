//! `sleep`: what a future costs that is made, polled once and dropped, as most timeouts are.

use crate::clock::Stopwatch;
use crate::table::Table;
use crate::{Effort, tokio_thread};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, TimerHandle};
use std::pin::{Pin, pin};
use std::sync::Barrier;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

const OPERATIONS: u32 = 2_000_000;
const THREADS: [u32; 2] = [1, 2];
const ROWS: [&str; 4] = [
    "hashed wheel",
    "hierarchical wheel",
    "tokio, current-thread runtime",
    "tokio, multi-thread runtime",
];

pub(crate) fn compare(effort: Effort) -> Table {
    let columns = THREADS.map(|threads| format!("{threads} thread(s)"));
    let mut table = Table::new(columns, &ROWS);
    let operations = OPERATIONS / effort.divisor;
    for _ in 0..effort.runs {
        for (column, &threads) in THREADS.iter().enumerate() {
            for row in 0..ROWS.len() {
                let figures = run(row, threads, operations);
                table.add(row, column, &figures, &[0, 0]);
            }
        }
    }
    table
}

/// One turn of one contestant: wall and CPU nanoseconds for each operation, of all threads together.
fn run(row: usize, threads: u32, operations: u32) -> [f64; 2] {
    let tick = Duration::from_millis(1);
    match row {
        0 => {
            let owner = HashedWheelTimer::new(tick, 512);
            let timer = owner.handle();
            timer.start().expect("a thread");
            measure(threads, operations, || own(&timer, operations / threads))
        }
        1 => {
            let owner = HierarchicalWheelTimer::new(tick, 20);
            let timer = owner.handle();
            timer.start().expect("a thread");
            measure(threads, operations, || own(&timer, operations / threads))
        }
        2 => {
            let runtime = tokio_thread::start();
            measure(threads, operations, || {
                tokio(&runtime.handle, operations / threads);
            })
        }
        _ => {
            let mut builder = Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_time().build();
            let runtime = runtime.expect("a tokio runtime");
            measure(threads, operations, || {
                tokio(runtime.handle(), operations / threads);
            })
        }
    }
}

fn measure(threads: u32, operations: u32, work: impl Fn() + Sync) -> [f64; 2] {
    let begin = Barrier::new(threads as usize + 1);
    let watch = thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                begin.wait();
                work();
            });
        }
        begin.wait();
        Stopwatch::start()
    });
    [watch.wall(), watch.cpu()].map(|time| time.as_nanos() as f64 / f64::from(operations))
}

/// About half a minute, and not always the same.
fn delay(operation: u32) -> Duration {
    Duration::from_millis(30_000 + u64::from(operation % 1000))
}

fn own(timer: &TimerHandle, operations: u32) {
    let mut context = Context::from_waker(Waker::noop());
    for operation in 0..operations {
        let mut sleep = timer.sleep(delay(operation));
        assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
    }
}

fn tokio(runtime: &Handle, operations: u32) {
    let _entered = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    for operation in 0..operations {
        let sleep = pin!(tokio::time::sleep(delay(operation)));
        assert!(sleep.poll(&mut context).is_pending());
    }
}

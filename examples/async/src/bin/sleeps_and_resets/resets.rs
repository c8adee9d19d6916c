//! `reset`: the idle timeout of a connection, pushed out by every packet.

use crate::Effort;
use crate::clock::Stopwatch;
use crate::table::Table;
use crate::tokio_thread::{self, TokioThread};
use hashed_wheel::{HashedWheelTimer, Sleep, Timeout, TimerHandle};
use parking_lot::Mutex;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

const CONNECTIONS: usize = 100_000;
const IDLE: Duration = Duration::from_secs(30);
const RATES: [u32; 4] = [3_000, 30_000, 300_000, 3_000_000];

const ROWS: [&str; 5] = [
    "Timeout::reset",
    "Timeout::cancel + new_timeout",
    "Sleep::reset",
    "tokio Sleep::reset",
    "tokio-util DelayQueue::reset",
];

/// The connections that one thread looks after.
trait Connections: Send {
    /// A packet came.
    fn reset(&mut self, connection: usize, idle: Duration);
}

/// The timers of all connections, in as many parts as there are threads.
struct Contestant {
    parts: Vec<Box<dyn Connections>>,
    /// Dropped last.
    _timer: Box<dyn Send>,
}

fn contestant(row: usize, threads: usize, idle: Duration) -> Contestant {
    let part = CONNECTIONS / threads;
    let own = || {
        let owner = HashedWheelTimer::new(Duration::from_millis(10), 512);
        (owner.handle(), Box::new(owner))
    };
    let parts = 0..threads;
    match row {
        0 | 1 => {
            let (timer, owner) = own();
            let parts = parts.map(|_| Timeouts::boxed(&timer, part, idle, row == 1));
            Contestant {
                parts: parts.collect(),
                _timer: owner,
            }
        }
        2 => {
            let (timer, owner) = own();
            let parts = parts.map(|_| Sleeps::boxed(&timer, part, idle));
            Contestant {
                parts: parts.collect(),
                _timer: owner,
            }
        }
        3 => {
            let runtime = tokio_thread::start();
            let parts = parts.map(|_| TokioSleeps::boxed(&runtime.handle, part, idle));
            Contestant {
                parts: parts.collect(),
                _timer: Box::new(runtime),
            }
        }
        _ => {
            let runtime = tokio_thread::start();
            let queue = start_queue(&runtime);
            let parts = parts.map(|_| DelayQueues::boxed(&queue, &runtime.handle, part, idle));
            Contestant {
                parts: parts.collect(),
                _timer: Box::new(runtime),
            }
        }
    }
}

struct Timeouts {
    timer: TimerHandle,
    all: Vec<Timeout>,
    /// Cancels and schedules anew, instead of resetting.
    anew: bool,
}

impl Timeouts {
    fn boxed(timer: &TimerHandle, part: usize, idle: Duration, anew: bool) -> Box<dyn Connections> {
        let mut timeouts = Timeouts {
            timer: timer.clone(),
            all: Vec::new(),
            anew,
        };
        let all = (0..part).map(|connection| timeouts.new_timeout(connection, idle));
        timeouts.all = all.collect();
        Box::new(timeouts)
    }

    fn new_timeout(&self, connection: usize, idle: Duration) -> Timeout {
        let close = move |_: &Timeout| _ = std::hint::black_box(connection);
        self.timer.new_timeout(close, idle).expect("it runs")
    }
}

impl Connections for Timeouts {
    fn reset(&mut self, connection: usize, idle: Duration) {
        if self.anew {
            assert!(self.all[connection].cancel());
            self.all[connection] = self.new_timeout(connection, idle);
        } else {
            assert!(self.all[connection].reset(idle));
        }
    }
}

struct Sleeps(Vec<Sleep>);

impl Sleeps {
    fn boxed(timer: &TimerHandle, part: usize, idle: Duration) -> Box<dyn Connections> {
        let mut context = Context::from_waker(Waker::noop());
        let all = (0..part).map(|_| {
            let mut sleep = timer.sleep(idle);
            assert!(Pin::new(&mut sleep).poll(&mut context).is_pending());
            sleep
        });
        Box::new(Sleeps(all.collect()))
    }
}

impl Connections for Sleeps {
    fn reset(&mut self, connection: usize, idle: Duration) {
        self.0[connection].reset(idle);
    }
}

struct TokioSleeps(Vec<Pin<Box<tokio::time::Sleep>>>);

impl TokioSleeps {
    fn boxed(runtime: &Handle, part: usize, idle: Duration) -> Box<dyn Connections> {
        let _entered = runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        let all = (0..part).map(|_| {
            let mut sleep = Box::pin(tokio::time::sleep(idle));
            assert!(sleep.as_mut().poll(&mut context).is_pending());
            sleep
        });
        Box::new(TokioSleeps(all.collect()))
    }
}

impl Connections for TokioSleeps {
    fn reset(&mut self, connection: usize, idle: Duration) {
        let deadline = tokio::time::Instant::now() + idle;
        self.0[connection].as_mut().reset(deadline);
    }
}

type Queue = Arc<Mutex<DelayQueue<()>>>;

/// A queue, and a task that takes out what expires.
fn start_queue(runtime: &TokioThread) -> Queue {
    let queue = Queue::default();
    let expiring = Arc::clone(&queue);
    runtime.handle.spawn(async move {
        loop {
            poll_fn(|context| match expiring.lock().poll_expired(context) {
                Poll::Ready(Some(_)) => Poll::Ready(()),
                // Empty: the next insertion wakes.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            })
            .await;
        }
    });
    queue
}

struct DelayQueues {
    queue: Queue,
    keys: Vec<Key>,
}

impl DelayQueues {
    fn boxed(queue: &Queue, runtime: &Handle, part: usize, idle: Duration) -> Box<dyn Connections> {
        let _entered = runtime.enter();
        let keys = (0..part).map(|_| queue.lock().insert((), idle));
        Box::new(DelayQueues {
            keys: keys.collect(),
            queue: Arc::clone(queue),
        })
    }
}

impl Connections for DelayQueues {
    fn reset(&mut self, connection: usize, idle: Duration) {
        self.queue.lock().reset(&self.keys[connection], idle);
    }
}

/// All numbers below `len`, in an order without order, the same every time.
fn shuffled(len: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for place in (1..len).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let other = usize::try_from(random % (place as u64 + 1)).expect("a place");
        order.swap(place, other);
    }
    order
}

// ── as fast as it goes ──────────────────────────────────────────────────────────────────────────

const OPERATIONS: u32 = 4_000_000;
const THREADS: [u32; 2] = [1, 2];

pub(crate) fn compare_flat_out(effort: Effort) -> Table {
    let columns = THREADS.map(|threads| format!("{threads} thread(s)"));
    let mut table = Table::new(columns, &ROWS);
    for _ in 0..effort.runs {
        for (column, &threads) in THREADS.iter().enumerate() {
            for row in 0..ROWS.len() {
                let figures = flat_out(row, threads, OPERATIONS / effort.divisor);
                table.add(row, column, &figures, &[0, 0]);
            }
        }
    }
    table
}

/// Wall and CPU nanoseconds for each reset, of all threads together.
fn flat_out(row: usize, threads: u32, operations: u32) -> [f64; 2] {
    let mut contestant = contestant(row, threads as usize, IDLE);
    let order = &shuffled(CONNECTIONS / threads as usize);
    settle();
    let begin = &Barrier::new(threads as usize + 1);
    let watch = thread::scope(|scope| {
        for part in &mut contestant.parts {
            scope.spawn(move || {
                begin.wait();
                let connections = order.iter().cycle();
                for &connection in connections.take((operations / threads) as usize) {
                    part.reset(connection, IDLE);
                }
            });
        }
        begin.wait();
        Stopwatch::start()
    });
    [watch.wall(), watch.cpu()].map(|time| time.as_nanos() as f64 / f64::from(operations))
}

/// What was just scheduled is filed before the clocks are read.
fn settle() {
    thread::sleep(Duration::from_millis(50));
}

// ── at a rate ───────────────────────────────────────────────────────────────────────────────────

pub(crate) fn compare_paced(effort: Effort) -> Table {
    let columns = RATES.map(|rate| format!("{rate} a second"));
    let mut table = Table::new(columns, &ROWS);
    let length = Duration::from_millis(500) / effort.divisor;
    for _ in 0..effort.runs {
        for (column, &rate) in RATES.iter().enumerate() {
            for row in 0..ROWS.len() {
                let figures = paced(row, rate, length, IDLE);
                table.add(row, column, &figures, &[0, 1]);
            }
        }
    }
    table
}

/// Each entry comes round once a second: what the lazy filing of a reset costs later.
pub(crate) fn compare_rounds(effort: Effort) -> Table {
    let mut table = Table::new(["300000 a second".to_owned()], &ROWS);
    let length = Duration::from_secs(3);
    for _ in 0..effort.runs {
        for row in 0..ROWS.len() {
            let figures = paced(row, 300_000, length, Duration::from_secs(1));
            table.add(row, 0, &figures, &[0, 1]);
        }
    }
    table
}

/// Bursts, a hundred a second: the caller's nanoseconds for each reset, and what other threads use
/// meanwhile, in percent of a core.
fn paced(row: usize, rate: u32, length: Duration, idle: Duration) -> [f64; 2] {
    let mut contestant = contestant(row, 1, idle);
    let part = &mut contestant.parts[0];
    let order = shuffled(CONNECTIONS);
    let mut connections = order.iter().cycle();
    settle();
    let watch = Stopwatch::start();
    let (mut resets, mut spent) = (0_u32, Duration::ZERO);
    for burst in 1.. {
        let begun = Instant::now();
        for &connection in connections.by_ref().take((rate / 100) as usize) {
            part.reset(connection, idle);
        }
        resets += rate / 100;
        spent += begun.elapsed();
        if watch.wall() >= length {
            break;
        }
        let next = Duration::from_millis(10) * burst;
        thread::sleep(next.saturating_sub(watch.wall()));
    }
    let share = watch.background().as_secs_f64() / watch.wall().as_secs_f64();
    [spent.as_nanos() as f64 / f64::from(resets), 100.0 * share]
}

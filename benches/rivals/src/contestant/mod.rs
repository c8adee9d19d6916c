//! The contestants, each behind the same small trait.
//!
//! Every contestant is given its best honest use; its file says what that is. All of them keep
//! the task in place where their interface allows it (a box where it demands one), run due tasks
//! on one thread of their own, and are called without dynamic dispatch.

pub(crate) mod array;
pub(crate) mod async_io;
pub(crate) mod binary_heap;
pub(crate) mod btree;
pub(crate) mod delay_queue;
pub(crate) mod hash_wheel;
pub(crate) mod netty;
#[cfg(feature = "own")]
pub(crate) mod own;
pub(crate) mod thread_pool;
pub(crate) mod tokio_sleep;

use std::time::{Duration, Instant};

use crate::case::{Case, Workload};

/// What runs when a timeout falls due. A type of its own instead of a boxed closure, so that a
/// contestant may store it without an allocation.
pub(crate) trait Task: Send + 'static {
    fn run(self);
}

/// A kind of timer that takes part.
pub(crate) trait Contestant {
    /// The timer for tasks of type `T`.
    type Timer<T: Task>: Timer<T>;

    /// Dropping the handle of a pending timeout cancels it, so whoever wants it to fire must keep it.
    const DROP_CANCELS: bool = false;
    /// Cancelling gives the memory of a timeout back, now or soon, and not only at its deadline.
    const CANCEL_FREES: bool = true;
}

/// A running timer.
pub(crate) trait Timer<T>: Sized + Sync {
    type Producer<'a>: Producer<T>
    where
        Self: 'a;

    /// Starts a timer. Those without a wheel of their own making ignore its measures.
    fn new(tick: Duration, slots: usize) -> Self;

    /// What one thread needs to schedule and cancel.
    fn producer(&self) -> Self::Producer<'_>;
}

/// One thread's access to a timer.
pub(crate) trait Producer<T> {
    type Handle;

    /// Schedules `task` to run in `delay`: when this returns, the timer knows of it.
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle;

    /// Cancels what `handle` stands for.
    fn cancel(&mut self, handle: Self::Handle);

    /// Like `arm`, where it is known that it will not be cancelled. Differs for the futures: an
    /// armed future that is only ever dropped needs no real waker.
    fn arm_to_fire(&mut self, task: T, delay: Duration) -> Self::Handle {
        self.arm(task, delay)
    }
}

/// The clock of the two timers written by hand: nanoseconds since a start, which compare faster
/// than `Instant`s.
struct Nanos(Instant);

impl Nanos {
    fn start() -> Self {
        Self(Instant::now())
    }

    #[inline]
    fn now(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    #[inline]
    fn after(&self, delay: Duration) -> u64 {
        self.now() + delay.as_nanos() as u64
    }

    fn instant(&self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }
}

/// What the table says about a contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Its tick can be set; the others have one resolution and run the 1 ms rows only.
    tick: bool,
}

/// The one the ratios refer to.
pub(crate) const REFERENCE: &str = "hashed";

/// All contestants, in the order of the table.
pub(crate) const ALL: &[Info] = &[
    #[cfg(feature = "own")]
    info(REFERENCE, "this crate's HashedWheelTimer", true),
    #[cfg(feature = "own")]
    info("hierarchical", "this crate's HierarchicalWheelTimer", true),
    info(netty::NAME, "Netty's HashedWheelTimer on the JVM", true),
    info("tokio", "tokio 1.54.1, time::sleep", false),
    info("delayqueue", "tokio-util 0.7.20, Mutex<DelayQueue>", false),
    info("hhwt", "hierarchical_hash_wheel_timer 1.4.0", false),
    info("async-io", "async-io 2.6.0, Timer", false),
    info("pool", "scheduled-thread-pool 0.2.8", false),
    info("btreemap", "Mutex<BTreeMap> and a condvar", false),
    info("binaryheap", "Mutex<BinaryHeap> and a condvar", false),
    info("array", "no timer: a plain array's cache misses", false),
];

const fn info(name: &'static str, what: &'static str, tick: bool) -> Info {
    Info { name, what, tick }
}

impl Info {
    /// Whether this contestant has something to say in `case`.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        match case.workload {
            Workload::Growth => true,
            _ if self.name == "array" => false,
            Workload::Fire | Workload::Lateness | Workload::Hold => self.tick || case.tick_ms == 1,
            _ => true,
        }
    }
}

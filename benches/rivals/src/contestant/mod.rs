//! The contestants, each behind the same small trait.
//!
//! Every contestant is given its best honest use; its file says what that is. All of them keep
//! the task in place where their interface allows it (a box where it demands one), run due tasks
//! on one thread of their own, and are called without dynamic dispatch.

pub(crate) mod array;
pub(crate) mod binary_heap;
pub(crate) mod delay_queue;
pub(crate) mod netty;
pub(crate) mod nexus;
pub(crate) mod own;
pub(crate) mod thread_pool;
pub(crate) mod tokio_sleep;

use std::time::{Duration, Instant};

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
    /// A pending timeout can be given another deadline in place: [`Producer::reset`].
    const RESETS: bool = false;
}

/// A timer that the oversubscribed row can use: it has repeated tasks, or can be made to.
pub(crate) trait Repeats<T>: Timer<T> {
    /// Calls `run` every `period`, phase kept, missed calls skipped.
    fn every(&self, period: Duration, run: impl FnMut() + Send + 'static);

    /// Entries in the queue between the callers and the timer's thread, where the timer tells.
    fn queued(&self) -> Option<u64> {
        None
    }
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

    /// Moves what `handle` stands for to `delay` from now. Called only where
    /// [`Contestant::RESETS`] says so.
    fn reset(&mut self, handle: &mut Self::Handle, delay: Duration) {
        let _ = (handle, delay);
        unreachable!("this contestant has no reset");
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

/// A contestant of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
}

/// The one that the targets are about.
pub(crate) const REFERENCE: &str = "hashed";
/// The original. It runs on the JVM, by a script; all others run in a child of this program.
pub(crate) const NETTY: &str = "netty";

/// All contestants, in the order of the tables.
pub(crate) const ALL: &[Info] = &[
    info(REFERENCE, "this crate's HashedWheelTimer"),
    info("hierarchical", "this crate's HierarchicalWheelTimer"),
    info(NETTY, "Netty's HashedWheelTimer on the JVM"),
    info("tokio", "tokio 1.54.1, time::sleep"),
    info("delayqueue", "tokio-util 0.7.20, Mutex<DelayQueue>"),
    info("nexus", "nexus-timer 1.5.0, Mutex<Wheel>"),
    info("pool", "scheduled-thread-pool 0.2.8"),
    info("binaryheap", "Mutex<BinaryHeap> and a condvar"),
    info("array", "no timer: a plain array's cache misses"),
];

const fn info(name: &'static str, what: &'static str) -> Info {
    Info { name, what }
}

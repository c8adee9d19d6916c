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
pub(crate) mod external;
#[cfg(feature = "more")]
pub(crate) mod futures_timer;
pub(crate) mod hash_wheel;
#[cfg(feature = "more")]
pub(crate) mod kestrel;
#[cfg(feature = "more")]
pub(crate) mod nexus;
#[cfg(feature = "own")]
pub(crate) mod own;
pub(crate) mod thread_pool;
#[cfg(feature = "more")]
pub(crate) mod timer_wheel;
pub(crate) mod tokio_sleep;

use std::time::{Duration, Instant};

use crate::case::{Case, Workload};
use external::Script;

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

/// What the table says about a contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Its tick can be set; the others have one resolution and run the 1 ms rows only.
    tick: bool,
    pub(crate) program: Program,
}

/// Where a contestant runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// In a child of this program.
    Own,
    /// In a program of another language.
    Script(Script),
    /// Nowhere: what must be done for it to take part.
    Missing(&'static str),
}

/// The one the ratios refer to.
pub(crate) const REFERENCE: &str = "hashed";
/// The original.
pub(crate) const NETTY: &str = "netty";

const JAVA: &str = "netty/run.sh";
const GO: &str = "go/run.sh";

/// Further Rust timers, if they are compiled in.
const MORE: Program = if cfg!(feature = "more") {
    Program::Own
} else {
    Program::Missing("not compiled in; add --features more")
};

const ALT_TIMER: Program = if cfg!(tokio_unstable) {
    Program::Own
} else {
    Program::Missing(
        "not compiled in; build with RUSTFLAGS=--cfg=tokio_unstable and --target-dir target/unstable",
    )
};

/// All contestants, in the order of the table.
pub(crate) const ALL: &[Info] = &[
    #[cfg(feature = "own")]
    info(REFERENCE, "this crate's HashedWheelTimer", true),
    #[cfg(feature = "own")]
    info("hierarchical", "this crate's HierarchicalWheelTimer", true),
    script(NETTY, "Netty's HashedWheelTimer on the JVM", true, JAVA),
    info("tokio", "tokio 1.54.1, time::sleep", false),
    info("delayqueue", "tokio-util 0.7.20, Mutex<DelayQueue>", false),
    info("hhwt", "hierarchical_hash_wheel_timer 1.4.0", false),
    info("async-io", "async-io 2.6.0, Timer", false),
    info("pool", "scheduled-thread-pool 0.2.8", false),
    info("btreemap", "Mutex<BTreeMap> and a condvar", false),
    info("binaryheap", "Mutex<BinaryHeap> and a condvar", false),
    script(
        "netty42",
        "Netty 4.2's HashedWheelTimer, current JVM",
        true,
        JAVA,
    ),
    script("stpe", "Java's ScheduledThreadPoolExecutor", false, JAVA),
    script("go", "Go's time.AfterFunc and Stop", false, GO),
    info("nexus", "nexus-timer 1.5.0, Mutex<Wheel>", true).run_by(MORE),
    info("futures-timer", "futures-timer 3.0.4, Delay", false).run_by(MORE),
    info("timerwheel", "timerwheel 0.1.0", true).run_by(MORE),
    info("kestrel", "kestrel-timer 0.4.1, TimerWheel", true).run_by(MORE),
    info("tokio-alt", "tokio 1.54.1, alternative timer", false).run_by(ALT_TIMER),
    info("array", "no timer: a plain array's cache misses", false),
];

const fn info(name: &'static str, what: &'static str, tick: bool) -> Info {
    Info {
        name,
        what,
        tick,
        program: Program::Own,
    }
}

const fn script(name: &'static str, what: &'static str, tick: bool, file: &'static str) -> Info {
    Info {
        name,
        what,
        tick,
        program: Program::Script(Script { file, name }),
    }
}

impl Info {
    const fn run_by(self, program: Program) -> Self {
        Self { program, ..self }
    }

    /// Whether this contestant belongs to the short form of `case`: this crate, the original and the bare array; and
    /// everybody in the rows that are drawn or that a peer sets the mark in.
    pub(crate) fn is_in_brief(&self, case: &Case) -> bool {
        let everybody = match case.workload {
            Workload::Churn => true,
            Workload::Fire => case.tick_us == 1_000,
            Workload::Tails => case.flight == 100_000,
            Workload::Growth if case.producers > 1 => return false,
            _ => false,
        };
        everybody || matches!(self.name, "hashed" | "hierarchical" | NETTY | "array")
    }

    /// Whether this contestant has something to say in `case`.
    pub(crate) fn takes_part(&self, case: &Case) -> bool {
        let own = matches!(self.name, "hashed" | "hierarchical");
        let first = own || matches!(self.name, NETTY | "tokio" | "delayqueue");
        let further = matches!(
            self.name,
            "netty42" | "stpe" | "go" | "nexus" | "kestrel" | "tokio-alt"
        );
        match case.workload {
            Workload::Growth => !further || matches!(self.name, "netty42" | "stpe" | "go"),
            Workload::Producers => first || further || self.name == "array",
            Workload::Tails => first || further || self.name == "binaryheap",
            Workload::Oversubscribed => {
                own || matches!(
                    self.name,
                    NETTY | "tokio" | "netty42" | "stpe" | "go" | "tokio-alt"
                )
            }
            Workload::At => own,
            Workload::Fine => own || matches!(self.name, "async-io" | "binaryheap"),
            _ if self.name == "array" => false,
            // A collected heap keeps what it has: resident memory says nothing about the timer.
            Workload::MemoryBurst => !matches!(self.program, Program::Script(_)),
            Workload::Fire
            | Workload::Lateness
            | Workload::AtOnce
            | Workload::Boundary
            | Workload::Hold => self.tick || case.tick_us == 1_000,
            _ => true,
        }
    }
}

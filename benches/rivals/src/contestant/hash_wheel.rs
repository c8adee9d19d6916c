//! `hierarchical_hash_wheel_timer`, the timer with a thread of its own.
//!
//! Best use: 64-bit ids counted up by each producer instead of random UUIDs, the crate's fastest
//! hasher (fx), and the task itself as the state, without a boxed closure. Each producer has its
//! own clone of the reference. Cancelled timeouts keep their allocation until the wheel comes
//! round to them.

use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hierarchical_hash_wheel_timer::thread_timer::{TimerRef, TimerWithThread};
use hierarchical_hash_wheel_timer::{OneshotState, PeriodicState, Timer as _, TimerReturn};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct HashWheel;

impl Contestant for HashWheel {
    type Timer<T: Task> = Thread<T>;
    const CANCEL_FREES: bool = false;
}

pub(crate) struct OneShot<T> {
    id: u64,
    task: T,
}

impl<T: Task> OneshotState for OneShot<T> {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }

    fn trigger(self) {
        self.task.run();
    }
}

impl<T> fmt::Debug for OneShot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OneShot({})", self.id)
    }
}

/// The timer's type asks for a periodic state; there is none.
#[derive(Debug)]
pub(crate) enum Never {}

impl PeriodicState for Never {
    type Id = u64;

    fn id(&self) -> &u64 {
        match *self {}
    }

    fn trigger(self) -> TimerReturn<Self> {
        match self {}
    }
}

pub(crate) struct Thread<T: Task> {
    /// Never dropped: its thread panics when its queue goes away.
    timer: ManuallyDrop<TimerWithThread<u64, OneShot<T>, Never>>,
    producers: AtomicU64,
}

impl<T: Task> Timer<T> for Thread<T> {
    type Producer<'a> = Reference<T>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self {
            timer: ManuallyDrop::new(TimerWithThread::new().expect("a timer thread")),
            producers: AtomicU64::new(0),
        }
    }

    fn producer(&self) -> Reference<T> {
        let producer = self.producers.fetch_add(1, Ordering::Relaxed);
        Reference {
            timer: self.timer.timer_ref(),
            next: producer << 48,
        }
    }
}

pub(crate) struct Reference<T: Task> {
    timer: TimerRef<u64, OneShot<T>, Never>,
    next: u64,
}

impl<T: Task> Producer<T> for Reference<T> {
    type Handle = u64;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> u64 {
        let id = self.next;
        self.next += 1;
        self.timer.schedule_once(delay, OneShot { id, task });
        id
    }

    #[inline]
    fn cancel(&mut self, id: u64) {
        self.timer.cancel(&id);
    }
}

//! The system call of `sync/sleeper/futex.rs`.

use super::{AtomicU64, CLOCK, Ordering};
use loom::thread::{self, Thread};
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// A kernel. What is not loom's in here is no step of the model: between the comparison of the word and the going to sleep
/// nobody comes, as in the kernel, which holds a lock meanwhile. It makes nothing known to anybody that is not woken.
pub(crate) struct Sleeper {
    /// Exchanged by each call, so that the search knows that they depend on each other.
    calls: loom::sync::atomic::AtomicU8,
    asleep: Mutex<Option<Thread>>,
    wakes: AtomicUsize,
    naps: AtomicUsize,
}

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper {
            calls: loom::sync::atomic::AtomicU8::new(0),
            asleep: Mutex::default(),
            wakes: AtomicUsize::new(0),
            naps: AtomicUsize::new(0),
        }
    }

    pub(crate) fn register(&self) {}

    /// With a limit, time passes before anybody comes. That is one step: who comes after it has come too late.
    pub(crate) fn wait(&self, word: &AtomicU64, value: u64, limit: Option<Duration>) {
        self.calls.swap(0, Ordering::Relaxed);
        if limit.is_some() {
            CLOCK.reads.swap(0, Ordering::Relaxed);
        }
        // An exchange: the kernel does not read what was there before.
        if word.fetch_or(0, Ordering::Relaxed) as u32 != value as u32 {
            return;
        }
        let Some(limit) = limit else {
            *self.asleep.lock().unwrap() = Some(thread::current());
            while self.asleep.lock().unwrap().is_some() {
                thread::park();
            }
            return;
        };
        let nanos = u64::try_from(limit.as_nanos()).expect("not so long");
        CLOCK.nanos.fetch_add(nanos, Ordering::Relaxed);
        CLOCK.reads.swap(0, Ordering::Acquire);
        // A thread that sleeps from tick to tick waits for the others. Not every time: that would
        // leave out what it could have done before their next step.
        if self.naps.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            thread::yield_now();
        }
    }

    pub(crate) fn wake(&self, _word: &AtomicU64) {
        self.wakes.fetch_add(1, Ordering::Relaxed);
        self.calls.swap(0, Ordering::Relaxed);
        if let Some(thread) = self.asleep.lock().unwrap().take() {
            thread.unpark();
        }
    }

    /// The number of calls.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.load(Ordering::Relaxed)
    }
}

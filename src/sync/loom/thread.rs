//! Threads, as far as the crate uses them.

pub(crate) use loom::thread::{Builder, JoinHandle, ThreadId, yield_now};

use super::{AtomicU8, CLOCK, Ordering};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// A thread that can be woken.
///
/// loom's own token will not do: it makes all that the waking thread has seen known to the other at
/// once, even while that one is running, which hides what a protocol forgets, and a lock
/// that the other waits for takes the token away. This is the algorithm of the standard library.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    inner: loom::thread::Thread,
    token: Arc<AtomicU8>,
    unparks: Arc<AtomicUsize>,
    naps: Arc<AtomicUsize>,
}

const EMPTY: u8 = 0;
const NOTIFIED: u8 = 1;
const PARKED: u8 = u8::MAX;

loom::thread_local! {
    static CURRENT: Thread = Thread {
        inner: loom::thread::current(),
        token: Arc::new(AtomicU8::new(EMPTY)),
        unparks: Arc::default(),
        naps: Arc::default(),
    };
}

pub(crate) fn current() -> Thread {
    CURRENT.with(Thread::clone)
}

impl Thread {
    pub(crate) fn id(&self) -> ThreadId {
        self.inner.id()
    }

    pub(crate) fn unpark(&self) {
        self.unparks.fetch_add(1, Ordering::Relaxed);
        if self.token.swap(NOTIFIED, Ordering::Release) == PARKED {
            self.inner.unpark();
        }
    }

    /// The number of wake-ups, asked for or done.
    pub(crate) fn unparks(&self) -> usize {
        self.unparks.load(Ordering::Relaxed)
    }
}

pub(crate) fn park() {
    let token = current().token;
    if token.fetch_sub(1, Ordering::Acquire) == NOTIFIED {
        return;
    }
    loop {
        loom::thread::park();
        let took = token.compare_exchange(NOTIFIED, EMPTY, Ordering::Acquire, Ordering::Relaxed);
        if took.is_ok() {
            return;
        }
    }
}

/// Takes the token if it is there; otherwise time passes before anybody comes. That is one step:
/// who comes after it has come too late.
pub(crate) fn park_timeout(duration: Duration) {
    let this = current();
    CLOCK.reads.swap(0, Ordering::Relaxed);
    if this.token.swap(EMPTY, Ordering::Acquire) == NOTIFIED {
        return;
    }
    let nanos = u64::try_from(duration.as_nanos()).expect("not so long");
    CLOCK.nanos.fetch_add(nanos, Ordering::Relaxed);
    CLOCK.reads.swap(0, Ordering::Acquire);
    // A thread that sleeps from tick to tick waits for the others. Not every time: that would
    // leave out what it could have done before their next step.
    if this.naps.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
        yield_now();
    }
}

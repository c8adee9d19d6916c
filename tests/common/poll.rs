//! Futures without a runtime: wakers that count, one poll at a time, and a thread that parks.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use super::{Count, WATCHDOG};

/// Counts how often it was woken.
#[derive(Debug, Default)]
pub(crate) struct Wakes(Count);

impl Wakes {
    pub(crate) fn new() -> (Arc<Wakes>, Waker) {
        let wakes = Arc::new(Wakes::default());
        (Arc::clone(&wakes), Waker::from(wakes))
    }

    pub(crate) fn get(&self) -> usize {
        self.0.get()
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.add();
    }
}

pub(crate) fn poll_with<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// One poll whose wake-up nobody hears.
pub(crate) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread; fails when no wake-up comes.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = poll_with(future.as_mut(), &waker) {
            return output;
        }
        thread::park_timeout(WATCHDOG);
        assert!(start.elapsed() < WATCHDOG, "the future was never woken");
    }
}

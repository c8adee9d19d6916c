//! What a future and its timeout share: whether it is over, and whom to wake.

use crate::Timeout;
use parking_lot::Mutex;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// How a timeout ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It was due.
    Fired,
    /// Its timer stopped.
    Stopped,
}

#[derive(Debug)]
enum State {
    /// The last waker that it was polled with.
    Waiting(Waker),
    Over(End),
}

/// The future's side.
#[derive(Debug)]
pub(crate) struct Notice(Arc<Mutex<State>>);

/// The timeout's side. Dropped without having fired, it says that the timer stopped.
#[derive(Debug)]
pub(crate) struct Sender(Arc<Mutex<State>>);

/// A pair of the two. `waker` is woken when the timeout ends.
pub(crate) fn notice(waker: &Waker) -> (Notice, Sender) {
    let shared = Arc::new(Mutex::new(State::Waiting(waker.clone())));
    (Notice(Arc::clone(&shared)), Sender(shared))
}

impl Notice {
    /// Whether it is over; if not, `waker` is the one to be woken from now on.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<End> {
        // Wakers are foreign code: they are cloned, dropped and woken without the lock.
        let mut new = None;
        loop {
            let mut state = self.0.lock();
            match &mut *state {
                State::Over(end) => return Poll::Ready(*end),
                State::Waiting(old) if old.will_wake(waker) => return Poll::Pending,
                State::Waiting(old) => {
                    if let Some(new) = new.take() {
                        let old = mem::replace(old, new);
                        drop(state);
                        drop(old);
                        return Poll::Pending;
                    }
                }
            }
            drop(state);
            new = Some(waker.clone());
        }
    }

    /// The future does not want to be woken any more.
    pub(crate) fn close(&self) {
        drop(end(&self.0, End::Stopped));
    }
}

impl Sender {
    /// The task of the timeout.
    pub(crate) fn fire(self, _: &Timeout) {
        wake(end(&self.0, End::Fired));
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        wake(end(&self.0, End::Stopped));
    }
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Ends it, the first time; the waker that waited.
fn end(shared: &Mutex<State>, how: End) -> Option<Waker> {
    let mut state = shared.lock();
    match &*state {
        State::Over(_) => None,
        State::Waiting(_) => match mem::replace(&mut *state, State::Over(how)) {
            State::Waiting(waker) => Some(waker),
            State::Over(_) => None,
        },
    }
}

//! What callers and handlers ask of the store thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::Error;
use crate::store::{Op, Reply};

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each may be set by another thread"
)]
struct State {
    requests: VecDeque<Request>,
    stopping: bool,
    poisoned: bool,
    /// Something other than a request wakes the thread.
    kicked: bool,
    /// The thread waits.
    waiting: bool,
}

pub(super) struct Request {
    pub(super) op: Op,
    /// `None`: the outcome of a handler, for which nobody waits.
    pub(super) answer: Option<Answer>,
}

/// The right to answer a caller. Dropped unused, by a panic, it answers that nothing is durable any more: nobody waits for ever.
pub(super) struct Answer(Option<Arc<Waiter>>);

impl Answer {
    /// The first answer counts.
    pub(super) fn give(&mut self, result: Result<Reply, Error>) {
        if let Some(waiter) = self.0.take() {
            waiter.give(result);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.give(Err(Error::Poisoned));
    }
}

/// Where a caller waits. It is parked rather than waiting for a condition: with many callers, waking them is what the store thread does most.
struct Waiter {
    result: Mutex<Option<Result<Reply, Error>>>,
    thread: Thread,
}

impl Waiter {
    fn new() -> Waiter {
        Waiter {
            result: Mutex::new(None),
            thread: thread::current(),
        }
    }

    fn give(&self, result: Result<Reply, Error>) {
        *self.result.lock() = Some(result);
        self.thread.unpark();
    }

    fn wait(&self) -> Result<Reply, Error> {
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            // May return early: the thread's own business.
            thread::park();
        }
    }
}

impl Inbox {
    /// An error, if nothing is accepted any more.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state.lock().check()
    }

    /// Asks the store thread and waits for its answer.
    pub(super) fn call(&self, op: Op) -> Result<Reply, Error> {
        let waiter = Arc::new(Waiter::new());
        {
            let mut state = self.state.lock();
            state.check()?;
            state.requests.push_back(Request {
                op,
                answer: Some(Answer(Some(Arc::clone(&waiter)))),
            });
            if state.waiting {
                self.changed.notify_one();
            }
        }
        waiter.wait()
    }

    /// Tells the store thread the outcome of a run.
    pub(super) fn tell(&self, op: Op) {
        let mut state = self.state.lock();
        if !state.poisoned {
            state.requests.push_back(Request { op, answer: None });
            if state.waiting {
                self.changed.notify_one();
            }
        }
    }

    /// For the store thread: waits for a request, a kick or the end of `rest`. Takes at most `most` requests.
    pub(super) fn take(&self, rest: Option<Duration>, most: usize) -> (Vec<Request>, bool) {
        let mut state = self.state.lock();
        if state.requests.is_empty() && !state.kicked {
            state.waiting = true;
            match rest {
                Some(rest) => drop(self.changed.wait_for(&mut state, rest)),
                None => self.changed.wait(&mut state),
            }
            state.waiting = false;
        }
        state.kicked = false;
        let many = state.requests.len().min(most);
        (state.requests.drain(..many).collect(), state.stopping)
    }

    /// Wakes the store thread, for no request.
    pub(super) fn kick(&self) {
        let mut state = self.state.lock();
        state.kicked = true;
        if state.waiting {
            self.changed.notify_one();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state.lock().requests.is_empty()
    }

    /// Nothing new is accepted from now on. True for the first call.
    pub(super) fn stop(&self) -> bool {
        let mut state = self.state.lock();
        state.kicked = true;
        self.changed.notify_all();
        !std::mem::replace(&mut state.stopping, true)
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.state.lock().stopping
    }

    pub(super) fn is_poisoned(&self) -> bool {
        self.state.lock().poisoned
    }

    /// The store cannot be written to any more.
    pub(super) fn poison(&self) {
        let refused = {
            let mut state = self.state.lock();
            state.poisoned = true;
            std::mem::take(&mut state.requests)
        };
        // Their drop answers them.
        drop(refused);
    }
}

impl State {
    fn check(&self) -> Result<(), Error> {
        if self.stopping {
            Err(Error::Stopped)
        } else if self.poisoned {
            Err(Error::Poisoned)
        } else {
            Ok(())
        }
    }
}

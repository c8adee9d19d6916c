//! What callers and handlers ask of the store thread.

use std::collections::VecDeque;
use std::sync::Arc;
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
pub(super) struct Answer(Arc<Waiter>);

impl Answer {
    pub(super) fn give(&self, result: Result<Reply, Error>) {
        self.0.give(result);
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.0.give(Err(Error::Poisoned));
    }
}

/// Where a caller waits.
#[derive(Default)]
struct Waiter {
    result: Mutex<Option<Result<Reply, Error>>>,
    given: Condvar,
}

impl Waiter {
    /// The first answer counts.
    fn give(&self, result: Result<Reply, Error>) {
        let mut slot = self.result.lock();
        if slot.is_none() {
            *slot = Some(result);
            self.given.notify_one();
        }
    }

    fn wait(&self) -> Result<Reply, Error> {
        let mut slot = self.result.lock();
        while slot.is_none() {
            self.given.wait(&mut slot);
        }
        slot.take().unwrap_or(Err(Error::Poisoned))
    }
}

impl Inbox {
    /// An error, if nothing is accepted any more.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state.lock().check()
    }

    /// Asks the store thread and waits for its answer.
    pub(super) fn call(&self, op: Op) -> Result<Reply, Error> {
        let waiter = Arc::new(Waiter::default());
        {
            let mut state = self.state.lock();
            state.check()?;
            state.requests.push_back(Request {
                op,
                answer: Some(Answer(Arc::clone(&waiter))),
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

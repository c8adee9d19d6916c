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
    pub(super) answer: Option<Arc<Answer>>,
}

/// Where a caller waits.
#[derive(Default)]
pub(super) struct Answer {
    result: Mutex<Option<Result<Reply, Error>>>,
    given: Condvar,
}

impl Answer {
    pub(super) fn give(&self, result: Result<Reply, Error>) {
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
        slot.take().expect("it was just seen")
    }
}

impl Inbox {
    /// An error, if nothing is accepted any more.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state.lock().check()
    }

    /// Asks the store thread and waits for its answer.
    pub(super) fn call(&self, op: Op) -> Result<Reply, Error> {
        let answer = Arc::new(Answer::default());
        {
            let mut state = self.state.lock();
            state.check()?;
            state.requests.push_back(Request {
                op,
                answer: Some(Arc::clone(&answer)),
            });
            if state.waiting {
                self.changed.notify_one();
            }
        }
        answer.wait()
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
        for request in refused {
            if let Some(answer) = request.answer {
                answer.give(Err(Error::Poisoned));
            }
        }
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

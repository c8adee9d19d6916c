//! What callers and handlers ask of the store thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, StoreError};
use crate::store::{Call, End, Reply};

#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    /// Outcomes of handlers, for which nobody waits.
    ends: Vec<End>,
    stopping: bool,
    poisoned: Option<StoreError>,
    /// Something other than a request wakes the thread.
    kicked: bool,
    /// The thread waits.
    waiting: bool,
}

pub(super) struct Request {
    pub(super) call: Call,
    pub(super) answer: Answer,
    /// When it was made.
    pub(super) since: Instant,
}

/// The right to answer a caller. Dropped unused, by a panic, it answers that nothing is durable any more: nobody waits for ever.
pub(super) struct Answer(Option<Callback>);

pub(crate) type Callback = Box<dyn FnOnce(Result<Reply, Error>) + Send>;

impl Answer {
    /// The first answer counts.
    pub(super) fn give(&mut self, result: Result<Reply, Error>) {
        if let Some(callback) = self.0.take() {
            callback(result);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let cause = StoreError::new("the store thread has ended");
        self.give(Err(Error::Poisoned { cause }));
    }
}

/// Where a caller waits. It is parked rather than waiting for a condition: with many callers, waking them is what the store thread does most.
pub(super) struct Waiter {
    result: Mutex<Option<Result<Reply, Error>>>,
    thread: Thread,
}

impl Waiter {
    pub(super) fn new() -> Arc<Waiter> {
        Arc::new(Waiter {
            result: Mutex::new(None),
            thread: thread::current(),
        })
    }

    pub(super) fn callback(self: &Arc<Self>) -> Callback {
        let waiter = Arc::clone(self);
        Box::new(move |result| {
            *waiter.result.lock() = Some(result);
            waiter.thread.unpark();
        })
    }

    pub(super) fn wait(&self) -> Result<Reply, Error> {
        loop {
            if let Some(result) = self.result.lock().take() {
                return result;
            }
            // May return early: the thread's own business.
            thread::park();
        }
    }
}

/// What the store thread has taken.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) requests: Vec<Request>,
    pub(super) ends: Vec<End>,
    pub(super) stopping: bool,
}

impl Inbox {
    /// An error, if nothing is accepted any more.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.state.lock().check()
    }

    /// Asks the store thread, which calls back.
    pub(super) fn ask(&self, call: Call, callback: Callback) {
        let refused = {
            let mut state = self.state.lock();
            match state.check() {
                Ok(()) => {
                    state.requests.push_back(Request {
                        call,
                        answer: Answer(Some(callback)),
                        since: Instant::now(),
                    });
                    self.wake(&state);
                    return;
                }
                Err(error) => error,
            }
        };
        callback(Err(refused));
    }

    /// Tells the store thread the outcome of a run.
    pub(super) fn tell(&self, end: End) {
        let mut state = self.state.lock();
        state.ends.push(end);
        self.wake(&state);
    }

    fn wake(&self, state: &State) {
        if state.waiting {
            self.changed.notify_one();
        }
    }

    /// For the store thread: waits for a request, a kick or the end of `rest`. Takes at most `most` requests.
    pub(super) fn take(&self, rest: Option<Duration>, most: usize) -> Taken {
        let mut state = self.state.lock();
        let now = rest == Some(Duration::ZERO);
        if state.requests.is_empty() && state.ends.is_empty() && !state.kicked && !now {
            state.waiting = true;
            match rest {
                Some(rest) => drop(self.changed.wait_for(&mut state, rest)),
                None => self.changed.wait(&mut state),
            }
            state.waiting = false;
        }
        state.kicked = false;
        let many = state.requests.len().min(most);
        Taken {
            requests: state.requests.drain(..many).collect(),
            ends: std::mem::take(&mut state.ends),
            stopping: state.stopping,
        }
    }

    /// Wakes the store thread, for no request.
    pub(super) fn kick(&self) {
        let mut state = self.state.lock();
        state.kicked = true;
        self.wake(&state);
    }

    pub(super) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.requests.is_empty() && state.ends.is_empty()
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

    pub(super) fn poisoned(&self) -> Option<StoreError> {
        self.state.lock().poisoned.clone()
    }

    /// The store cannot be written to: calls are refused, outcomes are kept.
    pub(super) fn poison(&self, cause: &StoreError) {
        let refused = {
            let mut state = self.state.lock();
            state.poisoned = Some(cause.clone());
            std::mem::take(&mut state.requests)
        };
        for mut request in refused {
            request.answer.give(Err(Error::Poisoned {
                cause: cause.clone(),
            }));
        }
    }

    /// The store has been opened again.
    pub(super) fn heal(&self) {
        self.state.lock().poisoned = None;
    }
}

impl State {
    fn check(&self) -> Result<(), Error> {
        if self.stopping {
            Err(Error::Stopped)
        } else if let Some(cause) = &self.poisoned {
            Err(Error::Poisoned {
                cause: cause.clone(),
            })
        } else {
            Ok(())
        }
    }
}

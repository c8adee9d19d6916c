//! How a timer starts.
//!
//! One thread wins STARTING and calls the thread factory, without a lock. The job that it passes
//! runs the worker and reports that it does; a job that is dropped unrun reports that too. The
//! starter waits for one of the two, and everybody else for the starter ([`super::lifecycle`]).

use super::lifecycle::StartDecision;
use super::reentrancy::{self, Activity};
use super::{Job, Shared, shutdown};
use crate::catch_panic::catch_panic;
use crate::error::StartError;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Ordering};
use crate::time::ManualClock;
use std::io;
use std::sync::{Arc, Weak};

/// What starts a thread that runs the job it is given.
pub(crate) type Factory = Arc<dyn Fn(Job) -> io::Result<JoinHandle<()>> + Send + Sync>;

/// What it takes to start the timer's thread; gone when the timer has stopped.
pub(super) struct ThreadSpawner {
    factory: Factory,
}

impl ThreadSpawner {
    pub(super) fn new(factory: Option<Factory>, thread_name: String) -> ThreadSpawner {
        let factory = factory.unwrap_or_else(|| {
            Arc::new(move |job| thread::Builder::new().name(thread_name.clone()).spawn(job))
        });
        ThreadSpawner { factory }
    }
}

impl Shared {
    /// Starts the timer, unless it is started.
    #[cold]
    pub(crate) fn start(self: &Arc<Self>) -> Result<(), StartError> {
        if self.lifecycle.is_started() {
            return Ok(());
        }
        if reentrancy::is_starting(self.id) {
            let message = "the thread factory called the timer that it was starting";
            return Err(StartError::Spawn(io::Error::other(message)));
        }
        match self.lifecycle.begin_start() {
            StartDecision::Started => Ok(()),
            StartDecision::Stopped => Err(StartError::Stopped),
            StartDecision::Starting => {
                let started = if let Some(clock) = self.clock.manual() {
                    start_on_manual_clock(self, clock);
                    Ok(())
                } else {
                    spawn_worker(self)
                };
                if self.orphaned.load(Ordering::Acquire) {
                    shutdown::end_detached(self);
                }
                started
            }
        }
    }
}

fn start_on_manual_clock(shared: &Arc<Shared>, clock: &ManualClock) {
    let timer: Weak<Shared> = Arc::downgrade(shared);
    clock.register(timer);
    shared.lifecycle.started(shared.clock.now());
    shared.lifecycle.set_spawned();
}

/// One try to start the thread, as its two sides see it.
#[derive(Default)]
struct StartHandshake {
    outcome: Mutex<Outcome>,
    decided: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    #[default]
    Open,
    /// The job has begun, and is about to start the timer.
    Begun,
    /// The timer has started.
    Running,
    /// The job was dropped, or its starter has given it up.
    Failed,
}

impl StartHandshake {
    /// Moves on from Open; where it stands after that.
    fn decide(&self, outcome: Outcome) -> Outcome {
        self.advance(Outcome::Open, outcome)
    }

    fn advance(&self, from: Outcome, to: Outcome) -> Outcome {
        let mut outcome = self.outcome.lock();
        if *outcome == from {
            *outcome = to;
            self.decided.notify_all();
        }
        *outcome
    }

    /// Waits for Running or Failed.
    fn wait(&self) -> Outcome {
        let mut outcome = self.outcome.lock();
        while matches!(*outcome, Outcome::Open | Outcome::Begun) {
            self.decided.wait(&mut outcome);
        }
        *outcome
    }
}

/// Gives STARTING up again, if the factory fails or panics.
struct StartGuard<'a> {
    shared: &'a Shared,
    handshake: &'a StartHandshake,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        self.handshake.decide(Outcome::Failed);
        if self.handshake.wait() == Outcome::Failed {
            self.shared.lifecycle.start_failed();
        } else {
            self.shared.lifecycle.set_spawned();
        }
    }
}

fn spawn_worker(shared: &Arc<Shared>) -> Result<(), StartError> {
    let handshake = Arc::new(StartHandshake::default());
    let guard = StartGuard {
        shared,
        handshake: &handshake,
    };
    let factory = shared
        .spawner
        .lock()
        .as_ref()
        .map(|spawner| Arc::clone(&spawner.factory));
    let Some(factory) = factory else {
        return Err(StartError::Stopped);
    };
    let job = WorkerJob {
        shared: Arc::clone(shared),
        handshake: Arc::clone(&handshake),
    };
    let made = {
        let _starting = shared.enter(Activity::Starting);
        factory(Box::new(move || job.run()))
    };
    if made.is_err() {
        // It may have started a thread all the same.
        handshake.decide(Outcome::Failed);
    }
    if handshake.wait() == Outcome::Running {
        *shared.thread.lock() = made.ok();
        shutdown::detach_thread(shared);
        return Ok(());
    }
    drop(guard);
    Err(StartError::Spawn(made.err().unwrap_or_else(|| {
        io::Error::other("the thread factory dropped the job without running it")
    })))
}

/// The job of the timer thread.
struct WorkerJob {
    shared: Arc<Shared>,
    handshake: Arc<StartHandshake>,
}

impl WorkerJob {
    fn run(self) {
        if self.handshake.decide(Outcome::Begun) != Outcome::Begun {
            return;
        }
        let shared = &self.shared;
        let _driving = shared.enter(Activity::Driving);
        let driver = shared.driver.lock().take();
        let Some(mut driver) = driver else {
            self.handshake.advance(Outcome::Begun, Outcome::Failed);
            return;
        };
        shared.queue.register_worker();
        shared.lifecycle.started(shared.clock.now());
        self.handshake.advance(Outcome::Begun, Outcome::Running);
        if catch_panic("the timer thread", || driver.run(shared)) {
            // What foreign code does is contained where it is called: this is a defect of ours. Nobody
            // shall wait for a timer that is dead.
            shared.lifecycle.request_stop(true);
        }
        shutdown::finalize(shared, driver);
    }
}

impl Drop for WorkerJob {
    fn drop(&mut self) {
        self.handshake.decide(Outcome::Failed);
    }
}

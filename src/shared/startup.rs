//! Start.
//!
//! One thread wins STARTING and calls the thread factory, without a lock. The job that it passes runs the worker and
//! reports that it has begun; a job that is dropped without running reports that too. The starter waits for one of the
//! two, all other threads wait for the starter ([`super::lifecycle`]).

use super::lifecycle::StartDecision;
use super::reentrancy::{self, Activity};
use super::{Job, Shared, shutdown};
use crate::catch_panic::catch_panic;
use crate::error::StartError;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Ordering};
use crate::time::ThreadSetting;
use std::io;
use std::sync::Arc;

/// Starts a thread that runs the given job.
pub(crate) type Factory = Arc<dyn Fn(Job) -> io::Result<JoinHandle<()>> + Send + Sync>;

/// Prepares a timer without a thread for whoever drives it. By a pointer, so that a program contains the code of those that
/// it uses.
pub(crate) type Prepare = fn(&Arc<Shared>);

/// Starts a thread of that name.
pub(crate) fn named_thread(name: String) -> Factory {
    Arc::new(move |job| thread::Builder::new().name(name.clone()).spawn(job))
}

impl Shared {
    /// Starts the timer, unless it is started. Returns `true` if this call has started it.
    #[cold]
    pub(crate) fn start(self: &Arc<Self>) -> Result<bool, StartError> {
        if self.lifecycle.is_started() {
            return Ok(false);
        }
        if reentrancy::is_starting(self.id) {
            let message = "the thread factory called the timer that it was starting";
            return Err(StartError::Spawn(io::Error::other(message)));
        }
        match self.lifecycle.begin_start() {
            StartDecision::Started => Ok(false),
            StartDecision::Stopped => Err(StartError::Stopped),
            StartDecision::Starting => {
                let _orphan = OrphanGuard(self);
                if let Some(prepare) = self.settings.without_thread {
                    prepare(self);
                    self.set_started();
                    self.lifecycle.set_spawned();
                } else {
                    spawn_worker(self)?;
                }
                Ok(true)
            }
        }
    }

    /// The timer counts from now on.
    fn set_started(&self) {
        let now = self.settings.clock.now();
        // Relaxed: written before STARTED, as the start itself.
        self.end
            .store(self.settings.scale.end(now), Ordering::Relaxed);
        self.lifecycle.started(now);
    }
}

/// Ends a timer whose owner was dropped by its thread factory, however the start ends: the factory may panic, too.
struct OrphanGuard<'a>(&'a Arc<Shared>);

impl Drop for OrphanGuard<'_> {
    fn drop(&mut self) {
        if self.0.orphaned.load(Ordering::Acquire) {
            shutdown::request_stop(self.0, true);
        }
    }
}

/// One attempt to start the thread: shared by the starter and the job.
#[derive(Default)]
struct StartHandshake {
    outcome: Mutex<Outcome>,
    decided: Condvar,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    #[default]
    Open,
    /// The job has begun and is about to start the timer.
    Begun,
    /// The timer has started.
    Running,
    /// The job was dropped or could not be run, or the starter has given up. With the text of the error, unless the
    /// factory has returned one.
    Failed(&'static str),
}

/// The job is gone, or its thread is too late.
const DROPPED: Outcome = Outcome::Failed("the thread factory dropped the job without running it");

impl StartHandshake {
    /// Moves from Open to `outcome`. Returns the current outcome.
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

    /// Waits for Running, or for Failed, with the text of the error.
    fn wait(&self) -> Result<(), &'static str> {
        let mut outcome = self.outcome.lock();
        loop {
            match *outcome {
                Outcome::Open | Outcome::Begun => self.decided.wait(&mut outcome),
                Outcome::Running => return Ok(()),
                Outcome::Failed(message) => return Err(message),
            }
        }
    }
}

/// Leaves STARTING if the factory fails or panics.
struct StartGuard<'a> {
    shared: &'a Shared,
    handshake: &'a StartHandshake,
}

impl Drop for StartGuard<'_> {
    fn drop(&mut self) {
        self.handshake.decide(DROPPED);
        if self.handshake.wait().is_ok() {
            self.shared.lifecycle.set_spawned();
        } else {
            self.shared.lifecycle.start_failed();
        }
    }
}

fn spawn_worker(shared: &Arc<Shared>) -> Result<(), StartError> {
    let handshake = Arc::new(StartHandshake::default());
    let guard = StartGuard {
        shared,
        handshake: &handshake,
    };
    let factory = shared.factory.lock().clone();
    let factory = factory.ok_or(StartError::Stopped)?;
    let job = WorkerJob {
        shared: Arc::clone(shared),
        handshake: Arc::clone(&handshake),
    };
    let made = {
        let _starting = shared.enter(Activity::Starting);
        factory(Box::new(move || job.run()))
    };
    if made.is_err() {
        // It may have started a thread nevertheless.
        handshake.decide(DROPPED);
    }
    let Err(message) = handshake.wait() else {
        *shared.thread.lock() = made.ok();
        shutdown::detach_thread(shared);
        return Ok(());
    };
    drop(guard);
    let error = made.err().unwrap_or_else(|| io::Error::other(message));
    Err(StartError::Spawn(error))
}

/// The job of the timer thread.
struct WorkerJob {
    shared: Arc<Shared>,
    handshake: Arc<StartHandshake>,
}

impl WorkerJob {
    fn run(self) {
        if reentrancy::is_starting(self.shared.id) {
            let message = "the thread factory ran the job on the thread that called it";
            self.handshake.decide(Outcome::Failed(message));
            return;
        }
        if self.handshake.decide(Outcome::Begun) != Outcome::Begun {
            return;
        }
        let shared = &self.shared;
        let _driving = shared.enter(Activity::Driving);
        let driver = shared.driver.lock().take();
        let Some(mut driver) = driver else {
            self.handshake.advance(Outcome::Begun, DROPPED);
            return;
        };
        shared.queue.parker.register_worker();
        let _slack = shared.settings.fine_ticks.then(ThreadSetting::finest_slack);
        let _slice = ThreadSetting::shortest_slice();
        shared.set_started();
        self.handshake.advance(Outcome::Begun, Outcome::Running);
        if catch_panic("the timer thread", || driver.run(shared)) {
            // Those of the user are caught at the call, so this is our bug; nobody shall block for ever.
            shared.lifecycle.request_stop(true);
        }
        shutdown::finalize(shared, Some(driver));
    }
}

impl Drop for WorkerJob {
    fn drop(&mut self) {
        self.handshake.decide(DROPPED);
    }
}

//! How a timer starts and how it ends.
//!
//! # Start
//!
//! One thread wins STARTING and calls the thread factory, without a lock. The job that it passes
//! runs the worker and reports that it does; a job that is dropped unrun reports that too. The
//! starter waits for one of the two, and everybody else for the starter ([`crate::shared::lifecycle`]).
//!
//! # Stop
//!
//! One thread wins SHUTDOWN and wakes the worker, which notices between two tasks, or is found asleep.
//! Then [`finish`] looks at **every slot** rather than at queue and wheel: the slab is the register of what is
//! armed, so nothing in flight can be lost. Each armed slot is claimed by the same compare-and-swap
//! that firing and cancelling use.
//!
//! *No timeout is lost or returned twice.* Let `new_timeout` arm a slot, push (a sequentially
//! consistent addition to a lane's counter), and then look at the state.
//!
//! - It reads STARTED: then it did so before SHUTDOWN was won, in the one order of sequentially
//!   consistent operations, so its push precedes the scan's read of that lane's counter, which
//!   therefore sees it, and the arming before it. The scan finds the slot armed, or in a later state:
//!   fired, cancelled. (A new slot's number is given out under the slab's lock before it is armed. If
//!   that was after the scan took the number of slots, the lock makes SHUTDOWN visible to the
//!   look.) A timeout that never fires is not pushed; a fence stands in the push's place, and one in [`finish`].
//! - It reads SHUTDOWN: then it tries to take the slot back, against the scan and the worker. The word leaves
//!   Armed once: rejected, or returned, or fired.
//! - A `reset` cannot hide a timeout: its word stays Armed throughout. A periodic one on an executor is
//!   Armed or Running at every moment, and the scan takes it in both.

use crate::api::builder;
use crate::catch_panic::{contain, log_contained};
use crate::error::{StartError, StopError};
use crate::queue::pending::Lane;
use crate::shared::Shared;
use crate::shared::lifecycle::{Closed, Entered};
use crate::shared::reentrancy::{self, Activity};
use crate::shared::timeout::Timeout;
use crate::slots::slot::StopOutcome;
use crate::slots::stored_task::Job;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, Ordering, fence};
use crate::time::manual::ManualClock;
use crate::worker;
use crate::worker::engine::Drive;
use std::io;
use std::mem;
use std::sync::Arc;

/// What starts a thread that runs the job it is given.
pub(crate) type Factory = Arc<dyn Fn(Job) -> io::Result<JoinHandle<()>> + Send + Sync>;

/// What it takes to start the timer's thread; gone when the timer has stopped.
pub(crate) struct Launcher {
    factory: Factory,
}

impl Launcher {
    pub(crate) fn new(factory: Option<Factory>, thread_name: String) -> Launcher {
        let factory = factory.unwrap_or_else(|| {
            Arc::new(move |job| thread::Builder::new().name(thread_name.clone()).spawn(job))
        });
        Launcher { factory }
    }
}

/// Starts the timer, unless it is started.
#[cold]
pub(crate) fn start(shared: &Arc<Shared>) -> Result<(), StartError> {
    if shared.lifecycle.is_started() {
        return Ok(());
    }
    if reentrancy::is_starting(shared.id) {
        let message = "the thread factory called the timer that it was starting";
        return Err(StartError::Spawn(io::Error::other(message)));
    }
    match shared.lifecycle.enter_start() {
        Entered::Started => Ok(()),
        Entered::Stopped => Err(StartError::Stopped),
        Entered::Starting => {
            let started = if let Some(clock) = shared.clock.manual() {
                start_on_manual_clock(shared, clock);
                Ok(())
            } else {
                launch(shared)
            };
            if shared.orphaned.load(Ordering::Acquire) {
                end_detached(shared);
            }
            started
        }
    }
}

fn start_on_manual_clock(shared: &Arc<Shared>, clock: &ManualClock) {
    clock.register(shared);
    shared.lifecycle.started(shared.clock.now());
    shared.lifecycle.set_launched();
}

/// One try to start the thread, as its two sides see it.
#[derive(Default)]
struct Attempt {
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

impl Attempt {
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
struct Launch<'a> {
    shared: &'a Shared,
    attempt: &'a Attempt,
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.attempt.decide(Outcome::Failed);
        if self.attempt.wait() == Outcome::Failed {
            self.shared.lifecycle.start_failed();
        } else {
            self.shared.lifecycle.set_launched();
        }
    }
}

fn launch(shared: &Arc<Shared>) -> Result<(), StartError> {
    let attempt = Arc::new(Attempt::default());
    let launch = Launch {
        shared,
        attempt: &attempt,
    };
    let factory = shared
        .launcher
        .lock()
        .as_ref()
        .map(|launcher| Arc::clone(&launcher.factory));
    let Some(factory) = factory else {
        return Err(StartError::Stopped);
    };
    let first = First {
        shared: Arc::clone(shared),
        attempt: Arc::clone(&attempt),
    };
    let made = {
        let _starting = shared.enter(Activity::Starting);
        factory(Box::new(move || first.run()))
    };
    if made.is_err() {
        // It may have started a thread all the same.
        attempt.decide(Outcome::Failed);
    }
    if attempt.wait() == Outcome::Running {
        *shared.thread.lock() = made.ok();
        let_go(shared);
        return Ok(());
    }
    drop(launch);
    Err(StartError::Spawn(made.err().unwrap_or_else(|| {
        io::Error::other("the thread factory dropped the job without running it")
    })))
}

/// The job of the timer thread.
struct First {
    shared: Arc<Shared>,
    attempt: Arc<Attempt>,
}

impl First {
    fn run(self) {
        if self.attempt.decide(Outcome::Begun) != Outcome::Begun {
            return;
        }
        let shared = &self.shared;
        let _driving = shared.enter(Activity::Driving);
        let engine = shared.engine.lock().take();
        let Some(mut engine) = engine else {
            self.attempt.advance(Outcome::Begun, Outcome::Failed);
            return;
        };
        shared.sleep.adopt();
        shared.lifecycle.started(shared.clock.now());
        self.attempt.advance(Outcome::Begun, Outcome::Running);
        if contain("the timer thread", || worker::work(shared, &mut *engine)) {
            // What foreign code does is contained where it is called: this is a defect of ours. Nobody
            // shall wait for a timer that is dead.
            shared.lifecycle.close(true);
        }
        finish(shared, engine);
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.attempt.decide(Outcome::Failed);
    }
}

/// Stops the timer and returns what was pending.
pub(crate) fn stop(shared: &Arc<Shared>) -> Result<Vec<Timeout>, StopError> {
    if shared.is_driven_here() || reentrancy::is_starting(shared.id) {
        return Err(StopError::FromTimerThread);
    }
    match shared.lifecycle.close(false) {
        Closed::BeforeStart => {
            end_before_start(shared);
            Ok(Vec::new())
        }
        Closed::Running => {
            builder::instance_ended();
            end_running(shared);
            shared.lifecycle.wait_done();
            join(shared);
            Ok(mem::take(&mut *shared.leftovers.lock()))
        }
        Closed::Already => {
            shared.lifecycle.wait_done();
            Ok(Vec::new())
        }
    }
}

/// What the owner's drop does.
pub(crate) fn drop_owner(shared: &Arc<Shared>) {
    if reentrancy::is_starting(shared.id) {
        // Dropped by its own thread factory: whoever called that ends it.
        shared.orphaned.store(true, Ordering::Release);
    } else if reentrancy::is_in_task() {
        end_detached(shared);
    } else if let Ok(left) = stop(shared) {
        drop_leftovers(shared, left);
    }
    shared.leave();
}

/// Ends the timer without waiting, which might be waiting for this very thread: whoever runs the engine
/// drops what is left.
fn end_detached(shared: &Arc<Shared>) {
    match shared.lifecycle.close(true) {
        Closed::BeforeStart => end_before_start(shared),
        Closed::Running => {
            builder::instance_ended();
            end_running(shared);
        }
        Closed::Already => {}
    }
}

fn end_before_start(shared: &Arc<Shared>) {
    builder::instance_ended();
    let engine = shared.engine.lock().take();
    if let Some(engine) = engine {
        finish(shared, engine);
    }
}

/// Sees to it that somebody ends a timer that has just been shut down: the worker, or on a manual
/// clock whoever drives it, or else this thread.
fn end_running(shared: &Arc<Shared>) {
    if shared.clock.manual().is_none() {
        return shared.sleep.unpark();
    }
    let engine = shared.engine.lock().take();
    if let Some(engine) = engine {
        let _driving = shared.enter(Activity::Driving);
        finish(shared, engine);
    }
}

/// Waits for the thread to be gone, if this is not it.
fn join(shared: &Shared) {
    shared.lifecycle.wait_launched();
    let thread = shared.thread.lock().take();
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
        // An error is a panic that the thread factory's own code has let out.
        let _ = thread.join();
    }
}

/// Lets the thread go that nobody will join, as its owner was dropped by a task. Otherwise its stack would be
/// kept as long as any handle on the timer is. Called when the thread is known, and when it ends: whichever
/// comes last.
fn let_go(shared: &Shared) {
    if shared.lifecycle.is_detached() {
        let thread = shared.thread.lock().take();
        drop(thread);
    }
}

/// The end of a timer, on the thread that ran its engine last: see the module's head.
pub(crate) fn finish(shared: &Arc<Shared>, engine: Box<dyn Drive>) {
    shared.lifecycle.set_stopped_at(shared.clock.now());
    let (futures, left) = scan(shared);
    futures.iter().for_each(Timeout::wake_future);
    drop(futures);
    shared.lanes.iter().for_each(Lane::clear);
    if shared.lifecycle.is_detached() {
        drop_leftovers(shared, left);
    } else {
        *shared.leftovers.lock() = left;
    }
    let_go(shared);
    shared.leave();
    shared.lifecycle.set_done();
    // Last, what may wait in its drop for jobs that wait for this: the executor and the factory.
    drop(engine);
    let launcher = shared.launcher.lock().take();
    contain("the drop of the thread factory", || drop(launcher));
}

/// Claims all that is pending; futures apart from the rest.
fn scan(shared: &Arc<Shared>) -> (Vec<Timeout>, Vec<Timeout>) {
    // The lanes' tails are read, which orders this scan after the pushes that it must not miss.
    for lane in &shared.lanes {
        lane.is_empty();
    }
    fence(Ordering::SeqCst);
    let returned = shared
        .slab
        .iter()
        .filter(|(_, slot)| slot.stop() == StopOutcome::Returned);
    let (futures, left): (Vec<_>, Vec<_>) = returned
        .map(|(number, _)| {
            shared.tally.unprocessed.add(1);
            shared.release_one();
            Timeout::of_returned(shared, number)
        })
        .partition(Timeout::is_future);
    (futures, left)
}

/// Drops timeouts that nobody asked for, and says how many there were.
fn drop_leftovers(shared: &Shared, left: Vec<Timeout>) {
    if !left.is_empty() {
        let (name, count) = (shared.name, left.len());
        log_contained(
            log::Level::Warn,
            format_args!("{name} was dropped with {count} pending timeouts; they will not run"),
        );
    }
    drop(left);
}

//! How a timer ends.
//!
//! One thread wins SHUTDOWN and wakes the worker, which notices between two tasks, or is found asleep.
//! Then [`finalize`] looks at **every slot** rather than at queue and wheel: the slab is the register of what is
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
//!   look.) A timeout that never fires is not pushed; a fence stands in the push's place, and one in [`finalize`].
//! - It reads SHUTDOWN: then it tries to take the slot back, against the scan and the worker. The word leaves
//!   Armed once: rejected, or returned, or fired.
//! - A `reset` cannot hide a timeout: its word stays Armed throughout. A periodic one on an executor is
//!   Armed or Running at every moment, and the scan takes it in both.

use super::lifecycle::StopDecision;
use super::reentrancy::{self, Activity};
use super::{Driver, Shared, Timeout, instances};
use crate::catch_panic::{catch_panic, log_catching};
use crate::error::StopError;
use crate::slots::StopOutcome;
use crate::sync::{Ordering, thread};
use std::mem;
use std::sync::Arc;

impl Shared {
    /// Stops the timer and returns what was pending.
    pub(crate) fn stop(self: &Arc<Self>) -> Result<Vec<Timeout>, StopError> {
        if self.is_driven_here() || reentrancy::is_starting(self.id) {
            return Err(StopError::FromTimerThread);
        }
        match self.lifecycle.request_stop(false) {
            StopDecision::BeforeStart => {
                end_before_start(self);
                Ok(Vec::new())
            }
            StopDecision::Running => {
                instances::ended();
                end_running(self);
                self.lifecycle.wait_done();
                join(self);
                Ok(mem::take(&mut *self.unprocessed.lock()))
            }
            StopDecision::Already => {
                self.lifecycle.wait_done();
                Ok(Vec::new())
            }
        }
    }

    /// What the owner's drop does.
    pub(crate) fn drop_owner(self: &Arc<Self>) {
        if reentrancy::is_starting(self.id) {
            // Dropped by its own thread factory: whoever called that ends it.
            self.orphaned.store(true, Ordering::Release);
        } else if reentrancy::is_in_task() {
            end_detached(self);
        } else if let Ok(left) = self.stop() {
            drop_leftovers(self, left);
        }
        self.release_keeper();
    }
}

/// Ends the timer without waiting, which might be waiting for this very thread: whoever runs the engine
/// drops what is left.
pub(super) fn end_detached(shared: &Arc<Shared>) {
    match shared.lifecycle.request_stop(true) {
        StopDecision::BeforeStart => end_before_start(shared),
        StopDecision::Running => {
            instances::ended();
            end_running(shared);
        }
        StopDecision::Already => {}
    }
}

fn end_before_start(shared: &Arc<Shared>) {
    instances::ended();
    let driver = shared.driver.lock().take();
    if let Some(driver) = driver {
        finalize(shared, driver);
    }
}

/// Sees to it that somebody ends a timer that has just been shut down: the worker, or on a manual
/// clock whoever drives it, or else this thread.
fn end_running(shared: &Arc<Shared>) {
    if shared.clock.manual().is_none() {
        return shared.queue.wake_worker();
    }
    let driver = shared.driver.lock().take();
    if let Some(driver) = driver {
        let _driving = shared.enter(Activity::Driving);
        finalize(shared, driver);
    }
}

/// Waits for the thread to be gone, if this is not it, and if it drops no executor: that may wait in its drop for
/// jobs, and one of them may be the caller, or wait for it.
fn join(shared: &Shared) {
    shared.lifecycle.wait_spawned();
    let thread = shared.thread.lock().take();
    if shared.has_executor {
        return;
    }
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
        // An error is a panic that the thread factory's own code has let out.
        let _ = thread.join();
    }
}

/// Lets the thread go that nobody will join, as its owner was dropped by a task. Otherwise its stack would be
/// kept as long as any handle on the timer is. Called when the thread is known, and when it ends: whichever
/// comes last.
pub(super) fn detach_thread(shared: &Shared) {
    if shared.lifecycle.is_detached() {
        let thread = shared.thread.lock().take();
        drop(thread);
    }
}

/// The end of a timer, on the thread that ran its engine last: see the module's head.
pub(super) fn finalize(shared: &Arc<Shared>, driver: Box<dyn Driver>) {
    shared.lifecycle.set_stopped_at(shared.clock.now());
    let (futures, left) = collect_pending(shared);
    futures.iter().for_each(Timeout::wake_future);
    drop(futures);
    shared.queue.clear();
    if shared.lifecycle.is_detached() {
        drop_leftovers(shared, left);
    } else {
        *shared.unprocessed.lock() = left;
    }
    detach_thread(shared);
    shared.release_keeper();
    shared.lifecycle.set_done();
    // Last, what may wait in its drop for jobs that wait for this: the executor and the factory.
    drop(driver);
    let spawner = shared.spawner.lock().take();
    catch_panic("the drop of the thread factory", || drop(spawner));
}

/// Claims all that is pending; futures apart from the rest.
fn collect_pending(shared: &Arc<Shared>) -> (Vec<Timeout>, Vec<Timeout>) {
    // Orders this scan after the pushes that it must not miss.
    shared.queue.order_after_pushes();
    let returned = shared
        .slab
        .iter()
        .filter(|(_, slot)| slot.stop() == StopOutcome::Returned);
    let (futures, left): (Vec<_>, Vec<_>) = returned
        .map(|(number, _)| {
            shared.metrics.shared.unprocessed.add(1);
            shared.release_pending();
            Timeout::of_returned(shared, number)
        })
        .partition(Timeout::is_future);
    (futures, left)
}

/// Drops timeouts that nobody asked for, and says how many there were.
fn drop_leftovers(shared: &Shared, left: Vec<Timeout>) {
    if !left.is_empty() {
        let (name, count) = (shared.name, left.len());
        log_catching(
            log::Level::Warn,
            format_args!("{name} was dropped with {count} pending timeouts; they will not run"),
        );
    }
    drop(left);
}

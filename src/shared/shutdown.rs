//! Stop.
//!
//! One thread wins SHUTDOWN and wakes the worker, which checks the state between two tasks. Then [`finalize`] looks at
//! **every slot** rather than at queue and wheel: the slots record what is armed, so an entry in flight cannot be lost.
//! Each armed slot is claimed by the compare-and-swap that firing and cancelling use.
//!
//! *No timeout is lost or returned twice.* `new_timeout` arms a slot, by a sequentially consistent swap or with a push (a
//! sequentially consistent operation on the queue), and then checks the state.
//!
//! - It reads STARTED: in the one order of sequentially consistent operations the check precedes SHUTDOWN, so its push
//!   precedes the scan's read of the queue, which therefore sees it, and the arming before it. A swap precedes the fence
//!   that follows that read. The scan finds the slot armed or in a later state. (Its group counts as used, by a sequentially
//!   consistent operation, before it is armed, also if another thread claimed it and passed it on through the depot. If that came
//!   after the scan took the number of groups, the check reads SHUTDOWN.)
//! - It reads SHUTDOWN: it tries to take the slot back, against the scan and the worker. The word leaves Armed once:
//!   rejected, returned or fired.
//! - `reset` cannot hide a timeout: its word stays Armed. A periodic one on an executor is Armed or Running at any time,
//!   and the scan claims it in both.

use super::lifecycle::StopDecision;
use super::reentrancy::{self, Activity};
use super::{Driver, Shared, Timeout, instances};
use crate::catch_panic::{catch_panic, log_catching};
use crate::error::StopError;
use crate::slots::{Handle, Kind, StopOutcome};
use crate::sync::{Ordering, thread};
use std::mem;
use std::sync::Arc;

impl Shared {
    /// Stops the timer and returns what was pending.
    pub(crate) fn stop(self: &Arc<Self>) -> Result<Vec<Timeout>, StopError> {
        if self.settings.is_global {
            return Err(StopError::Global);
        }
        if self.is_driven_here() || reentrancy::is_starting(self.id) {
            return Err(StopError::FromTimerThread);
        }
        let decision = request_stop(self, false);
        self.lifecycle.wait_done();
        if decision != StopDecision::Running {
            return Ok(Vec::new());
        }
        join(self);
        Ok(mem::take(&mut *self.unprocessed.lock()))
    }

    /// Called by the drop of the owner, which `waits` for the running task if it can.
    pub(crate) fn drop_owner(self: &Arc<Self>, waits: bool) {
        self.end(waits);
        if waits && !self.settings.is_driven && !reentrancy::is_in_task() {
            // A manual clock may never be advanced again.
            let ended = self.ended.lock().take();
            drop(ended);
        }
        self.release_keeper();
    }

    /// Ends the timer and drops what is pending. `waits` for the running task if it can.
    pub(super) fn end(self: &Arc<Self>, waits: bool) {
        if reentrancy::is_starting(self.id) {
            // Dropped by its own thread factory: the caller of the factory ends the timer.
            self.orphaned.store(true, Ordering::Release);
        } else if !waits || reentrancy::is_in_task() {
            request_stop(self, true);
        } else if let Ok(left) = self.stop() {
            drop_leftovers(self, left);
        }
    }
}

/// Ends the timer, or has the worker end it. `detached`: without waiting, which might be for this very thread; the thread
/// that runs the driver drops the pending timeouts.
pub(super) fn request_stop(shared: &Arc<Shared>, detached: bool) -> StopDecision {
    let decision = shared.lifecycle.request_stop(detached);
    match decision {
        StopDecision::BeforeStart => {
            let driver = shared.driver.lock().take();
            finalize(shared, driver);
        }
        StopDecision::Running => {
            end_here(shared);
            // Last: a loop's hook may call the timer, and wait for its end.
            shared.queue.parker.unpark();
        }
        StopDecision::Already => {}
    }
    decision
}

/// Ends a timer without a thread that has been shut down, unless another thread runs its driver. Leaves the driver to the
/// caller's loop, or to the next advance of the clock or the owner's drop: the drop of an executor may wait for a job that is
/// this thread, or waits for it.
pub(super) fn end_here(shared: &Arc<Shared>) {
    // Both under one lock: the driver's side finds it in one place or the other.
    let mut ended = shared.ended.lock();
    // A timer thread has taken it when it began.
    let Some(driver) = shared.driver.lock().take() else {
        return;
    };
    *ended = Some(driver);
    drop(ended);
    let _driving = shared.enter(Activity::Driving);
    finalize(shared, None);
}

/// Joins the thread, unless this is it, or it drops an executor: the drop may wait for jobs, and one of them may be the
/// caller or wait for it.
fn join(shared: &Shared) {
    shared.lifecycle.wait_spawned();
    let thread = shared.thread.lock().take();
    if shared.settings.has_executor {
        return;
    }
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
        // An error is a panic in the thread factory's own code.
        let _ = thread.join();
    }
}

/// Detaches a thread that nobody will join, as a task dropped the owner. Otherwise its stack would be kept as long as a
/// handle to the timer exists. Called when the thread is known and when it ends; the later call takes effect.
pub(super) fn detach_thread(shared: &Shared) {
    if shared.lifecycle.is_detached() {
        let thread = shared.thread.lock().take();
        drop(thread);
    }
}

/// Ends the timer, on the thread that ran the driver last: see the head of this module.
/// Drops the driver, unless the caller leaves that to another thread.
pub(super) fn finalize(shared: &Arc<Shared>, driver: Option<Box<dyn Driver>>) {
    instances::ended();
    shared.lifecycle.set_stopped_at(shared.settings.clock.now());
    let (futures, left) = collect_pending(shared);
    futures.iter().for_each(Timeout::wake_future);
    drop(futures);
    shared.end_queues();
    if shared.lifecycle.is_detached() {
        drop_leftovers(shared, left);
    } else {
        *shared.unprocessed.lock() = left;
    }
    detach_thread(shared);
    shared.release_keeper();
    shared.lifecycle.set_done();
    // Last: the drop of the executor or the factory may wait for jobs that wait for this call.
    drop(driver);
    let factory = shared.factory.lock().take();
    catch_panic("the drop of the thread factory", || drop(factory));
}

/// Claims all pending timeouts: those of futures, and the others. Values of delay queues stay where they are.
fn collect_pending(shared: &Arc<Shared>) -> (Vec<Timeout>, Vec<Timeout>) {
    // Orders this scan after the pushes that it must not miss.
    shared.queue.order_after_pushes();
    let (mut futures, mut left) = (Vec::new(), Vec::new());
    for (id, slot) in shared.slots_in_use() {
        let outcome = slot.stop();
        if outcome == StopOutcome::Nothing {
            continue;
        }
        shared.metrics.shared.unprocessed.add(1);
        shared.release_pending();
        if outcome == StopOutcome::Returned {
            let list = if slot.holds(Kind::Future) {
                &mut futures
            } else {
                &mut left
            };
            list.push(Timeout::new(shared, id, Handle::Returned));
        }
    }
    (futures, left)
}

/// Drops unprocessed timeouts and logs their number.
fn drop_leftovers(shared: &Shared, left: Vec<Timeout>) {
    if !left.is_empty() {
        let (name, count) = (shared.settings.name, left.len());
        log_catching(
            log::Level::Warn,
            format_args!("{name} was dropped with {count} pending timeouts; they will not run"),
        );
    }
    drop(left);
}

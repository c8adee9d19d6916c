//! The interface between a timer's shared memory and its worker: [`Driver`], which the worker implements; and how a
//! manual clock runs it.

use super::reentrancy::{self, Activity};
use super::{Shared, shutdown};
use crate::catch_panic::catch_panic;
use crate::time::{Driven, Tick};
use std::sync::Arc;

/// The timer thread's own state.
pub(crate) trait Driver: Send {
    /// Runs the timer on this thread until it is stopped.
    fn run(&mut self, shared: &Arc<Shared>);

    /// On a manual clock that reads `now`: the next boundary that has work, with its time.
    fn next_manual_tick(&mut self, shared: &Shared, now: u64) -> Option<(u64, Tick)>;

    /// Processes a boundary that the manual clock has reached.
    fn process_manual_tick(&mut self, shared: &Arc<Shared>, boundary: Tick);

    /// Counts all boundaries up to now as processed.
    fn catch_up(&mut self, shared: &Shared);

    /// Publishes the counters of the worker and its wheel.
    fn publish_counters(&self, shared: &Shared);
}

impl Driven for Shared {
    fn is_in_task_here(&self) -> bool {
        reentrancy::is_in_task_of(self.id)
    }

    fn next_tick(&self, now: u64) -> Option<(u64, Tick)> {
        if !self.lifecycle.is_started() {
            return None;
        }
        self.driver.lock().as_mut()?.next_manual_tick(self, now)
    }

    fn process_tick(self: Arc<Self>, boundary: Tick) {
        self.with_driver(|driver| driver.process_manual_tick(&self, boundary));
    }

    fn catch_up(self: Arc<Self>) {
        self.with_driver(|driver| driver.catch_up(&self));
    }
}

impl Shared {
    /// Runs the driver on this thread, which acts as the timer thread. Holds no lock, so that tasks may call the timer. If
    /// the timer is stopped meanwhile, this call ends it.
    fn with_driver(self: &Arc<Self>, drive: impl FnOnce(&mut dyn Driver)) {
        if !self.lifecycle.is_started() {
            return;
        }
        let taken = self.driver.lock().take();
        let Some(mut driver) = taken else { return };
        let _driving = self.enter(Activity::Driving);
        if catch_panic("the timer", || drive(&mut *driver)) {
            // User panics are caught at the call, so this is our bug. Stop the timer, so that nobody blocks for ever.
            self.lifecycle.request_stop(true);
        }
        *self.driver.lock() = Some(driver);
        // A concurrent `stop` either finds the driver back in its place or is seen here.
        if self.lifecycle.is_shutdown() {
            let taken = self.driver.lock().take();
            if let Some(driver) = taken {
                shutdown::finalize(self, driver);
            }
        }
    }
}

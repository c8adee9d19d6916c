//! What drives a timer: the wheel behind its queue, and the steps that are taken with it. The worker
//! implements it; a timer holds it while nobody runs it.

use super::reentrancy::{self, Activity};
use super::{Shared, shutdown};
use crate::catch_panic::catch_panic;
use crate::time::{Driven, Tick};
use std::sync::Arc;

/// The timer thread's own state.
pub(crate) trait Driver: Send {
    /// Runs the timer on this thread until it is stopped.
    fn run(&mut self, shared: &Arc<Shared>);

    /// On a manual clock that reads `now`: the next boundary that has work, with its moment.
    fn next_manual_tick(&mut self, shared: &Shared, now: u64) -> Option<(u64, Tick)>;

    /// Processes a boundary that the manual clock has come to.
    fn process_manual_tick(&mut self, shared: &Arc<Shared>, boundary: Tick);

    /// Counts all boundaries up to now as processed.
    fn catch_up(&mut self, shared: &Shared);

    /// Makes the counters public.
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
    /// Runs the driver on this thread, which is the timer thread meanwhile. Nothing is locked, so
    /// that a task may do what it likes; if the timer is stopped meanwhile, this ends it.
    fn with_driver(self: &Arc<Self>, drive: impl FnOnce(&mut dyn Driver)) {
        if !self.lifecycle.is_started() {
            return;
        }
        let taken = self.driver.lock().take();
        let Some(mut driver) = taken else { return };
        let _driving = self.enter(Activity::Driving);
        if catch_panic("the timer", || drive(&mut *driver)) {
            // What foreign code does is contained where it is called: this is a defect of ours. Nobody
            // shall wait for a timer that is dead.
            self.lifecycle.request_stop(true);
        }
        *self.driver.lock() = Some(driver);
        // Whoever stopped it either finds the driver there or is seen here.
        if self.lifecycle.is_shutdown() {
            let taken = self.driver.lock().take();
            if let Some(driver) = taken {
                shutdown::finalize(self, driver);
            }
        }
    }
}

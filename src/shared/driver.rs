//! The interface between a timer's shared memory and its worker: [`Driver`], which the worker implements; and how a
//! manual clock and the caller's own loop run it.

use super::reentrancy::{self, Activity};
use super::{Shared, shutdown};
use crate::catch_panic::catch_panic;
use crate::time::{Driven, Tick};
use std::sync::{Arc, Weak};

/// The timer thread's own state.
pub(crate) trait Driver: Send {
    /// Runs the timer on this thread until it is stopped.
    fn run(&mut self, shared: &Arc<Shared>);

    /// Processes every boundary that has passed. Returns how many tasks it has run or handed over.
    fn turn(&mut self, shared: &Arc<Shared>) -> u64;

    /// Announces that the caller's loop goes to sleep, and returns the time on the timer's clock until which it may: see
    /// [`crate::queue`].
    fn next_due(&mut self, shared: &Shared) -> Option<u64>;

    /// Counts the boundaries up to `passed` as processed, up to the first that has work, and returns that one:
    /// [`Tick::NEVER`] if there is none.
    fn next_boundary(&mut self, shared: &Shared, passed: Tick) -> Tick;

    /// Publishes the counters of the worker and its wheel.
    fn publish_counters(&self, shared: &Shared);
}

impl Driven for Shared {
    fn is_in_task_here(&self) -> bool {
        reentrancy::is_in_task_of(self.id)
    }

    fn next_due(&self) -> Option<u64> {
        if !self.lifecycle.is_started() {
            return None;
        }
        // A boundary at this very time may still get work.
        let passed = self.passed_at(self.now().saturating_sub(1));
        let next = self.driver.lock().as_mut()?.next_boundary(self, passed);
        self.time_of(next)
    }

    fn turn(self: Arc<Self>) {
        Shared::turn(&self);
    }

    fn catch_up(self: Arc<Self>) {
        self.with_driver(&mut |driver| Some(driver.turn(&self)));
    }
}

/// Makes a manual clock drive the timer: see [`Prepare`](super::Prepare).
pub(crate) fn on_manual_clock(shared: &Arc<Shared>) {
    if let Some(clock) = shared.settings.clock.manual() {
        let timer: Weak<Shared> = Arc::downgrade(shared);
        clock.register(timer);
    }
}

/// Likewise for the caller's loop.
pub(crate) fn in_loop(shared: &Arc<Shared>) {
    shared.queue.parker.register_loop();
}

impl Shared {
    /// Runs the driver on this thread, which acts as the timer thread. If the timer has been stopped, this call ends it.
    fn with_driver(
        self: &Arc<Self>,
        call: &mut dyn FnMut(&mut dyn Driver) -> Option<u64>,
    ) -> Option<u64> {
        let result = self.run_driver(call);
        // A concurrent `stop` either finds the driver back in its place or is seen here.
        if self.lifecycle.is_shutdown() {
            self.end_on_drivers_side();
        }
        result
    }

    /// Holds no lock while the driver runs, so that tasks may call the timer.
    fn run_driver(&self, call: &mut dyn FnMut(&mut dyn Driver) -> Option<u64>) -> Option<u64> {
        if !self.lifecycle.is_started() {
            return None;
        }
        let taken = self.driver.lock().take();
        let mut driver = taken?;
        let mut result = None;
        let _driving = self.enter(Activity::Driving);
        // A panic of the user is caught at the call, so this is our bug; nobody shall block for ever.
        if catch_panic("the timer", || result = call(&mut *driver)) {
            self.lifecycle.request_stop(true);
        }
        *self.driver.lock() = Some(driver);
        result
    }

    /// `turn` of the caller's loop, or of a manual clock at a boundary.
    pub(crate) fn turn(self: &Arc<Self>) -> usize {
        let turned = self.with_driver(&mut |driver| {
            self.metrics.worker.wakeups.add(1);
            Some(driver.turn(self))
        });
        turned.unwrap_or(0) as usize
    }

    /// `next_due` of the caller's loop: a time on the timer's clock.
    pub(crate) fn next_due(self: &Arc<Self>) -> Option<u64> {
        let due = self.with_driver(&mut |driver| driver.next_due(self));
        // A timer that was stopped meanwhile has nothing due.
        due.filter(|_| !self.lifecycle.is_shutdown())
    }

    /// Called by the drop of the caller's driver: ends the timer as the owner's drop does.
    pub(crate) fn drop_driver(self: &Arc<Self>) {
        self.queue.parker.set_hook(None);
        self.end(true);
        self.end_on_drivers_side();
    }

    /// Ends a timer that has been stopped, unless another thread does, and drops the driver with its executor.
    fn end_on_drivers_side(self: &Arc<Self>) {
        shutdown::end_here(self);
        let ended = self.ended.lock().take();
        drop(ended);
    }
}

//! How an [`Engine`] is driven. A thread of the timer's own, a caller's loop and a manual clock take the same steps and
//! differ in the wait: the thread sleeps ([`Driver::run`]), the caller's loop asks how long it may sleep
//! ([`Driver::next_due`]), and a manual clock moves to the next boundary at once ([`Driver::next_boundary`]).

mod engine;
mod execute;

use engine::Engine;
pub(crate) use execute::Executor;

use crate::queue::WakeReason;
use crate::shared::{Driver, Shared};
use crate::time::Tick;
use crate::wheel::Wheel;
use crate::wheel::hashed::HashedWheel;
use crate::wheel::hierarchical::HierarchicalWheel;
use std::sync::Arc;
use std::time::Duration;

/// Either wheel: the engine is compiled once for both.
pub(crate) type AnyWheel = Box<dyn Wheel>;

/// A hashed wheel of so many buckets, a power of two.
pub(crate) fn hashed(buckets: usize) -> AnyWheel {
    Box::new(HashedWheel::new(buckets))
}

/// A hierarchical wheel with so many buckets a level.
pub(crate) fn hierarchical(buckets: usize) -> AnyWheel {
    Box::new(HierarchicalWheel::new(buckets))
}

/// The driver of a timer that moves at most `max_transfers` entries to the wheel at a tick.
pub(crate) fn driver(
    wheel: AnyWheel,
    executor: Option<Executor>,
    max_transfers: usize,
) -> Box<dyn Driver> {
    Box::new(Engine::new(wheel, executor, max_transfers))
}

impl Driver for Engine {
    fn run(&mut self, shared: &Arc<Shared>) {
        while !shared.is_shutdown() {
            let passed = shared.passed();
            while self.step(shared, passed) {}
            self.skip_idle_ticks(shared, passed);
            self.settle(shared);
            // One of these at a time: the clock goes on.
            if !self.take_late(shared, passed)
                && !self.sweep(shared)
                && !self.give_memory_back(shared)
            {
                sleep(shared, self);
                self.check_memory(shared);
            }
        }
    }

    fn turn(&mut self, shared: &Arc<Shared>) -> u64 {
        let passed = shared.passed();
        self.end_planned_sleep(shared);
        let before = self.fired;
        while self.step(shared, passed) {}
        self.skip_idle_ticks(shared, passed);
        while self.sweep(shared) {}
        self.check_memory(shared);
        while self.give_memory_back(shared) {}
        self.fired - before
    }

    fn next_due(&mut self, shared: &Shared) -> Option<u64> {
        while !shared.is_shutdown() {
            self.end_planned_sleep(shared);
            self.skip_idle_ticks(shared, shared.passed());
            self.settle(shared);
            while self.sweep(shared) {}
            if let Some(plan) = self.announce_plan(shared) {
                return shared.time_of(plan);
            }
        }
        None
    }

    fn next_boundary(&mut self, shared: &Shared, passed: Tick) -> Tick {
        self.skip_idle_ticks(shared, passed);
        self.next_tick(shared)
    }

    fn publish_counters(&self, shared: &Shared) {
        Engine::publish_counters(self, shared);
    }
}

/// Sleeps until the next boundary that has work, or until a push wakes the timer thread. [`crate::queue::parker`] argues
/// why no wake-up is lost.
fn sleep(shared: &Shared, engine: &mut Engine) {
    let wakeup = engine.next_tick(shared);
    let room = engine.can_transfer_before(wakeup);
    let until = || {
        let time = shared.time_of(wakeup)?;
        Some(Duration::from_nanos(time.saturating_sub(shared.now())))
    };
    let slept = shared.queue().parker.sleep(wakeup, room, until, || {
        engine.next_tick(shared) < wakeup || shared.is_shutdown()
    });
    // Nothing was due before `wakeup`, nor before the push that ended the sleep.
    let idle = match slept {
        WakeReason::Awake => return,
        WakeReason::Push(passed) if passed > shared.processed() => passed,
        // Also a push that came without a look at the clock. Its entry is seen before any boundary is skipped.
        WakeReason::Planned | WakeReason::Push(_) => shared.passed(),
    };
    shared.metrics().worker.wakeups.add(1);
    engine.account_for_sleep(shared, idle.min(wakeup.previous()));
}

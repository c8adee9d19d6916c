//! The timer thread: its loop on a system clock, and the same steps for a manual clock.

mod engine;
mod execute;

pub(crate) use engine::Engine;
pub(crate) use execute::Executor;

use crate::queue::WakeReason;
use crate::shared::{Driver, Shared};
use crate::time::Tick;
use crate::wheel::Wheel;
use crate::wheel::hashed::HashedWheel;
use crate::wheel::hierarchical::HierarchicalWheel;
use std::sync::Arc;
use std::time::Duration;

/// Makes a driver over a hashed wheel of so many buckets, a power of two, of its executor and the most transfers per tick.
pub(crate) fn hashed(buckets: usize) -> impl FnOnce(Option<Executor>, usize) -> Box<dyn Driver> {
    move |executor, max_transfers| {
        let wheel = HashedWheel::new(buckets);
        Box::new(Engine::new(wheel, executor, max_transfers))
    }
}

/// The same over a hierarchical wheel with so many buckets a level.
pub(crate) fn hierarchical(
    buckets: usize,
) -> impl FnOnce(Option<Executor>, usize) -> Box<dyn Driver> {
    move |executor, max_transfers| {
        let wheel = HierarchicalWheel::new(buckets);
        Box::new(Engine::new(wheel, executor, max_transfers))
    }
}

impl<W: Wheel> Driver for Engine<W> {
    fn run(&mut self, shared: &Arc<Shared>) {
        while !shared.is_shutdown() {
            if let Some(boundary) = next_passed_tick(shared, self) {
                let mut next = Some(boundary);
                let passed = shared.passed();
                // All that has passed, before the queue is looked at again: that may take longer than a tick.
                while let Some(boundary) = next.filter(|_| !shared.is_shutdown()) {
                    self.process_tick(shared, boundary);
                    // One step per boundary: a worker that is behind has no other time for it.
                    self.sweep(shared);
                    next = self.next_filed_tick(passed);
                }
            } else {
                self.publish_counters(shared);
                // One step at a time: the clock goes on.
                if !self.is_transferring() && !self.sweep(shared) && !self.give_memory_back(shared)
                {
                    sleep(shared, self);
                    self.check_memory(shared);
                }
            }
        }
    }

    fn next_manual_tick(&mut self, shared: &Shared, now: u64) -> Option<(u64, Tick)> {
        // Boundaries before now had no work. A boundary at this very time may still get some.
        let elapsed = now.saturating_sub(shared.started_at());
        let passed = shared.scale().passed(elapsed.saturating_sub(1));
        self.skip_idle_ticks(shared, passed);
        let boundary = self.next_tick(shared)?;
        Some((shared.time_of(boundary)?, boundary))
    }

    fn process_manual_tick(&mut self, shared: &Arc<Shared>, boundary: Tick) {
        shared.metrics().worker.wakeups.add(1);
        self.process_tick(shared, boundary);
        while self.sweep(shared) {}
    }

    fn turn(&mut self, shared: &Arc<Shared>) -> usize {
        let passed = shared.passed();
        shared.metrics().worker.wakeups.add(1);
        self.end_planned_sleep(shared);
        let before = self.fired;
        let mut transfers = self.transfers_to_go(shared);
        self.fire_held(shared);
        while !shared.is_shutdown() {
            match self.next_tick(shared) {
                Some(boundary) if boundary <= passed => {
                    self.process_tick(shared, boundary);
                    self.sweep(shared);
                }
                // The rest of what was pushed may be due as well. What is pushed meanwhile is for the next call.
                _ if self.is_transferring() && transfers > 0 => transfers -= 1,
                _ => {
                    self.skip_idle_ticks(shared, passed);
                    while self.sweep(shared) {}
                    self.check_memory(shared);
                    while self.give_memory_back(shared) {}
                    break;
                }
            }
        }
        (self.fired - before) as usize
    }

    fn next_due(&mut self, shared: &Shared) -> Option<u64> {
        self.end_planned_sleep(shared);
        while !shared.is_shutdown() {
            let passed = next_passed_tick(shared, self);
            if self.hold_next(shared, passed) {
                continue;
            }
            while self.sweep(shared) {}
            let plan = self.plan_sleep(shared);
            if self.transfer_and_replan(shared) >= plan {
                return shared.time_of(plan);
            }
            self.end_planned_sleep(shared);
        }
        None
    }

    fn catch_up(&mut self, shared: &Shared) {
        self.skip_idle_ticks(shared, shared.passed());
        while self.sweep(shared) {}
        self.check_memory(shared);
        while self.give_memory_back(shared) {}
    }

    fn publish_counters(&self, shared: &Shared) {
        Engine::publish_counters(self, shared);
    }
}

/// The next boundary that has work, if it has passed. If not, counts the passed boundaries as processed.
fn next_passed_tick(shared: &Shared, engine: &mut Engine<impl Wheel>) -> Option<Tick> {
    let passed = shared.passed();
    let next = engine.next_tick(shared);
    if next.is_none_or(|boundary| boundary > passed) {
        engine.skip_idle_ticks(shared, passed);
        return None;
    }
    next
}

/// Sleeps until the next boundary that has work, or until a push wakes the worker. [`crate::queue::parker`] argues why no
/// wake-up is lost.
fn sleep(shared: &Shared, engine: &mut Engine<impl Wheel>) {
    let wakeup = engine.next_wakeup(shared);
    let room = engine.can_transfer_before(wakeup);
    let until = || {
        let time = shared.time_of(wakeup)?;
        Some(Duration::from_nanos(
            time.saturating_sub(shared.passed_time()),
        ))
    };
    let slept = shared.queue().park_worker(wakeup, room, until, || {
        engine.transfer_and_recheck(shared, wakeup) || shared.is_shutdown()
    });
    // Nothing was due before `wakeup`, nor before the push that ended the sleep.
    let idle = match slept {
        WakeReason::Awake => return,
        WakeReason::Push(passed) if passed > shared.processed() => passed,
        // Also a push that came without a look at the clock. What it brought is seen before anything is skipped.
        WakeReason::Planned | WakeReason::Push(_) => shared.passed(),
    };
    shared.metrics().worker.wakeups.add(1);
    engine.account_for_sleep(shared, idle.min(wakeup.previous()));
}

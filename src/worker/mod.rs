//! The timer thread on a real clock: the loop that everything else hangs on.

pub(crate) mod engine;
pub(crate) mod execute;

use crate::queue::sleep::Slept;
use crate::shared::Shared;
use crate::time::tick::Tick;
use crate::worker::engine::Drive;
use std::sync::Arc;
use std::time::Duration;

/// Runs until the timer is stopped.
pub(crate) fn work(shared: &Arc<Shared>, engine: &mut dyn Drive) {
    while !shared.lifecycle.is_shutdown() {
        if let Some(boundary) = next_passed(shared, engine) {
            engine.visit(shared, boundary);
            // A step after each boundary: a worker that is behind has no other time for it.
            engine.sweep(shared);
        } else {
            engine.collect(shared);
            // A step at a time: the clock goes on meanwhile.
            if !engine.sweep(shared) {
                sleep(shared, engine);
            }
        }
    }
}

/// The next boundary that has work, if the clock has passed it. If not, those that it has passed had
/// none.
fn next_passed(shared: &Shared, engine: &mut dyn Drive) -> Option<Tick> {
    let passed = shared.passed();
    let next = engine.next_boundary(shared);
    if next.is_none_or(|boundary| boundary > passed) {
        engine.pass(shared, passed);
        return None;
    }
    next
}

/// Sleeps until the next boundary that has work, or until somebody wakes the worker. The argument
/// why no wake-up is lost stands in [`crate::queue::sleep`].
fn sleep(shared: &Shared, engine: &mut dyn Drive) {
    let plan = engine.plan();
    let room = engine.has_room(plan);
    let until = || {
        let moment = shared.moment(plan)?;
        Some(Duration::from_nanos(
            moment.saturating_sub(shared.clock.now()),
        ))
    };
    let slept = shared.sleep.sleep(plan, room, until, || {
        engine.has_news(shared, plan) || shared.lifecycle.is_shutdown()
    });
    // Nothing was due before the plan, nor before the push that came before it.
    let idle = match slept {
        Slept::Not => return,
        Slept::ToTheEnd => shared.passed(),
        Slept::UntilPush(passed) => passed,
    };
    shared.worker_tally.wakeups.add(1);
    engine.resume(shared, idle.min(plan.previous()));
}

//! The timer thread on a real clock: the loop that everything else hangs on.

pub(crate) mod engine;
pub(crate) mod execute;

use crate::queue::sleep::Slept;
use crate::shared::Inner;
use crate::time::tick::Tick;
use crate::worker::engine::Drive;
use std::sync::Arc;
use std::time::Duration;

/// Runs until the timer is stopped.
pub(crate) fn work(inner: &Arc<Inner>, engine: &mut dyn Drive) {
    while !inner.lifecycle.is_shutdown() {
        if let Some(boundary) = next_passed(inner, engine) {
            engine.visit(inner, boundary);
            // A step after each boundary: a worker that is behind has no other time for it.
            engine.sweep(inner);
        } else {
            engine.collect(inner);
            // A step at a time: the clock goes on meanwhile.
            if !engine.sweep(inner) {
                sleep(inner, engine);
            }
        }
    }
}

/// The next boundary that has work, if the clock has passed it. If not, those that it has passed had
/// none.
fn next_passed(inner: &Inner, engine: &mut dyn Drive) -> Option<Tick> {
    let passed = inner.passed();
    let next = engine.next_boundary(inner);
    if next.is_none_or(|boundary| boundary > passed) {
        engine.pass(inner, passed);
        return None;
    }
    next
}

/// Sleeps until the next boundary that has work, or until somebody wakes the worker. The argument
/// why no wake-up is lost stands in [`crate::queue::sleep`].
fn sleep(inner: &Inner, engine: &mut dyn Drive) {
    let plan = engine.plan();
    let room = engine.has_room(plan);
    let until = || {
        let moment = inner.moment(plan)?;
        Some(Duration::from_nanos(
            moment.saturating_sub(inner.clock.now()),
        ))
    };
    let slept = inner.sleep.sleep(plan, room, until, || {
        engine.has_news(inner, plan) || inner.lifecycle.is_shutdown()
    });
    // Nothing was due before the plan, nor before the push that came before it.
    let idle = match slept {
        Slept::Not => return,
        Slept::ToTheEnd => inner.passed(),
        Slept::UntilPush(passed) => passed,
    };
    inner.worker_tally.wakeups.add(1);
    engine.resume(inner, idle.min(plan.previous()));
}

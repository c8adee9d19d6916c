//! The timer thread on a real clock: the loop that everything else hangs on.

use crate::engine::Drive;
use crate::inner::Inner;
use crate::tick::Tick;
use std::sync::Arc;
use std::time::Duration;

/// Runs until the timer is stopped.
pub(crate) fn work(inner: &Arc<Inner>, engine: &mut dyn Drive) {
    'awake: while !inner.lifecycle.is_shutdown() {
        engine.settle(inner, inner.passed());
        while let Some(boundary) = next_passed(inner, engine) {
            engine.visit(inner, boundary);
            if inner.lifecycle.is_shutdown() {
                return;
            }
        }
        // A step at a time: the clock goes on meanwhile.
        while engine.sweep(inner) {
            if next_passed(inner, engine).is_some() {
                continue 'awake;
            }
        }
        sleep(inner, engine);
    }
}

/// The next boundary that has work, if the clock has passed it.
fn next_passed(inner: &Inner, engine: &dyn Drive) -> Option<Tick> {
    engine
        .next_boundary(inner)
        .filter(|boundary| *boundary <= inner.passed())
}

/// Sleeps until the next boundary that has work, or until somebody wakes the worker. The argument
/// why no wake-up is lost stands in [`crate::sleep`].
fn sleep(inner: &Inner, engine: &mut dyn Drive) {
    let plan = engine.plan();
    let room = engine.has_room(plan);
    let slept = inner.sleep.sleep(
        plan,
        room,
        || {
            Some(Duration::from_nanos(
                inner.moment(plan)?.saturating_sub(inner.clock.now()),
            ))
        },
        || engine.has_news(inner, plan) || inner.lifecycle.is_shutdown(),
    );
    if slept {
        inner.worker_tally.wakeups.add(1);
    }
}

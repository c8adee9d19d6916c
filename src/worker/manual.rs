//! The steps that a manual clock takes with a timer.

use super::Engine;
use crate::shared::Shared;
use crate::time::Tick;
use crate::wheel::Wheel;
use std::sync::Arc;

/// The next boundary that has work, with its moment. `now` is the clock's.
pub(super) fn next_visit(
    shared: &Shared,
    engine: &mut Engine<impl Wheel>,
    now: u64,
) -> Option<(u64, Tick)> {
    // Boundaries before now had no work. One that lies at this very moment may get some.
    let elapsed = now.saturating_sub(shared.started_at());
    let passed = shared.scale().passed(elapsed.saturating_sub(1));
    engine.pass(shared, passed);
    let boundary = engine.next_boundary(shared)?;
    Some((shared.moment(boundary)?, boundary))
}

/// Processes a boundary that the clock has come to.
pub(super) fn visit(shared: &Arc<Shared>, engine: &mut Engine<impl Wheel>, boundary: Tick) {
    shared.metrics().worker_tally.wakeups.add(1);
    engine.visit(shared, boundary);
    while engine.sweep(shared) {}
}

/// Counts all boundaries up to now as processed.
pub(super) fn settle(shared: &Shared, engine: &mut Engine<impl Wheel>) {
    engine.pass(shared, shared.passed());
    while engine.sweep(shared) {}
}

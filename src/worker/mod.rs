//! The timer thread: the loop that everything else hangs on, and the same steps as a manual clock takes them.

mod engine;
mod execute;

pub(crate) use engine::Engine;
pub(crate) use execute::Executor;

use crate::queue::Slept;
use crate::shared::{Driver, Shared};
use crate::time::Tick;
use crate::wheel::Wheel;
use std::sync::Arc;
use std::time::Duration;

impl<W: Wheel> Driver for Engine<W> {
    fn run(&mut self, shared: &Arc<Shared>) {
        while !shared.is_shutdown() {
            if let Some(boundary) = next_passed(shared, self) {
                self.visit(shared, boundary);
                // A step after each boundary: a worker that is behind has no other time for it.
                self.sweep(shared);
            } else {
                self.collect(shared);
                // A step at a time: the clock goes on meanwhile.
                if !self.sweep(shared) {
                    sleep(shared, self);
                }
            }
        }
    }

    fn next_visit(&mut self, shared: &Shared, now: u64) -> Option<(u64, Tick)> {
        // Boundaries before now had no work. One that lies at this very moment may get some.
        let elapsed = now.saturating_sub(shared.started_at());
        let passed = shared.scale().passed(elapsed.saturating_sub(1));
        self.pass(shared, passed);
        let boundary = self.next_boundary(shared)?;
        Some((shared.moment(boundary)?, boundary))
    }

    fn visit_manually(&mut self, shared: &Arc<Shared>, boundary: Tick) {
        shared.metrics().worker_tally.wakeups.add(1);
        self.visit(shared, boundary);
        while self.sweep(shared) {}
    }

    fn settle_manually(&mut self, shared: &Shared) {
        self.pass(shared, shared.passed());
        while self.sweep(shared) {}
    }

    fn tell(&self, shared: &Shared) {
        Engine::tell(self, shared);
    }
}

/// The next boundary that has work, if the clock has passed it. If not, those that it has passed had
/// none.
fn next_passed(shared: &Shared, engine: &mut Engine<impl Wheel>) -> Option<Tick> {
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
fn sleep(shared: &Shared, engine: &mut Engine<impl Wheel>) {
    let plan = engine.plan();
    let room = engine.has_room(plan);
    let until = || {
        let moment = shared.moment(plan)?;
        Some(Duration::from_nanos(moment.saturating_sub(shared.now())))
    };
    let slept = shared.queue().sleep(plan, room, until, || {
        engine.has_news(shared, plan) || shared.is_shutdown()
    });
    // Nothing was due before the plan, nor before the push that came before it.
    let idle = match slept {
        Slept::Not => return,
        Slept::ToTheEnd => shared.passed(),
        Slept::UntilPush(passed) => passed,
    };
    shared.metrics().worker_tally.wakeups.add(1);
    engine.resume(shared, idle.min(plan.previous()));
}

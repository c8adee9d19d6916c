//! The wait of a caller's loop, which turns when it likes and sleeps by itself.
//!
//! `next_due` announces the tick that it answers with as a plan, as a thread does before it sleeps; the next call ends
//! the plan.

use super::{Engine, InSlots};
use crate::shared::Shared;
use crate::time::Tick;
use crate::tuning::FEW_FILED;

impl Engine {
    /// Announces the tick until which the caller's loop may sleep, and returns it. Returns `None` if a slot that was
    /// pushed meanwhile may be due earlier.
    pub(in crate::worker) fn announce_plan(&mut self, shared: &Shared) -> Option<Tick> {
        self.sweep_few(shared);
        let plan = self.plan(shared);
        // No `ROOM`: a crowded shard does not wake the loop. Its numbers wait until the plan, or the next turn.
        shared.queue().parker.announce(plan, false);
        self.planned = Some(plan);
        // The last look, after the announcement.
        (self.plan(shared) >= plan).then_some(plan)
    }

    /// The tick until which the caller's loop may sleep.
    fn plan(&mut self, shared: &Shared) -> Tick {
        let next = self.next_tick(shared);
        // Asked after the look: a timeout whose number it has seen is counted as scheduled. An entry in the wheel has to be met
        // even if it is dead: a slot that is armed again for later relies on it, and that call does not call the hook.
        if shared.is_idle() && self.wheel.len() == 0 {
            Tick::NEVER
        } else {
            next
        }
    }

    /// Removes the dead entries of a wheel that holds few entries, or only dead ones, so that they do not end the loop's sleep.
    pub(super) fn sweep_few(&mut self, shared: &Shared) {
        let filed = self.wheel.len();
        let mut unseen = if filed <= FEW_FILED || shared.is_idle() {
            filed
        } else {
            0
        };
        while unseen > 0 {
            let looked = self.wheel.sweep_bucket(&InSlots(shared));
            unseen = unseen.saturating_sub(looked.max(1));
        }
        self.swept += (filed - self.wheel.len()) as u64;
    }

    /// Accounts for the sleep of the caller's loop, if it has slept.
    pub(in crate::worker) fn end_planned_sleep(&mut self, shared: &Shared) {
        let Some(plan) = self.planned.take() else {
            return;
        };
        // As after the sleep of a thread: nothing was due before the plan, nor before the push that called the hook.
        let pushed = shared.queue().parker.withdraw();
        let idle = pushed.unwrap_or_else(|| shared.passed());
        self.account_for_sleep(shared, idle.min(plan.previous()));
    }
}

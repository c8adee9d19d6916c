//! The steps for the caller's own loop, which turns when it likes and sleeps by itself.
//!
//! `next_due` may come to a boundary that has passed. It runs no task: what is due there is held until the next `turn`. The
//! tick that it answers with is announced as a plan, as that of a thread before it sleeps; the next call ends the plan.

use super::Engine;
use crate::shared::Shared;
use crate::time::Tick;
use crate::wheel::Wheel;
use std::mem;
use std::sync::Arc;

/// So many entries in the wheel are looked at before the caller's loop is told when to turn again.
const FEW: usize = 64;

impl<W: Wheel> Engine<W> {
    /// Goes to the next boundary that has work, if it has passed, and holds what is due there for [`Engine::fire_held`]. A
    /// cascade is done here, so that it wakes nobody who is late for it. Returns `true` if there may be more.
    pub(in crate::worker) fn hold_next(&mut self, shared: &Shared, next: Option<Tick>) -> bool {
        self.settle_held(shared);
        let Some(boundary) = next.filter(|_| self.held.is_empty()) else {
            return false;
        };
        self.wheel.advance(boundary, &mut self.held, shared);
        self.transfer_budget = self.max_transfers;
        self.held_at = boundary;
        self.settle_held(shared);
        self.held.is_empty()
    }

    /// Keeps of what is held only what is still due.
    fn settle_held(&mut self, shared: &Shared) {
        let (wheel, at) = (&mut self.wheel, self.held_at);
        self.held
            .retain(|&entry| match shared.slot(entry.slot()).live_due(entry) {
                None | Some(Tick::NEVER) => false,
                Some(due) if due > at => {
                    wheel.insert(entry.at(due));
                    false
                }
                Some(_) => true,
            });
    }

    /// After so many transfers all that waits now has been met.
    pub(in crate::worker) fn transfers_to_go(&mut self, shared: &Shared) -> usize {
        self.reader.look(shared.queue(), shared.now());
        self.reader.transfers_to_go(shared.queue())
    }

    /// Fires what `next_due` has found.
    pub(in crate::worker) fn fire_held(&mut self, shared: &Arc<Shared>) {
        if !self.held.is_empty() {
            let mut held = mem::take(&mut self.held);
            self.fire_all(shared, self.held_at, &mut held);
            self.held = held;
        }
    }

    /// Announces the tick until which the caller's loop may sleep, and returns it.
    pub(in crate::worker) fn plan_sleep(&mut self, shared: &Shared) -> Tick {
        let plan = self.plan(shared);
        shared.queue().announce_plan(plan);
        self.planned = Some(plan);
        plan
    }

    /// The last check after a plan was announced: transfers what has been pushed, and returns the tick that would be
    /// announced now.
    pub(in crate::worker) fn transfer_and_replan(&mut self, shared: &Shared) -> Tick {
        self.transfer(shared);
        self.plan(shared)
    }

    /// The tick until which the caller's loop may sleep.
    pub(super) fn plan(&mut self, shared: &Shared) -> Tick {
        // After the transfer: what that has seen is counted as scheduled.
        if shared.is_idle() {
            return Tick::NEVER;
        }
        // A few entries are looked at, so that dead ones wake nobody.
        let mut unseen = self.wheel.len();
        if unseen <= FEW {
            let filed = unseen;
            while unseen > 0 {
                let looked = self.wheel.sweep(FEW, shared);
                unseen = unseen.saturating_sub(looked.max(1));
            }
            self.swept += (filed - self.wheel.len()) as u64;
        }
        if self.held.is_empty() {
            self.next_wakeup(shared)
        } else {
            self.held_at
        }
    }

    /// Accounts for the sleep of the caller's loop, if it has slept.
    pub(in crate::worker) fn end_planned_sleep(&mut self, shared: &Shared) {
        let Some(plan) = self.planned.take() else {
            return;
        };
        // As after the sleep of a thread: nothing was due before the plan, nor before the push that called the hook.
        let pushed = shared.queue().withdraw_plan();
        let idle = pushed.unwrap_or_else(|| shared.passed());
        self.account_for_sleep(shared, idle.min(plan.previous()));
    }
}

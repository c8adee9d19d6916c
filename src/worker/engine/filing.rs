//! Files slots in the wheel, and meets their entries when they are due. `slots/slot/place.rs` argues that no slot is lost.
//!
//! # Order
//!
//! Neither queue nor wheel keeps the order in which a thread schedules: a slot that is armed again stays where it waits. So the
//! slots that are due at a boundary are sorted by stamp before they fire. If more numbers wait than the budgets allow, all are
//! taken into the backlog and sorted, and the lowest stamps are filed first.
//!
//! # Filing for an earlier look
//!
//! Most timeouts are cancelled, and their slots armed again. If the new timeout is due before the old one, its slot has to be
//! pushed and filed again, and leaves a dead entry. So a thread of the timer's own that is behind by a boundary or more files no slot
//! later than [`LOOK_AGAIN`] from now (`latest`): a new timeout that is due after that needs no push. A slot that is still armed
//! when that entry is met is filed again.

use super::{Engine, Waiting};
use crate::entry::{Entry, SlotId};
use crate::shared::Shared;
use crate::time::{Tick, nanos};
use crate::tuning::{LOOK_AGAIN, MEET_BATCH};
use crate::wheel::Wheel;

impl Engine {
    /// Files the slots whose numbers wait: all, if they fit the budgets of the coming boundary and of those missed up to `passed`;
    /// otherwise as many as the budget of the coming one allows, from the backlog.
    pub(super) fn transfer(&mut self, shared: &Shared, passed: Tick) {
        self.reader.look(shared.queue());
        let missed = passed.0.saturating_sub(self.wheel.now().next().0) as usize;
        self.latest = if missed > 0 && self.has_thread {
            Tick(passed.0 + shared.scale().due(nanos(LOOK_AGAIN)).0)
        } else {
            Tick::NEVER
        };
        let budget = missed
            .saturating_mul(self.max_transfers)
            .saturating_add(self.transfer_budget);
        if self.backlog.is_empty() && self.reader.waiting() <= budget {
            return self.file_all(shared);
        }
        self.file_backlog(shared);
        if self.backlog.is_empty() && self.transfer_budget > 0 {
            self.gather(shared);
            self.file_backlog(shared);
        }
    }

    /// Takes all numbers that were seen in the queue, and files their slots.
    fn file_all(&mut self, shared: &Shared) {
        let wheel = &mut *self.wheel;
        let (now, latest, mut moved) = (wheel.now(), self.latest, 0);
        self.reader.take(shared.queue(), &mut |ids| {
            shared.slots().clear_queued(ids);
            for &id in ids {
                moved += usize::from(file(shared, wheel, now, latest, id));
            }
        });
        self.count_moved(moved);
    }

    /// Takes all numbers that were seen in the queue into the backlog, which is empty. Drops those of slots that are not armed.
    fn gather(&mut self, shared: &Shared) {
        let backlog = &mut self.backlog;
        self.reader.take(shared.queue(), &mut |ids| {
            shared.slots().clear_queued(ids);
            let found = ids.iter().filter_map(|&slot| {
                let stamp = shared.slot(slot).find()?.stamp;
                Some(Waiting { stamp, slot })
            });
            backlog.extend(found);
        });
        backlog.sort_unstable();
        backlog.reverse();
    }

    /// Files from the backlog, within the budget.
    fn file_backlog(&mut self, shared: &Shared) {
        let mut moved = 0;
        while moved < self.transfer_budget {
            let Some(waiting) = self.backlog.pop() else {
                break;
            };
            // With another stamp, the slot was armed again after `gather` had cleared `queued`. So it was pushed again.
            let found = shared.slot(waiting.slot).find();
            if found.is_some_and(|found| found.stamp == waiting.stamp) {
                moved += usize::from(self.file(shared, waiting.slot));
            }
        }
        if self.backlog.is_empty() {
            self.backlog.shrink_to(MEET_BATCH);
        }
        self.count_moved(moved);
    }

    fn count_moved(&mut self, moved: usize) {
        self.transferred += moved as u64;
        self.transfer_budget = self.transfer_budget.saturating_sub(moved);
    }

    /// Files a slot if it is armed and not filed early enough. Returns `true` if an entry went into the wheel.
    pub(super) fn file(&mut self, shared: &Shared, id: SlotId) -> bool {
        let (now, latest) = (self.wheel.now(), self.latest);
        file(shared, &mut *self.wheel, now, latest, id)
    }

    /// Meets the entries that are due at `boundary`: appends the slots that are due to `ready`, in the order in which each thread
    /// has armed its own, and files the others anew.
    pub(super) fn meet(
        &mut self,
        shared: &Shared,
        boundary: Tick,
        due: &mut [Entry],
        ready: &mut Vec<Waiting>,
    ) {
        let mut rest = due;
        while !rest.is_empty() {
            let (met, ahead) = rest.split_at_mut(rest.len().min(MEET_BATCH));
            let counting = shared.slots().clear_filed(met, ahead);
            for entry in &met[..counting] {
                let slot = entry.slot();
                match shared.slot(slot).find() {
                    Some(found) if found.due <= boundary => ready.push(Waiting {
                        stamp: found.stamp,
                        slot,
                    }),
                    Some(_) => {
                        self.file(shared, slot);
                    }
                    None => {}
                }
            }
            rest = ahead;
        }
        if !ready.is_sorted() {
            // Not stable: a slot is in there once, and a stable sort would add ten kilobytes of code.
            ready.sort_unstable();
        }
    }
}

/// As [`Engine::file`], with the fields that it needs.
#[inline]
fn file(shared: &Shared, wheel: &mut dyn Wheel, now: Tick, latest: Tick, id: SlotId) -> bool {
    let entry = shared.slots().file(id, now, latest);
    if let Some(entry) = entry {
        wheel.insert(entry);
    }
    entry.is_some()
}

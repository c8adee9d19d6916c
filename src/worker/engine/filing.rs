//! Files slots in the wheel, and meets their entries when they are due. `slots/slot/place.rs` argues that no slot is lost.
//!
//! # Order
//!
//! Neither queue nor wheel keeps the order in which a thread schedules: a slot that is armed again stays where it waits. So the
//! slots that are due at a boundary are sorted by stamp before they fire. If more numbers wait than the budgets allow, all are
//! taken into the backlog and sorted, and the lowest stamps are filed first.
//!
//! # Late numbers
//!
//! Most timeouts are cancelled long before they are due, and their slots armed again. So the timer thread leaves the numbers in the
//! late lanes until the earliest due tick of their slots comes near. Then it takes them all, a [part](LATE_STEP) at a time beside its
//! other work, and the more there are, the [earlier](Engine::late_at) it begins. A timer without a thread has no late numbers, nor
//! has one that may transfer few slots at a tick.

use super::{Engine, Waiting};
use crate::entry::{Entry, Lane, SlotId};
use crate::queue::Reader;
use crate::shared::Shared;
use crate::time::Tick;
use crate::tuning::{LATE_STEP, MAX_DEAD, MEET_BATCH};
use crate::wheel::Wheel;

impl Engine {
    /// Looks at the queue. Late numbers wait like others if one of their slots is due by `passed`.
    pub(super) fn look(&mut self, shared: &Shared, passed: Tick) {
        self.reader.look(shared.queue());
        if self.reader.late_due() <= passed {
            self.reader.open_late(shared.queue());
        }
    }

    /// Files the slots whose numbers wait: all, if they fit the budgets of the coming boundary and of those missed up to `passed`;
    /// otherwise as many as the budget of the coming one allows, from the backlog.
    pub(super) fn transfer(&mut self, shared: &Shared, passed: Tick) {
        self.look(shared, passed);
        let missed = passed.0.saturating_sub(self.wheel.now().next().0) as usize;
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

    /// Transfers a part of the slots whose numbers wait in late lanes, or all if few are left. If it is time for that, or many of
    /// them are dead; returns `true` then.
    pub(in crate::worker) fn take_late(&mut self, shared: &Shared, passed: Tick) -> bool {
        let (late, late_at) = (self.reader.late_len(), self.late_at(shared));
        if late_at == Tick::NEVER || self.transfer_budget < LATE_STEP {
            return false;
        }
        let has_many_dead = || late > MAX_DEAD && late as u64 > shared.pending() + MAX_DEAD as u64;
        if late_at > passed && !has_many_dead() {
            return false;
        }
        if late > LATE_STEP {
            self.file_taken(shared, |reader, take| {
                reader.take_late(shared.queue(), LATE_STEP, take);
            });
        } else {
            self.reader.open_late(shared.queue());
            self.transfer(shared, Tick::ZERO);
        }
        true
    }

    /// When to begin to take late numbers: [`Tick::NEVER`] if none wait. For each part there are as many ticks as make a millisecond,
    /// and one more; the last is taken at the due tick itself.
    pub(super) fn late_at(&self, shared: &Shared) -> Tick {
        let (due, late) = (self.reader.late_due(), self.reader.late_len());
        if due == Tick::NEVER || late <= LATE_STEP {
            return due;
        }
        let ticks = late.div_ceil(LATE_STEP) as u64 * (1_000_000 / shared.scale().tick() + 1);
        Tick(due.0.saturating_sub(ticks))
    }

    /// Takes all numbers that wait, and files their slots.
    fn file_all(&mut self, shared: &Shared) {
        self.file_taken(shared, |reader, take| reader.take(shared.queue(), take));
    }

    fn file_taken(
        &mut self,
        shared: &Shared,
        take: impl FnOnce(&mut Reader, &mut dyn FnMut(&[SlotId], Lane)),
    ) {
        let wheel = &mut *self.wheel;
        let (now, mut moved) = (wheel.now(), 0);
        take(&mut self.reader, &mut |ids, lane| {
            shared.slots().clear_queued(ids, lane);
            for &id in ids {
                moved += usize::from(file(shared, wheel, now, id));
            }
        });
        self.count_moved(moved);
    }

    /// Takes all numbers that were seen in the queue into the backlog, which is empty. Drops those of slots that are not armed.
    fn gather(&mut self, shared: &Shared) {
        let backlog = &mut self.backlog;
        self.reader.take(shared.queue(), &mut |ids, lane| {
            shared.slots().clear_queued(ids, lane);
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
        let now = self.wheel.now();
        file(shared, &mut *self.wheel, now, id)
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
fn file(shared: &Shared, wheel: &mut dyn Wheel, now: Tick, id: SlotId) -> bool {
    let entry = shared.slots().file(id, now);
    if let Some(entry) = entry {
        wheel.insert(entry);
    }
    entry.is_some()
}

//! Slots into the wheel, and out of it when they are met. `slots/slot/place.rs` has the argument.
//!
//! # Order
//!
//! Neither queue nor wheel keeps the order of what one thread has scheduled: a slot that is armed again stays where it waits. So
//! what is due at a boundary is sorted by stamp before it fires, if it is not in order already. And if more waits than may move,
//! all of it is taken, sorted, and filed from the backlog, so that what was scheduled first is filed first.
//!
//! # What is due late
//!
//! Most timeouts are cancelled, and their slots armed again. If the second is due before the first, the slot has to be moved
//! again, and leaves a dead entry. So a thread of the timer's own that is behind by a boundary files what is due more than [`LOOK_AGAIN`]
//! later for that moment: what is armed meanwhile needs nothing. The slots that are still armed then are looked at once more.

use super::{Engine, Waiting};
use crate::entry::{Entry, SlotId};
use crate::shared::Shared;
use crate::time::{Tick, nanos};
use crate::tuning::{LOOK_AGAIN, MEET_BATCH};
use crate::wheel::Wheel;

impl Engine {
    /// Moves what waits in the queue to the wheel, within the budgets of the boundaries up to `passed`, the coming one at least: a
    /// thread that is behind has those of all boundaries that it has missed.
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

    /// Files all that was seen in the queue.
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

    /// Takes all that was seen in the queue into the backlog, which is empty.
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
            // One that was armed anew has been pushed anew, and has a later turn.
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

    /// Files a slot that is armed, if the wheel does not look at it in time. Returns `true` if an entry went into the wheel.
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
            // Not stable: no two are equal, and a stable sort would be ten kilobytes of code more.
            ready.sort_unstable();
        }
    }
}

/// As [`Engine::file`], for a wheel that has come to `now`.
#[inline]
fn file(shared: &Shared, wheel: &mut dyn Wheel, now: Tick, latest: Tick, id: SlotId) -> bool {
    let entry = shared.slots().file(id, now, latest);
    if let Some(entry) = entry {
        wheel.insert(entry);
    }
    entry.is_some()
}

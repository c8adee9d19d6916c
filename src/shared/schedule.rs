//! Scheduling: compute the due tick, arm a slot, push its number if need be, wake the timer thread if it would be late, and check
//! for a stop. `slots/slot/place.rs` says when the number has to be pushed, `queue/mod.rs` and `queue/parker.rs` argue that the timer
//! thread sees it.

use super::Shared;
use super::local::{self, Local};
use super::timeout::Timeout;
use crate::entry::{Entry, Lane, Liveness, SlotId};
use crate::error::RejectReason;
use crate::slots::{Arming, Handle, Kind, Label, Place, Slot, StoredTask};
use crate::sync::Ordering;
use crate::time::{Clock, FOREVER, Tick, nanos};
use crate::tuning::LOOKAHEAD;
use std::sync::Arc;
use std::time::Duration;

/// Stands for a distance between deadline and boundary that does not fit the slot's 32 bits. `Shared::very_early` has it.
const VERY_EARLY: u32 = u32::MAX;

/// The deadline of a timeout, as the caller gives it, in nanoseconds. Two words, which are passed in registers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// So long after the call.
    After(u64),
    /// At this time on the timer's clock.
    At(u64),
}

impl When {
    /// So long after the call.
    #[inline]
    pub(crate) fn after(delay: Duration) -> When {
        When::After(nanos(delay))
    }
}

/// A task that was not scheduled.
pub(crate) enum Refused<T> {
    /// It was not stored in a slot.
    AsItCame(T),
    /// The timer stopped after the task was stored.
    Stored(StoredTask<Timeout>),
}

impl Shared {
    /// Schedules a task: arms a slot, sees to it that the timer thread finds it, and checks whether the timer has stopped.
    ///
    /// Inlined, and `store` is called as late as possible, so that the task is written straight to its slot. A copy on the
    /// stack, written in pieces and read as a whole, makes the processor wait. The callees are not inlined.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as said; it is worth a tenth of the call"
    )]
    pub(crate) fn schedule<T>(
        self: &Arc<Self>,
        task: T,
        kind: Kind,
        label: Label,
        store: impl FnOnce(T) -> StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, (Refused<T>, RejectReason)> {
        let (is_started, mut slow_when) = (self.lifecycle.is_started(), when);
        let accepted = if is_started {
            self.reserve_pending()
        } else {
            self.start_and_reserve(&mut slow_when)
        };
        if let Err(reason) = accepted {
            self.metrics.shared.rejected.add(1);
            return Err((Refused::AsItCame(task), reason));
        }
        match self.last_local() {
            Some(local) if is_started => {
                self.schedule_with(local, kind, label, || store(task), when)
            }
            _ => self.schedule_slow(kind, label, store(task), slow_when),
        }
        .map_err(|task| (Refused::Stored(task), RejectReason::Stopped))
    }

    /// Starts the timer, and reserves a place under the limit. In the call that starts the timer, the delay counts from time zero,
    /// which lies within that call. So the timeout is not early, and a delay of one tick takes one tick.
    #[cold]
    fn start_and_reserve(self: &Arc<Self>, when: &mut When) -> Result<(), RejectReason> {
        if let (true, When::After(delay)) = (self.start()?, *when) {
            *when = When::At(self.started_at().saturating_add(delay));
        }
        self.reserve_pending()
    }

    #[cold]
    fn schedule_slow(
        self: &Arc<Self>,
        kind: Kind,
        label: Label,
        task: StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, StoredTask<Timeout>> {
        local::with_another(self, |local| {
            self.schedule_with(local, kind, label, || task, when)
        })
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn schedule_with(
        self: &Arc<Self>,
        local: &Local,
        kind: Kind,
        label: Label,
        task: impl FnOnce() -> StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, StoredTask<Timeout>> {
        let vacant = self.take_slot(local);
        if kind == Kind::Periodic {
            // Drops the one that an earlier timeout of this slot has left.
            self.take_period(vacant.slot());
        }
        // Before the slot is armed, so that no thread counts its end before its beginning.
        self.counters_of(local).scheduled.add(1);
        let id = vacant.slot();
        let (due, early) = self.due(when);
        let lane = self.lane(due, when);
        let arming = Arming {
            kind,
            label,
            stamp: local.next_stamp(),
            due,
            lane,
            early: self.early(id, early),
        };
        let place = self.slot(id).arm(vacant, task(), arming);
        if !self.is_found(id, due, place, when) {
            self.enqueue(id, due, place, lane, local, when);
        }
        // If this check misses a stop, the scan of that stop comes after the arming and finds it: see the head of `shutdown`.
        if self.lifecycle.is_shutdown() {
            if let Some(task) = self.unschedule(id) {
                return Err(task);
            }
        }
        Ok(Timeout::new(self, id, Handle::User))
    }

    /// Reserves a place under the limit.
    #[inline]
    fn reserve_pending(&self) -> Result<(), RejectReason> {
        if self.settings.max_pending == usize::MAX {
            Ok(())
        } else {
            self.reserve_limited()
        }
    }

    #[cold]
    fn reserve_limited(&self) -> Result<(), RejectReason> {
        // Relaxed: the counter guards no data. One update instead of add and undo: the limit holds at all times.
        self.limited
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| {
                (pending < self.settings.max_pending).then_some(pending + 1)
            })
            .map(drop)
            .map_err(|_| RejectReason::TooManyPending {
                max: self.settings.max_pending,
            })
    }

    /// Gives a place under the limit back: the counterpart of [`Shared::reserve_pending`].
    #[inline]
    pub(crate) fn release_pending(&self) {
        if self.settings.max_pending != usize::MAX {
            self.limited.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The due tick, and how long before that the deadline lies.
    ///
    /// A call, so that it is compiled once: `schedule` is inlined into the code of users.
    #[inline(never)]
    pub(crate) fn due(&self, when: When) -> (Tick, u64) {
        let delay = match when {
            When::At(time) => return self.due_at(time, when),
            When::After(delay) => delay,
        };
        let Some(now) = self.settings.clock.glance() else {
            return self.due_after(delay);
        };
        let (due, early) = self.due_at(now.saturating_add(delay), when);
        // Otherwise the due tick is in doubt: had the glance not been behind, it might be the next one.
        if early >= self.margin || due == Tick::NEVER {
            return (due, early);
        }
        self.due_in_doubt(delay)
    }

    /// As `due`, when a glance at the clock leaves a doubt. A call of its own, in tail position, so that the usual path
    /// saves no registers.
    #[cold]
    fn due_in_doubt(&self, delay: u64) -> (Tick, u64) {
        if let Some(now) = self.settings.clock.fenced() {
            let (due, early) = self.due_at(now.saturating_add(delay), When::After(delay));
            if early >= Clock::BEHIND_FENCED {
                return (due, early);
            }
        }
        self.due_after(delay)
    }

    /// Likewise, when the system's clock has to be read.
    #[cold]
    fn due_after(&self, delay: u64) -> (Tick, u64) {
        let at = self.settings.clock.ordered().saturating_add(delay);
        self.due_at(at, When::After(delay))
    }

    /// The distance from deadline to boundary as the slot stores it. The caller has armed or moved the timeout, or is about to arm
    /// it.
    #[inline]
    pub(crate) fn early(&self, id: SlotId, early: u64) -> u32 {
        match u32::try_from(early) {
            Ok(fits) if fits != VERY_EARLY => fits,
            _ => self.note_early(id, early),
        }
    }

    /// Stores a distance that does not fit, of more than 4.29 s.
    #[cold]
    fn note_early(&self, id: SlotId, early: u64) -> u32 {
        // Relaxed: as the slot's own.
        self.very_early
            .get_or_grow(id.number())
            .store(early, Ordering::Relaxed);
        VERY_EARLY
    }

    #[inline]
    fn end_of(&self, due: Tick) -> u64 {
        self.settings.scale.time_of(due).unwrap_or(FOREVER)
    }

    /// The deadline of a slot that is due at `due`. Two racing resets may leave the distance of one with the boundary of the
    /// other, which changes the reported deadline and lateness alone.
    #[inline]
    pub(crate) fn deadline_of(&self, id: SlotId, due: Tick) -> u64 {
        let early = match self.slot(id).early() {
            VERY_EARLY => self
                .very_early
                .get_or_grow(id.number())
                .load(Ordering::Relaxed),
            early => u64::from(early),
        };
        self.end_of(due).saturating_sub(early)
    }

    #[inline]
    fn due_at(&self, at: u64, when: When) -> (Tick, u64) {
        // Relaxed: the caller has read STARTED or a later state with Acquire.
        if at >= self.end.load(Ordering::Relaxed) {
            return self.due_never(at);
        }
        let mut deadline = at.saturating_sub(self.lifecycle.started_at());
        let mut due = self.settings.scale.due_in_time(deadline);
        if matches!(when, When::At(_)) && due <= self.processed() {
            // Its boundary has been processed; it fires at the next one. Time before the call is not lateness.
            due = self.processed();
            deadline = self.end_of(due);
        }
        if self.settings.clock.manual().is_some() {
            // It stands on the boundary whose tasks are running.
            due = due.max(self.processed().next());
        }
        (due, self.end_of(due).saturating_sub(deadline))
    }

    /// Returns `true` if the timer has begun to process the boundary of a deadline on its clock, or a later one.
    pub(crate) fn is_due(&self, deadline: u64) -> bool {
        let deadline = deadline.saturating_sub(self.lifecycle.started_at());
        self.settings.scale.due(deadline) <= self.processed()
    }

    #[cold]
    fn due_never(&self, at: u64) -> (Tick, u64) {
        let deadline = match at {
            FOREVER => FOREVER,
            at => at.saturating_sub(self.lifecycle.started_at()),
        };
        (Tick::NEVER, FOREVER - deadline)
    }

    /// Sees to it that the timer thread finds an armed slot in time, which is due at `due`. For a slot that was armed before.
    #[inline]
    pub(crate) fn make_findable_for(&self, id: SlotId, due: Tick, when: When) {
        let place = self.slot(id).place(due, self.lane(due, when));
        if !self.is_found(id, due, place, when) {
            // Not to a late lane: this call does not mark the slot, and might push it a thousand times before it is taken.
            self.with_local(|local| self.enqueue(id, due, place, Lane::Soon, local, when));
        }
    }

    /// The lane for a timeout that is due at `due`.
    #[inline]
    fn lane(&self, due: Tick, when: When) -> Lane {
        let is_late = match when {
            When::After(delay) => delay > self.settings.soon,
            // Reads no clock. If the timer thread is behind or asleep, a slot that is due soon may go to a late lane, where it is
            // found in time as well.
            When::At(_) => due.0 > self.processed.get() + self.soon,
        };
        if is_late { Lane::Late } else { Lane::Soon }
    }

    /// Returns `true` if the timer thread will look at the slot in time. Wakes it for one that is queued, if it would be late.
    #[inline]
    fn is_found(&self, id: SlotId, due: Tick, place: Place, when: When) -> bool {
        match place {
            Place::Filed => true,
            Place::Far => self.slots.far(id).load(Ordering::SeqCst) <= due.0,
            Place::Queued => {
                self.queue.hasten(due, || self.passed_for(when));
                true
            }
            Place::Late => self.queue.expects(due),
            Place::Nowhere => false,
        }
    }

    /// C3 of `slots/slot/place.rs` for a slot that is not [found](Self::is_found) in time.
    #[inline]
    fn enqueue(&self, id: SlotId, due: Tick, place: Place, lane: Lane, local: &Local, when: When) {
        let (shard, passed) = (self.shard_of(local), || self.passed_for(when));
        match place {
            Place::Late => self.queue.expect(shard, due, false, passed),
            // Without a mark, as any other call for it.
            Place::Far => self.queue.push(shard, Lane::Soon, id, due, passed),
            _ => self.queue.push(shard, lane, id, due, passed),
        }
    }

    /// The last boundary that has passed, for a call with that deadline; perhaps an earlier one.
    #[cold]
    fn passed_for(&self, when: When) -> Tick {
        match when {
            // Reads no clock. The boundary that was processed last has passed; if later ones have, too, the timer thread
            // processes more boundaries than it would have to.
            When::At(_) => self.processed(),
            When::After(_) => self.passed(),
        }
    }

    /// Takes a timeout back whose timer stopped during scheduling, unless the scan of `stop` has claimed it: the slot's
    /// word decides. The slot is released with it.
    #[cold]
    fn unschedule(self: &Arc<Self>, id: SlotId) -> Option<StoredTask<Timeout>> {
        let task = self.slot(id).disarm()?;
        self.count(|counters| counters.scheduled.take_back(1));
        self.release_pending();
        self.metrics.shared.rejected.add(1);
        drop(Timeout::new(self, id, Handle::User));
        Some(task)
    }

    /// Counts the timeout of a future as unprocessed if the timer stopped while its task was being replaced, and the scan
    /// of `stop` missed it.
    #[cold]
    pub(crate) fn count_unprocessed(&self, slot: &Slot<Timeout>) {
        if let Some(task) = slot.disarm() {
            self.metrics.shared.unprocessed.add(1);
            self.release_pending();
            drop(task);
        }
    }
}

impl Liveness for Shared {
    fn remove_dead(&self, entries: &mut Vec<Entry>) {
        let mut kept = 0;
        for place in 0..entries.len() {
            if let Some(ahead) = entries.get(place + LOOKAHEAD) {
                self.slot(ahead.slot()).prefetch();
            }
            let entry = entries[place];
            if !self.slots.is_dead(entry, self.processed()) {
                entries[kept] = entry;
                kept += 1;
            }
        }
        entries.truncate(kept);
    }

    fn remove_equal(&self, entries: &mut Vec<Entry>) {
        entries.retain(|entry| !self.slots().see(*entry, self.processed()));
        for entry in entries {
            self.slot(entry.slot()).forget_seen();
        }
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

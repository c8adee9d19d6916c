//! Scheduling: arm a slot, queue its entry, wake the worker if it would be late.

use super::Shared;
use super::local::{self, Local};
use super::timeout::Timeout;
use crate::catch_panic::catch_panic;
use crate::entry::{Entry, Liveness, SlotId};
use crate::error::RejectReason;
use crate::slots::{Handle, Kind, Slot, StoredTask};
use crate::sync::Ordering;
use crate::time::{FOREVER, Tick, nanos};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// The deadline of a timeout, as the caller gives it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// This long after the call.
    After(Duration),
    /// At this time on the timer's clock.
    At(u64),
}

/// A task that was not scheduled.
pub(crate) enum Refused<T> {
    AsItCame(T),
    /// The timer stopped meanwhile.
    Stored(StoredTask<Timeout>),
}

impl Shared {
    /// Schedules a task: arms a slot, queues its entry, and checks whether the timer has stopped.
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
        store: impl FnOnce(T) -> StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, (Refused<T>, RejectReason)> {
        if let Err(reason) = self.ensure_accepting() {
            self.metrics.shared.rejected.add(1);
            return Err((Refused::AsItCame(task), reason));
        }
        match self.last_local() {
            Some(local) => self.schedule_with(local, kind, || store(task), when),
            None => self.schedule_slow(kind, store(task), when),
        }
        .map_err(|task| (Refused::Stored(task), RejectReason::Stopped))
    }

    #[cold]
    fn schedule_slow(
        self: &Arc<Self>,
        kind: Kind,
        task: StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, StoredTask<Timeout>> {
        local::with_another(self, |local| self.schedule_with(local, kind, || task, when))
    }

    #[inline(always)]
    #[expect(clippy::inline_always, reason = "as above")]
    fn schedule_with(
        self: &Arc<Self>,
        local: &Local,
        kind: Kind,
        task: impl FnOnce() -> StoredTask<Timeout>,
        when: When,
    ) -> Result<Timeout, StoredTask<Timeout>> {
        let vacant = self.take_slot(local);
        // Before it is armed, so that nobody counts its end before its beginning.
        self.counters_of(local).scheduled.add(1);
        let (due, deadline) = self.deadline(when);
        let id = vacant.slot();
        let entry = self.slot(id).arm(vacant, task(), kind, due, deadline);
        if entry.seq() == 0 {
            self.registry.pool.note_epoch(id, entry.epoch());
        }
        let pushing = Pushing(self, id);
        self.push_for(entry, local, when);
        mem::forget(pushing);
        // If this check misses a stop, the scan of that stop begins after the push and finds the slot armed: see
        // `shutdown::finalize`.
        if self.lifecycle.is_shutdown() {
            if let Some(task) = self.unschedule(id) {
                return Err(task);
            }
        }
        Ok(Timeout::new(self, id, Handle::User))
    }

    /// Starts the timer if need be, and reserves a place under the limit.
    #[inline]
    fn ensure_accepting(self: &Arc<Self>) -> Result<(), RejectReason> {
        if !self.lifecycle.is_started() {
            self.start()?;
        }
        if self.max_pending == usize::MAX {
            Ok(())
        } else {
            self.reserve_pending()
        }
    }

    #[cold]
    fn reserve_pending(&self) -> Result<(), RejectReason> {
        // Relaxed: the counter guards no data. One update instead of add and undo: the limit holds at all times.
        self.limited
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| {
                (pending < self.max_pending).then_some(pending + 1)
            })
            .map(drop)
            .map_err(|_| RejectReason::TooManyPending {
                max: self.max_pending,
            })
    }

    /// Gives a place under the limit back: the counterpart of [`Shared::reserve_pending`].
    #[inline]
    pub(crate) fn release_pending(&self) {
        if self.max_pending != usize::MAX {
            self.limited.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The due tick and the deadline.
    #[inline]
    pub(crate) fn deadline(&self, when: When) -> (Tick, u64) {
        let at = match when {
            When::After(delay) => match self.clock.glance() {
                Some(now) => now.saturating_add(nanos(delay)),
                None => return self.deadline_after(delay),
            },
            When::At(time) => time,
        };
        self.due_at(at, when)
    }

    /// The same when the system's clock has to be read. A call of its own, and the last one, so that the usual way needs no
    /// registers saved.
    #[cold]
    fn deadline_after(&self, delay: Duration) -> (Tick, u64) {
        let at = self.clock.recent().saturating_add(nanos(delay));
        self.due_at(at, When::After(delay))
    }

    #[inline]
    fn due_at(&self, at: u64, when: When) -> (Tick, u64) {
        // Relaxed: whoever asks has seen STARTED or later with Acquire.
        if at >= self.end.load(Ordering::Relaxed) {
            return self.no_deadline(at);
        }
        let mut deadline = at.saturating_sub(self.lifecycle.started_at());
        let mut due = self.scale.due_in_time(deadline);
        if matches!(when, When::At(_)) && due <= self.processed() {
            (due, deadline) = self.passed_deadline(deadline);
        }
        // A manual clock stands on the boundary whose tasks are running.
        let coming = self.clock.manual().map_or(0, |_| self.processed.get() + 1);
        (due.max(Tick(coming)), deadline)
    }

    #[cold]
    fn no_deadline(&self, at: u64) -> (Tick, u64) {
        let deadline = match at {
            FOREVER => FOREVER,
            at => at.saturating_sub(self.lifecycle.started_at()),
        };
        (Tick::NEVER, deadline)
    }

    /// A deadline before the last boundary processed is moved to that boundary: time before the call is not lateness.
    #[cold]
    fn passed_deadline(&self, deadline: u64) -> (Tick, u64) {
        let processed = self.scale.time_of(self.processed()).unwrap_or(0);
        let deadline = deadline.max(processed);
        (self.scale.due(deadline), deadline)
    }

    /// Queues an entry, and wakes the timer thread if it would be late for it.
    pub(crate) fn enqueue(&self, entry: Entry) {
        self.with_local(|local| self.push::<true>(entry, local));
    }

    /// As [`Shared::enqueue`], for a timeout that was scheduled for `when`.
    pub(crate) fn enqueue_for(&self, entry: Entry, when: When) {
        self.with_local(|local| self.push_for(entry, local, when));
    }

    #[inline]
    fn push_for(&self, entry: Entry, local: &Local, when: When) {
        match when {
            When::After(_) => self.push::<true>(entry, local),
            When::At(_) => self.push::<false>(entry, local),
        }
    }

    /// A type parameter, as it costs nothing: with or without a look at the clock.
    fn push<const CLOCK: bool>(&self, entry: Entry, local: &Local) {
        let (number, shard) = self.shard_of(local);
        self.queue.push(number, shard, entry, self, || {
            if CLOCK || self.is_on_manual_clock() {
                self.passed()
            } else {
                // The boundaries that the timer has processed have passed. That is no later than the truth, so at worst
                // the worker catches up with more boundaries than it would have to.
                self.processed()
            }
        });
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

    /// The deadline of a slot that is due at `due`. If two racing resets have left a deadline that does not round up to
    /// `due`, the boundary itself.
    #[inline]
    pub(crate) fn deadline_of(&self, slot: &Slot<Timeout>, due: Tick) -> u64 {
        let deadline = slot.deadline();
        let boundary = self.scale.time_of(due).unwrap_or(FOREVER);
        if deadline <= boundary && boundary - deadline <= self.scale.tick() {
            deadline
        } else {
            boundary
        }
    }
}

/// A timeout whose entry is being pushed. If that panics, because the queue has no room, it is taken back.
struct Pushing<'a>(&'a Arc<Shared>, SlotId);

impl Drop for Pushing<'_> {
    // Inlined, so that the guard stays in registers.
    #[inline]
    fn drop(&mut self) {
        take_back(self.0, self.1);
    }
}

#[cold]
fn take_back(shared: &Arc<Shared>, id: SlotId) {
    match shared.unschedule(id) {
        Some(task) => drop(catch_panic("the drop of a task", || drop(task))),
        // The scan of a stop has it, and nobody else will have the handle.
        None => drop(Timeout::new(shared, id, Handle::User)),
    }
}

impl Liveness for Shared {
    #[inline]
    fn prefetch(&self, entry: Entry) {
        self.slots.prefetch(entry.slot());
    }

    #[inline]
    fn is_dead(&self, entry: Entry) -> bool {
        self.slots.is_dead(entry)
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

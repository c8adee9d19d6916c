//! Operations on all pending timeouts at once. They go through the slots in use, without a lock: each slot is read by
//! one load of its word. Slots that are taken into use meanwhile may or may not be met.

use super::{Shared, Timeout};
use crate::catch_panic::keep_panic;
use crate::entry::SlotId;
use crate::slots::{Handle, Slot, Unowned};
use crate::time::Tick;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

/// One pending timeout, as [`for_each_pending`](crate::TimerHandle::for_each_pending) shows it.
///
/// ```
/// # use hashed_wheel::{HashedWheelTimer, ManualClock};
/// # use std::time::Duration;
/// let timer = HashedWheelTimer::builder().clock(&ManualClock::new()).build()?; // a tick of 100 ms
/// timer.new_timeout(|_| {}, Duration::from_millis(250))?;
/// timer.for_each_pending(|pending| {
///     assert_eq!(pending.remaining, Duration::from_millis(250));
///     assert_eq!(pending.due_tick, 3);
///     assert!(!pending.periodic);
/// });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Pending {
    /// The time to its deadline, as [`Timeout::remaining`] returns it.
    pub remaining: Duration,
    /// It is periodic.
    pub periodic: bool,
    /// The tick that it fires at; the tick lies `due_tick` times the tick duration after the start of the timer.
    /// `2^45 - 1` for one that never fires.
    pub due_tick: u64,
    /// Its label, as [`Timeout::label`] returns it.
    pub label: Option<&'static str>,
}

impl Shared {
    /// The slots that may be in use.
    pub(super) fn slots_in_use(&self) -> impl Iterator<Item = (SlotId, &Slot<Timeout>)> {
        let pool = &self.registry.pool;
        (0..pool.used_groups()).flat_map(|group| pool.claimed(group, &self.slots))
    }

    pub(crate) fn for_each_pending(&self, mut show: impl FnMut(Pending)) {
        if !self.lifecycle.is_started() {
            return;
        }
        let now = self.settings.clock.now();
        for (id, slot) in self.slots_in_use() {
            if let Some(status) = slot.pending_status() {
                show(Pending {
                    remaining: self.remaining_of(id, status.due, now),
                    periodic: status.periodic,
                    due_tick: status.due.0,
                    label: self.label_of(slot),
                });
            }
        }
    }

    /// The time from `now` to the deadline of a slot whose word says `due`.
    pub(super) fn remaining_of(&self, id: SlotId, due: Tick, now: u64) -> Duration {
        if due == Tick::NEVER {
            return Duration::MAX;
        }
        let deadline = self.deadline_of(id, due);
        let elapsed = now.saturating_sub(self.lifecycle.started_at());
        Duration::from_nanos(deadline.saturating_sub(elapsed))
    }

    pub(crate) fn cancel_all(self: &Arc<Self>) -> usize {
        let (mut cancelled, mut panic) = (0, None);
        if self.settings.is_global {
            return cancelled;
        }
        for (id, slot) in self.slots_in_use() {
            let task = match slot.cancel_unowned() {
                Unowned::Left => continue,
                Unowned::Cancelled(task) => Some(task),
                Unowned::Requested => None,
            };
            self.count(|counters| counters.cancelled.add(1));
            self.release_pending();
            cancelled += 1;
            let handle = Timeout::new(self, id, Handle::Returned);
            // The drop of a task is user code.
            keep_panic(&mut panic, || drop(task));
            drop(handle);
        }
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
        cancelled
    }
}

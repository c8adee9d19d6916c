//! Where the timer thread finds an armed slot.
//!
//! *An armed slot is queued, or filed at a tick not after its due tick*, once the call that armed or moved it has returned. Queued:
//! its number is in the pending queue or in the engine's backlog. Filed: the wheel has an entry of it at the tick `filed`. Numbers
//! and entries only make the timer thread look at the slot; the slot's word says what to do. So a producer pushes nothing for a
//! slot whose number waits, or whose entry is early enough: the timer thread files such a slot anew when it looks at it.
//!
//! ```text
//! a producer                                  the timer thread
//! C1  word = armed, due                       T1  clear the mark (a number is popped), or
//! C2  filed ≤ due, or queued?                     filed = none (an entry is met)
//! C3  no: mark it queued, push the number     T2  a fence
//!                                             T3  if the word is armed, and filed is none or later than due:
//!                                                 filed = due, an entry into the wheel
//! ```
//!
//! - C1, C2 and T2 are sequentially consistent. If C2 reads a value from before T1, then C1 comes before T2, and T3 sees the
//!   arming. Otherwise C2 reads what T1 or T3 wrote: the producer pushes, or T3's entry is early enough.
//! - A call that finds the slot nowhere before C1 goes straight to C3. Its C1 is a store with Release: the push publishes it.
//! - T3 may miss an arming whose C1 comes after T2. The C2 of that arming reads `none` or T3's tick, and pushes unless that tick is
//!   early enough.
//! - *T3 lowers `filed` without T1.* A producer that has relied on the later tick is due at that tick or after it.
//! - *`queued` has a mark for each lane* of the queue, as a slot can wait in both. A call for a late tick relies on either: the soon
//!   lane is emptied earlier, and for the late one it [says](crate::queue::PendingQueue::expect) when the slot is due. A call for a
//!   soon tick relies on the soon mark alone.
//! - *Only a call that arms a free slot sets a mark*, if the slot is not filed far away. No other thread has a handle before
//!   that call returns, so a thread that reads the mark may rely on its push. A `reset`, a periodic task's next run, a future's new task
//!   and a call for a slot that is filed too late and far away push without it: two such calls for one slot may meet, and the
//!   first may be suspended before its push. So a number may wait several times; when the second is popped, the slot is filed.
//!   (One exception: the next run of a periodic task relies on the push of the call that armed it, which may not have returned if
//!   the task runs on an executor.)
//! - The backlog's numbers are popped, so the mark is clear. A slot in the backlog that is armed again is pushed again.
//! - *The entry at the tick `filed` counts*; all others of the slot are dead. A slot that is filed at the same tick again has two
//!   equal entries: meeting the first clears `filed`, and a sweep marks the first as seen and drops the second.
//! - *A page of free slots that was returned to the system* reads as zeroes: neither queued nor filed. Numbers and entries of
//!   these slots are then dead, or wait beside newer ones. The timer thread does not write to such a slot, or the page would be
//!   back.
//! - A slot whose due tick is never needs neither.
//!
//! # How a tick fits in 32 bits
//!
//! `filed` is `valid:1 | far:1 | seen:1 | tick:29`, with the low bits of the tick. For an entry in one of the next 2^27 ticks (37
//! hours at a millisecond) these bits are compared: a due tick less than 2^27 after `filed` counts as later, any other as
//! earlier. A later one that counts as earlier is pushed in vain. An earlier one counts as later only in a call that was
//! suspended for 2^28 ticks (3 days) after it had read the clock. The tick of an entry further away, a *far* one, is also
//! stored in a table, before `filed`: [`Slots::far`](crate::slots::Slots::far).

use super::Slot;
use crate::entry::{Entry, Lane, SlotId};
use crate::slots::Slots;
use crate::slots::word::{State, Word};
use crate::sync::{Ordering, fence};
use crate::time::Tick;
use crate::tuning::LOOKAHEAD;

const NONE: u32 = 0;
const VALID: u32 = 1 << 31;
const FAR: u32 = 1 << 30;
/// The sweep of a bucket has seen an entry at this tick. Clear between two sweeps.
const SEEN: u32 = 1 << 29;
const LOW: u32 = SEEN - 1;
/// Ticks from now on that are not far.
const NEAR: u64 = 1 << 27;
/// Ticks after `filed` that count as later.
const LATER: u32 = 1 << 27;

/// Where the timer thread will find a slot that was armed for some tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Hash))]
#[must_use]
pub(crate) enum Place {
    /// In the wheel, early enough; or it is due never.
    Filed,
    /// In the wheel, at a far tick: the caller compares that with its due tick.
    Far,
    /// In the pending queue, where the next look finds it.
    Queued,
    /// In a late lane of the pending queue: the caller says when it is due.
    Late,
    /// Its number has to be pushed.
    Nowhere,
}

/// An armed slot, as the timer thread finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) due: Tick,
    pub(crate) stamp: u64,
}

/// The value of `filed` for an entry at `tick`, when the wheel has come to `now`.
fn filed_at(tick: Tick, now: Tick) -> u32 {
    let far = if tick.0 < now.0 + NEAR { 0 } else { FAR };
    VALID | far | tick.0 as u32 & LOW
}

/// The tick of the entry that counts, when the wheel has come to `now`.
fn tick_of(filed: u32, now: Tick, far: impl FnOnce() -> Tick) -> Option<Tick> {
    match filed & (VALID | FAR) {
        0 => None,
        VALID => {
            // One that is late has not been met yet.
            let before = u64::from((now.0 as u32).wrapping_sub(filed) & LOW);
            let after = u64::from(filed.wrapping_sub(now.0 as u32) & LOW);
            let is_late = before < after;
            Some(Tick(if is_late {
                now.0.saturating_sub(before)
            } else {
                now.0 + after
            }))
        }
        _ => Some(far()),
    }
}

/// Returns `true` if `filed` names a tick that is not far and not after `due`.
#[inline]
fn is_filed_by(filed: u32, due: Tick) -> bool {
    let after = (due.0 as u32).wrapping_sub(filed) & LOW;
    filed & (VALID | FAR) == VALID && after < LATER
}

/// Returns `true` if the entry at `tick`, which is met, is the one that counts.
#[inline]
fn is_filed_at(filed: u32, tick: Tick) -> bool {
    filed & VALID != 0 && (filed ^ tick.0 as u32) & LOW == 0
}

/// For callers.
impl<A> Slot<A> {
    /// C2, for a slot that is armed and due at `due`, for which `lane` is the right one. A slot that is due never counts as filed.
    #[inline]
    pub(crate) fn place(&self, due: Tick, lane: Lane) -> Place {
        let filed = self.filed.load(Ordering::SeqCst);
        if is_filed_by(filed, due) || due == Tick::NEVER {
            return Place::Filed;
        }
        if filed & FAR != 0 {
            return Place::Far;
        }
        let queued = self.queued.load(Ordering::SeqCst);
        if queued & Lane::Soon as u8 != 0 {
            Place::Queued
        } else if queued & lane as u8 != 0 {
            Place::Late
        } else {
            Place::Nowhere
        }
    }

    /// Returns `true` if neither the wheel nor the queue has the slot.
    #[inline]
    pub(super) fn is_nowhere(&self) -> bool {
        let order = Ordering::Relaxed;
        self.filed.load(order) == NONE && self.queued.load(order) == 0
    }

    /// C3, before the push, in the call that arms the slot.
    #[inline]
    pub(super) fn set_queued(&self, lane: Lane) {
        // Release, with T2: a timer thread that clears this, for a number of an earlier arming, sees this arming.
        let release = Ordering::Release;
        // Relaxed: only this thread sets it now.
        match self.queued.load(Ordering::Relaxed) {
            0 => self.queued.store(lane as u8, release),
            // The mark of the late lane stays. If that is cleared now, this push goes without a mark.
            queued => {
                let both = queued | lane as u8;
                let _ = self
                    .queued
                    .compare_exchange(queued, both, release, Ordering::Relaxed);
            }
        }
    }
}

/// For the timer thread.
impl<A> Slots<A> {
    /// T1 and T2 for numbers that were popped from a lane.
    pub(crate) fn clear_queued(&self, ids: &[SlotId], lane: Lane) {
        for &id in ids {
            self.get(id).prefetch();
        }
        for &id in ids {
            self.get(id).clear_queued(lane);
        }
        fence(Ordering::SeqCst);
    }

    /// T1 and T2 for entries that were met. Moves those that count to the front and returns their number. `ahead` are the entries
    /// that are met next.
    pub(crate) fn clear_filed(&self, met: &mut [Entry], ahead: &[Entry]) -> usize {
        let mut counting = 0;
        for place in 0..met.len() {
            let next = place + LOOKAHEAD;
            if let Some(next) = met.get(next).or_else(|| ahead.get(next - met.len())) {
                self.get(next.slot()).prefetch();
            }
            let entry = met[place];
            if self.get(entry.slot()).clear_filed(entry) {
                met[counting] = entry;
                counting += 1;
            }
        }
        fence(Ordering::SeqCst);
        counting
    }

    /// The tick of the entry of a slot that counts, when the wheel has come to `now`.
    #[inline]
    fn filed_tick(&self, slot: &Slot<A>, id: SlotId, now: Tick) -> Option<Tick> {
        // Relaxed: only this thread writes them.
        let filed = slot.filed.load(Ordering::Relaxed);
        tick_of(filed, now, || Tick(self.far(id).load(Ordering::Relaxed)))
    }

    /// T3: returns the entry that the slot needs, or `None` if it needs none; the caller inserts it. The wheel has come to `now`.
    #[inline]
    pub(crate) fn file(&self, id: SlotId, now: Tick) -> Option<Entry> {
        let slot = self.get(id);
        let due = slot.find()?.due;
        if self
            .filed_tick(slot, id, now)
            .is_some_and(|tick| tick <= due)
        {
            return None;
        }
        let filed = filed_at(due, now);
        if filed & FAR != 0 {
            self.far(id).store(due.0, Ordering::SeqCst);
        }
        // Release, with C2: a producer that reads this value reads this far tick, or a later value of it.
        slot.filed.store(filed, Ordering::Release);
        Some(Entry::new(due, id))
    }

    /// Returns `true` if the slot does not need this entry. The caller then removes it: `filed` no longer names it.
    pub(crate) fn is_dead(&self, entry: Entry, now: Tick) -> bool {
        let slot = self.get(entry.slot());
        if self.filed_tick(slot, entry.slot(), now) != Some(entry.due()) {
            return true;
        }
        if slot.find().is_some() {
            return false;
        }
        let filed = slot.filed.load(Ordering::Relaxed);
        slot.filed.store(NONE, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_dead = slot.find().is_none();
        if !is_dead {
            // Armed meanwhile. If that was for an earlier tick, its number is pushed. Relaxed: the fence publishes the far tick.
            slot.filed.store(filed, Ordering::Relaxed);
        }
        is_dead
    }

    /// Notes that an entry that counts was seen, until the slot is told to [forget](Slot::forget_seen) that. Returns `true` if an
    /// equal one was seen before.
    pub(crate) fn see(&self, entry: Entry, now: Tick) -> bool {
        let slot = self.get(entry.slot());
        if self.filed_tick(slot, entry.slot(), now) != Some(entry.due()) {
            return false;
        }
        let filed = slot.filed.load(Ordering::Relaxed);
        // Release, as in `file`: a caller that reads this value reads the far tick that belongs to it.
        slot.filed.store(filed | SEEN, Ordering::Release);
        filed & SEEN != 0
    }
}

/// For the timer thread.
impl<A> Slot<A> {
    /// T1 for a number that was popped.
    #[inline]
    fn clear_queued(&self, lane: Lane) {
        // Relaxed: the fence follows. Not written if it is clear: the page may have been returned to the system.
        let queued = self.queued.load(Ordering::Relaxed);
        let rest = !(lane as u8);
        match lane {
            _ if queued & lane as u8 == 0 => {}
            // While this mark is set, every producer finds the slot queued, and does not write.
            Lane::Soon => self.queued.store(queued & rest, Ordering::Relaxed),
            // A producer may add the mark of the soon lane.
            Lane::Late => drop(self.queued.fetch_and(rest, Ordering::Relaxed)),
        }
    }

    /// T1 for an entry that was met. Returns `false` for one that is dead.
    #[inline]
    fn clear_filed(&self, entry: Entry) -> bool {
        // Relaxed: only this thread writes it.
        let counts = is_filed_at(self.filed.load(Ordering::Relaxed), entry.due());
        if counts {
            self.filed.store(NONE, Ordering::Relaxed);
        }
        counts
    }

    /// Due tick and stamp of the slot, if it is armed and not due never.
    #[inline]
    pub(crate) fn find(&self) -> Option<Found> {
        let word = self.word();
        let due = word.due();
        (word.state() == State::Armed && due != Tick::NEVER).then(|| Found {
            due,
            stamp: self.stamp_of(word),
        })
    }

    /// Clears the mark of `see`. Not written if it is clear: the page may have been returned to the system.
    pub(crate) fn forget_seen(&self) {
        let filed = self.filed.load(Ordering::Relaxed);
        if filed & SEEN != 0 {
            self.filed.store(filed & !SEEN, Ordering::Release);
        }
    }

    /// The stamp of the arming of `word`, which was acquired. If the slot was armed again since, the bits of two stamps may be
    /// mixed: that arming came after T2, and its own C2 decides.
    #[inline]
    pub(super) fn stamp_of(&self, word: Word) -> u64 {
        let middle = u64::from(self.stamp.load(Ordering::Relaxed));
        let high = u64::from(self.stamp_high.load(Ordering::Relaxed));
        (high << 32 | middle) << Word::SEQ_BITS | word.seq()
    }

    #[inline]
    pub(super) fn set_stamp(&self, stamp: u64) {
        let rest = stamp >> Word::SEQ_BITS;
        self.stamp.store(rest as u32, Ordering::Relaxed);
        self.stamp_high.store((rest >> 32) as u8, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

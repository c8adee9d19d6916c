//! Where the timer thread finds an armed slot.
//!
//! *A slot that is armed is queued, or filed at a tick not after its due tick*: its number waits in the pending queue
//! or in the engine's backlog, or the wheel has an entry of it at the tick `filed`. Both say only that the slot is to be looked at, then or
//! earlier; what is to be done, its word says. So a slot that is cancelled, freed and armed again while its number waits is
//! not pushed again, and one that is armed for later than the wheel looks at it needs nothing at all: it is filed anew then.
//!
//! ```text
//! a caller                                    the timer thread
//! C1  word = armed, due                       T1  queued = 0, having popped the number; or
//! C2  filed ≤ due, or queued?                     filed = none, having met the entry
//! C3  no: queued = 1, push the number         T2  a fence
//!                                             T3  the word is armed, and filed is none or later than due:
//!                                                 filed = due or earlier, an entry in the wheel
//! ```
//!
//! - C1 and C2 are sequentially consistent (a call that finds the slot nowhere may go straight to C3). If C2 reads what was there before T1, T3 comes after C1 and sees that arming.
//!   Otherwise C2 sees what T1 has written, and the caller pushes, or T3's tick, which is in the wheel.
//! - T3 may miss an arming that comes meanwhile and is due earlier. Then that C2 has read `none`, or a later tick: it pushes.
//! - *`filed` is lowered without T1*: whoever has relied on the later tick is due at it or after it.
//! - *C3 sets `queued` only in a call that arms a free slot*. Nobody has a handle before that call returns, so whoever finds it
//!   set may rely on the push. A `reset`, a periodic task's next run and a future's new task push the number without it: two
//!   such calls for one slot may meet, and the first may be suspended before its push. So a number may wait twice; the second
//!   finds the slot filed. (A periodic task that runs on an executor before the call that has armed it returns is the
//!   exception: its next run waits for that call's push.)
//! - *The entry that counts* is the one at the tick `filed`; others of the slot are dead. A slot that comes back to a tick has two
//!   there: the first that is met clears `filed`. A sweep marks what it has seen, and drops the second.
//! - *A page of free slots that went back to the system* reads as not queued and not filed. What queue and wheel have of it is dead,
//!   or a second one. It is not written to, or the page would be back.
//! - Of a slot that is due never, none of this is needed.
//!
//! # How a tick fits in 32 bits
//!
//! `filed` is `valid:1 | far:1 | seen:1 | tick:29`, the low bits of the tick. It is compared if the entry was filed for one of the
//! next 2^27 ticks (37 hours at a millisecond). A due tick up to 2^27 after it counts as later, any other as earlier: that is wrong
//! only for a call that was suspended for 3 days of such ticks after it had read the clock. The tick of an entry that is further
//! away is written down elsewhere as well, before `filed`: [`Slots::far`](crate::slots::Slots::far).

use super::Slot;
use crate::entry::{Entry, SlotId};
use crate::slots::Slots;
use crate::slots::word::{State, Word};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Tick;
use crate::tuning::LOOKAHEAD;

const NONE: u32 = 0;
const VALID: u32 = 1 << 31;
const FAR: u32 = 1 << 30;
/// A sweep has come across the entry, in this bucket.
const SEEN: u32 = 1 << 29;
const LOW: u32 = SEEN - 1;
/// Ticks from now on that are not far.
const NEAR: u64 = 1 << 27;
/// Ticks after `filed` that count as later.
const LATER: u32 = 1 << 27;

/// Where a slot that was armed for some tick is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Hash))]
#[must_use]
pub(crate) enum Place {
    /// In the wheel, early enough; or it is due never.
    Filed,
    /// In the wheel, at a tick that is written down elsewhere.
    Far,
    /// In the pending queue.
    Queued,
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

/// Returns `true` if a slot that is filed so, not far, is looked at by `due`.
#[inline]
fn is_filed_by(filed: u32, due: Tick) -> bool {
    let after = (due.0 as u32).wrapping_sub(filed) & LOW;
    filed & (VALID | FAR) == VALID && after < LATER
}

/// Returns `true` if the entry at `tick` is the one that counts.
#[inline]
fn is_filed_at(filed: u32, tick: Tick) -> bool {
    filed & VALID != 0 && (filed ^ tick.0 as u32) & LOW == 0
}

/// For callers.
impl<A> Slot<A> {
    /// C2, for a slot that is armed and due at `due`.
    #[inline]
    pub(crate) fn place(&self, due: Tick) -> Place {
        self.place_by(due, Ordering::SeqCst)
    }

    #[inline]
    pub(super) fn place_by(&self, due: Tick, order: Ordering) -> Place {
        let filed = self.filed.load(order);
        if is_filed_by(filed, due) || due == Tick::NEVER {
            Place::Filed
        } else if filed & FAR != 0 {
            Place::Far
        } else if self.queued.load(order) != 0 {
            Place::Queued
        } else {
            Place::Nowhere
        }
    }

    /// C3, before the push, in the call that arms the slot.
    #[inline]
    pub(super) fn set_queued(&self) {
        // Release: a timer thread that pops the number of an earlier arming and clears this sees the arming.
        self.queued.store(1, Ordering::Release);
    }
}

/// For the timer thread.
impl<A> Slots<A> {
    /// T1 and T2 for numbers that were popped.
    pub(crate) fn clear_queued(&self, ids: &[SlotId]) {
        for &id in ids {
            self.get(id).prefetch();
        }
        for &id in ids {
            self.get(id).clear_queued();
        }
        fence(Ordering::SeqCst);
    }

    /// T1 and T2 for entries that were met. Moves those that count to the front, and returns how many they are. `ahead` come next.
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

    /// T3: returns the entry that the slot needs now, if it does; the caller files it. The wheel has come to `now`. Of a slot
    /// that is due after `latest`, the entry is for `latest`.
    #[inline]
    pub(crate) fn file(&self, id: SlotId, now: Tick, latest: Tick) -> Option<Entry> {
        let slot = self.get(id);
        let due = slot.find()?.due;
        let at = slot.file(due, now, latest, || self.far(id))?;
        Some(Entry::new(at, id))
    }

    /// Notes that an entry that counts was seen, until the slot is told to [forget](Slot::forget_seen) that. Returns `true` if an
    /// equal one was seen before.
    pub(crate) fn see(&self, entry: Entry, now: Tick) -> bool {
        let id = entry.slot();
        self.get(id).see(entry, now, || self.far(id))
    }
}

/// For the timer thread.
impl<A> Slot<A> {
    /// T1 for a number that was popped.
    #[inline]
    fn clear_queued(&self) {
        // Relaxed: the fence follows. Not written if it is clear: the page may have gone back to the system. Nobody sets it
        // between the two: it is set where it was found clear.
        if self.queued.load(Ordering::Relaxed) != 0 {
            self.queued.store(0, Ordering::Relaxed);
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

    /// The slot, if it is armed and will fire.
    #[inline]
    pub(crate) fn find(&self) -> Option<Found> {
        let word = self.word();
        let due = word.due();
        (word.state() == State::Armed && due != Tick::NEVER).then(|| Found {
            due,
            stamp: self.stamp_of(word),
        })
    }

    /// T3 for a slot that was found due at `due`. Returns where it needs an entry, if it does. `far` is where the tick of one
    /// that is far is written down.
    #[inline]
    fn file<'a>(
        &self,
        due: Tick,
        now: Tick,
        latest: Tick,
        far: impl Fn() -> &'a AtomicU64,
    ) -> Option<Tick> {
        // Relaxed: only this thread writes it.
        let filed = self.filed.load(Ordering::Relaxed);
        let filed = tick_of(filed, now, || Tick(far().load(Ordering::Relaxed)));
        if filed.is_some_and(|tick| tick <= due) {
            return None;
        }
        let at = due.min(latest);
        let filed = filed_at(at, now);
        if filed & FAR != 0 {
            far().store(at.0, Ordering::SeqCst);
        }
        // Release: where it is written down. A caller that sees the old one pushes.
        self.filed.store(filed, Ordering::Release);
        Some(at)
    }

    /// Returns `true` if the slot does not need this entry. From then on it does not count on it.
    pub(crate) fn is_dead(&self, entry: Entry) -> bool {
        let filed = self.filed.load(Ordering::Relaxed);
        if !is_filed_at(filed, entry.due()) {
            return true;
        }
        if self.find().is_some() {
            return false;
        }
        self.filed.store(NONE, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let is_dead = self.find().is_none();
        if !is_dead {
            // Armed meanwhile. If that was for an earlier tick, its number comes.
            self.filed.store(filed, Ordering::Relaxed);
        }
        is_dead
    }

    /// Notes that the entry that counts was seen, and returns `true` if an equal one was seen before.
    fn see<'a>(&self, entry: Entry, now: Tick, far: impl Fn() -> &'a AtomicU64) -> bool {
        let filed = self.filed.load(Ordering::Relaxed);
        // Another one may have the same low bits.
        let counts = tick_of(filed, now, || Tick(far().load(Ordering::Relaxed)));
        if counts != Some(entry.due()) {
            return false;
        }
        self.filed.store(filed | SEEN, Ordering::Relaxed);
        filed & SEEN != 0
    }

    /// What is seen next is not the second of two. Not written if it is clear: the page may have gone back to the system.
    pub(crate) fn forget_seen(&self) {
        let filed = self.filed.load(Ordering::Relaxed);
        if filed & SEEN != 0 {
            self.filed.store(filed & !SEEN, Ordering::Relaxed);
        }
    }

    /// The stamp of the arming whose word this is, which was acquired.
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

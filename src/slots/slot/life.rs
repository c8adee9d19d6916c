//! The usual life of a timeout: a caller arms the slot, the timer thread claims and runs the task, and the last user of the slot
//! frees it.
//! Transitions 1, 5, 7, 10 and 11 of the [table](super).

use super::{Label, Place, Slot};
use crate::entry::{Lane, SlotId};
use crate::slots::stored_task::{Kind, StoredTask};
use crate::slots::word::{State, Word};
use crate::sync::Ordering;
use crate::time::Tick;
use std::mem;

/// The right to arm a free slot. One value exists for a slot, so one thread arms it.
#[must_use]
#[derive(Debug)]
pub(crate) struct Vacant(SlotId);

impl Vacant {
    /// # Safety
    /// The slot is free, and the caller, which took it from the free list, gives up its claim with this call.
    #[inline]
    pub(crate) unsafe fn new(slot: SlotId) -> Vacant {
        Vacant(slot)
    }

    #[inline]
    pub(crate) fn slot(&self) -> SlotId {
        self.0
    }
}

/// The right to run a slot's task. Ended by [`Slot::finish_run`] or [`Slot::rearm`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) slot: SlotId,
    /// A one-shot timeout that had no handle when it was claimed: no other thread changes the word.
    pub(super) unobserved: bool,
}

impl Running {
    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }
}

/// What a slot is armed with, beside its task.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arming {
    pub(crate) kind: Kind,
    pub(crate) label: Label,
    /// Counts the armings of one thread.
    pub(crate) stamp: u64,
    pub(crate) due: Tick,
    /// The lane of the pending queue that suits `due`.
    pub(crate) lane: Lane,
    /// How long before its boundary the deadline lies.
    pub(crate) early: u32,
}

/// The result of [`Slot::claim`].
#[derive(Debug)]
pub(crate) enum ClaimResult<A: 'static> {
    /// That timeout is no longer armed: it is over, its slot was armed again, or a future exchanges its task.
    Dead,
    /// The timeout was moved, and is due later. The caller files the slot.
    Later,
    /// The timeout is due; the caller owns the task.
    Due(Running, StoredTask<A>),
}

/// The handles to a slot, by their bit in the word.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Handle {
    /// Returned by `new_timeout`: bit U.
    User = Word::USER as u8,
    /// Returned by `stop`: bit R.
    Returned = Word::RETURNED as u8,
}

/// The number of a slot, and the caller's handle to it. One word: a value of three fields is written in pieces and then
/// copied as a whole, for which the processor waits some five nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Held(u64);

impl Held {
    #[inline]
    pub(crate) fn new(slot: SlotId, handle: Option<Handle>) -> Held {
        let handle = handle.map_or(0, |handle| handle as u64);
        Held(handle << u32::BITS | u64::from(slot.number()))
    }

    /// Gives the handle up; the number stays.
    pub(crate) fn take(&mut self) -> Held {
        let without = Held::new(self.slot(), None);
        mem::replace(self, without)
    }

    #[inline]
    pub(crate) fn slot(self) -> SlotId {
        SlotId::from_number(self.0 as u32)
    }

    #[inline]
    pub(crate) fn handle(self) -> Option<Handle> {
        match self.0 >> u32::BITS {
            Word::USER => Some(Handle::User),
            Word::RETURNED => Some(Handle::Returned),
            _ => None,
        }
    }
}

/// The result of releasing a handle or ending a run.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[must_use]
pub(crate) enum ReleaseResult {
    /// Another handle or the run still uses the slot.
    InUse,
    /// The caller was the last and frees the slot.
    Abandoned,
}

impl<A> Slot<A> {
    /// Transition 1, and C1 to C3 of [`place`](super::place) without the push: the caller pushes the number as the answer says.
    #[inline]
    pub(crate) fn arm(&self, vacant: Vacant, task: StoredTask<A>, arming: Arming) -> Place {
        debug_assert_eq!(
            arming.kind,
            task.kind(),
            "what the caller knows need not be loaded"
        );
        // The right is used up with this call. The stores are relaxed: it makes this thread the only writer, and the word
        // publishes them.
        drop(vacant);
        self.set_stamp(arming.stamp);
        self.early.store(arming.early, Ordering::Relaxed);
        self.label.store(arming.label.0, Ordering::Relaxed);
        // SAFETY: `vacant` is the right to write the task.
        self.task.with_mut(|cell| unsafe { (*cell).write(task) });
        let word = Word::armed(arming.due, arming.stamp, arming.kind).0;
        // Relaxed: a slot that is nowhere now has to be pushed, whatever the timer thread does meanwhile. Only this thread sets
        // `queued`, and an entry for an earlier timeout that the timer thread files meanwhile only makes the push superfluous.
        if self.is_nowhere() && arming.due != Tick::NEVER {
            self.word.store(word, Ordering::Release);
        } else {
            self.word.swap(word, Ordering::SeqCst);
            let place = self.place(arming.due, arming.lane);
            if place != Place::Nowhere {
                return place;
            }
        }
        self.set_queued(arming.lane);
        Place::Nowhere
    }

    /// Transition 5, at boundary `now`, for the arming with `stamp`. A slot that another thread armed with an equal stamp is
    /// claimed only if it is due.
    #[inline]
    pub(crate) fn claim(&self, slot: SlotId, stamp: u64, now: Tick) -> ClaimResult<A> {
        let mut word = self.word();
        loop {
            if word.state() != State::Armed || self.stamp_of(word) != stamp {
                return ClaimResult::Dead;
            }
            if word.due() > now {
                return ClaimResult::Later;
            }
            let running = word.with_state(State::Running);
            match self.word.compare_exchange(
                word.0,
                running.0,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let unobserved = !word.has_handle() && !word.is_periodic();
                    let running = Running { slot, unobserved };
                    // SAFETY: this call won Armed → Running, and with it the task.
                    return ClaimResult::Due(running, unsafe { self.take_task() });
                }
                Err(now) => word = Word(now),
            }
        }
    }

    /// Transition 7, or the end of 8: ends a run whose task is gone.
    #[expect(clippy::needless_pass_by_value, reason = "the right is used up")]
    #[inline]
    pub(crate) fn finish_run(&self, running: Running) -> ReleaseResult {
        if running.unobserved {
            return ReleaseResult::Abandoned;
        }
        let word = self.word.fetch_add(Word::END_RUN, Ordering::AcqRel);
        if Word(word + Word::END_RUN).is_abandoned() {
            ReleaseResult::Abandoned
        } else {
            ReleaseResult::InUse
        }
    }

    /// Transition 10 for a handle that is dropped.
    ///
    /// Takes a pointer: once the bit is cleared, another thread may free the memory before this call returns, and a
    /// `&Slot` must be valid to the end of the call.
    ///
    /// # Safety
    /// The caller holds the handle of that bit, and gives it up with this call. Unless that leaves the slot
    /// [`ReleaseResult::Abandoned`], it must not be touched after this.
    #[inline]
    pub(crate) unsafe fn release(slot: *const Self, handle: Handle) -> ReleaseResult {
        let handle = u64::from(handle as u8);
        // SAFETY: the caller's handle keeps the slot up to the `fetch_and`. The reference is to the word alone:
        // an atomic, and so behind an `UnsafeCell` from end to end, may be freed while a call has it.
        let word = unsafe { &(*slot).word };
        let seen = Word(word.load(Ordering::Acquire));
        if seen.is_over() && !seen.has_other_handle(handle) {
            return ReleaseResult::Abandoned;
        }
        let left = Word(word.fetch_and(!handle, Ordering::AcqRel) & !handle);
        memory_may_go();
        if left.is_abandoned() {
            ReleaseResult::Abandoned
        } else {
            ReleaseResult::InUse
        }
    }

    /// Transition 11: the last access to a slot that was found [`ReleaseResult::Abandoned`]. The caller puts the number into a
    /// cache that it has looked up before this call.
    ///
    /// Takes a pointer for the same reason as [`Slot::release`].
    ///
    /// # Safety
    /// The slot was found abandoned by the caller. It must not be touched after this.
    #[inline]
    pub(crate) unsafe fn free(slot: *const Self) {
        // SAFETY: a slot that is not free is there, and only this call frees it, with the last line. The
        // reference is to the word alone, as in `release`.
        let word = unsafe { &(*slot).word };
        // Relaxed: this thread is the only one left, `release` or `finish_run` has acquired the others'.
        let last = Word(word.load(Ordering::Relaxed));
        debug_assert!(
            last.is_over() || last.state() == State::Running && !last.has_handle(),
            "freed while {last:?}"
        );
        word.store(Word::FREE.0, Ordering::Release);
        memory_may_go();
    }

    pub(crate) fn is_free(&self) -> bool {
        self.word().state() == State::Free
    }
}

/// For tests, whose slots stay where they are.
#[cfg(test)]
impl<A> Slot<A> {
    pub(crate) fn release_here(&self, handle: Handle) -> ReleaseResult {
        // SAFETY: the test has that handle, and its slot outlives the call.
        unsafe { Slot::release(self, handle) }
    }

    pub(crate) fn free_here(&self) {
        // SAFETY: the test has found the slot abandoned, and it outlives the call.
        unsafe { Slot::free(self) }
    }
}

/// Called after a store that lets another thread free the slot's memory. Under Miri it gives the others the
/// chance, so that a reference which is still around is found out.
#[inline]
fn memory_may_go() {
    #[cfg(miri)]
    std::thread::yield_now();
}

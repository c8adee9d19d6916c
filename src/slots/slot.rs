//! A slot: the 64-byte record of one timeout, and every transition of its state word. The usual life is in [`life`],
//! moving in [`reset`], cancelling and stopping in [`end`], arming again in [`rearm`].
//!
//! # Ownership
//!
//! The word decides. A thread reads or writes the task only after it has won the transition that gives it the task; the
//! tokens [`Vacant`] and [`Running`] stand for that right and cannot be copied. All other fields are atomic.
//!
//! A slot is not reused while a handle to it exists (bits U and R), so handles need no generation. The only stale
//! references are [entries](crate::entry::Entry) in queue and wheel; they are checked against `seq` and `epoch`.
//!
//! # Transitions
//!
//! | # | transition | by | operation | pairs with |
//! |---|---|---|---|---|
//! | 1 | Free → Armed, U | the allocating caller, which owns the slot | writes task, epoch, deadline; `store Release` | Acquire of 4, 5, 6 |
//! | 2 | Armed, due → later | a handle | CAS Relaxed: publishes only the word, and as an RMW continues the release sequence of 1 | – |
//! | 2a | Armed, due stays | a handle | a load Relaxed: the word is not written, so the timeout fires, or is cancelled, as it would have | – |
//! | 3 | Armed, due → earlier, seq + 1 | a handle | CAS Relaxed, then the push of a new entry | the queue's Release/Acquire |
//! | 4 | Armed → Cancelled; Running P → `CancelRequested` | a handle, or the task's own `&Timeout` | CAS Acquire, then the task is moved out | 1, 8 |
//! | 5 | Armed (due ≤ t) → Running | the worker | CAS Acquire | 1, 8 |
//! | 6 | Armed → Stopped, R; Running P → `CancelRequested`, R | the scan of `stop` | CAS `AcqRel` | 1, 8; 9, 10 |
//! | 7 | Running → Expired | the runner | `fetch_add AcqRel`; without U: 11. If 5 saw no U: 11 at once | 10 |
//! | 8 | Running P → Armed (due′), seq + 1 | the runner | writes task, deadline; CAS Release. On `CancelRequested`: drops the task, `fetch_add AcqRel` → Cancelled; without U and R: 11 | 4, 5, 6 |
//! | 9 | Stopped → `TaskTaken` | the R handle | CAS Acquire, then the task is moved out | 6 |
//! | 10 | clear U or R | the drop of that handle | `fetch_and AcqRel`; if that leaves an ended slot without handles: 11. Shortcut: if a `load Acquire` shows an ended slot without the other handle, no other thread is left: 11 without a locked instruction | 7, 8 |
//! | 11 | → Free, seq kept | the last one | `store Release`, the last access to the timer's memory | the Acquire of the scan that decides whether that memory can be freed |
//! | 12 | Armed → `CancelRequested` without P, then by 8 Armed again, seq + 1, with another task | the future that holds U | CAS Acquire; 8 | 1, 8; 4, 5, 6 |
//! | 13 | Armed → Cancelled, R; Running P → `CancelRequested`, R | `cancel_all`, for what is no future's | CAS `AcqRel`, then the task is moved out, then 10 | 1, 8; 10 |
//!
//! `seq` may wrap within one arming (after 8192 resets to an earlier time). A dead entry then passes for live. It can
//! only be inserted again, or fire what the CAS says is due; the worker bounds how often it sweeps over such entries.
//! Across armings `epoch` counts the wraps: 2^45 armings of one slot until an entry can match a later timeout. At ten
//! million a second that takes forty days of reusing one slot while one entry stays where it is, and then it only
//! changes the order within one boundary.

mod end;
mod life;
mod rearm;
mod reset;

pub(crate) use end::{StopOutcome, Unowned};
pub(crate) use life::{ClaimResult, Handle, ReleaseResult, Running, Vacant};
pub(crate) use reset::Reset;

use super::stored_task::StoredTask;
use super::word::{State, Status, Word};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
#[cfg(hashed_wheel_loom)]
use crate::time::Tick;
use std::mem::MaybeUninit;

/// All zeroes is a valid slot: free, never used.
#[repr(C, align(64))]
pub(crate) struct Slot<A: 'static> {
    /// A [`Word`].
    word: AtomicU64,
    /// Nanoseconds from the timer's start to the deadline.
    deadline: AtomicU64,
    /// Counts the wraps of `seq` at arming.
    epoch: AtomicU32,
    /// 1 if the tenant belongs to a future. Written at arming.
    future: AtomicU32,
    /// Valid in the states Armed and Stopped; in Running and `CancelRequested` the runner owns the task.
    task: UnsafeCell<MaybeUninit<StoredTask<A>>>,
}

const _: () = assert!(cfg!(hashed_wheel_loom) || size_of::<Slot<()>>() == 64);

// SAFETY: all fields are atomic but `task`, which is accessed only by the thread that won it (the table above), and a
// `StoredTask` is `Send`.
unsafe impl<A> Sync for Slot<A> {}
// SAFETY: as above.
unsafe impl<A> Send for Slot<A> {}

impl<A> Slot<A> {
    /// A free slot with that `seq`; otherwise slots are memory that was zeroed.
    #[cfg(hashed_wheel_loom)]
    pub(crate) fn new(seq: u16) -> Slot<A> {
        let free = Word::armed(Tick::ZERO, seq, false).freed();
        Slot {
            word: AtomicU64::new(free.0),
            deadline: AtomicU64::new(0),
            epoch: AtomicU32::new(0),
            future: AtomicU32::new(0),
            task: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline]
    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    #[cfg(test)]
    pub(crate) fn seq(&self) -> u16 {
        self.word().seq()
    }

    /// The status of the timeout.
    #[inline]
    pub(crate) fn status(&self) -> Status {
        self.word().status()
    }

    /// The status of a timeout that is pending; a periodic one is while it runs, too, and a future's while its task is
    /// exchanged.
    pub(crate) fn pending_status(&self) -> Option<Status> {
        let word = self.word();
        let pending = match word.state() {
            State::Armed => true,
            _ => word.is_to_be_rearmed(),
        };
        pending.then(|| word.status())
    }

    /// Prefetches the slot to write to it: whoever armed it may still have it in its cache, and gives it up now.
    #[inline]
    pub(crate) fn prefetch_for_claim(&self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch changes nothing that a program can see. A processor that does not know this one does nothing.
        unsafe {
            std::arch::asm!(
                "prefetchw [{slot}]",
                slot = in(reg) std::ptr::from_ref(self),
                options(nostack, preserves_flags, readonly)
            );
        }
    }

    /// The deadline. Two racing resets may leave the deadline of one with the due tick of the other: use it only if it
    /// rounds up to `due`.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        // Relaxed: a hint.
        self.deadline.load(Ordering::Relaxed)
    }

    /// Raises the epoch to at least this. The caller has claimed the slot, which is free.
    pub(super) fn raise_epoch(&self, epoch: u32) {
        // Relaxed: no other thread writes it while the slot is free and claimed.
        if self.epoch.load(Ordering::Relaxed) < epoch {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
    }

    /// Moves from `from` to `to` and takes the task, if the slot is in `from`.
    fn take_from(&self, from: State, to: State) -> Option<StoredTask<A>> {
        // Relaxed: the CAS decides.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        while word.state() == from {
            match self.try_transition(word, to) {
                // SAFETY: this call won the transition out of Armed or Stopped, and with it the task.
                Ok(()) => return Some(unsafe { self.take_task() }),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Acquire: the task, with the Release of 1, 8, or 6 for a stopped slot.
    #[inline]
    fn try_transition(&self, word: Word, to: State) -> Result<(), Word> {
        self.word
            .compare_exchange_weak(
                word.0,
                word.with_state(to).0,
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .map(drop)
            .map_err(Word)
    }

    /// # Safety
    /// The caller has just won a transition that gives it the task.
    #[inline]
    unsafe fn take_task(&self) -> StoredTask<A> {
        // SAFETY: the slot has held a task since it was armed, and only the caller reads it.
        self.task
            .with_mut(|cell| unsafe { (*cell).assume_init_read() })
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

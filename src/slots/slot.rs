//! A slot: the 64-byte record of one timeout, and every transition of its state word. The usual life is in [`life`],
//! moving in [`reset`], cancelling and stopping in [`end`], arming again in [`rearm`], values of delay queues in [`value`]; how the
//! timer thread finds it, in [`place`].
//!
//! # Ownership
//!
//! The word decides. A thread reads or writes the task only after it has won the transition that gives it the task; the
//! tokens [`Vacant`] and [`Running`] stand for that right and cannot be copied. All other fields are atomic.
//!
//! A slot is not reused while a handle to it exists (bits U and R), so handles need no generation. The only stale
//! references are numbers in the queue and entries in the wheel. They say no more than that a slot is to be looked at:
//! [`place`].
//!
//! # Transitions
//!
//! | # | transition | by | operation | pairs with |
//! |---|---|---|---|---|
//! | 1 | Free → Armed, U | the allocating caller, which owns the slot | writes task, stamp, deadline; `swap SeqCst`, or `store Release` if its number is pushed | Acquire of 4, 5, 6 |
//! | 2 | Armed, due → another | a handle | CAS `SeqCst`; as an RMW it continues the release sequence of 1 | – |
//! | 2a | Armed, due stays | a handle | a load `SeqCst`: the word is not written, so the timeout fires, or is cancelled, as it would have | – |
//! | 4 | Armed → Cancelled; Running P → `CancelRequested` | a handle, or the task's own `&Timeout` | CAS Acquire, then the task is moved out | 1, 8 |
//! | 5 | Armed (due ≤ t) → Running | the worker | CAS Acquire | 1, 8 |
//! | 6 | Armed → Stopped, R (a value: without R); Running P → `CancelRequested`, R | the scan of `stop` | CAS `AcqRel` | 1, 8; 9, 10 |
//! | 7 | Running → Expired | the runner | `fetch_add AcqRel`; without U: 11. If 5 saw no U: 11 at once | 10 |
//! | 8 | Running P → Armed (due′) | the runner | writes task, stamp, deadline; CAS `SeqCst`. On `CancelRequested`: drops the task, `fetch_add AcqRel` → Cancelled; without U and R: 11 | 4, 5, 6 |
//! | 9 | Stopped → `TaskTaken` | the R handle; of a value, any handle | CAS Acquire, then the task is moved out | 6 |
//! | 10 | clear U or R | the drop of that handle | `fetch_and AcqRel`; if that leaves an ended slot without handles: 11. Shortcut: if a `load Acquire` shows an ended slot without the other handle, no other thread is left: 11 without a locked instruction | 7, 8 |
//! | 11 | → Free | the last one | `store Release`, the last access to the timer's memory | the Acquire of the scan that decides whether that memory can be freed |
//! | 12 | Armed → `CancelRequested` without P, then by 8 Armed again, with another task | the future that holds U | CAS Acquire; 8 | 1, 8; 4, 5, 6 |
//! | 13 | Armed → Cancelled, R; Running P → `CancelRequested`, R | `cancel_all`, for what is no future's | CAS `AcqRel`, then the task is moved out, then 10 | 1, 8; 10 |
//! | 14 | Armed or Stopped, a value → the same, R | the only thread that looks through the values of queues | CAS `AcqRel`; then 4 or 9, and 10 | 1; 10 |
//!
//! After 1, 2, 2a and 8 the caller sees to it that the timer thread finds the slot: [`place`].

mod end;
mod life;
mod place;
mod rearm;
mod reset;
mod value;

pub(crate) use end::{StopOutcome, Unowned};
pub(crate) use life::{Arming, ClaimResult, Handle, Held, ReleaseResult, Running, Vacant};
pub(crate) use place::Place;

use super::stored_task::{Kind, StoredTask};
use super::word::{State, Status, Word};
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, UnsafeCell};
use std::mem::MaybeUninit;

/// The label of a timeout, by its number in the timer: 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Label(pub(crate) u16);

impl Label {
    pub(crate) const NONE: Label = Label(0);
}

/// All zeroes is a valid slot: free, never used.
#[repr(C, align(64))]
pub(crate) struct Slot<A: 'static> {
    /// A [`Word`].
    word: AtomicU64,
    /// How long before its boundary the deadline lies, in nanoseconds.
    early: AtomicU32,
    /// The tick of its entry in the wheel that counts. Written by the timer thread: see [`place`].
    filed: AtomicU32,
    /// The middle bits of the stamp: the low ones are in the word. Written at arming.
    stamp: AtomicU32,
    /// The number of its [`Label`]. Written at arming.
    label: AtomicU16,
    /// The high bits of the stamp.
    stamp_high: AtomicU8,
    /// A mark for each lane of the queue, from an arming that pushes its number there until one is popped: see [`place`].
    queued: AtomicU8,
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
    /// A free slot; otherwise slots are memory that was zeroed.
    #[cfg(hashed_wheel_loom)]
    pub(crate) fn new() -> Slot<A> {
        Slot {
            word: AtomicU64::new(Word::FREE.0),
            early: AtomicU32::new(0),
            filed: AtomicU32::new(0),
            stamp: AtomicU32::new(0),
            label: AtomicU16::new(0),
            stamp_high: AtomicU8::new(0),
            queued: AtomicU8::new(0),
            task: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn word(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// The status of the timeout.
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
    pub(crate) fn prefetch(&self) {
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

    /// How long before its boundary the deadline lies. Two racing resets may leave the one's with the boundary of the other.
    pub(crate) fn early(&self) -> u32 {
        // Relaxed: a hint.
        self.early.load(Ordering::Relaxed)
    }

    pub(crate) fn set_early(&self, early: u32) {
        self.early.store(early, Ordering::Relaxed);
    }

    /// Returns `true` if its task is of that kind.
    pub(crate) fn holds(&self, kind: Kind) -> bool {
        self.word().kind() == kind
    }

    /// The label of a timeout that the caller has a handle to, or runs. Of any other slot: a hint.
    pub(crate) fn label(&self) -> Label {
        // Relaxed: written before the word, which whoever knows the timeout has acquired.
        Label(self.label.load(Ordering::Relaxed))
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
    unsafe fn take_task(&self) -> StoredTask<A> {
        // SAFETY: the slot has held a task since it was armed, and only the caller reads it.
        self.task.with(|cell| unsafe { (*cell).assume_init_read() })
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

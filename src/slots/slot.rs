//! A slot: the 64-byte record of one timeout, and every transition of its state word.
//!
//! # Ownership
//!
//! The word decides. A thread reads or writes the task only after it has won the transition that gives it the task; the
//! tokens [`Vacant`] and [`Running`] stand for that right and cannot be copied. All other fields are atomic.
//!
//! A slot is not reused while a handle to it exists (bits U and R), so handles need no generation. The only stale
//! references are [`Entry`]s in queue and wheel; they are checked against `seq` and `epoch`.
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
//! The worker or a compacting producer checks an entry with [`Slot::is_dead`] or [`Slot::claim`]. Both rely on this
//! invariant: every Armed word (unless it is due never) has exactly one live entry, at a tick not after its due tick,
//! or a call is between its word and its push. Moving a timeout later keeps the entry, which is inserted again when it is
//! reached; moving it earlier invalidates the entry by `seq` and pushes another.
//!
//! `seq` may wrap within one arming (after 8192 resets to an earlier time). A dead entry then passes for live. It can
//! only be inserted again, or fire what the CAS says is due; the worker bounds how often it sweeps over such entries.
//! Across armings `epoch` counts the wraps: 2^45 armings of one slot until an entry can match a later timeout. At ten
//! million a second that takes forty days of reusing one slot while one entry stays where it is, and then it only
//! changes the order within one boundary.

use super::stored_task::{Kind, StoredTask};
use super::word::{State, Status, Word};
use crate::entry::{Entry, SlotId};
use crate::sync::{AtomicU32, AtomicU64, Ordering, UnsafeCell};
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

/// The right to arm a free slot, which no other thread knows.
#[must_use]
#[derive(Debug)]
pub(crate) struct Vacant(SlotId);

/// The right to run a slot's task. Ended by [`Slot::finish_run`] or [`Slot::rearm`].
#[must_use]
#[derive(Debug)]
pub(crate) struct Running {
    slot: SlotId,
    /// A one-shot without a handle when it was claimed: no other thread can access the slot.
    unobserved: bool,
}

impl Running {
    pub(crate) fn slot(&self) -> SlotId {
        self.slot
    }
}

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

/// The result of [`Slot::claim`].
#[derive(Debug)]
pub(crate) enum ClaimResult<A: 'static> {
    /// The timeout is over, or has another entry.
    Dead,
    /// The timeout was moved, or is about to be armed again: insert the entry at this tick.
    Later(Tick),
    /// The timeout is due; the caller owns the task.
    Due(Running, StoredTask<A>),
}

/// The result of [`Slot::reset`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reset {
    /// Not a pending one-shot timeout.
    TooLate,
    /// Moved; the entry in the wheel stays valid.
    Moved,
    /// Moved; this entry replaces the one in the wheel.
    MovedEarlier(Entry),
}

/// The result of [`Slot::stop`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopOutcome {
    /// Nothing was pending.
    Nothing,
    /// A pending timeout, returned to the caller of `stop`.
    Returned,
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

/// The result of [`Slot::cancel_unowned`].
#[derive(Debug)]
pub(crate) enum Unowned<A: 'static> {
    /// It is not pending, or belongs to a future.
    Left,
    /// It is cancelled, and the task is the caller's.
    Cancelled(StoredTask<A>),
    /// It is running, and will not come again.
    Requested,
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

    /// Prefetches the slot.
    #[inline]
    pub(crate) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing, and every x86-64 has it.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(self).cast()) }
        }
    }

    /// The deadline. Two racing resets may leave the deadline of one with the due tick of the other: use it only if it
    /// rounds up to `due`.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        // Relaxed: a hint.
        self.deadline.load(Ordering::Relaxed)
    }

    /// Sees to it that the next tenant's epoch is at least this. For whoever has claimed the free slot.
    pub(super) fn raise_epoch(&self, epoch: u32) {
        // Relaxed: nobody else writes it while the slot is free and claimed.
        if self.epoch.load(Ordering::Relaxed) < epoch {
            self.epoch.store(epoch, Ordering::Relaxed);
        }
    }

    // ── the caller's side ─────────────────────────────────────────────────────────────────────

    /// Transition 1. Returns the entry to push.
    #[expect(clippy::needless_pass_by_value, reason = "the right is used up")]
    #[inline]
    pub(crate) fn arm(
        &self,
        vacant: Vacant,
        task: StoredTask<A>,
        kind: Kind,
        due: Tick,
        deadline: u64,
    ) -> Entry {
        debug_assert_eq!(
            kind,
            task.kind(),
            "what the caller knows need not be loaded"
        );
        let slot = vacant.0;
        // Relaxed: `vacant` makes this thread the only writer.
        let seq = Word(self.word.load(Ordering::Relaxed)).next_seq();
        let mut epoch = self.epoch.load(Ordering::Relaxed);
        if seq == 0 {
            epoch = epoch.wrapping_add(1);
            self.epoch.store(epoch, Ordering::Relaxed);
        }
        self.deadline.store(deadline, Ordering::Relaxed);
        let (future, periodic) = (kind == Kind::Future, kind == Kind::Periodic);
        self.future.store(u32::from(future), Ordering::Relaxed);
        // SAFETY: `vacant` is the right to write the task.
        self.task.with_mut(|cell| unsafe { (*cell).write(task) });
        self.word
            .store(Word::armed(due, seq, periodic).0, Ordering::Release);
        Entry::new(due, seq, slot, epoch)
    }

    /// Transitions 2 and 2a: moves a pending one-shot timeout that is due at `due` already, or earlier. Returns `false`,
    /// without effect, of any other, and if the word changes meanwhile.
    #[inline]
    pub(crate) fn try_move_later(&self, due: Tick, deadline: u64) -> bool {
        // Relaxed: only the word is read.
        let word = Word(self.word.load(Ordering::Relaxed));
        if !word.is_armed_once() || due < word.due() {
            return false;
        }
        // 2a: the load was the moment at which the timeout was moved. Whatever others do to the word now comes after.
        let moved = due == word.due()
            || self
                .word
                .compare_exchange(
                    word.0,
                    word.with_due(due).0,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok();
        if moved {
            self.deadline.store(deadline, Ordering::Relaxed);
        }
        moved
    }

    /// Transitions 2, 2a and 3.
    pub(crate) fn reset(&self, slot: SlotId, due: Tick, deadline: u64) -> Reset {
        if self.try_move_later(due, deadline) {
            return Reset::Moved;
        }
        // Relaxed: only the word is read.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        loop {
            if !word.is_armed_once() {
                return Reset::TooLate;
            }
            if due == word.due() {
                // As in `try_move_later`.
                self.deadline.store(deadline, Ordering::Relaxed);
                return Reset::Moved;
            }
            let earlier = due < word.due();
            let new = if earlier { word.with_next_seq() } else { word }.with_due(due);
            match self.word.compare_exchange_weak(
                word.0,
                new.0,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    self.deadline.store(deadline, Ordering::Relaxed);
                    // Relaxed: `epoch` changes only at arming, which happened before this handle existed.
                    let epoch = self.epoch.load(Ordering::Relaxed);
                    return if earlier {
                        Reset::MovedEarlier(Entry::new(due, new.seq(), slot, epoch))
                    } else {
                        Reset::Moved
                    };
                }
                Err(now) => word = Word(now),
            }
        }
    }

    /// Transition 4. Returns `true` if this call ended the timeout; then `on_cancel` has been called and the task dropped,
    /// in this order: the drop may panic or call the timer.
    #[inline]
    pub(crate) fn cancel(&self, on_cancel: impl FnOnce()) -> bool {
        // Relaxed: the CAS decides.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        while word.state() == State::Armed {
            match self.try_transition(word, State::Cancelled) {
                Ok(()) => {
                    on_cancel();
                    // SAFETY: this call won Armed → Cancelled, and with it the task. It is dropped where it lies: the
                    // caller's handle keeps the slot.
                    self.task
                        .with_mut(|cell| unsafe { (*cell).assume_init_drop() });
                    return true;
                }
                Err(now) => word = now,
            }
        }
        self.cancel_run(word, on_cancel)
    }

    /// The rest of transition 4: a periodic timeout is cancelled while it runs, and ended by the runner.
    #[cold]
    fn cancel_run(&self, mut word: Word, on_cancel: impl FnOnce()) -> bool {
        while word.state() == State::Running && word.is_periodic() {
            match self.try_transition(word, State::CancelRequested) {
                Ok(()) => {
                    on_cancel();
                    return true;
                }
                Err(now) => word = now,
            }
        }
        // Armed again by its runner in between.
        word.state() == State::Armed && self.cancel(on_cancel)
    }

    /// Transition 13: as 4, for a caller without a handle, which gets that of bit R. Leaves futures alone.
    pub(crate) fn cancel_unowned(&self) -> Unowned<A> {
        let mut word = self.word();
        loop {
            let to = match word.state() {
                State::Armed => State::Cancelled,
                State::Running if word.is_periodic() => State::CancelRequested,
                _ => return Unowned::Left,
            };
            // Relaxed: written before the word, which was acquired. If the slot has had another tenant since, the
            // exchange fails.
            if self.future.load(Ordering::Relaxed) != 0 {
                return Unowned::Left;
            }
            let new = word.with_state(to).with_handle(Word::RETURNED);
            match self
                .word
                .compare_exchange(word.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) if to == State::Cancelled => {
                    // SAFETY: this call won Armed → Cancelled, and with it the task.
                    return Unowned::Cancelled(unsafe { self.take_task() });
                }
                Ok(_) => return Unowned::Requested,
                Err(now) => word = Word(now),
            }
        }
    }

    /// The first half of transition 4, for a call that takes back what it has just armed. Leaves a run alone.
    pub(crate) fn disarm(&self) -> Option<StoredTask<A>> {
        self.take_from(State::Armed, State::Cancelled)
    }

    /// Transition 12, for the user's handle: takes the task out, to [`Slot::rearm`] the slot with another. Until then the
    /// worker and `stop` treat the timeout as being fired: they drop its entry and leave it alone.
    pub(crate) fn begin_replace(&self, slot: SlotId) -> Option<(Running, StoredTask<A>)> {
        // Relaxed: the CAS decides.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        while word.state() == State::Armed {
            debug_assert!(word.has_user() && !word.is_periodic());
            match self.try_transition(word, State::CancelRequested) {
                Ok(()) => {
                    let running = Running {
                        slot,
                        unobserved: false,
                    };
                    // SAFETY: this call won Armed → CancelRequested, and with it the task.
                    return Some((running, unsafe { self.take_task() }));
                }
                Err(now) => word = now,
            }
        }
        None
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

    /// Transition 11: the last access to a slot that was found [`ReleaseResult::Abandoned`]. The caller puts it into a
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
            last.is_over() || last.state() == State::Running && !last.has_user(),
            "freed while {last:?}"
        );
        word.store(last.freed().0, Ordering::Release);
        memory_may_go();
    }

    pub(crate) fn is_free(&self) -> bool {
        self.word().state() == State::Free
    }

    // ── the worker's side ─────────────────────────────────────────────────────────────────────

    /// Returns `true` if `entry` can never fire a timeout.
    #[inline]
    pub(crate) fn is_dead(&self, entry: Entry) -> bool {
        self.live_due(entry).is_none()
    }

    /// The due tick of a live `entry`; `None` for a dead one.
    #[inline]
    pub(crate) fn live_due(&self, entry: Entry) -> Option<Tick> {
        self.live_due_of(self.word(), entry)
    }

    #[inline]
    fn live_due_of(&self, word: Word, entry: Entry) -> Option<Tick> {
        // Relaxed: `epoch` is written before the word's Release store, which was acquired.
        if self.epoch.load(Ordering::Relaxed) != entry.epoch() {
            return None;
        }
        if word.is_armed_for(entry) {
            return Some(word.due());
        }
        match word.state() {
            // The entry of the next run is pushed before the word is Armed again.
            State::Running if word.is_periodic() && word.next_seq() == entry.seq() => {
                Some(entry.due())
            }
            _ => None,
        }
    }

    /// Transition 5, at boundary `now`.
    #[inline]
    pub(crate) fn claim(&self, entry: Entry, now: Tick) -> ClaimResult<A> {
        let mut word = self.word();
        loop {
            let Some(due) = self.live_due_of(word, entry) else {
                return ClaimResult::Dead;
            };
            if word.state() != State::Armed {
                return ClaimResult::Later(now.next());
            }
            if due > now {
                return ClaimResult::Later(due);
            }
            let running = word.with_state(State::Running);
            match self.word.compare_exchange(
                word.0,
                running.0,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    let unobserved = !word.has_user() && !word.is_periodic();
                    let running = Running {
                        slot: entry.slot(),
                        unobserved,
                    };
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

    /// The entry for the arming that [`Slot::rearm`] will do.
    pub(crate) fn next_entry(&self, running: &Running, due: Tick) -> Entry {
        // Relaxed: `seq` and `epoch` do not change during a run.
        let word = Word(self.word.load(Ordering::Relaxed));
        Entry::new(
            due,
            word.next_seq(),
            running.slot,
            self.epoch.load(Ordering::Relaxed),
        )
    }

    /// Transition 8: arms the slot with `task`, due at `due`. If the timeout was cancelled or stopped during its run,
    /// returns the task, to be dropped before [`Slot::finish_run`].
    pub(crate) fn rearm(
        &self,
        running: Running,
        task: StoredTask<A>,
        due: Tick,
        deadline: u64,
    ) -> Result<(), (Running, StoredTask<A>)> {
        self.deadline.store(deadline, Ordering::Relaxed);
        // SAFETY: `running` is the right to the task.
        self.task.with_mut(|cell| unsafe { (*cell).write(task) });
        // Relaxed: the CAS decides.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        while word.is_to_be_rearmed() {
            let armed = word.with_next_seq().with_due(due).with_state(State::Armed);
            match self.word.compare_exchange_weak(
                word.0,
                armed.0,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => word = Word(now),
            }
        }
        self.bump_seq(word);
        // SAFETY: the CAS did not happen, so this call still owns the task that it wrote above.
        Err((running, unsafe { self.take_task() }))
    }

    /// Invalidates the entry of a run that will not come. On an executor it is in the queue already, and must not match
    /// the slot's next timeout.
    #[cold]
    fn bump_seq(&self, mut word: Word) {
        // Relaxed: the state stays, and an RMW continues the release sequence. Handles may clear their bits
        // concurrently.
        while let Err(now) = self.word.compare_exchange_weak(
            word.0,
            word.with_next_seq().0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            word = Word(now);
        }
    }

    // ── stop ──────────────────────────────────────────────────────────────────────────────────

    /// Transition 6.
    pub(crate) fn stop(&self) -> StopOutcome {
        let mut word = self.word();
        loop {
            let to = match word.state() {
                State::Armed => State::Stopped,
                State::Running if word.is_periodic() => State::CancelRequested,
                _ => return StopOutcome::Nothing,
            };
            let new = word.with_state(to).with_handle(Word::RETURNED);
            match self
                .word
                .compare_exchange(word.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return StopOutcome::Returned,
                Err(now) => word = Word(now),
            }
        }
    }

    /// Transition 9: takes the task, the first time.
    pub(crate) fn take_stopped(&self) -> Option<StoredTask<A>> {
        self.take_from(State::Stopped, State::TaskTaken)
    }

    /// The kind of task in a slot that was [`StopOutcome::Returned`].
    ///
    /// # Safety
    /// The caller holds the slot's R handle, so that the slot is not used for another timeout.
    pub(crate) unsafe fn stopped_kind(&self) -> Option<Kind> {
        (self.word().state() == State::Stopped).then(|| {
            // SAFETY: a Stopped slot holds a task, and R keeps the slot from being armed again. Another thread may take
            // the task out concurrently: that is a read as well.
            self.task
                .with(|cell| unsafe { (*cell).assume_init_ref().kind() })
        })
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

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

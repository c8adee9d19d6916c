//! Ending a timeout before its run: `cancel`, `cancel_all` and `stop`. Transitions 4, 6, 9 and 13 of the [table](super).
//!
//! A periodic one that is running is only marked; its runner ends it. `cancel_all` and `stop` have no handle to the slot:
//! the transition gives them that of bit R, so that the slot is not reused meanwhile.

use super::Slot;
use crate::slots::stored_task::{Kind, StoredTask};
use crate::slots::word::{State, Word};
use crate::sync::Ordering;

/// The result of [`Slot::cancel_unowned`].
#[derive(Debug)]
pub(crate) enum Unowned<A: 'static> {
    /// It is not pending, or no task of the user's.
    Left,
    /// It is cancelled, and the task is the caller's.
    Cancelled(StoredTask<A>),
    /// It is running, and will not come again.
    Requested,
}

/// The result of [`Slot::stop`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopOutcome {
    /// Nothing was pending.
    Nothing,
    /// A pending timeout, returned to the caller of `stop`.
    Returned,
    /// A pending value, which stays in its slot.
    Kept,
}

impl<A> Slot<A> {
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

    /// Transition 13: as 4, for a caller without a handle, which gets that of bit R. Leaves futures and values alone.
    pub(crate) fn cancel_unowned(&self) -> Unowned<A> {
        match self.end_unowned(State::Cancelled, |word| !word.kind().is_task()) {
            None => Unowned::Left,
            // SAFETY: this call won Armed → Cancelled, and with it the task.
            Some((State::Cancelled, _)) => Unowned::Cancelled(unsafe { self.take_task() }),
            Some(_) => Unowned::Requested,
        }
    }

    /// The first half of transition 4, for a call that takes back what it has just armed. Leaves a run alone.
    #[inline]
    pub(crate) fn disarm(&self) -> Option<StoredTask<A>> {
        self.take_from(State::Armed, State::Cancelled)
    }

    /// Transition 6.
    pub(crate) fn stop(&self) -> StopOutcome {
        match self.end_unowned(State::Stopped, |_| false) {
            None => StopOutcome::Nothing,
            Some((_, 0)) => StopOutcome::Kept,
            Some(_) => StopOutcome::Returned,
        }
    }

    /// Transitions 6 and 13: an Armed slot moves to `ended`, a periodic one that runs to `CancelRequested`, with bit R;
    /// a value gets no R, as its slot is not free before the value is taken out. Returns the new state and the bit;
    /// `None`, without effect, for one that is not pending, or `is_left_alone`.
    fn end_unowned(
        &self,
        ended: State,
        is_left_alone: impl Fn(Word) -> bool,
    ) -> Option<(State, u64)> {
        let mut word = self.word();
        loop {
            let to = match word.state() {
                State::Armed => ended,
                State::Running if word.is_periodic() => State::CancelRequested,
                _ => return None,
            };
            if is_left_alone(word) {
                return None;
            }
            let handle = u64::from(word.kind() != Kind::Value) * Word::RETURNED;
            let new = word.with_state(to).with_handle(handle);
            match self
                .word
                .compare_exchange(word.0, new.0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Some((to, handle)),
                Err(now) => word = Word(now),
            }
        }
    }

    /// Transition 9: takes the task, the first time.
    pub(crate) fn take_stopped(&self) -> Option<StoredTask<A>> {
        self.take_from(State::Stopped, State::TaskTaken)
    }
}

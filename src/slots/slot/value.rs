//! Values of delay queues: transition 14 of the [table](super).
//!
//! A queue that is cleared looks for its values in all slots. It has no handle to them, so it pins each with bit R, which
//! nothing else sets for a value, and reads whose value it is: a pinned slot is not armed again.

use super::Slot;
use crate::slots::stored_task::Kind;
use crate::slots::word::{State, Word};
use crate::sync::Ordering;

impl<A> Slot<A> {
    /// Transition 14, for one thread at a time: pins the slot if a value waits in it. Returns its receiver.
    ///
    /// The caller gives the pin back as the handle of bit R.
    pub(crate) fn pin_value(&self) -> Option<*const ()> {
        let mut word = self.word();
        loop {
            let waits = matches!(word.state(), State::Armed | State::Stopped);
            if !waits || word.kind() != Kind::Value {
                return None;
            }
            debug_assert!(!word.has_returned(), "pinned twice");
            let pinned = word.with_handle(Word::RETURNED);
            match self
                .word
                .compare_exchange(word.0, pinned.0, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => break,
                Err(now) => word = Word(now),
            }
        }
        // SAFETY: the slot held a value when it was pinned, and is not written while it is pinned. Another thread may move
        // the value out: that is a read as well.
        Some(
            self.task
                .with(|cell| unsafe { (*cell).assume_init_ref().receiver() }),
        )
    }
}

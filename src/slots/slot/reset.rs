//! Moving a pending timeout: transitions 2, 2a and 3 of the [table](super).
//!
//! Moving it later keeps its entry, which is inserted again when it is reached; moving it earlier invalidates the
//! entry by `seq`, and the caller pushes another.

use super::Slot;
use crate::entry::{Entry, SlotId};
use crate::slots::word::Word;
use crate::sync::Ordering;
use crate::time::Tick;

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

impl<A> Slot<A> {
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
}

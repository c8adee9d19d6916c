//! Moving a pending timeout: transitions 2 and 2a of the [table](super).

use super::Slot;
use crate::slots::word::Word;
use crate::sync::Ordering;
use crate::time::Tick;

impl<A> Slot<A> {
    /// Moves a pending one-shot timeout. Returns `false`, without effect, of any other. Afterwards the caller sets its
    /// [deadline](Slot::set_early) and asks for its [`place`](Slot::place).
    #[inline]
    pub(crate) fn reset(&self, due: Tick) -> bool {
        // SeqCst: C1 of `place`, also where the word stays as it is.
        let order = Ordering::SeqCst;
        let mut word = Word(self.word.load(order));
        loop {
            if !word.is_armed_once() {
                return false;
            }
            // 2a: the load was the moment at which the timeout was moved. Whatever others do to the word now comes after.
            if due == word.due() {
                return true;
            }
            let new = word.with_due(due);
            match self.word.compare_exchange_weak(word.0, new.0, order, order) {
                Ok(_) => return true,
                Err(now) => word = Word(now),
            }
        }
    }
}

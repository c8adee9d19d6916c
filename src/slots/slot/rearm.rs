//! Arming a slot again while its timeout lives: for the next run of a periodic one, or with another task of a future.
//! Transitions 8 and 12 of the [table](super).

use super::{Running, Slot};
use crate::entry::SlotId;
use crate::slots::stored_task::StoredTask;
use crate::slots::word::{State, Word};
use crate::sync::Ordering;
use crate::time::Tick;

impl<A> Slot<A> {
    /// Transition 12, for the user's handle: takes the task out, to [`Slot::rearm`] the slot with another. Until then the
    /// worker and `stop` treat the timeout as being fired: they drop its entry and leave it alone.
    pub(crate) fn begin_replace(&self, slot: SlotId) -> Option<(Running, StoredTask<A>)> {
        let task = self.take_from(State::Armed, State::CancelRequested)?;
        let running = Running {
            slot,
            unobserved: false,
        };
        Some((running, task))
    }

    /// Transition 8: arms the slot with `task`, due at `due`, as the arming with that `stamp`. If the timeout was cancelled or stopped during its run,
    /// returns the task, to be dropped before [`Slot::finish_run`].
    pub(crate) fn rearm(
        &self,
        running: Running,
        task: StoredTask<A>,
        stamp: u64,
        due: Tick,
        early: u32,
    ) -> Result<(), (Running, StoredTask<A>)> {
        // Relaxed: the runner is the only writer.
        self.set_stamp(stamp);
        self.early.store(early, Ordering::Relaxed);
        // SAFETY: `running` is the right to the task.
        self.task.with_mut(|cell| unsafe { (*cell).write(task) });
        // Relaxed: the CAS decides.
        let mut word = Word(self.word.load(Ordering::Relaxed));
        while word.is_to_be_rearmed() {
            let armed = word.rearmed(due, stamp);
            match self.word.compare_exchange_weak(
                word.0,
                armed.0,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => word = Word(now),
            }
        }
        // SAFETY: the CAS did not happen, so this call still owns the task that it wrote above.
        Err((running, unsafe { self.take_task() }))
    }
}

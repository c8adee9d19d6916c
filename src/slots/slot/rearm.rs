//! Arming a slot again while its timeout lives: for the next run of a periodic one, or with another task of a future.
//! Transitions 8 and 12 of the [table](super).

use super::{Running, Slot};
use crate::entry::{Entry, SlotId};
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
}

//! The values of delay queues, and what the timer knows of the queues.

use super::{Shared, Timeout};
use crate::slots::{Handle, ReleaseResult, Slot, StoredTask};
use std::sync::{Arc, Weak};

/// A queue's consumers, as the timer knows them: a program without queues contains no code of theirs.
pub(crate) trait Consumers: Send + Sync {
    /// Wakes all of them: nothing more will become due.
    fn timer_ended(&self, timer: &Shared);
}

/// The consumers who are told when the timer ends, or `None` if it has ended.
pub(super) type Queues = Option<Vec<Weak<dyn Consumers>>>;

impl Shared {
    /// Makes the consumers of a queue known. If the timer has ended, they are told.
    pub(crate) fn add_queue(&self, consumers: Weak<dyn Consumers>) {
        if let Some(queues) = &mut *self.queues.lock() {
            if queues.len() == queues.capacity() {
                queues.retain(|consumers| consumers.strong_count() > 0);
            }
            return queues.push(consumers);
        }
        consumers.upgrade().inspect(|it| it.timer_ended(self));
    }

    /// Wakes all consumers of queues.
    pub(super) fn end_queues(&self) {
        let queues = self.queues.lock().take();
        for consumers in queues.iter().flatten().filter_map(Weak::upgrade) {
            consumers.timer_ended(self);
        }
    }

    /// Takes out the value of a slot that the caller has a handle to, unless it is due.
    #[inline]
    pub(crate) fn take_value(&self, slot: &Slot<Timeout>) -> Option<StoredTask<Timeout>> {
        let value = slot.disarm();
        if value.is_some() {
            self.count(|counters| counters.cancelled.add(1));
            self.release_pending();
        }
        // One that `stop` has left was counted by it.
        value.or_else(|| slot.take_stopped())
    }

    /// Takes out all values of one receiver that are not due. `take` runs no foreign code.
    pub(crate) fn take_values(
        self: &Arc<Self>,
        receiver: *const (),
        mut take: impl FnMut(StoredTask<Timeout>),
    ) {
        let _alone = self.pins.lock();
        for (id, slot) in self.slots_in_use() {
            let Some(of) = slot.pin_value() else { continue };
            if of == receiver {
                self.take_value(slot).into_iter().for_each(&mut take);
            }
            let slot: *const Slot<Timeout> = slot;
            // SAFETY: the pin is the handle of bit R, and is given up with this call. An abandoned slot is this call's to
            // free; the `Arc` keeps the memory.
            unsafe {
                if Slot::release(slot, Handle::Returned) == ReleaseResult::Abandoned {
                    Shared::free(Arc::as_ptr(self), slot, id);
                }
            }
        }
    }
}

//! The values of delay queues, and what the timer knows of the queues.

use super::sorted_map::SortedMap;
use super::{Shared, Timeout, Waiters};
use crate::slots::{Handle, ReleaseResult, Slot, StoredTask};
use std::mem;
use std::sync::{Arc, Weak};

/// The queues whose consumers are told when the timer ends.
#[derive(Default)]
pub(super) struct Queues {
    has_ended: bool,
    waiters: SortedMap<Weak<Waiters>>,
}

impl Shared {
    /// Makes a queue known by its number. If the timer has ended, it is closed.
    pub(crate) fn add_queue(&self, number: u64, waiters: &Arc<Waiters>) {
        let mut queues = self.queues.lock();
        if queues.has_ended {
            waiters.close();
        } else {
            queues.waiters.insert(number, Arc::downgrade(waiters));
        }
    }

    pub(crate) fn remove_queue(&self, number: u64) {
        self.queues.lock().waiters.remove(number);
    }

    /// Wakes all consumers of queues: nothing more will become due.
    pub(super) fn end_queues(&self) {
        let ended = Queues {
            has_ended: true,
            ..Queues::default()
        };
        let queues = mem::replace(&mut *self.queues.lock(), ended).waiters;
        for waiters in queues.into_values().filter_map(|weak| weak.upgrade()) {
            for waker in waiters.close().into_values() {
                self.catch_panic("a waker", || waker.wake());
            }
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

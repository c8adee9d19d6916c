//! Free slots that a thread keeps to itself.
//!
//! A thread that schedules and cancels takes slots from its own cache and gives them back to it, last in first out, so
//! that a slot is still warm when it is used again, and no atomic operation is needed. When the cache is empty it
//! takes some from the pool; when it is full it spills its older half.

use super::{SlotPool, Slots, Vacant};
use crate::entry::SlotId;
use crate::tuning::{BATCH, SLOT_CACHE};
use std::cell::Cell;

/// See the module's head.
pub(crate) struct SlotCache {
    /// The first `len` are free slots, the last one given back last.
    ids: [Cell<SlotId>; SLOT_CACHE],
    len: Cell<usize>,
}

impl SlotCache {
    pub(crate) const fn new() -> SlotCache {
        SlotCache {
            ids: [const { Cell::new(SlotId::from_number(0)) }; SLOT_CACHE],
            len: Cell::new(0),
        }
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take<A>(&self, pool: &SlotPool, slots: &Slots<A>) -> Vacant {
        // One comparison: nothing lies before the first.
        let last = self.len.get().wrapping_sub(1);
        let Some(id) = self.ids.get(last) else {
            return self.take_claimed(pool, slots);
        };
        self.len.set(last);
        // SAFETY: it was free in this thread's cache, and has just been taken out of it.
        unsafe { Vacant::new(id.get()) }
    }

    /// Fills the cache, which is empty, and takes a slot.
    #[cold]
    fn take_claimed<A>(&self, pool: &SlotPool, slots: &Slots<A>) -> Vacant {
        let (first, _) = self.halves();
        self.len.set(pool.claim(slots, first));
        self.take(pool, slots)
    }

    /// Gives back a slot that is free. It touches nothing of the timer but the pool, and that only when the cache is
    /// full.
    #[inline]
    pub(crate) fn put(&self, id: SlotId, pool: &SlotPool) {
        let len = self.len.get();
        let Some(place) = self.ids.get(len) else {
            return self.spill_and_put(id, pool);
        };
        place.set(id);
        self.len.set(len + 1);
    }

    /// Spills the older half of the cache, which is full, and gives back a slot.
    #[cold]
    fn spill_and_put(&self, id: SlotId, pool: &SlotPool) {
        let (older, newer) = self.halves();
        pool.spill(older);
        for (to, from) in older.iter().zip(newer) {
            to.set(from.get());
        }
        self.len.set(newer.len());
        self.put(id, pool);
    }

    fn halves(&self) -> (&[Cell<SlotId>; BATCH], &[Cell<SlotId>]) {
        self.ids.split_first_chunk().expect("two batches")
    }

    /// Gives all slots back to the pool.
    pub(crate) fn release_all(&self, pool: &SlotPool) {
        let len = self.len.replace(0);
        pool.release(self.ids[..len].iter().map(Cell::get));
    }

    #[cfg(all(test, not(hashed_wheel_loom)))]
    pub(crate) fn len(&self) -> usize {
        self.len.get()
    }
}

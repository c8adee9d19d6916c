//! The pool of free slots, shared by all threads of a timer, without a lock.
//!
//! Slots are claimed a *group* at a time, the 64 that share a page, as far as they are free, and released one by
//! one or many at once. The pool holds numbers only, and may outlive the slots: a thread that ends gives back what it
//! has kept for a timer that is gone.
//!
//! # Memory goes back page by page
//!
//! The page of a group of which no slot is claimed can be discarded: it then reads as free slots that were never used.

use super::depot::Depot;
use super::{GROUP, Slots};
use crate::entry::SlotId;
use crate::memory::{FreeSet, Table};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::tuning::{BATCH, DEPOT_PLACES, DISCARDED_AT_ONCE};
use std::cell::Cell;
use std::iter;

/// The bits of a group's slots in its word.
const ALL: u64 = if GROUP == 64 {
    u64::MAX
} else {
    (1 << GROUP) - 1
};
const _: () = assert!(GROUP as usize <= BATCH, "a group fits a batch");
/// The state of a group whose page has been used since it was mapped or discarded.
const TOUCHED: u64 = 1;

/// See the module's head.
pub(crate) struct SlotPool {
    free: FreeSet,
    depot: Depot,
    /// The state of each group: 0, or [`TOUCHED`].
    groups: Table<AtomicU64, { if cfg!(hashed_wheel_loom) { 2 } else { 512 } }>,
    /// Groups below have been claimed from.
    used: AtomicU32,
    /// Groups whose page is touched.
    touched: AtomicU32,
}

impl SlotPool {
    pub(crate) fn new() -> SlotPool {
        SlotPool {
            free: FreeSet::new(),
            depot: Depot::new(),
            groups: Table::new(),
            used: AtomicU32::new(0),
            touched: AtomicU32::new(0),
        }
    }

    /// Takes a batch out of the depot, or claims the free slots of a group, the lowest last. Returns their number.
    ///
    /// # Panics
    /// When nearly all of the 2^32 slots are in use.
    pub(super) fn claim<A>(&self, slots: &Slots<A>, batch: &[Cell<SlotId>; BATCH]) -> usize {
        if self.depot.take(batch) {
            return BATCH;
        }
        let (group, bits) = loop {
            let (group, bits) = self.free.claim_word();
            if bits & ALL != 0 {
                break (group, bits & ALL);
            }
        };
        // SeqCst: before the slot is armed, for the scan of `stop`. The load keeps the usual case free of a
        // locked instruction.
        if group >= self.used.load(Ordering::SeqCst) {
            self.used.fetch_max(group + 1, Ordering::SeqCst);
        }
        slots.ensure_group(group);
        let state = self.groups.get_or_grow(group);
        // Relaxed: it was written before the slots were released, which the claim has acquired.
        if state.load(Ordering::Relaxed) == 0 && state.swap(TOUCHED, Ordering::Relaxed) == 0 {
            self.touched.fetch_add(1, Ordering::Relaxed);
            slots.prefer_huge_page(group);
        }
        for (id, bit) in batch.iter().zip(bits_of(bits)) {
            id.set(SlotId::from_number(group * GROUP + bit));
        }
        bits.count_ones() as usize
    }

    /// Puts a batch of slots into the depot, or releases them.
    pub(super) fn spill(&self, batch: &[Cell<SlotId>; BATCH]) {
        if !self.depot.put(batch) {
            self.release(batch.iter().map(Cell::get));
        }
    }

    /// Releases slots.
    pub(super) fn release(&self, ids: impl Iterator<Item = SlotId>) {
        let mut ids = ids.peekable();
        while let Some(id) = ids.next() {
            let group = group_of(id);
            let mut bits = bit_of(id);
            // Those that follow and share the word cost nothing more.
            while let Some(next) = ids.next_if(|next| group_of(*next) == group) {
                bits |= bit_of(next);
            }
            self.free.release(group, bits);
        }
    }

    /// Groups below have been claimed from. `SeqCst`: what this misses was claimed after it.
    pub(crate) fn used_groups(&self) -> u32 {
        self.used.load(Ordering::SeqCst)
    }

    /// The slots of a group that may be in use.
    pub(crate) fn claimed<'a, A>(
        &self,
        group: u32,
        slots: &'a Slots<A>,
    ) -> impl Iterator<Item = (SlotId, &'a super::Slot<A>)> {
        let bits = self.free.claimed(group) & ALL;
        slots
            .group(group)
            .filter(move |(id, _)| bits & bit_of(*id) != 0)
    }

    /// Slots whose memory is held.
    pub(crate) fn held(&self) -> usize {
        self.touched.load(Ordering::Relaxed) as usize * GROUP as usize
    }

    /// Gives memory back to the system, going on at group `at`: where to go on, or `None` at the end. For one thread at a
    /// time.
    pub(crate) fn discard_free<A>(&self, slots: &Slots<A>, at: u32) -> Option<u32> {
        if at == 0 {
            let batch = [const { Cell::new(SlotId::from_number(0)) }; BATCH];
            // Bounded, as others may fill it meanwhile.
            for _ in 0..DEPOT_PLACES {
                if self.depot.take(&batch) {
                    self.release(batch.iter().map(Cell::get));
                }
            }
        }
        let used = self.used.load(Ordering::Relaxed);
        // Groups after the last used one may share its huge page.
        let all = (used + DISCARDED_AT_ONCE).min(u32::MAX / GROUP);
        let state = |group: u32| self.groups.get_or_grow(group);
        let claim = |group: &u32| self.free.claim_all(*group, ALL);
        let touched =
            |group: &u32| *group >= used || state(*group).load(Ordering::Relaxed) == TOUCHED;
        let next = all.min(at.saturating_add(DISCARDED_AT_ONCE));
        let Some(first) = (at..next).find(|group| touched(group) && claim(group)) else {
            return (next < all).then_some(next);
        };
        // One block only: those of the table begin at `FIRST` × (2^k − 1) slots.
        let block = |group: u32| (group + super::FIRST / GROUP).ilog2();
        let limit = all.min(first + DISCARDED_AT_ONCE);
        let end = (first + 1..limit)
            .find(|group| block(*group) != block(first) || !claim(group))
            .unwrap_or(limit);
        // SAFETY: all slots of these groups have just been claimed, and so are free.
        if unsafe { slots.discard(first..end) } {
            let back = (first..end).map(|group| state(group).swap(0, Ordering::Relaxed));
            let count: u64 = back.sum();
            self.touched.fetch_sub(count as u32, Ordering::Relaxed);
        }
        for group in first..end {
            self.free.release(group, ALL);
        }
        (end < all).then_some(end)
    }
}

#[inline]
fn group_of(id: SlotId) -> u32 {
    id.number() / GROUP
}

/// The bit of a slot in its group's word.
#[inline]
fn bit_of(id: SlotId) -> u64 {
    1 << (id.number() % GROUP)
}

/// The bits that are set, the highest first.
pub(super) fn bits_of(mut word: u64) -> impl Iterator<Item = u32> + Clone {
    iter::from_fn(move || {
        let bit = word.checked_ilog2()?;
        word &= !(1 << bit);
        Some(bit)
    })
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

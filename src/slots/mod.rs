//! Slots: the records of timeouts, by number.
//!
//! A slot never moves, and its number becomes an address with a shift and one load ([`Table`]). The protocol by which
//! a slot changes hands is in [`slot`], the layout of its word in [`word`]. Which slots are free is known to
//! the [`SlotPool`]; each thread keeps a few of them in a [`SlotCache`].

mod cache;
mod pool;
mod slot;
mod stored_task;
#[forbid(unsafe_code)]
mod word;

pub(crate) use cache::SlotCache;
pub(crate) use pool::SlotPool;
pub(crate) use slot::{
    ClaimResult, Handle, ReleaseResult, Reset, Running, Slot, StopOutcome, Unowned, Vacant,
};
pub(crate) use stored_task::{Kind, StoredTask};
pub(crate) use word::Phase;

use crate::entry::{Entry, SlotId};
use crate::memory::{Table, Zeroed};
use std::ops::Range;

/// Slots that share a word of the pool and, 64 bytes each, a page of memory.
const GROUP: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 64 };
/// Slots of the first block: 16 KiB.
const FIRST: u32 = if cfg!(hashed_wheel_loom) {
    2 * GROUP
} else {
    4 * GROUP
};

// SAFETY: all zeroes is a free slot that was never used: atomic integers and bytes that nobody reads. A slot is
// free when its memory goes, so it needs no drop.
unsafe impl<A> Zeroed for Slot<A> {
    #[cfg(hashed_wheel_loom)]
    fn zero() -> Self {
        Slot::new(0)
    }
}

/// The slots of one timer. `A` is what a task is given.
pub(crate) struct Slots<A: 'static> {
    table: Table<Slot<A>, FIRST>,
}

impl<A> Slots<A> {
    pub(crate) fn new() -> Self {
        Slots {
            table: Table::new(),
        }
    }

    /// The slot `id`.
    ///
    /// # Panics
    /// If no slot near it was ever used: `id` belongs to another timer, or came from two words of the queue that are
    /// no entry.
    #[inline]
    pub(crate) fn get(&self, id: SlotId) -> &Slot<A> {
        self.table
            .map_or_else(id.number(), || missing(id), |slot| slot)
    }

    /// Prefetches the slot `id`, which need not exist.
    #[inline]
    pub(crate) fn prefetch(&self, id: SlotId) {
        self.table.prefetch(id.number());
    }

    /// Returns `true` if `entry` can never fire a timeout. Its slot need not exist.
    #[inline]
    pub(crate) fn is_dead(&self, entry: Entry) -> bool {
        let is_dead = |slot: &Slot<A>| slot.is_dead(entry);
        self.table
            .map_or_else(entry.slot().number(), || true, is_dead)
    }

    /// The slots of a group of the pool.
    fn group(&self, group: u32) -> impl Iterator<Item = (SlotId, &Slot<A>)> {
        self.table
            .iter(group * GROUP..(group + 1) * GROUP)
            .map(|(number, slot)| (SlotId::from_number(number), slot))
    }

    /// Makes sure that the slots of a group exist.
    fn ensure_group(&self, group: u32) {
        self.table.get_or_grow(group * GROUP);
    }

    /// Gives the memory of whole groups back to the system. Returns `true` if the system has taken it.
    ///
    /// # Safety
    /// All slots of these groups are claimed from the pool by the caller, and free.
    unsafe fn discard(&self, groups: Range<u32>) -> bool {
        // SAFETY: nobody but the caller arms these slots. Others may read the word and the epoch, by an entry
        // whose timeout is over: zeroes are a free slot, and the entry is dead.
        unsafe { self.table.discard(groups.start * GROUP..groups.end * GROUP) }
    }
}

#[cold]
fn missing(id: SlotId) -> ! {
    unreachable!("there is no slot {}", id.number())
}

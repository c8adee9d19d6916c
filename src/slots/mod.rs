//! Slots: the records of timeouts, by number.
//!
//! A slot never moves, and its number becomes an address with a shift and one load ([`Table`]). The protocol by which
//! a slot changes hands is in [`slot`], the layout of its word in [`word`]. Which slots are free is known to
//! the [`SlotPool`]; each thread keeps a few of them in a [`SlotCache`], and batches of them wait in the pool's [depot].

mod cache;
mod depot;
mod pool;
mod slot;
mod stored_task;
mod word;

pub(crate) use cache::SlotCache;
#[cfg(all(test, hashed_wheel_loom))]
pub(crate) use depot::Depot;
pub(crate) use pool::SlotPool;
pub(crate) use slot::{
    Arming, ClaimResult, Handle, Held, Label, Place, ReleaseResult, Running, Slot, StopOutcome,
    Unowned, Vacant,
};
pub(crate) use stored_task::{Kind, Receive, StoredTask};
pub(crate) use word::Phase;

use crate::entry::SlotId;
use crate::memory::{Table, Zeroed};
use crate::sync::AtomicU64;
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
        Slot::new()
    }
}

/// The slots of one timer. `A` is what a task is given.
pub(crate) struct Slots<A: 'static> {
    table: Table<Slot<A>, FIRST>,
    far: Table<AtomicU64, 64>,
}

impl<A> Slots<A> {
    pub(crate) fn new() -> Self {
        Slots {
            table: Table::new(),
            far: Table::new(),
        }
    }

    /// The slot `id`.
    ///
    /// # Panics
    /// If no slot near it was ever used: `id` belongs to another timer.
    #[inline]
    pub(crate) fn get(&self, id: SlotId) -> &Slot<A> {
        self.table
            .map_or_else(id.number(), || missing(id), |slot| slot)
    }

    /// Where the tick is written down at which the wheel looks at a slot that is filed [`Place::Far`] away.
    #[cold]
    pub(crate) fn far(&self, id: SlotId) -> &AtomicU64 {
        self.far.get_or_grow(id.number())
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

    /// Asks for a huge page for this group, which exists, and those after it: the lowest are claimed first.
    fn prefer_huge_page(&self, group: u32) {
        self.table.prefer_huge_page(group * GROUP);
    }

    /// Gives the memory of whole groups back to the system. Returns `true` if the system has taken it.
    ///
    /// # Safety
    /// All slots of these groups are claimed from the pool by the caller, and free.
    unsafe fn discard(&self, groups: Range<u32>) -> bool {
        // SAFETY: nobody but the caller arms these slots. The timer thread may look at one, for a number or an entry of an
        // earlier timeout: zeroes are a free slot, neither queued nor filed.
        unsafe { self.table.discard(groups.start * GROUP..groups.end * GROUP) }
    }
}

#[cold]
fn missing(id: SlotId) -> ! {
    unreachable!("there is no slot {}", id.number())
}

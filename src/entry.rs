//! The sixteen bytes that a wheel keeps of a timeout.

use crate::sync::{AtomicU32, Ordering};
use crate::time::Tick;

/// The number of a slot. No other number can be passed for one: [`SlotId::from_number`] is for `slots` alone, and
/// tests/layers.rs fails on a use elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SlotId(u32);

impl SlotId {
    pub(crate) const fn from_number(number: u32) -> SlotId {
        SlotId(number)
    }

    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// Where in the pending queue a number waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(test, derive(Hash))]
#[repr(u8)]
pub(crate) enum Lane {
    /// Taken at the timer thread's next look.
    Soon = 1,
    /// Taken before the earliest due tick of the slots in it.
    Late = 2,
}

/// A place for a number of a slot that one thread writes and others read; at first that of the first slot.
#[derive(Default)]
pub(crate) struct SlotCell(AtomicU32);

impl SlotCell {
    pub(crate) fn store(&self, slot: SlotId, order: Ordering) {
        self.0.store(slot.0, order);
    }

    pub(crate) fn load(&self, order: Ordering) -> SlotId {
        SlotId(self.0.load(order))
    }
}

/// A slot and the tick to look at it. It owns nothing: what is to be done then, the slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    due: Tick,
    slot: SlotId,
}

impl Entry {
    pub(crate) fn new(due: Tick, slot: SlotId) -> Entry {
        Entry { due, slot }
    }

    /// The tick at which to look at the slot.
    pub fn due(self) -> Tick {
        self.due
    }

    pub(crate) fn slot(self) -> SlotId {
        self.slot
    }
}

/// Knows which entries are dead. For the timer thread alone.
pub trait Liveness {
    /// Removes the entries that nothing has to be done for, and keeps the order of the others. The caller must drop those
    /// that are removed: their slots no longer count on them.
    fn remove_dead(&self, entries: &mut Vec<Entry>);

    /// Removes all but the first of equal entries. Of a slot that comes back to a tick, both look alive.
    fn remove_equal(&self, _entries: &mut Vec<Entry>) {}
}

/// For tests: any condition.
#[cfg(test)]
impl<F: Fn(Entry) -> bool> Liveness for F {
    fn remove_dead(&self, entries: &mut Vec<Entry>) {
        entries.retain(|entry| !self(*entry));
    }
}

//! The sixteen bytes that travel from the pending queue through the buckets of a wheel.

use crate::time::Tick;

/// The number of a slot. No other number can be passed for one: [`SlotId::from_number`] is for `slots` alone, and
/// tests/layers.rs fails on a use elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotId(u32);

impl SlotId {
    #[inline]
    pub(crate) const fn from_number(number: u32) -> SlotId {
        SlotId(number)
    }

    #[inline]
    pub(crate) fn number(self) -> u32 {
        self.0
    }
}

/// A slot and the tick to look at it. It owns nothing: if its timeout has been cancelled, fired or moved since, the
/// slot shows that, and the entry is dropped.
///
/// Two counters identify the arming that an entry belongs to: `seq`, 13 bits, is part of the slot's state word;
/// `epoch`, 32 bits, counts how often `seq` has wrapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// `due:45 | seq:13 | 0:6`, the layout of the slot's state word with the state masked out.
    key: u64,
    /// `slot:32 | epoch:32`: one word, so that an entry is passed in two registers.
    who: u64,
}

impl Entry {
    pub(crate) const DUE_SHIFT: u32 = 64 - Tick::BITS;
    pub(crate) const SEQ_SHIFT: u32 = 6;
    pub(crate) const SEQ_MASK: u64 = (1 << Self::SEQ_BITS) - 1;
    /// The number of bits of `seq`.
    pub(crate) const SEQ_BITS: u32 = Self::DUE_SHIFT - Self::SEQ_SHIFT;

    /// An entry for `slot` at `due`.
    #[inline]
    pub(crate) fn new(due: Tick, seq: u16, slot: SlotId, epoch: u32) -> Entry {
        let key = due.0 << Self::DUE_SHIFT | u64::from(seq) << Self::SEQ_SHIFT;
        let who = u64::from(slot.0) << 32 | u64::from(epoch);
        Entry { key, who }
    }

    /// The tick at which to look at the slot.
    #[inline]
    pub(crate) fn due(self) -> Tick {
        Tick(self.key >> Self::DUE_SHIFT)
    }

    #[inline]
    pub(crate) fn seq(self) -> u16 {
        (self.key >> Self::SEQ_SHIFT & Self::SEQ_MASK) as u16
    }

    #[inline]
    pub(crate) fn slot(self) -> SlotId {
        SlotId((self.who >> 32) as u32)
    }

    #[inline]
    pub(crate) fn epoch(self) -> u32 {
        self.who as u32
    }

    /// The same entry at another tick.
    #[inline]
    pub(crate) fn at(self, due: Tick) -> Entry {
        let key = due.0 << Self::DUE_SHIFT | self.key & ((1 << Self::DUE_SHIFT) - 1);
        Entry { key, ..self }
    }

    /// The entry as two machine words.
    #[inline]
    pub(crate) fn to_words(self) -> [u64; 2] {
        [self.key, self.who]
    }

    #[inline]
    pub(crate) fn from_words([key, who]: [u64; 2]) -> Entry {
        Entry { key, who }
    }
}

/// Decides which entries are dead.
pub(crate) trait Liveness {
    /// Announces that `is_dead` will soon be called for this entry.
    fn prefetch(&self, _entry: Entry) {}

    /// Returns `true` if the entry can never fire a timeout. For two words of the queue that are no entry, any answer will
    /// do.
    fn is_dead(&self, entry: Entry) -> bool;
}

/// For tests: any condition.
#[cfg(test)]
impl<F: Fn(Entry) -> bool> Liveness for F {
    fn is_dead(&self, entry: Entry) -> bool {
        self(entry)
    }
}

#[cfg(test)]
mod tests;

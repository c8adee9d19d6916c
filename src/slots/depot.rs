//! Batches of free slots, from threads that free more than they use to threads that use more than they free.
//!
//! A thread that fires or cancels a crowd of timeouts spills its [cache](super::SlotCache), and a thread that schedules one empties
//! its own. Through the [pool](super::SlotPool) nearly every slot costs a locked instruction, on words that all threads share; here,
//! a batch of them costs two to `put` and two to `take`. What the depot holds counts as claimed from the pool, until the timer thread
//! [empties](super::SlotPool::discard_free) it to return memory.
//!
//! # Places
//!
//! A place is empty, full, or *owned* by the thread that fills or empties it:
//!
//! ```text
//!                  put: set its bit in `taken`             put: set its bit in `full`
//! empty ---------------------------------------> owned ---------------------------------> full
//!       <--------------------------------------        <---------------------------------
//!                take: clear its bit in `taken`           take: clear its bit in `full`
//! ```
//!
//! One thread changes a bit, and owns the place from then on: the others find it changed, and go on to the next. So a thread that
//! is suspended costs the others a place, and nobody waits. Each change is an RMW that acquires and releases: who owns a place
//! next sees what the owner before has read and written.

use super::pool::bits_of;
use crate::entry::{SlotCell, SlotId};
use crate::sync::{AtomicU64, Ordering};
use crate::tuning::{BATCH, DEPOT_PLACES};
use std::cell::Cell;

/// A bit for each place.
const PLACES: u64 = (1 << DEPOT_PLACES) - 1;

/// See the module's head.
pub(crate) struct Depot {
    /// The places that are full or owned.
    taken: AtomicU64,
    /// The places that are full.
    full: AtomicU64,
    places: [[SlotCell; BATCH]; DEPOT_PLACES],
}

impl Depot {
    pub(crate) fn new() -> Depot {
        Depot {
            taken: AtomicU64::new(0),
            full: AtomicU64::new(0),
            places: std::array::from_fn(|_| std::array::from_fn(|_| SlotCell::default())),
        }
    }

    /// Takes a batch over. Returns `false` if there is no room for it.
    pub(crate) fn put(&self, batch: &[Cell<SlotId>; BATCH]) -> bool {
        let empty = !self.taken.load(Ordering::Relaxed) & PLACES;
        let is_mine = |place: &u32| {
            let bit = 1 << place;
            self.taken.fetch_or(bit, Ordering::AcqRel) & bit == 0
        };
        let Some(place) = bits_of(empty).find(is_mine) else {
            return false;
        };
        for (cell, id) in self.places[place as usize].iter().zip(batch) {
            cell.store(id.get(), Ordering::Relaxed);
        }
        self.full.fetch_or(1 << place, Ordering::AcqRel);
        true
    }

    /// Writes a batch to `batch`, in reverse: a [cache](super::SlotCache) is used from its end, so the slot that was freed first is used
    /// first. Returns `false` if there is none.
    pub(crate) fn take(&self, batch: &[Cell<SlotId>; BATCH]) -> bool {
        let full = self.full.load(Ordering::Relaxed);
        let is_mine = |place: &u32| {
            let bit = 1 << place;
            self.full.fetch_and(!bit, Ordering::AcqRel) & bit != 0
        };
        let Some(place) = bits_of(full).find(is_mine) else {
            return false;
        };
        for (cell, id) in self.places[place as usize].iter().rev().zip(batch) {
            id.set(cell.load(Ordering::Relaxed));
        }
        self.taken.fetch_and(!(1 << place), Ordering::AcqRel);
        true
    }
}

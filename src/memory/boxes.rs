//! Values by index that are made when first asked for, one allocation each.

use super::table::{Table, Zeroed};
use crate::sync::AtomicU32;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Null, or from `Box::into_raw`.
struct Place<T>(AtomicPtr<T>);

// SAFETY: zeroes are a null pointer, and the place itself needs no drop: `BoxTable` frees what it points to.
unsafe impl<T: Sync + Send> Zeroed for Place<T> {
    #[cfg(hashed_wheel_loom)]
    fn zero() -> Self {
        Place(AtomicPtr::new(ptr::null_mut()))
    }
}

/// A table of boxed values that grows without a lock.
pub(crate) struct BoxTable<T: Sync + Send> {
    places: Table<Place<T>, 64>,
    /// Indices below were asked for.
    used: AtomicU32,
}

impl<T: Sync + Send> BoxTable<T> {
    pub(crate) fn new() -> Self {
        BoxTable {
            places: Table::new(),
            used: AtomicU32::new(0),
        }
    }

    /// Indices below were asked for; not every one of them has a value.
    pub(crate) fn used(&self) -> u32 {
        // SeqCst: an index that this misses was first used after this call, in the order of all such accesses.
        self.used.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let value = self.places.get(index)?.0.load(Ordering::Acquire);
        // SAFETY: a value that is published lives as long as the table, and is only shared.
        unsafe { value.as_ref() }
    }

    /// The value at `index`. If several threads make it at once, one of theirs is kept.
    pub(crate) fn get_or_insert(&self, index: u32, make: impl FnOnce() -> T) -> &T {
        if let Some(existing) = self.get(index) {
            return existing;
        }
        let mut value = Box::into_raw(Box::new(make()));
        let place = &self.places.get_or_grow(index).0;
        let null = ptr::null_mut();
        // Release: the value. Acquire: the other's.
        match place.compare_exchange(null, value, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                self.used.fetch_max(index + 1, Ordering::SeqCst);
            }
            Err(other) => {
                // SAFETY: from `Box::into_raw` above, and nobody else has seen it.
                drop(unsafe { Box::from_raw(value) });
                value = other;
            }
        }
        // SAFETY: as in `get`.
        unsafe { &*value }
    }

    /// The values that exist, with their index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.used()).filter_map(|index| Some((index, self.get(index)?)))
    }
}

impl<T: Sync + Send> Drop for BoxTable<T> {
    fn drop(&mut self) {
        // Relaxed: nobody uses the table any more.
        for (_, place) in self.places.iter(0..self.used.load(Ordering::Relaxed)) {
            let value = place.0.load(Ordering::Relaxed);
            if !value.is_null() {
                // SAFETY: from `Box::into_raw`, and nobody uses the table any more.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }
}

//! How many keys were compared: the work of `heap` and `btree`, as passing over and moving are that of
//! the wheels. Counted for each thread; on a manual clock all work is done by the thread that advances it.

use std::cell::Cell;
use std::cmp::Ordering;

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// Comparisons on this thread so far.
pub(crate) fn compared() -> u64 {
    COMPARED.get()
}

/// A tick as a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key(pub(crate) u64);

impl Ord for Key {
    #[inline]
    fn cmp(&self, other: &Key) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Key {
    #[inline]
    fn partial_cmp(&self, other: &Key) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

//! A set of free indices that any thread claims from and releases to, without a lock.
//!
//! One bit for each index, 64 to a word, in a tree:
//!
//! ```text
//! level 3   one bit for 64 words of level 2
//! level 2   one bit for 64 words of level 1
//! level 1   one bit for 64 words of level 0: "that word has nothing free"
//! level 0   one bit for each index: "claimed"
//! ```
//!
//! All zeroes means that everything is free: a set of 2^32 indices is made by doing nothing. A claim takes the
//! lowest index it finds, so that what is in use gathers at the low end and memory at the high end can go back to
//! the system.
//!
//! # The upper levels are hints that cannot stay wrong
//!
//! A bit of an upper level that is set hides what is below, so it must not stay set when something is free there.
//!
//! - *Marking*: whoever finds a word without a zero sets its bit above, and then **looks at the word again**. If it has
//!   a zero by then, the bit is cleared.
//! - *Releasing*: whoever clears a bit in a word that had no zero clears the bit above, and so on.
//!
//! Let a release clear a bit of the word at time r, and a marker look again at t. r < t: the marker sees it, and
//! clears the bit above. r > t: the word had no zero before r, so the releaser clears it. All four accesses are
//! sequentially consistent. A bit that is clear although the word is full costs the next search a mark.

use super::table::Table;
use crate::sync::{AtomicU64, Ordering};

const FULL: u64 = u64::MAX;
/// Levels above the bits of the indices.
const UPPER: usize = 3;
/// Attempts of a search while others are faster, before it takes any word of the next 64.
const TRIES: usize = 16;

const FIRST: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 512 };

/// See the module's head.
pub(crate) struct FreeSet {
    levels: [Table<AtomicU64, FIRST>; UPPER + 1],
}

impl FreeSet {
    pub(crate) fn new() -> FreeSet {
        FreeSet {
            levels: std::array::from_fn(|_| Table::new()),
        }
    }

    fn word(&self, level: usize, index: u32) -> &AtomicU64 {
        self.levels[level].get_or_grow(index)
    }

    /// Claims all free indices of the lowest word that has any: the word's number, and a bit for each.
    pub(crate) fn claim_word(&self) -> (u32, u64) {
        loop {
            let number = self.find();
            let claimed = !self.word(0, number).swap(FULL, Ordering::SeqCst);
            self.mark_above(0, number);
            if claimed != 0 {
                return (number, claimed);
            }
        }
    }

    /// Claims the free ones among the indices of word `number` that `bits` names.
    #[cfg(test)]
    pub(crate) fn claim_bits(&self, number: u32, bits: u64) -> u64 {
        let before = self.word(0, number).fetch_or(bits, Ordering::SeqCst);
        if before | bits == FULL && before != FULL {
            self.mark_above(0, number);
        }
        bits & !before
    }

    /// Claims all indices of word `number` that `bits` names, if all of them are free.
    pub(crate) fn claim_all(&self, number: u32, bits: u64) -> bool {
        let word = self.word(0, number);
        let before = word.load(Ordering::Relaxed);
        let claimed = before & bits == 0
            && word
                .compare_exchange(before, before | bits, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok();
        if claimed && before | bits == FULL {
            self.mark_above(0, number);
        }
        claimed
    }

    /// Claims one index, of word `near` if it has a free one, otherwise of the lowest word that has.
    pub(crate) fn claim_one(&self, near: u32) -> u32 {
        let mut number = near;
        loop {
            let mut before = self.word(0, number).load(Ordering::Relaxed);
            while before != FULL {
                let bit = before.trailing_ones();
                before = self.word(0, number).fetch_or(1 << bit, Ordering::SeqCst);
                if before >> bit & 1 == 0 {
                    if before | 1 << bit == FULL {
                        self.mark_above(0, number);
                    }
                    return number * 64 + bit;
                }
            }
            self.mark_above(0, number);
            number = self.find();
        }
    }

    /// The indices of word `number` that are claimed. `SeqCst`: what this misses was claimed after it.
    pub(crate) fn claimed(&self, number: u32) -> u64 {
        let word = self.levels[0].get(number);
        word.map_or(0, |word| word.load(Ordering::SeqCst))
    }

    /// Releases indices of word `number` that were claimed.
    pub(crate) fn release(&self, number: u32, bits: u64) {
        let before = self.word(0, number).fetch_and(!bits, Ordering::SeqCst);
        if cfg!(any(debug_assertions, hashed_wheel_loom)) {
            assert_eq!(before & bits, bits, "released twice");
        }
        if before == FULL {
            self.clear_above(0, number);
        }
    }

    /// Releases one index.
    pub(crate) fn release_one(&self, index: u32) {
        self.release(index / 64, 1 << (index % 64));
    }

    /// The lowest word that seems to have a free index.
    fn find(&self) -> u32 {
        for _ in 0..TRIES {
            if let Some(number) = self.descend() {
                return number;
            }
        }
        // Others fill what this search finds. Any word will do; its claim looks for itself.
        self.top_not_full() << (6 * UPPER)
    }

    /// One walk down the tree; `None` if a word was full that its bit above did not show so. The bit is mended.
    fn descend(&self) -> Option<u32> {
        let mut number = self.top_not_full();
        for level in (0..UPPER).rev() {
            let above = self.word(level + 1, number).load(Ordering::SeqCst);
            if above == FULL {
                self.mark_above(level + 1, number);
                return None;
            }
            number = number * 64 + above.trailing_ones();
        }
        if self.word(0, number).load(Ordering::SeqCst) == FULL {
            self.mark_above(0, number);
            return None;
        }
        Some(number)
    }

    /// The first word of the highest level that is not full. 2^32 indices need 256 of them.
    fn top_not_full(&self) -> u32 {
        let not_full = |number: &u32| self.word(UPPER, *number).load(Ordering::SeqCst) != FULL;
        (0..256).find(not_full).expect("fewer than 2^32 in use")
    }

    /// Sets the bits above word `number` of `level`, as far as the words are full.
    fn mark_above(&self, level: usize, mut number: u32) {
        for level in level..UPPER {
            if self.word(level, number).load(Ordering::SeqCst) != FULL {
                return;
            }
            let (above, bit) = (number / 64, 1 << (number % 64));
            self.word(level + 1, above).fetch_or(bit, Ordering::SeqCst);
            if self.word(level, number).load(Ordering::SeqCst) != FULL {
                return self.clear_above(level, number);
            }
            number = above;
        }
    }

    /// Clears the bits above word `number` of `level`, as far as the words were full.
    fn clear_above(&self, level: usize, mut number: u32) {
        for level in level..UPPER {
            let (above, bit) = (number / 64, 1 << (number % 64));
            let before = self
                .word(level + 1, above)
                .fetch_and(!bit, Ordering::SeqCst);
            if before != FULL {
                return;
            }
            number = above;
        }
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

//! A table that grows without moving what is in it.
//!
//! Block `k` holds `FIRST << k` values, so an index becomes an address with a shift and one load, and 26 blocks
//! are enough for any `u32`. A thread that needs an index whose block does not exist maps the block and publishes it by
//! compare-and-swap; the loser of that race unmaps its own and takes the winner's. Mapping touches no page, so
//! growing costs two system calls however large the block.

use super::block::{Block, PAGE};
use crate::sync::AtomicU64;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Values that a table can hold.
///
/// # Safety
/// All zeroes is a valid value (under loom: `zero` makes one), it needs no drop, its size divides
/// [`PAGE`] or is a multiple of its alignment, and its alignment is at most [`PAGE`].
pub(crate) unsafe trait Zeroed: Sync {
    /// The value that all zeroes stand for, for loom, whose atomics are not made of zeroes.
    #[cfg(hashed_wheel_loom)]
    fn zero() -> Self;
}

// SAFETY: an atomic integer is valid whatever its bytes, and needs no drop.
unsafe impl Zeroed for AtomicU64 {
    #[cfg(hashed_wheel_loom)]
    fn zero() -> Self {
        AtomicU64::new(0)
    }
}

// SAFETY: as its elements.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {
    #[cfg(hashed_wheel_loom)]
    fn zero() -> Self {
        std::array::from_fn(|_| T::zero())
    }
}

/// Enough blocks for every `u32` with `FIRST` = 64. The threads of a model have small stacks.
const BLOCKS: usize = if cfg!(hashed_wheel_loom) { 8 } else { 27 };

/// See the module's head. `FIRST` is a power of two.
pub(crate) struct Table<T, const FIRST: u32> {
    blocks: Blocks,
    values: PhantomData<T>,
}

/// The blocks of a table, whatever it holds.
struct Blocks {
    /// The origin of each block, `FIRST << k` values before its first: what [`locate`] counts from, so that no
    /// subtraction is needed. [`ABSENT`] until the block is needed, then never changed.
    origins: [AtomicPtr<u8>; BLOCKS],
    /// The memory behind each; null, or from `Box::into_raw`.
    memory: [AtomicPtr<Block>; BLOCKS],
}

impl Blocks {
    #[inline(never)]
    fn new() -> Blocks {
        Blocks {
            origins: [const { AtomicPtr::new(ABSENT) }; BLOCKS],
            memory: [const { AtomicPtr::new(ptr::null_mut()) }; BLOCKS],
        }
    }

    /// The origin of a block of `count` values of `size` bytes, which is made if it does not exist. `fill` writes the values.
    #[cold]
    fn make(&self, block: usize, count: u64, size: usize, fill: &dyn Fn(*mut u8)) -> *mut u8 {
        // On 32 bits the last blocks are larger than the address space, and must not come out as small ones.
        let bytes = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(size))
            .expect("a block fits the address space");
        let memory = Box::new(Block::new(bytes));
        fill(memory.address());
        let origin = memory.address().wrapping_sub(bytes);
        let [made, taken] = [Ordering::Release, Ordering::Acquire];
        match self.origins[block].compare_exchange(ABSENT, origin, made, taken) {
            Ok(_) => {
                // Release, with the Acquire of `discard`. Nobody else stores here: this call has won the block.
                self.memory[block].store(Box::into_raw(memory), Ordering::Release);
                origin
            }
            Err(winner) => winner,
        }
    }
}

impl Drop for Blocks {
    #[inline(never)]
    fn drop(&mut self) {
        for block in &mut self.memory {
            let block = *block.get_mut();
            if !block.is_null() {
                // SAFETY: from `Box::into_raw`, and nobody uses the table any more. Values need no drop.
                drop(unsafe { Box::from_raw(block) });
            }
        }
    }
}

impl<T: Zeroed, const FIRST: u32> Table<T, FIRST> {
    pub(crate) fn new() -> Self {
        const {
            assert!(FIRST.is_power_of_two() && size_of::<T>() > 0);
            assert!(align_of::<T>() > 1 && align_of::<T>() <= PAGE);
        }
        let (blocks, values) = (Blocks::new(), PhantomData);
        let table = Table { blocks, values };
        if cfg!(hashed_wheel_loom) {
            // Loom does not see how a block is published, so the first is there from the beginning. The models have to do with
            // it, or grow the table before they start threads.
            table.grow(0);
        }
        table
    }

    /// The value at `index`; `None` if its block was never asked for.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.map_or_else(index, || None, Some)
    }

    /// Applies `map` to the value at `index`, or calls `otherwise` if its block was never asked for. An `Option` of a reference
    /// would be compared with null on the way.
    #[inline]
    pub(crate) fn map_or_else<'a, R>(
        &'a self,
        index: u32,
        otherwise: impl FnOnce() -> R,
        map: impl FnOnce(&'a T) -> R,
    ) -> R {
        let (block, place) = locate::<FIRST>(index);
        // Acquire, with the Release of `make`: under loom the values are written first.
        let origin = self.blocks.origins[block].load(Ordering::Acquire);
        if origin == ABSENT {
            return otherwise();
        }
        // SAFETY: a block that is published holds this place, all zeroes is a valid value, and blocks live as
        // long as the table.
        map(unsafe { &*origin.cast::<T>().wrapping_add(place) })
    }

    /// The value at `index`, whose block is made if it does not exist.
    #[inline]
    pub(crate) fn get_or_grow(&self, index: u32) -> &T {
        self.map_or_else(index, || self.grow(index), |value| value)
    }

    #[cold]
    fn grow(&self, index: u32) -> &T {
        let (block, place) = locate::<FIRST>(index);
        let count = u64::from(FIRST) << block;
        let fill = |_first: *mut u8| {
            #[cfg(hashed_wheel_loom)]
            for place in 0..count as usize {
                // SAFETY: there is room for so many, and nobody else knows the block.
                unsafe { _first.cast::<T>().add(place).write(T::zero()) };
            }
        };
        let origin = self.blocks.make(block, count, size_of::<T>(), &fill);
        // SAFETY: as in `get`.
        unsafe { &*origin.cast::<T>().wrapping_add(place) }
    }

    /// All values with an index in `range` whose block exists, with their index.
    pub(crate) fn iter(&self, range: Range<u32>) -> impl Iterator<Item = (u32, &T)> {
        range.filter_map(|index| Some((index, self.get(index)?)))
    }

    /// Asks for a huge page if one begins with the value at `index`, whose block exists.
    pub(crate) fn prefer_huge_page(&self, index: u32) {
        let (block, place) = locate::<FIRST>(index);
        let offset = (place - ((FIRST as usize) << block)) * size_of::<T>();
        // Acquire and null: as in `discard`.
        let memory = self.blocks.memory[block].load(Ordering::Acquire);
        if !memory.is_null() {
            // SAFETY: as in `discard`.
            unsafe { (*memory).prefer_huge_page(offset) };
        }
    }

    /// Gives the memory of `range`, whole pages, back to the system: its values are zero from now on. Returns
    /// whether the system has taken it.
    ///
    /// # Safety
    /// No thread writes to these values meanwhile, and those that read them accept zeroes.
    pub(crate) unsafe fn discard(&self, range: Range<u32>) -> bool {
        let (block, place) = locate::<FIRST>(range.start);
        debug_assert_eq!(locate::<FIRST>(range.end - 1).0, block, "one block");
        let offset = (place - ((FIRST as usize) << block)) * size_of::<T>();
        let bytes = range.len() * size_of::<T>();
        debug_assert!(offset % PAGE == 0 && bytes % PAGE == 0, "whole pages");
        // Acquire, with the Release of `make`. Null while the winner has not stored it yet.
        let memory = self.blocks.memory[block].load(Ordering::Acquire);
        // SAFETY: the block is not freed before the table. The caller vouches for the rest.
        !memory.is_null() && unsafe { (*memory).discard(offset, bytes) }
    }
}

/// The block of an index, and its place from the block's origin on.
#[inline]
fn locate<const FIRST: u32>(index: u32) -> (usize, usize) {
    let place = u64::from(index) + u64::from(FIRST);
    let block = place.ilog2() as usize - FIRST.ilog2() as usize;
    (block, place as usize)
}

/// Stands for a block that does not exist: an address that no origin has, as it is not aligned.
const ABSENT: *mut u8 = ptr::without_provenance_mut(1);

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

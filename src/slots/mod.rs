//! The slab: where timeouts live, by number.
//!
//! Slots are numbered from 0 without end and lie in chunks, each twice as large as the one before,
//! so that a number becomes an address with a shift and one look at a small table, and a slot never
//! moves. The slab only grows: its size is that of the largest number of timeouts that were ever pending
//! at once. Chunks are zeroed when they are made, and touched when first used.
//!
//! A free slot is on a chain, in a thread's own cache or in the depot: see [`local`]. The protocol
//! by which a slot changes hands is in [`slot`], the layout of its word in [`word`].

pub(crate) mod local;
mod mapped;
mod slot;
mod stored_task;
#[forbid(unsafe_code)]
mod word;

pub(crate) use slot::{
    ClaimResult, Handle, ReleaseResult, Reset, Running, Slot, StopOutcome, Vacant,
};
pub(crate) use stored_task::{Kind, StoredTask};
pub(crate) use word::Phase;

use crate::sync::{Mutex, Ordering};
use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicPtr;

/// Slots of the first chunk.
const FIRST_CHUNK: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 256 };
/// Enough for 2^32 − 256 slots.
const CHUNKS: usize = 24;

pub(crate) struct Slab<A: 'static> {
    /// Chunk `k` has `FIRST_CHUNK << k` slots, the first of them number `FIRST_CHUNK × (2^k − 1)`.
    /// Null until it is needed, then never changed.
    chunks: [AtomicPtr<Slot<A>>; CHUNKS],
    growth: Mutex<Growth>,
}

#[derive(Default)]
struct Growth {
    /// How many slots have been given out. Slots from here on have never been used.
    used: u32,
    /// The memory behind the chunks.
    allocations: Vec<Allocation>,
}

impl<A> Slab<A> {
    pub(crate) fn new() -> Slab<A> {
        Slab {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; CHUNKS],
            growth: Mutex::default(),
        }
    }

    /// The slot of that number.
    ///
    /// # Safety
    /// The number came from [`Slab::grow`] of this slab, and that call happened before this one.
    #[inline]
    pub(crate) unsafe fn slot(&self, number: u32) -> &Slot<A> {
        let (chunk, offset) = locate(number);
        // Relaxed: the pointer was stored before the number was given out, and never changes.
        let first = self.chunks[chunk].load(Ordering::Relaxed);
        debug_assert!(!first.is_null(), "slot {number} does not exist");
        // SAFETY: the number was given out, so its chunk exists and has this offset; chunks live as
        // long as the slab, and all zeroes is a valid slot.
        unsafe { &*first.add(offset) }
    }

    /// Gives out `count` slots that were never used, by the number of the first. `count` divides
    /// [`FIRST_CHUNK`], so that they lie in one chunk.
    ///
    /// # Panics
    /// When all of the 2^32 − 256 slots are in use.
    pub(crate) fn grow(&self, count: u32) -> u32 {
        debug_assert_eq!(FIRST_CHUNK % count, 0);
        let mut growth = self.growth.lock();
        let first = growth.used;
        assert!(
            first < u32::MAX - FIRST_CHUNK - count,
            "more than 2^32 pending timeouts"
        );
        let (chunk, _) = locate(first);
        if self.chunks[chunk].load(Ordering::Relaxed).is_null() {
            let allocation = Allocation::new((FIRST_CHUNK as usize) << chunk);
            // Relaxed: readers have a number that was given out under the lock after this.
            self.chunks[chunk].store(allocation.first_slot(), Ordering::Relaxed);
            growth.allocations.push(allocation);
        }
        growth.used += count;
        first
    }

    /// How many slots were ever given out: the numbers below are valid.
    pub(crate) fn used(&self) -> u32 {
        self.growth.lock().used
    }

    /// All slots that were ever given out when this was called.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Slot<A>)> {
        // SAFETY: numbers below `used` were given out before `used` read it under the lock.
        (0..self.used()).map(|number| (number, unsafe { self.slot(number) }))
    }

    /// Bytes of all slots that were ever used.
    pub(crate) fn bytes(&self) -> usize {
        self.used() as usize * size_of::<Slot<()>>()
    }
}

/// The chunk of a slot and its place in there.
#[inline]
fn locate(number: u32) -> (usize, usize) {
    let shifted = u64::from(number) + u64::from(FIRST_CHUNK);
    let chunk = shifted.ilog2() - FIRST_CHUNK.ilog2();
    let offset = shifted - (u64::from(FIRST_CHUNK) << chunk);
    (chunk as usize, offset as usize)
}

/// Zeroed memory for a number of slots.
struct Allocation {
    memory: NonNull<u8>,
    layout: Layout,
    /// It came from the system, not from the allocator.
    mapped: bool,
}

// SAFETY: it owns its memory, which it only frees.
unsafe impl Send for Allocation {}

impl Allocation {
    /// Memory for `slots`, no page of which is touched yet.
    fn new(slots: usize) -> Allocation {
        let allocation = Self::from_system(slots).unwrap_or_else(|| Self::from_allocator(slots));
        #[cfg(hashed_wheel_loom)]
        for place in 0..slots {
            // SAFETY: there is room for so many. Loom's atomics are not made of zeroes.
            unsafe {
                let free = Slot::<()>::new(0);
                allocation.first_slot().add(place).write(free);
            }
        }
        allocation
    }

    /// A large piece of memory, exactly as large as it has to be, and so on large pages from end to end.
    fn from_system(slots: usize) -> Option<Allocation> {
        let layout = Layout::array::<Slot<()>>(slots).ok()?;
        Some(Allocation {
            memory: mapped::map(layout.size())?,
            layout,
            mapped: true,
        })
    }

    /// Zeroed memory comes untouched only if no more than the usual alignment is asked for. So one more slot
    /// is asked for, and the alignment is seen to in [`Allocation::first_slot`].
    fn from_allocator(slots: usize) -> Allocation {
        let layout = Layout::array::<[u8; size_of::<Slot<()>>()]>(slots + 1)
            .and_then(|layout| layout.align_to(align_of::<usize>()))
            .expect("a chunk fits the address space");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            alloc::handle_alloc_error(layout)
        };
        Allocation {
            memory,
            layout,
            mapped: false,
        }
    }

    fn first_slot<A>(&self) -> *mut Slot<A> {
        let memory = self.memory.as_ptr();
        // In bounds: what the allocator gave has room for one slot more, and mappings begin with a page.
        memory
            .wrapping_add(memory.align_offset(align_of::<Slot<()>>()))
            .cast()
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: from there in `new`, with this layout; the slab is going, so no slot is used any more.
        unsafe {
            if self.mapped {
                mapped::unmap(self.memory, self.layout.size());
            } else {
                alloc::dealloc(self.memory.as_ptr(), self.layout);
            }
        }
    }
}

#[cfg(test)]
mod tests;

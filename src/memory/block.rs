//! Zeroed memory straight from the system.
//!
//! The timeouts that fall due at one tick lie all over their table. With a million pending, nearly every one
//! is on a page of its own, and the TLB miss costs more than the task. Huge pages end that, so large blocks ask
//! for them.
//!
//! The memory does not come from the allocator: `MADV_HUGEPAGE` sticks to the address range. Freed to the
//! allocator, the range would be reused for small allocations, each backed by a huge page. And an allocator's
//! memory cannot be discarded page by page.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// The page size that [`Block::discard`] works in. Where the system's pages are larger, it does nothing.
pub(crate) const PAGE: usize = 4096;

/// Zeroed memory, aligned to [`PAGE`], no page of which is touched yet if it came from the system.
pub(crate) struct Block(Source);

enum Source {
    #[cfg(not(miri))]
    Mapped(memmap2::MmapMut),
    Allocated(NonNull<u8>, Layout),
}

// SAFETY: it owns its memory, and hands out its address only.
unsafe impl Send for Block {}
// SAFETY: as above; `discard` states what its caller has to exclude.
unsafe impl Sync for Block {}

impl Block {
    /// At least `bytes` of zeroed memory.
    ///
    /// Aborts like any allocation if there is none.
    pub(crate) fn new(bytes: usize) -> Block {
        let layout = Layout::from_size_align(bytes.next_multiple_of(PAGE), PAGE)
            .expect("a block fits the address space");
        // A model makes tables by the thousand: mapping would take most of its time.
        if cfg!(hashed_wheel_loom) {
            return Self::allocate(layout);
        }
        Self::map(layout.size()).unwrap_or_else(|| Self::allocate(layout))
    }

    #[cfg(not(miri))]
    fn map(bytes: usize) -> Option<Block> {
        let map = memmap2::MmapMut::map_anon(bytes).ok()?;
        // Smaller blocks are not worth a huge page. A refusal changes nothing.
        #[cfg(target_os = "linux")]
        if bytes >= 2 << 20 {
            let _ = map.advise(memmap2::Advice::HugePage);
        }
        Some(Block(Source::Mapped(map)))
    }

    #[cfg(miri)]
    fn map(_bytes: usize) -> Option<Block> {
        None
    }

    fn allocate(layout: Layout) -> Block {
        // SAFETY: the size is at least one page.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            alloc::handle_alloc_error(layout)
        };
        Block(Source::Allocated(memory, layout))
    }

    pub(crate) fn address(&self) -> *mut u8 {
        match &self.0 {
            #[cfg(not(miri))]
            Source::Mapped(map) => map.as_ptr().cast_mut(),
            Source::Allocated(memory, _) => memory.as_ptr(),
        }
    }

    /// Gives `bytes` from `offset` on back to the system, both multiples of [`PAGE`]: they read as zeroes from
    /// now on. `false` if this system cannot do that; then nothing has changed.
    ///
    /// # Safety
    /// No thread writes to the range meanwhile, and those that read from it accept zeroes.
    pub(crate) unsafe fn discard(&self, offset: usize, bytes: usize) -> bool {
        match &self.0 {
            #[cfg(all(target_os = "linux", not(miri)))]
            Source::Mapped(map) => {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: an anonymous mapping of ours reads as zeroes after this, which is what the caller
                // has allowed for.
                unsafe { map.unchecked_advise_range(advice, offset, bytes) }.is_ok()
            }
            _ => {
                let _ = (offset, bytes);
                false
            }
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Source::Allocated(memory, layout) = self.0 {
            // SAFETY: it came from there, with this layout, and goes with its owner.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
    }
}

//! Zeroed memory straight from the system.
//!
//! The timeouts that fall due at one tick lie all over their table. With a million pending, nearly every one
//! is on a page of its own, and the TLB miss costs more than the task. Huge pages end that, so large blocks ask
//! for them. A block that has [returned](Block::discard) memory asks for small pages instead: the system would back the few
//! that are in use with huge ones again. When it fills up once more, it asks for each huge page as the first slot on it is used.
//!
//! The memory does not come from the allocator: `MADV_HUGEPAGE` sticks to the address range. Freed to the
//! allocator, the range would be reused for small allocations, each backed by a huge page. And an allocator's
//! memory cannot be discarded page by page.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// The page size that [`Block::discard`] works in. Where the system's pages are larger, it does nothing.
pub(crate) const PAGE: usize = 4096;
/// The usual size of a huge page.
#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

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
        if bytes >= HUGE_PAGE {
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

    /// Asks for a huge page, if one begins at `offset`, in a block that has returned memory. If another thread uses the page first,
    /// or returns memory, it stays small.
    pub(crate) fn prefer_huge_page(&self, offset: usize) {
        match &self.0 {
            #[cfg(all(target_os = "linux", not(miri)))]
            Source::Mapped(map) => {
                let is_aligned = (map.as_ptr().addr() + offset) % HUGE_PAGE == 0;
                if is_aligned && offset + HUGE_PAGE <= map.len() {
                    // A refusal changes nothing.
                    let _ = map.advise_range(memmap2::Advice::HugePage, offset, HUGE_PAGE);
                }
            }
            _ => {
                let _ = offset;
            }
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
            Source::Mapped(map) if system_pages_are_ours() => {
                let advice = memmap2::UncheckedAdvice::DontNeed;
                // SAFETY: an anonymous mapping of ours reads as zeroes after this, which is what the caller
                // has allowed for.
                let is_done = unsafe { map.unchecked_advise_range(advice, offset, bytes) }.is_ok();
                if is_done {
                    // For the whole block, so that the mapping stays in one piece.
                    let _ = map.advise(memmap2::Advice::NoHugePage);
                }
                is_done
            }
            _ => {
                let _ = (offset, bytes);
                false
            }
        }
    }
}

/// With larger pages, the system would take what lies beside the range as well.
#[cfg(all(target_os = "linux", not(miri)))]
fn system_pages_are_ours() -> bool {
    // SAFETY: the call takes no pointer.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size) == Ok(PAGE)
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Source::Allocated(memory, layout) = self.0 {
            // SAFETY: it came from there, with this layout, and goes with its owner.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, hashed_wheel_loom))))]
mod tests {
    use super::*;
    use std::fs;

    /// What the system was advised for the mapping that holds `address`.
    fn flags(address: *mut u8) -> Vec<String> {
        let smaps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_inside = false;
        for line in smaps.lines() {
            let first = line.split(' ').next().unwrap();
            if let Some((start, end)) = first.split_once('-') {
                let [start, end] = [start, end].map(|hex| usize::from_str_radix(hex, 16).unwrap());
                is_inside = (start..end).contains(&address.addr());
            } else if is_inside && first == "VmFlags:" {
                return line.split(' ').skip(1).map(str::to_owned).collect();
            }
        }
        panic!("no mapping holds {address:?}");
    }

    /// Otherwise the system backs the few pages in use with a huge page again.
    #[test]
    fn a_block_that_has_returned_memory_has_no_huge_pages_until_it_fills_up() {
        let block = Block::new(2 * HUGE_PAGE);
        let (first, second) = (block.address(), block.address().wrapping_add(HUGE_PAGE));
        let has = |address, flag: &str| flags(address).iter().any(|is| is == flag);
        if first.addr() % HUGE_PAGE != 0 {
            return; // an older system
        }
        if fs::metadata("/sys/kernel/mm/transparent_hugepage").is_err() {
            return; // a system without huge pages
        }
        assert!(has(first, "hg") && has(second, "hg"));
        // SAFETY: nobody uses the block.
        assert!(unsafe { block.discard(PAGE, PAGE) });
        assert!(has(first, "nh") && has(second, "nh"));
        block.prefer_huge_page(HUGE_PAGE + PAGE);
        assert!(has(second, "nh"), "none begins there");
        block.prefer_huge_page(HUGE_PAGE);
        assert!(has(first, "nh") && has(second, "hg"));
    }
}

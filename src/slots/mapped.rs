//! Large pieces of memory, straight from the system and on large pages, if it has them.
//!
//! The timeouts that fall due at one boundary lie all over the slab. With a million pending, nearly
//! every one of them is on a page of its own, and finding the page costs more than the task: on a
//! virtual machine, half of the time that firing takes. On large pages that is gone.
//!
//! The memory does not come from the allocator, because the wish for large pages stays with the addresses: an
//! allocator that gets them back hands them on, wish included, to whoever wants a few bytes. A program that
//! makes and ends many timers would swell, a large page at a time.

#[cfg(test)]
pub(super) use system::MAPS;
pub(super) use system::{map, unmap};

/// Where the numbers below are known to be right.
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
))]
mod system {
    use std::ffi::{c_int, c_long, c_void};
    use std::ptr::{self, NonNull};

    /// Whether anything is mapped here.
    #[cfg(test)]
    pub(in crate::slots) const MAPS: bool = true;

    /// Smaller pieces of memory are not worth it: the size of a large page on common systems.
    const LARGE: usize = 2 << 20;

    const PROT_READ: c_int = 1;
    const PROT_WRITE: c_int = 2;
    const MAP_PRIVATE: c_int = 2;
    const MAP_ANONYMOUS: c_int = 0x20;
    const MADV_HUGEPAGE: c_int = 14;

    // From the C library, which the standard library is linked with.
    unsafe extern "C" {
        fn mmap(
            address: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: c_long,
        ) -> *mut c_void;
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
        fn munmap(address: *mut c_void, length: usize) -> c_int;
    }

    /// Zeroed memory, to be given back by [`unmap`] alone; `None` if so little is not worth it, or if the
    /// system refuses.
    pub(in crate::slots) fn map(size: usize) -> Option<NonNull<u8>> {
        if size < LARGE {
            return None;
        }
        let (protection, flags) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses touches no memory that exists.
        let memory = unsafe { mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        if memory.addr() == usize::MAX {
            return None;
        }
        // SAFETY: the range was just mapped, and this advice changes no contents. That it may be refused
        // is of no consequence.
        unsafe { madvise(memory, size, MADV_HUGEPAGE) };
        NonNull::new(memory.cast())
    }

    /// # Safety
    /// The memory came from [`map`] with this size, and is not used any more.
    pub(in crate::slots) unsafe fn unmap(memory: NonNull<u8>, size: usize) {
        // SAFETY: a whole mapping of ours, as the caller says.
        let unmapped = unsafe { munmap(memory.as_ptr().cast(), size) };
        debug_assert_eq!(unmapped, 0, "a mapping could not be given back");
    }
}

/// Elsewhere all memory comes from the allocator.
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(miri)
)))]
mod system {
    use std::ptr::NonNull;

    #[cfg(test)]
    pub(in crate::slots) const MAPS: bool = false;

    pub(in crate::slots) fn map(_size: usize) -> Option<NonNull<u8>> {
        None
    }

    pub(in crate::slots) unsafe fn unmap(_memory: NonNull<u8>, _size: usize) {
        unreachable!("nothing was mapped");
    }
}

//! Asks the system for large pages.
//!
//! The timeouts that fall due at one boundary lie all over the slab. With a million pending, nearly
//! every one of them is on a page of its own, and finding the page costs more than the task: on a
//! virtual machine, half of the time that firing takes. On large pages that is gone.

use std::ptr::NonNull;

/// Smaller pieces of memory are not worth it: the size of a large page on common systems.
#[cfg(all(target_os = "linux", not(miri)))]
const LARGE: usize = 2 << 20;

/// Says that `memory` would do well on large pages. A wish: nothing depends on it.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn advise(memory: NonNull<u8>, size: usize) {
    use std::ffi::{c_int, c_void};
    unsafe extern "C" {
        /// From the C library, which the standard library is linked with.
        fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    }
    const MADV_HUGEPAGE: c_int = 14;
    if size < LARGE {
        return;
    }
    // From one boundary of a large page to another, so that no other memory is spoken of.
    let from = memory.as_ptr().align_offset(LARGE);
    let length = size.saturating_sub(from) / LARGE * LARGE;
    // SAFETY: the range lies within an allocation of ours, and this advice changes no contents. That it
    // may be refused is of no consequence.
    unsafe {
        madvise(
            memory.as_ptr().wrapping_add(from).cast(),
            length,
            MADV_HUGEPAGE,
        )
    };
}

/// Elsewhere the system decides by itself.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn advise(_memory: NonNull<u8>, _size: usize) {}

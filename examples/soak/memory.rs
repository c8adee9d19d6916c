//! How much memory is in use, and whether it grows.
//!
//! Told twice: what is allocated at this moment, counted here, and what the system says is resident. The first
//! shows the smallest leak. The second also goes up by the gaps that an allocator leaves between what is freed
//! and what is not, so it is given more room.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Relaxed);
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Kilobytes in use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) allocated: usize,
    /// Where the system tells.
    pub(crate) resident: Option<usize>,
}

impl Sample {
    pub(crate) fn take() -> Sample {
        Sample {
            allocated: ALLOCATED.load(Relaxed) >> 10,
            resident: resident(),
        }
    }
}

/// Kilobytes in memory, on Linux.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// After the first third, which is for warming up: does the floor of the last third lie above that of the
/// second? The floor, because what is in use goes up and down with chance. There is a sample a second.
pub(crate) fn judge(samples: &[Sample]) -> Result<String, String> {
    const LEAST: usize = 60;
    if samples.len() < LEAST {
        return Ok(format!("memory is not judged in less than {LEAST} seconds"));
    }
    let third = samples.len() / 3;
    let (second, last) = (&samples[third..2 * third], &samples[2 * third..]);
    let floor = |part: &[Sample], of: fn(&Sample) -> usize| part.iter().map(of).min().unwrap_or(0);
    let allocated: fn(&Sample) -> usize = |sample| sample.allocated;
    let resident: fn(&Sample) -> usize = |sample| sample.resident.unwrap_or(0);
    let (before, after) = (floor(second, allocated), floor(last, allocated));
    let (resident_before, resident_after) = (floor(second, resident), floor(last, resident));
    let text = format!(
        "memory, at least, in the second and in the last third: {before} and {after} KB allocated, \
         {resident_before} and {resident_after} KB resident"
    );
    let grown = after > before + before / 32 + 1024;
    let resident_grown = resident_after > resident_before + resident_before / 8 + (8 << 10);
    if grown || resident_grown {
        Err(text)
    } else {
        Ok(text)
    }
}

//! By the system call that compares the word and goes to sleep in one step.

use std::ptr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// See the module above. The kernel knows who sleeps by the address of the word.
pub(crate) struct Sleeper;

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper
    }

    /// Names the thread that sleeps: the calling one.
    #[expect(clippy::unused_self, reason = "other systems have to be told")]
    pub(crate) fn register(&self) {}

    /// Sleeps while the lower half of `word` is that of `value`, for `limit` at most. May return at any time.
    #[expect(clippy::unused_self, reason = "as above")]
    #[expect(
        clippy::cast_possible_wrap,
        reason = "584 years at most, in seconds; and less than a second, in nanoseconds"
    )]
    pub(crate) fn wait(&self, word: &AtomicU64, value: u64, limit: Option<Duration>) {
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        });
        let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the word is read atomically, and lives as long as the call; the time is null or lives as well. Whether it
        // was woken, too late or interrupted is the same to the caller, who looks at the word.
        unsafe {
            let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, lower_half(word), wait, value as u32, limit);
        }
    }

    /// Ends a sleep that began before the word was changed.
    #[expect(clippy::unused_self, reason = "as above")]
    pub(crate) fn wake(&self, word: &AtomicU64) {
        // SAFETY: the kernel uses the address only. One thread sleeps there.
        unsafe {
            let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
            libc::syscall(libc::SYS_futex, lower_half(word), wake, 1_u32);
        }
    }
}

/// The address of the lower half of the word.
fn lower_half(word: &AtomicU64) -> *const u32 {
    let place = usize::from(cfg!(target_endian = "big"));
    word.as_ptr().cast::<u32>().cast_const().wrapping_add(place)
}

#[cfg(test)]
#[path = "futex/tests.rs"]
mod tests;

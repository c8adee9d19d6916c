//! The monotonic system clock, as a number of nanoseconds.
//!
//! On Linux it reads the clock behind [`Instant`] directly. That gives the same time and saves `Instant`'s checks and
//! arithmetic, 6 of 30 ns. Even so it would be 20 of the 50 ns that it takes to schedule and cancel, and more by its fence;
//! so where it can, a timer with a thread [counts](super::counter) from the last reading on.

use super::{counter, nanos};
#[cfg(all(target_os = "linux", not(any(miri, hashed_wheel_loom))))]
use std::mem::MaybeUninit;
use std::time::Instant;

/// The monotonic system clock, counted from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Monotonic {
    /// The start, as [`read`] tells it.
    origin: u64,
    /// Taken just before `origin`. So a moment that is counted from here has come when the clock reads as much.
    pub(super) instant: Instant,
    /// `instant` on the counter's scale, if [`Monotonic::recent`] is counted.
    pub(super) counted: Option<u64>,
}

/// Attempts to read both clocks without being interrupted in between.
const ATTEMPTS: usize = 4;

impl Monotonic {
    /// A clock, with a cheaper [`Monotonic::recent`] if it is to count and the system allows it.
    pub(crate) fn start(counts: bool) -> Monotonic {
        let (mut instant, mut origin, mut least) = (Instant::now(), 0, u64::MAX);
        for _ in 0..ATTEMPTS {
            let before = read();
            let now = Instant::now();
            let after = read();
            let taken = read() - before;
            if taken < least {
                (instant, origin, least) = (now, after, taken);
            }
        }
        // Three readings have been taken, and `instant` is one before `origin`.
        let is_counted = counts && counter::is_usable();
        let counted = is_counted.then(|| origin.saturating_sub(least / 3));
        Monotonic {
            origin,
            instant,
            counted,
        }
    }

    /// Nanoseconds since the start. A call, so that who needs a recent time only keeps no registers for it.
    #[inline(never)]
    pub(crate) fn nanos(&self) -> u64 {
        read() - self.origin
    }

    /// Nanoseconds since [`Monotonic::instant`], and so not less than [`Monotonic::nanos`].
    pub(crate) fn elapsed(&self) -> u64 {
        if cfg!(hashed_wheel_loom) {
            // The models have a clock of their own.
            return self.nanos();
        }
        nanos(self.instant.elapsed())
    }

    /// The same, about. Deadlines count from it: one that is shown as an instant lies between those before and after the call
    /// that has set it.
    pub(crate) fn ordered(&self) -> u64 {
        match self.counted {
            Some(origin) => counter::ordered().saturating_sub(origin),
            None => self.elapsed(),
        }
    }

    /// [`Monotonic::ordered`], or a little before or after it: see [`counter`].
    pub(crate) fn recent(&self) -> u64 {
        match self.counted {
            Some(origin) => counter::nanos().saturating_sub(origin),
            None => self.nanos(),
        }
    }

    /// [`Monotonic::recent`], if the system's clock need not be read for it.
    #[inline]
    pub(crate) fn glance(&self) -> Option<u64> {
        let origin = self.counted?;
        Some(counter::glance()?.saturating_sub(origin))
    }

    /// The same, behind by less than [`counter::BEHIND_FENCED`].
    pub(crate) fn fenced(&self) -> Option<u64> {
        let origin = self.counted?;
        Some(counter::fenced()?.saturating_sub(origin))
    }
}

/// Nanoseconds since the start of the system.
#[cfg(all(target_os = "linux", not(any(miri, hashed_wheel_loom))))]
#[expect(
    clippy::cast_sign_loss,
    reason = "the clock counts from the start of the system"
)]
pub(super) fn read() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is valid for a write. The call cannot fail with this clock, which every
    // Linux has, so it has written the time.
    let time = unsafe {
        let result = libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        debug_assert_eq!(result, 0);
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds since the first call; in a model, since its begin.
#[cfg(not(all(target_os = "linux", not(any(miri, hashed_wheel_loom)))))]
pub(super) fn read() -> u64 {
    #[cfg(hashed_wheel_loom)]
    return nanos(crate::sync::Instant::now().since_begin());
    #[cfg(not(hashed_wheel_loom))]
    {
        static FIRST: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        nanos(FIRST.get_or_init(Instant::now).elapsed())
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

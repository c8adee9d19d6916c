//! The length of a tick, and the conversions between time and ticks.

use super::tick::Tick;
use std::num::NonZeroU64;
use std::time::Duration;

/// Time saturates here, 584 years after the start. A deadline of `FOREVER` is never reached.
pub(crate) const FOREVER: u64 = u64::MAX;

/// A duration in nanoseconds, saturating.
#[inline]
pub(crate) fn nanos(duration: Duration) -> u64 {
    // The common case without 128-bit arithmetic.
    duration
        .as_secs()
        .checked_mul(1_000_000_000)
        .and_then(|seconds| seconds.checked_add(u64::from(duration.subsec_nanos())))
        .unwrap_or(FOREVER)
}

/// The length of a tick, and the conversions that follow from it. All times here are counted from
/// the timer's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    tick: NonZeroU64,
    /// The last deadline that comes; what lies beyond never does.
    horizon: u64,
}

impl Scale {
    /// A tick of that many nanoseconds, at least 1. From a millisecond on, all of time fits in [`Tick::BITS`]; with a shorter
    /// one, 2^45 ticks do.
    pub(crate) fn new(tick: u64) -> Scale {
        Scale {
            tick: NonZeroU64::new(tick).expect("a tick is not zero"),
            horizon: tick.saturating_mul(Tick::NEVER.0 - 1).min(FOREVER - 1),
        }
    }

    /// The due tick of a deadline: the first boundary at or after it, and at least 1.
    #[inline]
    pub(crate) fn due(self, deadline: u64) -> Tick {
        if deadline > self.horizon {
            return Tick::NEVER;
        }
        self.due_in_time(deadline)
    }

    /// The due tick of a deadline that comes: one before [`Scale::end`].
    #[inline]
    pub(crate) fn due_in_time(self, deadline: u64) -> Tick {
        debug_assert!(deadline <= self.horizon);
        // Rounded up, without an addition that could overflow.
        Tick(deadline.saturating_sub(1) / self.tick + 1)
    }

    /// The first time that never comes for a timer that started at `start`. Both are times on its clock, which ends with
    /// [`FOREVER`].
    pub(crate) fn end(self, start: u64) -> u64 {
        start.saturating_add(self.horizon + 1)
    }

    /// The last boundary at or before `time`.
    #[inline]
    pub(crate) fn passed(self, time: u64) -> Tick {
        // With a short tick, time goes on after the last boundary.
        Tick(time / self.tick).min(Tick::NEVER.previous())
    }

    /// The time of a boundary; `None` from [`FOREVER`] on.
    #[inline]
    pub(crate) fn time_of(self, boundary: Tick) -> Option<u64> {
        if boundary == Tick::NEVER {
            return None;
        }
        boundary.0.checked_mul(self.tick.get())
    }

    pub(crate) fn tick(self) -> u64 {
        self.tick.get()
    }
}

#[cfg(test)]
mod tests;

//! The length of a tick, and the conversions between time and ticks.

use super::tick::Tick;
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
    tick: u64,
    /// ⌊2^64 × (2^`log` − tick) / tick⌋ + 1, to divide by the tick with a multiplication.
    reciprocal: u64,
    /// ⌈log₂ tick⌉
    log: u32,
    /// The last deadline that comes; what lies beyond never does.
    horizon: u64,
}

impl Scale {
    /// A tick of that many nanoseconds, at least 2. From a millisecond on, all of time fits in [`Tick::BITS`]; with a shorter
    /// one, 2^45 ticks do.
    pub(crate) fn new(tick: u64) -> Scale {
        debug_assert!(tick >= 2, "the division is not for a tick of {tick} ns");
        let log = u64::BITS - (tick - 1).leading_zeros();
        let excess = (1_u128 << log) - u128::from(tick);
        let reciprocal = ((excess << 64) / u128::from(tick)) as u64 + 1;
        Scale {
            tick,
            reciprocal,
            log,
            horizon: tick.saturating_mul(Tick::NEVER.0 - 1).min(FOREVER - 1),
        }
    }

    /// `time` / tick, exactly: division by an invariant after Granlund and Montgomery. Every timeout needs one,
    /// and a division instruction takes several times as long.
    #[inline]
    fn ticks_in(self, time: u64) -> u64 {
        let high = ((u128::from(self.reciprocal) * u128::from(time)) >> 64) as u64;
        (high + ((time - high) >> 1)) >> (self.log - 1)
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
        Tick(self.ticks_in(deadline.saturating_sub(1)) + 1)
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
        Tick(self.ticks_in(time)).min(Tick::NEVER.previous())
    }

    /// The time of a boundary; `None` from [`FOREVER`] on.
    #[inline]
    pub(crate) fn time_of(self, boundary: Tick) -> Option<u64> {
        if boundary == Tick::NEVER {
            return None;
        }
        boundary.0.checked_mul(self.tick)
    }

    pub(crate) fn tick(self) -> u64 {
        self.tick
    }
}

#[cfg(test)]
mod tests;

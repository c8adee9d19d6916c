//! Where time comes from, and the only place where durations become ticks.
//!
//! Inside the crate a moment is a number of nanoseconds on the timer's clock, saturating at
//! [`FOREVER`]. A deadline is rounded **up** to the boundary it fires at, the present is rounded
//! **down** to the boundary that has passed: so nothing is ever early.

use crate::manual::ManualClock;
use crate::monotonic::Monotonic;
use crate::tick::Tick;
use std::time::Duration;

/// Where time saturates, 584 years from the start. A deadline here never comes.
pub(crate) const FOREVER: u64 = u64::MAX;

/// The clock of one timer.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// The system's.
    System(Monotonic),
    /// One that stands still until told.
    Manual(ManualClock),
}

impl Clock {
    pub(crate) fn system() -> Clock {
        Clock::System(Monotonic::start())
    }

    /// Nanoseconds since the clock's own beginning.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::System(clock) => clock.nanos(),
            Clock::Manual(clock) => clock.nanos(),
        }
    }

    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match self {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock),
        }
    }
}

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

/// The length of a tick, and the conversions that follow from it. All moments here are counted from
/// the timer's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    tick: u64,
    /// ⌊2^64 × (2^`log` − tick) / tick⌋ + 1, to divide by the tick with a multiplication.
    reciprocal: u64,
    /// ⌈log₂ tick⌉
    log: u32,
}

impl Scale {
    /// A tick of that many nanoseconds, at least a million: [`Tick::BITS`] relies on it.
    pub(crate) fn new(tick: u64) -> Scale {
        debug_assert!(tick >= 1_000_000);
        let log = u64::BITS - (tick - 1).leading_zeros();
        let excess = (1_u128 << log) - u128::from(tick);
        let reciprocal = ((excess << 64) / u128::from(tick)) as u64 + 1;
        Scale {
            tick,
            reciprocal,
            log,
        }
    }

    /// `moment` / tick, exactly: Granlund and Montgomery's division by an invariant. A division
    /// takes several times as long, and every timeout needs one.
    #[inline]
    fn ticks_in(self, moment: u64) -> u64 {
        let high = ((u128::from(self.reciprocal) * u128::from(moment)) >> 64) as u64;
        (high + ((moment - high) >> 1)) >> (self.log - 1)
    }

    /// The first boundary at or after a deadline; time zero is none.
    #[inline]
    pub(crate) fn due(self, deadline: u64) -> Tick {
        if deadline == FOREVER {
            return Tick::NEVER;
        }
        // Rounded up, without an addition that could overflow.
        Tick(self.ticks_in(deadline.saturating_sub(1)) + 1)
    }

    /// The last boundary at or before a moment.
    #[inline]
    pub(crate) fn passed(self, moment: u64) -> Tick {
        Tick(self.ticks_in(moment))
    }

    /// When a boundary comes; `None` if it lies beyond the end of time.
    #[inline]
    pub(crate) fn moment(self, boundary: Tick) -> Option<u64> {
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
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn deadlines_round_up_and_the_present_rounds_down() {
        let scale = Scale::new(10 * MS);
        let due: Vec<_> = [0, 1, 10 * MS - 1, 10 * MS, 10 * MS + 1]
            .map(|d| scale.due(d).0)
            .into();
        assert_eq!(due, [1, 1, 1, 1, 2]);
        let passed: Vec<_> = [0, 1, 10 * MS - 1, 10 * MS, 20 * MS]
            .map(|d| scale.passed(d).0)
            .into();
        assert_eq!(passed, [0, 0, 0, 1, 2]);
    }

    #[test]
    fn a_boundary_is_never_before_the_deadline_that_was_rounded_to_it() {
        for tick in [MS, MS + 1, 7 * MS, 3_600_000 * MS] {
            let scale = Scale::new(tick);
            for deadline in [
                0,
                1,
                tick - 1,
                tick,
                tick + 1,
                1 << 50,
                FOREVER / 2,
                FOREVER - tick,
            ] {
                let due = scale.due(deadline);
                let moment = scale.moment(due).expect("before the end of time");
                assert!(moment >= deadline);
                assert!(due == Tick(1) || scale.moment(due.previous()).unwrap() < deadline);
                assert_eq!(scale.passed(moment), due);
            }
        }
    }

    #[test]
    fn the_multiplication_divides_exactly() {
        let mut number = 0x9E37_79B9_7F4A_7C15_u64;
        let mut random = move || {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
            number
        };
        let powers = (20..64).flat_map(|log| [1 << log, (1 << log) - 1, (1 << log) + 1]);
        let ticks = powers
            .chain([MS, 3 * MS, u64::MAX])
            .filter(|tick| *tick >= MS);
        for tick in ticks.chain(
            std::iter::repeat_with(random)
                .filter(|tick| *tick >= MS)
                .take(500),
        ) {
            let scale = Scale::new(tick);
            let multiples = [1, 2, 3, u64::MAX / tick, random() % (u64::MAX / tick) + 1];
            for multiple in multiples.map(|factor| tick.saturating_mul(factor)) {
                for moment in [
                    multiple - 1,
                    multiple,
                    multiple.saturating_add(1),
                    random(),
                    0,
                    1,
                ] {
                    assert_eq!(scale.ticks_in(moment), moment / tick, "{moment} / {tick}");
                }
            }
        }
    }

    #[test]
    fn the_end_of_time_never_comes() {
        let scale = Scale::new(MS);
        assert_eq!(scale.due(FOREVER), Tick::NEVER);
        assert!(scale.due(FOREVER - 1) < Tick::NEVER);
        assert_eq!(scale.moment(scale.due(FOREVER - 1)), None);
        assert_eq!(scale.moment(Tick::NEVER), None);
        assert_eq!(nanos(Duration::MAX), FOREVER);
        assert_eq!(nanos(Duration::from_nanos(FOREVER)), FOREVER);
        assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
    }
}

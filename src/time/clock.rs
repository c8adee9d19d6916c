//! The clock of one timer: the system's, or a manual one.

use super::manual::ManualClock;
use super::monotonic::Monotonic;
use super::scale::{FOREVER, nanos};
use std::time::{Duration, Instant};

/// The clock of one timer.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// The system's.
    System(Monotonic),
    /// A manual clock.
    Manual(ManualClock),
}

impl Clock {
    /// The system's, for a timer with a thread of its own, which can wait until even a [recent](Clock::recent) time has
    /// passed.
    pub(crate) fn system() -> Clock {
        Clock::System(Monotonic::start_counting())
    }

    /// The system's, every time read from it: for a loop of the caller's, which comes when it wants.
    pub(crate) fn exact() -> Clock {
        Clock::System(Monotonic::start())
    }

    /// Nanoseconds since the clock's start.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Clock::System(clock) => clock.nanos(),
            Clock::Manual(clock) => clock.nanos(),
        }
    }

    /// The present, or a time [so long](Clock::lag) ago, for what need not be more exact: half the price of scheduling is
    /// reading the clock.
    #[inline]
    pub(crate) fn recent(&self) -> u64 {
        match self {
            Clock::System(clock) => clock.recent(),
            Clock::Manual(clock) => clock.nanos(),
        }
    }

    /// [`Clock::recent`], if the system's clock need not be read for it.
    #[inline]
    pub(crate) fn glance(&self) -> Option<u64> {
        match self {
            Clock::System(clock) => clock.glance(),
            Clock::Manual(clock) => Some(clock.nanos()),
        }
    }

    /// Nanoseconds that [`Clock::recent`] may be behind.
    pub(crate) fn lag(&self) -> u64 {
        match self {
            Clock::System(clock) => clock.lag(),
            Clock::Manual(_) => 0,
        }
    }

    /// The present, as an instant.
    pub(crate) fn instant(&self) -> Instant {
        match self {
            Clock::System(_) => Instant::now(),
            // No platform's `Instant` ends within the 584 years that a clock counts.
            Clock::Manual(clock) => {
                let origin = clock.origin();
                origin.checked_add(clock.now()).unwrap_or(origin)
            }
        }
    }

    /// The instant that moments are counted from: the clock's zero, or just before it.
    #[inline]
    fn origin(&self) -> Instant {
        match self {
            Clock::System(clock) => clock.instant(),
            Clock::Manual(clock) => clock.origin(),
        }
    }

    /// An instant as a time of this clock, which is never before it: what is due then is not early. Reads no clock. What
    /// lies before the clock's zero is 0, what lies beyond the end of time [`FOREVER`].
    #[inline]
    pub(crate) fn time_of(&self, moment: Instant) -> u64 {
        nanos(moment.saturating_duration_since(self.origin()))
    }

    /// A time of this clock as an instant: the inverse of [`Clock::time_of`]. `None` for [`FOREVER`].
    pub(crate) fn instant_of(&self, time: u64) -> Option<Instant> {
        match time {
            FOREVER => None,
            time => self.origin().checked_add(Duration::from_nanos(time)),
        }
    }

    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match self {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock),
        }
    }
}

//! The clock of one timer: the system's, or a manual one.

use super::manual::ManualClock;
use super::monotonic::Monotonic;

/// The clock of one timer.
#[derive(Debug, Clone)]
pub(crate) enum Clock {
    /// The system's.
    System(Monotonic),
    /// A manual clock.
    Manual(ManualClock),
}

impl Clock {
    pub(crate) fn system() -> Clock {
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

    pub(crate) fn manual(&self) -> Option<&ManualClock> {
        match self {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock),
        }
    }
}

//! The clock of one timer: the system's, or a manual one.

use super::counter;
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
    /// Nanoseconds that [`Clock::fenced`] may be behind.
    pub(crate) const BEHIND_FENCED: u64 = counter::BEHIND_FENCED;

    /// The system's: with a cheap [glance](Clock::glance) where that can be had, or with every time read from it.
    pub(crate) fn system(is_exact: bool) -> Clock {
        Clock::System(Monotonic::start(!is_exact))
    }

    #[inline]
    fn read(&self, system: impl FnOnce(&Monotonic) -> u64) -> u64 {
        match self {
            Clock::System(clock) => system(clock),
            Clock::Manual(clock) => clock.nanos(),
        }
    }

    /// Nanoseconds since the clock's start.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.read(Monotonic::nanos)
    }

    /// The time from which the delay of a call counts. It is read after everything that comes before in the program,
    /// messages of other threads included: a timeout that counts from it is not early.
    pub(crate) fn ordered(&self) -> u64 {
        self.read(Monotonic::ordered)
    }

    /// The time from the instant that moments are counted from to the present, exactly: [`Clock::time_of`] of the present. For
    /// a deadline that is compared with the present later.
    pub(crate) fn elapsed(&self) -> u64 {
        self.read(Monotonic::elapsed)
    }

    /// Returns `true` if a time, as [`Clock::time_of`] and [`Clock::elapsed`] give it, is not after the present.
    pub(crate) fn has_passed(&self, time: u64) -> bool {
        // More than a glance may be wrong by, either way.
        const NEAR: u64 = 2_000_000;
        match self.glance() {
            Some(now) if now.saturating_add(NEAR) < time => false,
            _ => time != FOREVER && time <= self.elapsed(),
        }
    }

    /// The present, about: for measuring.
    #[inline]
    pub(crate) fn recent(&self) -> u64 {
        self.read(Monotonic::recent)
    }

    /// [`Clock::ordered`], or a time before it by less than the [margin](Clock::margin), if the system's clock need not be read for
    /// it: that is half the price of scheduling.
    #[inline]
    pub(crate) fn glance(&self) -> Option<u64> {
        match self {
            Clock::System(clock) => clock.glance(),
            Clock::Manual(clock) => Some(clock.nanos()),
        }
    }

    /// [`Clock::glance`], a time before [`Clock::ordered`] by less than [`Clock::BEHIND_FENCED`]. Costs half as much as that.
    pub(crate) fn fenced(&self) -> Option<u64> {
        match self {
            Clock::System(clock) => clock.fenced(),
            Clock::Manual(clock) => Some(clock.nanos()),
        }
    }

    /// Nanoseconds that [`Clock::glance`] may be behind on a timer with that tick.
    pub(crate) fn margin(&self, tick: u64) -> u64 {
        match self {
            Clock::System(clock) if clock.counted.is_some() => counter::margin(tick),
            _ => 0,
        }
    }

    /// The present, as an instant.
    pub(crate) fn instant(&self) -> Instant {
        match self {
            Clock::System(_) => Instant::now(),
            // No platform's `Instant` ends within the 584 years that a clock counts.
            Clock::Manual(clock) => clock.origin() + clock.now(),
        }
    }

    /// The instant that moments are counted from: the clock's zero, or just before it.
    #[inline]
    fn origin(&self) -> Instant {
        match self {
            Clock::System(clock) => clock.instant,
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

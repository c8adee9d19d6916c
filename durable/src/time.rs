//! Wall-clock time in milliseconds, and where it is read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hashed_wheel::ManualClock;

/// Milliseconds since 1970; negative before it.
pub(crate) type Millis = i64;

/// A due time that never comes: what lies beyond the range of [`Millis`].
pub(crate) const NEVER: Millis = Millis::MAX;

/// A moment of the clock that goes on while the machine is suspended, where the system has one: leases do not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Moment {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        Moment(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Moment {
        use std::sync::LazyLock;
        use std::time::Instant;
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        Moment(START.elapsed())
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}

/// The wall clock that decides what is due. A store that several machines share brings its own.
pub(crate) trait WallClock: Send + Sync {
    /// Nanoseconds since 1970.
    fn nanos(&self) -> i128;

    /// The milliseconds that have passed completely: what is due at this time or before is due.
    fn now(&self) -> Millis {
        self.nanos()
            .div_euclid(1_000_000)
            .clamp(Millis::MIN.into(), Millis::MAX.into()) as Millis
    }

    /// The due time of something that has to wait for so long, rounded up to a millisecond.
    fn after(&self, delay: Duration) -> Millis {
        let nanos = i128::try_from(delay.as_nanos()).unwrap_or(i128::MAX);
        ceil_millis(self.nanos().saturating_add(nanos))
    }

    /// The time from now to a due time; zero if it has come.
    fn until(&self, due: Millis) -> Duration {
        let nanos = i128::from(due) * 1_000_000 - self.nanos();
        Duration::from_nanos(nanos.clamp(0, u64::MAX.into()) as u64)
    }

    /// The time from a due time to now; zero if it has not come.
    fn since(&self, due: Millis) -> Duration {
        let nanos = self.nanos() - i128::from(due) * 1_000_000;
        Duration::from_nanos(nanos.clamp(0, u64::MAX.into()) as u64)
    }
}

fn ceil_millis(nanos: i128) -> Millis {
    (nanos.div_euclid(1_000_000) + i128::from(nanos.rem_euclid(1_000_000) != 0))
        .clamp(Millis::MIN.into(), NEVER.into()) as Millis
}

fn nanos_of(time: SystemTime) -> i128 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

/// A time as milliseconds, rounded up; saturates.
pub(crate) fn millis_of(time: SystemTime) -> Millis {
    ceil_millis(nanos_of(time))
}

/// The time of so many milliseconds. What the system's clock cannot hold becomes 1970.
pub(crate) fn time_of(millis: Millis) -> SystemTime {
    let distance = Duration::from_millis(millis.unsigned_abs());
    let time = if millis < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    };
    time.unwrap_or(UNIX_EPOCH)
}

/// The system's clock.
pub(crate) struct SystemWall;

impl WallClock for SystemWall {
    fn nanos(&self) -> i128 {
        nanos_of(SystemTime::now())
    }
}

/// 1970 + the time of a manual clock.
pub(crate) struct ManualWall(pub(crate) ManualClock);

impl WallClock for ManualWall {
    fn nanos(&self) -> i128 {
        self.0.now().as_nanos() as i128
    }
}

#[cfg(test)]
mod tests;

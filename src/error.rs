//! Errors.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

/// A setting that no timer can be built with.
///
/// ```
/// use hashed_wheel::{ConfigError, HashedWheelTimer};
///
/// let error = HashedWheelTimer::builder().max_pending_timeouts(0).build().unwrap_err();
/// assert_eq!(error, ConfigError::ZeroMaxPendingTimeouts);
/// println!("{error}"); // max_pending_timeouts is 0; it must be between 1 and …
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The tick is zero.
    ZeroTick,
    /// There are no buckets, or more than 2^24.
    Slots {
        /// The value given.
        slots: usize,
    },
    /// The hierarchical wheel has fewer than 2 or more than 2^24 buckets on a level.
    WheelSize {
        /// The value given.
        wheel_size: usize,
    },
    /// One revolution of the wheel does not fit in 64 bits of nanoseconds.
    TickTooLong {
        /// The value given.
        tick_duration: Duration,
        /// The number of buckets, rounded up to a power of two on the hashed wheel.
        slots: usize,
    },
    /// A limit of no pending timeouts at all.
    ZeroMaxPendingTimeouts,
    /// A transfer of no entries at all.
    ZeroMaxTransfersPerTick,
    /// The thread's name contains a NUL character, which no system accepts.
    ThreadName {
        /// The value given.
        name: String,
    },
    /// A manual clock for a timer that the caller's own loop drives.
    DrivenClock,
}

impl ConfigError {
    /// The most buckets that a wheel may have.
    pub(crate) const MAX_BUCKETS: usize = 1 << 24;
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value, least, most) = match self {
            Self::ZeroTick => {
                return f.write_str(
                    "tick_duration is 0 ns; it must be at least 1 ns (below 1 ms it becomes 1 ms)",
                );
            }
            Self::TickTooLong {
                tick_duration: tick,
                slots,
            } => {
                let most = Duration::from_nanos(u64::MAX / *slots as u64);
                return write!(
                    f,
                    "tick_duration is {tick:?} with {slots} buckets; it must be at most {most:?}, so that \
                     one revolution of the wheel fits in 2^64 ns"
                );
            }
            Self::ThreadName { name } => {
                let range = "any text without a NUL character";
                return write!(f, "thread_name is {name:?}; it may be {range}");
            }
            Self::DrivenClock => {
                return f.write_str(
                    "clock is a manual clock, which drives its timers itself; with build_driven it must not \
                     be set, so that the timer is on the system clock",
                );
            }
            Self::Slots { slots } => ("ticks_per_wheel", *slots, 1, Self::MAX_BUCKETS),
            Self::WheelSize { wheel_size } => ("wheel_size", *wheel_size, 2, Self::MAX_BUCKETS),
            Self::ZeroMaxPendingTimeouts => ("max_pending_timeouts", 0, 1, usize::MAX),
            Self::ZeroMaxTransfersPerTick => ("max_transfers_per_tick", 0, 1, usize::MAX),
        };
        write!(
            f,
            "{name} is {value}; it must be between {least} and {most}"
        )
    }
}

impl Error for ConfigError {}

/// A task that was not scheduled, and why.
///
/// The task is handed back: it can be run, kept or scheduled elsewhere.
///
/// ```
/// # use hashed_wheel::{HashedWheelTimer, RejectReason};
/// # use std::time::Duration;
/// let timer = HashedWheelTimer::default();
/// timer.stop().unwrap();
/// let rejected = timer.new_timeout(|_| println!("too late"), Duration::ZERO).unwrap_err();
/// assert!(matches!(rejected.reason, RejectReason::Stopped));
/// let _the_task_again = rejected.task;
/// ```
///
/// # With `?`
/// It holds the task, so it is only as `Send` and `Sync` as the task is. `Box<dyn Error + Send + Sync>` and `anyhow::Error`
/// want both, and a closure that has captured a `Cell`, a `Receiver` or a `Box<dyn FnOnce() + Send>` is not `Sync`. Where the
/// compiler says so, leave the task behind and keep the reason, which is both:
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, RejectReason, Timeout};
/// use std::error::Error;
/// use std::time::Duration;
///
/// fn schedule(
///     timer: &HashedWheelTimer,
///     callback: Box<dyn FnOnce() + Send>,
/// ) -> Result<Timeout, Box<dyn Error + Send + Sync>> {
///     let delay = Duration::from_secs(5);
///     let timeout = timer.new_timeout(|_| callback(), delay).map_err(RejectReason::from)?;
///     // What the closure has captured is `Sync`: nothing but `?`.
///     timer.new_timeout(|_| println!("as well"), delay)?;
///     Ok(timeout)
/// }
/// # let timer = HashedWheelTimer::default();
/// # assert!(schedule(&timer, Box::new(|| ())).is_ok());
/// # timer.stop().unwrap();
/// # let refused = schedule(&timer, Box::new(|| ())).unwrap_err();
/// # assert!(matches!(refused.downcast_ref(), Some(RejectReason::Stopped)));
/// ```
pub struct Rejected<F> {
    /// The task, as it was passed.
    pub task: F,
    /// The reason.
    pub reason: RejectReason,
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected")
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<F> Error for Rejected<F> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}

/// Why a task was not scheduled.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, RejectReason};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::builder().max_pending_timeouts(1).build()?;
/// timer.new_timeout(|_| {}, Duration::from_secs(60))?;
/// match timer.new_timeout(|_| {}, Duration::from_secs(60)).map_err(RejectReason::from) {
///     Err(RejectReason::TooManyPending { max }) => assert_eq!(max, 1),
///     Err(RejectReason::Stopped) => println!("the program is ending"),
///     Err(other) => println!("{other}"),
///     Ok(timeout) => println!("{timeout:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum RejectReason {
    /// The timer has stopped.
    Stopped,
    /// As many timeouts are pending as the timer was built to hold.
    TooManyPending {
        /// The limit.
        max: usize,
    },
    /// The timer had to be started for it, and its thread could not be.
    Spawn(io::Error),
}

impl RejectReason {
    /// The same reason once more, for a future that keeps it. Of an error of the system, kind and text.
    pub(crate) fn copy(&self) -> RejectReason {
        match self {
            Self::Stopped => Self::Stopped,
            Self::TooManyPending { max } => Self::TooManyPending { max: *max },
            Self::Spawn(error) => Self::Spawn(match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            }),
        }
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the timer has stopped"),
            Self::TooManyPending { max } => {
                write!(
                    f,
                    "as many timeouts are pending as max_pending_timeouts allows: {max}"
                )
            }
            Self::Spawn(error) => write!(f, "the timer thread could not be started: {error}"),
        }
    }
}

impl Error for RejectReason {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Spawn(error) => Some(error),
            Self::Stopped | Self::TooManyPending { .. } => None,
        }
    }
}

impl<F> From<Rejected<F>> for RejectReason {
    fn from(rejected: Rejected<F>) -> Self {
        rejected.reason
    }
}

impl From<StartError> for RejectReason {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Stopped => Self::Stopped,
            StartError::Spawn(error) => Self::Spawn(error),
        }
    }
}

/// Why a timer could not be started.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, StartError};
/// use std::io;
///
/// let timer = HashedWheelTimer::builder()
///     .thread_factory(|_| Err(io::Error::other("no more threads")))
///     .build()?;
/// assert!(matches!(timer.start(), Err(StartError::Spawn(_)))); // the next call would try again
///
/// timer.stop()?;
/// assert!(matches!(timer.start(), Err(StartError::Stopped)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// It has been stopped; a timer does not start twice.
    Stopped,
    /// Its thread could not be started. The timer is as it was; the next call tries again.
    Spawn(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the timer has stopped and cannot be started again"),
            Self::Spawn(error) => write!(f, "the timer thread could not be started: {error}"),
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Spawn(error) => Some(error),
            Self::Stopped => None,
        }
    }
}

/// Why a timer could not be stopped.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, StopError, Timeout};
/// use std::sync::mpsc;
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
/// let (sender, receiver) = mpsc::channel();
/// // Stopping waits for the timer thread, and this runs on it.
/// let stop = move |timeout: &Timeout| drop(sender.send(timeout.timer().stop().map(|left| left.len())));
/// timer.new_timeout(stop, Duration::ZERO)?;
/// assert_eq!(receiver.recv()?, Err(StopError::FromTimerThread));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopError {
    /// `stop` waits for the timer thread, and was called on it, by a task, or while it was being started,
    /// by the thread factory. Nothing has changed.
    FromTimerThread,
    /// The timer is that of [`global`](crate::global), which is never stopped.
    Global,
}

impl fmt::Display for StopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FromTimerThread => {
                "stop() was called on the timer thread, or while that was being started, and would have to \
                 wait for itself"
            }
            Self::Global => {
                "stop() was called on the global timer, which belongs to the whole program and is never stopped"
            }
        })
    }
}

impl Error for StopError {}

/// Why a future under [`with_timeout`](crate::TimerHandle::with_timeout) did not give its output.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, ManualClock, TimeoutError};
/// use std::future;
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
/// let mut limited = pin!(timer.with_timeout(future::pending::<()>(), Duration::from_secs(5)));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(limited.as_mut().poll(&mut context).is_pending());
/// clock.advance(Duration::from_secs(5));
/// assert!(matches!(limited.poll(&mut context), Poll::Ready(Err(TimeoutError::Elapsed))));
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TimeoutError {
    /// It was not ready in time.
    Elapsed,
    /// The timer did not take the timeout, or has stopped meanwhile.
    Rejected(RejectReason),
}

impl fmt::Display for TimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed => f.write_str("the deadline has elapsed"),
            Self::Rejected(reason) => write!(f, "the timeout could not be kept: {reason}"),
        }
    }
}

impl Error for TimeoutError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Rejected(reason) => Some(reason),
            Self::Elapsed => None,
        }
    }
}

impl From<RejectReason> for TimeoutError {
    fn from(reason: RejectReason) -> Self {
        TimeoutError::Rejected(reason)
    }
}

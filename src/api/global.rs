//! A timer for the whole program, and the futures on it.

use super::future::{Interval, Sleep, WithTimeout};
use super::timer::HashedWheelTimer;
use crate::shared::TimerHandle;
use std::future::IntoFuture;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The timer of the whole program: a [`HashedWheelTimer`] with a tick of 1 ms and 4096 buckets.
///
/// Its thread starts with the first timeout, and it is never stopped: [`stop`](TimerHandle::stop) on it is
/// [`StopError::Global`](crate::StopError::Global), and [`cancel_all`](TimerHandle::cancel_all) cancels nothing. A slow task
/// on it delays the timeouts of the whole program; a module that needs isolation, a limit, an executor or another tick
/// builds its own timer.
///
/// ```
/// use std::time::Duration;
///
/// let warn = |_: &hashed_wheel::Timeout| println!("still waiting");
/// let warning = hashed_wheel::global().new_timeout(warn, Duration::from_secs(5))?;
/// assert!(warning.cancel());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn global() -> &'static TimerHandle {
    static GLOBAL: OnceLock<HashedWheelTimer> = OnceLock::new();
    GLOBAL.get_or_init(|| {
        HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(1))
            .ticks_per_wheel(4096)
            .thread_name("hashed-wheel-global")
            .never_stopped()
            .build()
            .unwrap_or_else(|error| unreachable!("{error}"))
    })
}

/// A future that completes `delay` after this call: [`TimerHandle::sleep`] on the [`global`] timer.
///
/// ```
/// use hashed_wheel::sleep;
/// use std::time::Duration;
///
/// async fn back_off(tries: u32) -> Result<(), hashed_wheel::RejectReason> {
///     sleep(Duration::from_millis(100) * tries).await
/// }
/// # drop(back_off(1));
/// ```
pub fn sleep(delay: Duration) -> Sleep {
    global().sleep(delay)
}

/// A future that completes at a moment: [`TimerHandle::sleep_until`] on the [`global`] timer.
///
/// ```
/// use hashed_wheel::sleep_until;
/// use std::time::{Duration, Instant};
///
/// let noon = Instant::now() + Duration::from_secs(3600);
/// assert_eq!(sleep_until(noon).deadline(), Some(noon));
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    global().sleep_until(deadline)
}

/// Limits `future` to `delay` after this call: [`TimerHandle::with_timeout`] on the [`global`] timer.
///
/// ```
/// use hashed_wheel::{TimeoutError, timeout};
/// use std::time::Duration;
///
/// async fn answer() -> u32 {
///     42
/// }
///
/// async fn ask() -> Result<u32, TimeoutError> {
///     timeout(Duration::from_secs(5), answer()).await
/// }
/// # drop(ask());
/// ```
pub fn timeout<F: IntoFuture>(delay: Duration, future: F) -> WithTimeout<F::IntoFuture> {
    global().with_timeout(future, delay)
}

/// Limits `future` to a moment: [`TimerHandle::with_timeout_at`] on the [`global`] timer.
///
/// ```
/// use hashed_wheel::{TimeoutError, timeout_at};
/// use std::time::{Duration, Instant};
/// # async fn connect() {}
/// # async fn request() {}
///
/// // Five seconds for both together.
/// async fn ask() -> Result<(), TimeoutError> {
///     let deadline = Instant::now() + Duration::from_secs(5);
///     timeout_at(deadline, connect()).await?;
///     timeout_at(deadline, request()).await
/// }
/// # drop(ask());
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> WithTimeout<F::IntoFuture> {
    global().with_timeout_at(future, deadline)
}

/// Ticks every `period`, first one period from now: [`TimerHandle::interval`] on the [`global`] timer.
///
/// ```
/// use hashed_wheel::interval;
/// use std::time::Duration;
///
/// async fn beat() -> Result<(), hashed_wheel::RejectReason> {
///     let mut heartbeat = interval(Duration::from_secs(10));
///     loop {
///         heartbeat.tick().await?;
///         println!("still alive");
///     }
/// }
/// # drop(beat());
/// ```
pub fn interval(period: Duration) -> Interval {
    global().interval(period)
}

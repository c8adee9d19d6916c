//! Futures on a timer, without an async runtime, and the methods that make them.

mod interval;
mod sleep;
#[expect(unsafe_code, reason = "a pinned field")]
mod with_timeout;

pub use interval::{Interval, MissedTicks};
pub use sleep::Sleep;
pub use with_timeout::WithTimeout;

use crate::shared::TimerHandle;
use std::future::IntoFuture;
use std::time::{Duration, Instant};

/// Futures.
impl TimerHandle {
    /// A future that completes `delay` after this call, or with an error when the timer stops. Needs no async runtime. A zero
    /// delay is ready at the first poll.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let mut nap = Box::pin(async {
    ///     timer.sleep(Duration::from_secs(8)).await?;
    ///     Ok::<_, RejectReason>("rested")
    /// });
    /// // An executor does this.
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(nap.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(8));
    /// assert!(nap.as_mut().poll(&mut context).is_ready());
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn sleep(&self, delay: Duration) -> Sleep {
        Sleep::new(self, delay)
    }

    /// [`sleep`](Self::sleep), until a moment. Reads no clock. If the moment has passed when the future is first polled,
    /// it is ready at that poll.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let at_eight = timer.now() + Duration::from_secs(8);
    /// let mut sleep = pin!(timer.sleep_until(at_eight));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(sleep.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(8));
    /// assert!(sleep.as_mut().poll(&mut context).is_ready());
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        Sleep::until(self, self.shared().clock().time_of(deadline))
    }

    /// Limits `future` to `delay` after this call. If it is ready when first polled, no timeout is scheduled, and none if the
    /// time is up by then.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let never_ready = std::future::pending::<u32>();
    /// let request = async {
    ///     match timer.with_timeout(never_ready, Duration::from_secs(5)).await {
    ///         Ok(answer) => format!("{answer}"),
    ///         Err(TimeoutError::Elapsed) => "no answer in five seconds".to_owned(),
    ///         Err(error) => error.to_string(),
    ///     }
    /// };
    /// # let mut request = pin!(request);
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # assert!(request.as_mut().poll(&mut context).is_pending());
    /// # clock.advance(Duration::from_secs(5));
    /// # assert_eq!(request.poll(&mut context), Poll::Ready("no answer in five seconds".to_owned()));
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn with_timeout<F: IntoFuture>(
        &self,
        future: F,
        delay: Duration,
    ) -> WithTimeout<F::IntoFuture> {
        WithTimeout::new(future.into_future(), self.sleep(delay))
    }

    /// [`with_timeout`](Self::with_timeout), until a moment. Reads no clock. So several futures can share one deadline.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # use std::time::Duration;
    /// # async fn connect() -> u32 { 1 }
    /// # async fn exchange(_: u32) -> u32 { std::future::pending().await }
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// // Five seconds for both together.
    /// let request = async {
    ///     let deadline = timer.now() + Duration::from_secs(5);
    ///     let connection = timer.with_timeout_at(connect(), deadline).await?;
    ///     timer.with_timeout_at(exchange(connection), deadline).await
    /// };
    /// # let mut request = pin!(request);
    /// # let mut context = Context::from_waker(Waker::noop());
    /// # assert!(request.as_mut().poll(&mut context).is_pending());
    /// # clock.advance(Duration::from_secs(5));
    /// # assert!(matches!(request.poll(&mut context), Poll::Ready(Err(TimeoutError::Elapsed))));
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn with_timeout_at<F: IntoFuture>(
        &self,
        future: F,
        deadline: Instant,
    ) -> WithTimeout<F::IntoFuture> {
        WithTimeout::new(future.into_future(), self.sleep_until(deadline))
    }

    /// Ticks every `period`, first one period from now. The phase is kept, and what was missed
    /// is skipped, unless [`missed_ticks`](Interval::missed_ticks) says otherwise.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let mut every_minute = timer.interval(Duration::from_secs(60));
    /// let report = async move {
    ///     while every_minute.tick().await.is_ok() {
    ///         println!("still here");
    ///     }
    /// };
    /// # drop(report);
    /// ```
    pub fn interval(&self, period: Duration) -> Interval {
        Interval::new(self.sleep(period), period)
    }

    /// Ticks every `period`, first at the moment `first`, from which the phase counts. Making it reads no clock.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// // The first tick comes with the next boundary, and not only after a minute.
    /// let mut every_minute = timer.interval_at(timer.now(), Duration::from_secs(60));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(every_minute.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_millis(100));
    /// assert!(every_minute.poll_tick(&mut context).is_ready());
    /// # Ok::<(), ConfigError>(())
    /// ```
    pub fn interval_at(&self, first: Instant, period: Duration) -> Interval {
        Interval::new(self.sleep_until(first), period)
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

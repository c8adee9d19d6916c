//! Ticks at a fixed rate.

use super::Sleep;
use crate::error::RejectReason;
use crate::shared::Shared;
use crate::time::{nanos, next_at_fixed_rate};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Ticks at a fixed rate: made by [`interval`](crate::TimerHandle::interval).
///
/// With the feature `stream` it is a `futures_core::Stream` as well. Dropping it ends it.
///
/// ```
/// use hashed_wheel::{Interval, RejectReason};
///
/// async fn beat(mut interval: Interval) -> RejectReason {
///     loop {
///         if let Err(reason) = interval.tick().await {
///             return reason; // the timer has stopped
///         }
///         println!("beat");
///     }
/// }
/// # use std::task::{Context, Poll, Waker};
/// # use std::time::Duration;
/// # let clock = hashed_wheel::ManualClock::new();
/// # let timer = hashed_wheel::HashedWheelTimer::builder().clock(&clock).build().unwrap();
/// # let mut beating = Box::pin(beat(timer.interval(Duration::from_secs(1))));
/// # let mut context = Context::from_waker(Waker::noop());
/// # assert!(beating.as_mut().poll(&mut context).is_pending());
/// # timer.stop().unwrap();
/// # assert!(matches!(beating.as_mut().poll(&mut context), Poll::Ready(RejectReason::Stopped)));
/// ```
pub struct Interval {
    period: u64,
    /// Waits for the next tick.
    sleep: Sleep,
}

impl Interval {
    pub(crate) fn new(timer: &Arc<Shared>, period: Duration) -> Interval {
        Interval {
            period: nanos(period),
            sleep: Sleep::new(timer, period),
        }
    }

    /// Waits for the next tick.
    ///
    /// The first tick comes one period after the interval was made, the others at whole periods after it; missed ticks are
    /// skipped. It is cancel-safe: dropping the future loses no tick.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::pin::pin;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let mut interval = timer.interval(Duration::from_secs(10));
    /// let mut context = Context::from_waker(Waker::noop());
    /// let mut tick = pin!(interval.tick());
    /// assert!(tick.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(10));
    /// assert!(tick.poll(&mut context).is_ready());
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// [`RejectReason`] when the timer has stopped, has reached its limit of pending timeouts, or could not be started.
    /// After the last two, the next call waits for the next tick.
    pub async fn tick(&mut self) -> Result<(), RejectReason> {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// [`tick`](Interval::tick) for hand-written futures.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let mut interval = timer.interval(Duration::from_secs(10));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(interval.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(35)); // three ticks, two of them missed
    /// assert!(interval.poll_tick(&mut context).is_ready());
    /// assert!(interval.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(5)); // the phase is kept
    /// assert!(interval.poll_tick(&mut context).is_ready());
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    ///
    /// # Errors
    /// As for `tick`.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RejectReason>> {
        let ticked = ready!(Pin::new(&mut self.sleep).poll(cx));
        // After a stop it stays as it is, and returns the error every time.
        if !matches!(ticked, Err(RejectReason::Stopped)) {
            self.sleep.reset_to(self.next());
        }
        Poll::Ready(ticked)
    }

    /// The next deadline at whole periods that has not been missed.
    fn next(&self) -> u64 {
        let timer = self.sleep.shared();
        let started = timer.started_at();
        let passed = timer.time_of(timer.passed()).unwrap_or(started);
        next_at_fixed_rate(self.sleep.deadline(), self.period, passed)
    }

    /// The time from one tick to the next.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// assert_eq!(timer.interval(Duration::from_secs(10)).period(), Duration::from_secs(10));
    /// ```
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }
}

/// The ticks, as a stream. It ends after the error of a stopped timer. Any other rejection is an item too, and the stream
/// goes on with the next tick.
#[cfg(feature = "stream")]
impl futures_core::Stream for Interval {
    type Item = Result<(), RejectReason>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.sleep.is_stopped() {
            return Poll::Ready(None);
        }
        self.poll_tick(cx).map(Some)
    }
}

#[cfg(feature = "stream")]
impl futures_core::FusedStream for Interval {
    fn is_terminated(&self) -> bool {
        self.sleep.is_stopped()
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval")
            .field("period", &self.period())
            .field("next", &self.sleep)
            .finish()
    }
}

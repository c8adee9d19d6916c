//! Ticks at a fixed rate.

use super::Sleep;
use crate::error::RejectReason;
use crate::shared::TimerState;
use crate::time::{FOREVER, Tick, nanos, next_at_fixed_rate};
use std::fmt;
use std::future::poll_fn;
#[cfg(feature = "stream")]
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Ticks at a fixed rate: made by [`interval`](crate::TimerHandle::interval) and
/// [`interval_at`](crate::TimerHandle::interval_at). It is `Unpin`.
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
    missed: MissedTicks,
    /// Waits for the next tick.
    sleep: Sleep,
}

/// The behaviour of an [`Interval`] after ticks that it was not polled for in time.
///
/// An interval of ten seconds whose first tick, due at 10, is taken at 35:
///
/// | | the next ticks |
/// |---|---|
/// | `Skip` | 40, 50, 60: the phase is kept, those of 20 and 30 are gone |
/// | `Burst` | at once for 20, at once for 30, then 40, 50, 60 |
/// | `Delay` | 45, 55, 65: counted from when the late one was taken |
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, MissedTicks};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// // A clean-up that must never run twice in a row.
/// let interval = timer.interval(Duration::from_secs(10)).missed_ticks(MissedTicks::Delay);
/// # drop(interval);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissedTicks {
    /// Keeps the phase and skips what was missed.
    #[default]
    Skip,
    /// Gives each missed one, in one poll after the other.
    /// A period of zero has no ticks to be missed: it is as `Skip`.
    Burst,
    /// Counts the next period from the poll that returned the late tick. A tick is late if it is polled at a later boundary
    /// than the one it was due at.
    Delay,
}

impl Interval {
    pub(crate) fn new(first: Sleep, period: Duration) -> Interval {
        Interval {
            period: nanos(period),
            missed: MissedTicks::Skip,
            sleep: first,
        }
    }

    /// Sets the behaviour after missed ticks: [`MissedTicks::Skip`] by default.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock, MissedTicks};
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let mut interval = timer.interval(Duration::from_secs(10)).missed_ticks(MissedTicks::Burst);
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(interval.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(35));
    /// for _ in [10, 20, 30] {
    ///     assert!(interval.poll_tick(&mut context).is_ready());
    /// }
    /// assert!(interval.poll_tick(&mut context).is_pending()); // until 40
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    #[must_use = "it takes the interval and returns it"]
    pub fn missed_ticks(mut self, missed: MissedTicks) -> Self {
        self.missed = missed;
        self
    }

    /// Starts again: the next tick comes one period from now, and the phase counts from there.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let mut keep_alive = timer.interval(Duration::from_secs(10));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(keep_alive.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(8));
    /// keep_alive.reset(); // there was traffic
    /// clock.advance(Duration::from_secs(8));
    /// assert!(keep_alive.poll_tick(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(2));
    /// assert!(keep_alive.poll_tick(&mut context).is_ready());
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn reset(&mut self) {
        self.sleep.reset(self.period());
    }

    /// Waits for the next tick.
    ///
    /// The first comes one period after the interval was made (or at its `first`), and the others at whole periods after
    /// it; those that were missed are skipped, unless [`missed_ticks`](Interval::missed_ticks) says otherwise. A tick whose boundary
    /// has passed is ready at once. It is cancel-safe: a call that is dropped loses no tick. A period of zero ticks once at
    /// each boundary.
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
        let ticked = if self.has_passed() {
            Ok(())
        } else {
            ready!(self.sleep.poll_timeout(cx.waker()))
        };
        // One whose timer has stopped stays as it is, and says so every time.
        if !matches!(ticked, Err(RejectReason::Stopped)) {
            self.sleep.reset_to(self.next());
        }
        Poll::Ready(ticked)
    }

    /// Returns `true` if the boundary of the tick had passed before a timeout was scheduled for it.
    fn has_passed(&self) -> bool {
        let timer = self.sleep.shared();
        self.sleep.is_new() && timer.state() == TimerState::Started && self.due() <= timer.passed()
    }

    /// The boundary of the tick that it waits for. Only after the timer's start.
    fn due(&self) -> Tick {
        let timer = self.sleep.shared();
        match self.sleep.time() {
            FOREVER => Tick::NEVER,
            time => timer.scale().due(time.saturating_sub(timer.started_at())),
        }
    }

    /// The deadline of the tick after the one that has just been given.
    fn next(&self) -> u64 {
        let (timer, last) = (self.sleep.shared(), self.sleep.time());
        let passed = timer.passed();
        match self.missed {
            MissedTicks::Burst if self.period > 0 => last.saturating_add(self.period),
            MissedTicks::Delay if self.period > 0 && self.due() < passed => {
                timer.clock().elapsed().saturating_add(self.period)
            }
            _ => {
                let passed = timer.time_of(passed).unwrap_or(timer.started_at());
                next_at_fixed_rate(last, self.period, passed)
            }
        }
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
            .field("missed", &self.missed)
            .field("next", &self.sleep)
            .finish()
    }
}

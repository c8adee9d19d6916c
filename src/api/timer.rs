//! The owners of a timer, and the handle on either.

use crate::api::builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder};
use crate::api::future::{Interval, Sleep, WithTimeout};
use crate::error::{Rejected, StartError, StopError};
use crate::metrics::Stats;
use crate::shared::{Shared, Timeout, TimerHandle, TimerState, When};
use crate::slots::StoredTask;
use crate::time::Period;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

/// A timer on a hashed wheel: the owner. Dropping it stops the timer.
///
/// One row of buckets that time goes round and round; a timeout lies in the bucket of its tick. What is
/// further away than one turn is passed over until its turn has come, so let tick × slots, one turn,
/// be of the order of your usual delay: [`choosing`](crate::docs::choosing) has numbers. By default that is
/// 100 ms × 512, some 51 seconds.
///
/// ```
/// use hashed_wheel::HashedWheelTimer;
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
/// let timeout = timer.new_timeout(|_| println!("hello"), Duration::from_secs(3))?;
/// assert!(timeout.cancel());
/// assert_eq!(timer.stop()?.len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HashedWheelTimer {
    shared: Arc<Shared>,
}

/// A timer on a hierarchy of wheels: the owner. Dropping it stops the timer.
///
/// It obeys the same rules as [`HashedWheelTimer`] and fires everything at the same boundaries; what
/// differs is what a timeout costs that is far away: it moves down one level at a time, instead of
/// being passed over once a turn. For a fine tick with delays from milliseconds to days. By default a
/// tick of 1 ms and 20 buckets on each level: 20 ms, 400 ms, 8 s, 160 s and so on.
///
/// ```
/// use hashed_wheel::HierarchicalWheelTimer;
/// use std::time::Duration;
///
/// let timer = HierarchicalWheelTimer::new(Duration::from_millis(1), 20);
/// timer.new_timeout(|_| println!("tomorrow"), Duration::from_secs(86_400))?;
/// assert_eq!(timer.stop()?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HierarchicalWheelTimer {
    shared: Arc<Shared>,
}

impl HashedWheelTimer {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        HashedWheelTimer { shared }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A timer that looks at its timeouts every `tick_duration`, on a wheel of `ticks_per_wheel`
    /// slots, which are rounded up to a power of two. It starts with the first timeout.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, TimerState};
    /// use std::time::Duration;
    ///
    /// let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
    /// assert_eq!(timer.state(), TimerState::Init);
    /// ```
    ///
    /// # Panics
    /// With the message of the [`ConfigError`](crate::ConfigError) that
    /// [`build`](HashedWheelTimerBuilder::build) would return.
    pub fn new(tick_duration: Duration, ticks_per_wheel: usize) -> Self {
        Self::builder()
            .tick_duration(tick_duration)
            .ticks_per_wheel(ticks_per_wheel)
            .build()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// All settings, by name.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .max_pending_timeouts(100_000)
    ///     .thread_name("timeouts")
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn builder() -> HashedWheelTimerBuilder {
        HashedWheelTimerBuilder::default()
    }
}

/// 100 ms, 512 slots.
impl Default for HashedWheelTimer {
    fn default() -> Self {
        Self::builder()
            .build()
            .expect("the default settings are valid")
    }
}

impl HierarchicalWheelTimer {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        HierarchicalWheelTimer { shared }
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// A timer that looks at its timeouts every `tick_duration`, on levels of `wheel_size` buckets. It
    /// starts with the first timeout.
    ///
    /// ```
    /// use hashed_wheel::{HierarchicalWheelTimer, TimerState};
    /// use std::time::Duration;
    ///
    /// let timer = HierarchicalWheelTimer::new(Duration::from_millis(1), 64);
    /// assert_eq!(timer.state(), TimerState::Init);
    /// ```
    ///
    /// # Panics
    /// With the message of the [`ConfigError`](crate::ConfigError) that
    /// [`build`](HierarchicalWheelTimerBuilder::build) would return.
    pub fn new(tick_duration: Duration, wheel_size: usize) -> Self {
        Self::builder()
            .tick_duration(tick_duration)
            .wheel_size(wheel_size)
            .build()
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// All settings, by name.
    ///
    /// ```
    /// use hashed_wheel::HierarchicalWheelTimer;
    ///
    /// let timer = HierarchicalWheelTimer::builder()
    ///     .max_pending_timeouts(100_000)
    ///     .thread_name("timeouts")
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn builder() -> HierarchicalWheelTimerBuilder {
        HierarchicalWheelTimerBuilder::default()
    }
}

/// 1 ms, 20 buckets a level.
impl Default for HierarchicalWheelTimer {
    fn default() -> Self {
        Self::builder()
            .build()
            .expect("the default settings are valid")
    }
}

/// What owners and handles have in common.
///
/// The examples differ in how they come by a `timer`: one with the default settings, and one that is
/// driven by a manual `clock`.
macro_rules! timer_methods {
    ($($timer:ident, $default:literal, $on_clock:literal;)*) => {$(
        impl $timer {
            /// Schedules `task` to run once, `delay` from now: at the first boundary of a tick at or
            /// after that moment, never before. Starts the timer if that has not happened yet.
            ///
            /// Never runs the task itself, and never waits for the timer thread once it has started. A
            /// zero delay fires at the next boundary, [`Duration::MAX`] never. The [`Timeout`] may be
            /// dropped; the task runs all the same.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            #[doc = $default]
            /// let deadline = timer.new_timeout(|_| println!("no answer"), Duration::from_secs(5))?;
            /// assert!(deadline.cancel());
            ///
            /// // A task is given its own timeout, and through that the timer: here, to try again.
            /// let first_try = |timeout: &Timeout| {
            ///     let second_try = |_: &Timeout| println!("second try");
            ///     let _ = timeout.timer().new_timeout(second_try, Duration::from_secs(10));
            /// };
            /// timer.new_timeout(first_try, Duration::from_secs(5))?;
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`Rejected`], with the task inside, if the timer has stopped, holds as many pending
            /// timeouts as it may, or could not be started.
            ///
            /// # Panics
            /// If nearly 2^32 timeouts exist: pending ones, and those whose [`Timeout`] is kept.
            #[inline]
            pub fn new_timeout<F>(&self, task: F, delay: Duration) -> Result<Timeout, Rejected<F>>
            where
                F: FnOnce(&Timeout) + Send + 'static,
            {
                self.shared().schedule(StoredTask::once(task), When::After(delay)).map_err(
                    // SAFETY: the task comes back as it was stored, two lines above.
                    |(task, reason)| Rejected { task: unsafe { task.into_once() }, reason },
                )
            }

            /// Schedules `task` to run again and again, first `initial_delay` from now and then as
            /// `period` says, until it is cancelled or the timer stops. A period below one tick runs
            /// at every tick; runs never overlap; a run that panics is counted, and the next one comes.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::sync::atomic::{AtomicU32, Ordering};
            /// # use std::sync::Arc;
            /// # use std::time::Duration;
            /// let clock = ManualClock::new();
            #[doc = $on_clock]
            /// let beats = Arc::new(AtomicU32::new(0));
            /// let count = Arc::clone(&beats);
            /// let heartbeat = timer.new_periodic(
            ///     move |_| { count.fetch_add(1, Ordering::Relaxed); },
            ///     Duration::from_secs(1),
            ///     Period::FixedRate(Duration::from_secs(1)),
            /// )?;
            /// clock.advance(Duration::from_secs(60));
            /// assert_eq!(beats.load(Ordering::Relaxed), 60);
            /// assert!(heartbeat.cancel());
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// As for [`new_timeout`](Self::new_timeout).
            ///
            /// # Panics
            /// As for `new_timeout`.
            pub fn new_periodic<F>(
                &self,
                task: F,
                initial_delay: Duration,
                period: Period,
            ) -> Result<Timeout, Rejected<F>>
            where
                F: FnMut(&Timeout) + Send + 'static,
            {
                self.shared()
                    .schedule(StoredTask::periodic(task, period), When::After(initial_delay))
                    .map_err(|(task, reason)| Rejected {
                        // SAFETY: the task comes back as it was stored, three lines above.
                        task: unsafe { task.into_periodic() },
                        reason,
                    })
            }

            /// Starts the timer, unless it is started: its time zero is now. The first timeout does so
            /// by itself.
            ///
            /// Calling it says where a thread that cannot be started shall be noticed, and where time zero
            /// lies, from which ticks are counted.
            ///
            /// ```
            /// # use hashed_wheel::*;
            #[doc = $default]
            /// timer.start()?;
            /// assert_eq!(timer.state(), TimerState::Started);
            /// timer.start()?; // no effect
            /// # Ok::<(), StartError>(())
            /// ```
            ///
            /// # Errors
            /// [`StartError`] if it has been stopped, or if its thread could not be started; in that case
            /// the next call tries again.
            pub fn start(&self) -> Result<(), StartError> {
                self.shared().start()
            }

            /// Stops the timer for good, waits for its thread, and returns every timeout that was
            /// pending, each now cancelled with its task [still inside](Timeout::take_task).
            ///
            /// With an [executor](HashedWheelTimerBuilder::executor), it waits until the thread has done everything
            /// but drop the executor, which may wait for a job that waits for this call.
            ///
            /// A second call, or one that comes while another is stopping the timer, returns an empty
            /// vector when the timer has stopped. Futures resolve to their error and are not returned.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            #[doc = $default]
            /// timer.new_timeout(|_| println!("goodbye"), Duration::from_secs(60))?;
            ///
            /// let unprocessed = timer.stop()?;
            /// assert_eq!(unprocessed.len(), 1);
            /// for timeout in unprocessed {
            ///     assert!(timeout.is_cancelled());
            ///     println!("{:?} were left", timeout.remaining());
            /// }
            /// assert!(timer.new_timeout(|_| {}, Duration::ZERO).is_err());
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            ///
            /// # Errors
            /// [`StopError`] when called by a task on the timer thread, which it would have to wait for, or by
            /// the thread factory. Nothing has changed then.
            pub fn stop(&self) -> Result<Vec<Timeout>, StopError> {
                self.shared().stop()
            }

            /// Where the timer is in its life.
            ///
            /// ```
            /// # use hashed_wheel::*;
            #[doc = $default]
            /// assert_eq!(timer.state(), TimerState::Init);
            /// timer.stop()?;
            /// assert_eq!(timer.state(), TimerState::Shutdown);
            /// # Ok::<(), StopError>(())
            /// ```
            pub fn state(&self) -> TimerState {
                self.shared().state()
            }

            /// How many timeouts are scheduled and have neither fired nor been cancelled.
            ///
            /// It falls at `cancel` itself, and before a task runs. It is 0 when the timer has stopped.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            #[doc = $default]
            /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(60))?;
            /// assert_eq!(timer.pending_timeouts(), 1);
            /// timeout.cancel();
            /// assert_eq!(timer.pending_timeouts(), 0);
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn pending_timeouts(&self) -> usize {
                self.shared().pending_timeouts()
            }

            /// What the timer has done so far, and what it holds.
            ///
            /// Cheap enough for every second, or every millisecond: it copies some 300 counters, takes
            /// no lock that scheduling, cancelling or firing has to wait for, and allocates nothing.
            /// About 0.2 µs, whether one thread has used the timer or eight, and 2 µs when none of it is in
            /// the cache (2-core x86-64 virtual machine, rustc 1.95).
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            /// let clock = ManualClock::new();
            #[doc = $on_clock]
            /// timer.new_timeout(|_| {}, Duration::from_secs(1))?;
            /// timer.new_timeout(|_| {}, Duration::from_secs(2))?.cancel();
            /// clock.advance(Duration::from_secs(3));
            ///
            /// let stats = timer.stats();
            /// assert_eq!((stats.scheduled, stats.expired, stats.cancelled), (2, 1, 1));
            /// # Ok::<(), Box<dyn std::error::Error>>(())
            /// ```
            pub fn stats(&self) -> Stats {
                self.shared().stats()
            }

            /// A handle on this timer.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            #[doc = $default]
            /// let handle = timer.handle();
            /// std::thread::spawn(move || {
            ///     handle.new_timeout(|_| println!("from another thread"), Duration::from_secs(1)).is_ok()
            /// });
            /// ```
            #[must_use]
            pub fn handle(&self) -> TimerHandle {
                TimerHandle::new(Arc::clone(self.shared()))
            }

            /// A future that is ready `delay` after this call, or with an error when the timer has
            /// stopped. It needs no async runtime.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::task::{Context, Waker};
            /// # use std::time::Duration;
            /// let clock = ManualClock::new();
            #[doc = $on_clock]
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
                Sleep::new(self.shared(), delay)
            }

            /// `future`, given until `delay` after this call. If it is ready when first polled, no
            /// timeout is ever made.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::pin::pin;
            /// # use std::task::{Context, Poll, Waker};
            /// # use std::time::Duration;
            /// let clock = ManualClock::new();
            #[doc = $on_clock]
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

            /// Ticks every `period`, first one period from now. The phase is kept, and what was missed
            /// is skipped.
            ///
            /// ```
            /// # use hashed_wheel::*;
            /// # use std::time::Duration;
            #[doc = $default]
            /// let mut every_minute = timer.interval(Duration::from_secs(60));
            /// let report = async move {
            ///     while every_minute.tick().await.is_ok() {
            ///         println!("still here");
            ///     }
            /// };
            /// # drop(report);
            /// ```
            pub fn interval(&self, period: Duration) -> Interval {
                Interval::new(self.shared(), period)
            }
        }

        impl fmt::Debug for $timer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($timer))
                    .field("state", &self.state())
                    .field("tick", &self.shared().tick())
                    .field("pending", &self.pending_timeouts())
                    .finish_non_exhaustive()
            }
        }
    )*};
}

timer_methods!(
    HashedWheelTimer,
        "let timer = HashedWheelTimer::default();",
        "let timer = HashedWheelTimer::builder().clock(&clock).build()?;";
    HierarchicalWheelTimer,
        "let timer = HierarchicalWheelTimer::default();",
        "let timer = HierarchicalWheelTimer::builder().clock(&clock).build()?;";
    TimerHandle,
        "let owner = HashedWheelTimer::default();\nlet timer = owner.handle();",
        "let owner = HashedWheelTimer::builder().clock(&clock).build()?;\nlet timer = owner.handle();";
);

impl Drop for HashedWheelTimer {
    fn drop(&mut self) {
        self.shared.drop_owner();
    }
}

impl Drop for HierarchicalWheelTimer {
    fn drop(&mut self) {
        self.shared.drop_owner();
    }
}

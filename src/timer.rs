//! The owners of a timer, and the handle on either.

use crate::builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder};
use crate::error::{RejectReason, Rejected, StartError, StopError};
use crate::future::{Interval, Sleep, WithTimeout};
use crate::inner::{Inner, When};
use crate::launch;
use crate::lifecycle::TimerState;
use crate::stats::Stats;
use crate::task::{Period, StoredTask};
use crate::timeout::Timeout;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

/// A timer on a hashed wheel: the owner. Dropping it stops the timer.
///
/// ```
/// use hashed_wheel::HashedWheelTimer;
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
/// let timeout = timer.new_timeout(|_| println!("hello"), Duration::from_secs(3)).unwrap();
/// timeout.cancel();
/// assert_eq!(timer.stop().unwrap().len(), 0);
/// ```
pub struct HashedWheelTimer {
    inner: Arc<Inner>,
}

/// A timer on a hierarchy of wheels: the owner. Dropping it stops the timer.
///
/// It obeys the same rules as [`HashedWheelTimer`] and fires everything at the same boundaries; what
/// differs is what a timeout costs that is far away.
///
/// ```
/// use hashed_wheel::HierarchicalWheelTimer;
/// use std::time::Duration;
///
/// let timer = HierarchicalWheelTimer::new(Duration::from_millis(1), 20);
/// timer.new_timeout(|_| println!("tomorrow"), Duration::from_secs(86_400)).unwrap();
/// assert_eq!(timer.stop().unwrap().len(), 1);
/// ```
pub struct HierarchicalWheelTimer {
    inner: Arc<Inner>,
}

/// A handle on a timer of either kind, cheap to clone.
///
/// It does not keep the timer running: when the owner is dropped the timer stops, and the handle says
/// so. A task may therefore hold one on its own timer.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, TimerHandle, TimerState};
///
/// let timer = HashedWheelTimer::default();
/// let handle: TimerHandle = timer.handle();
/// drop(timer);
/// assert_eq!(handle.state(), TimerState::Shutdown);
/// ```
#[derive(Clone)]
pub struct TimerHandle {
    inner: Arc<Inner>,
}

impl TimerHandle {
    pub(crate) fn new(inner: Arc<Inner>) -> TimerHandle {
        TimerHandle { inner }
    }

    #[cfg(any(test, feature = "hyper", feature = "unstable-wheels"))]
    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl HashedWheelTimer {
    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        HashedWheelTimer { inner }
    }

    /// A timer that looks at its timeouts every `tick_duration`, on a wheel of `ticks_per_wheel`
    /// slots, which are rounded up to a power of two. It starts with the first timeout.
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
    pub(crate) fn from_inner(inner: Arc<Inner>) -> Self {
        HierarchicalWheelTimer { inner }
    }

    /// A timer that looks at its timeouts every `tick_duration`, on levels of `wheel_size` buckets. It
    /// starts with the first timeout.
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
macro_rules! timer_methods {
    ($($timer:ident),*) => {$(
        impl $timer {
            /// Schedules `task` to run once, `delay` from now: at the first boundary of a tick at or
            /// after that moment, never before. Starts the timer if that has not happened yet.
            ///
            /// Never runs the task itself, and never waits for the timer thread once it has started.
            ///
            /// # Errors
            /// [`Rejected`], with the task inside, if the timer has stopped, holds as many pending
            /// timeouts as it may, or could not be started.
            #[inline]
            pub fn new_timeout<F>(&self, task: F, delay: Duration) -> Result<Timeout, Rejected<F>>
            where
                F: FnOnce(&Timeout) + Send + 'static,
            {
                self.inner.schedule(StoredTask::once(task), When::After(delay)).map_err(
                    // SAFETY: the task comes back as it was stored, two lines above.
                    |(task, reason)| Rejected { task: unsafe { task.into_once() }, reason },
                )
            }

            /// Schedules `task` to run again and again, first `initial_delay` from now and then as
            /// `period` says, until it is cancelled or the timer stops. A period below one tick runs
            /// at every tick; runs never overlap; a run that panics is counted, and the next one comes.
            ///
            /// ```
            /// # use hashed_wheel::{HashedWheelTimer, ManualClock, Period};
            /// # use std::sync::atomic::{AtomicU32, Ordering};
            /// # use std::sync::Arc;
            /// # use std::time::Duration;
            /// let clock = ManualClock::new();
            /// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
            /// let beats = Arc::new(AtomicU32::new(0));
            /// let count = Arc::clone(&beats);
            /// let heartbeat = timer
            ///     .new_periodic(
            ///         move |_| { count.fetch_add(1, Ordering::Relaxed); },
            ///         Duration::from_secs(1),
            ///         Period::FixedRate(Duration::from_secs(1)),
            ///     )
            ///     .unwrap();
            /// clock.advance(Duration::from_secs(60));
            /// assert_eq!(beats.load(Ordering::Relaxed), 60);
            /// assert!(heartbeat.cancel());
            /// ```
            ///
            /// # Errors
            /// As for [`new_timeout`](Self::new_timeout).
            pub fn new_periodic<F>(
                &self,
                task: F,
                initial_delay: Duration,
                period: Period,
            ) -> Result<Timeout, Rejected<F>>
            where
                F: FnMut(&Timeout) + Send + 'static,
            {
                self.inner
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
            /// # Errors
            /// If it has been stopped, or if its thread could not be started; in that case the next
            /// call tries again.
            pub fn start(&self) -> Result<(), StartError> {
                launch::start(&self.inner)
            }

            /// Stops the timer for good, waits for its thread, and returns every timeout that was
            /// pending, each now cancelled with its task [still inside](Timeout::take_task).
            ///
            /// A second call, or one that comes while another is stopping the timer, returns an empty
            /// vector when the timer has stopped. Futures resolve to their error and are not returned.
            ///
            /// # Errors
            /// When called by a task on the timer thread, which it would have to wait for. Nothing has
            /// changed then.
            pub fn stop(&self) -> Result<Vec<Timeout>, StopError> {
                launch::stop(&self.inner)
            }

            /// Where the timer is in its life.
            pub fn state(&self) -> TimerState {
                self.inner.lifecycle.state()
            }

            /// How many timeouts are scheduled and have neither fired nor been cancelled.
            pub fn pending_timeouts(&self) -> usize {
                self.inner.pending_timeouts()
            }

            /// What the timer has done so far, and what it holds.
            ///
            /// Cheap enough for every second, or every millisecond: it copies some 300 counters, takes
            /// no lock that scheduling, cancelling or firing has to wait for, and allocates nothing.
            /// About 0.2 µs, whether one thread has used the timer or eight, and 2 µs when none of it is in
            /// the cache (2-core x86-64 virtual machine, rustc 1.95).
            pub fn stats(&self) -> Stats {
                self.inner.stats()
            }

            /// A handle on this timer.
            #[must_use]
            pub fn handle(&self) -> TimerHandle {
                TimerHandle { inner: Arc::clone(&self.inner) }
            }

            /// A future that is ready `delay` after this call, or with an error when the timer has
            /// stopped. It needs no async runtime.
            pub fn sleep(&self, delay: Duration) -> Sleep {
                Sleep::new(&self.inner, delay)
            }

            /// `future`, given until `delay` after this call. If it is ready when first polled, no
            /// timeout is ever made.
            ///
            /// ```
            /// # use hashed_wheel::{HashedWheelTimer, TimeoutError};
            /// # use std::time::Duration;
            /// # async fn example(timer: HashedWheelTimer, request: impl Future<Output = u32>) {
            /// match timer.with_timeout(request, Duration::from_secs(5)).await {
            ///     Ok(answer) => println!("{answer}"),
            ///     Err(TimeoutError::Elapsed) => println!("no answer in five seconds"),
            ///     Err(error) => println!("{error}"),
            /// }
            /// # }
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
            pub fn interval(&self, period: Duration) -> Interval {
                Interval::new(&self.inner, period)
            }
        }

        impl fmt::Debug for $timer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($timer))
                    .field("state", &self.state())
                    .field("tick", &Duration::from_nanos(self.inner.scale.tick()))
                    .field("pending", &self.pending_timeouts())
                    .finish_non_exhaustive()
            }
        }
    )*};
}

timer_methods!(HashedWheelTimer, HierarchicalWheelTimer, TimerHandle);

impl Drop for HashedWheelTimer {
    fn drop(&mut self) {
        launch::drop_owner(&self.inner);
    }
}

impl Drop for HierarchicalWheelTimer {
    fn drop(&mut self) {
        launch::drop_owner(&self.inner);
    }
}

impl From<RejectReason> for crate::TimeoutError {
    fn from(reason: RejectReason) -> Self {
        crate::TimeoutError::Rejected(reason)
    }
}

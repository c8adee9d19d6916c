//! The owners of a timer. Their methods are those of the [`TimerHandle`] that they dereference to.

use super::builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder};
use crate::error::ConfigError;
use crate::shared::{Shared, TimerHandle};
use crate::worker::{self, AnyWheel};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// A timer on a hashed wheel: the owner. Dropping it stops the timer.
///
/// A circular array of buckets; a timeout is in the bucket of its tick. A timeout further away than one revolution is
/// passed over once in each, so one revolution, tick × buckets, should be about your usual delay:
/// [`choosing`](crate::docs::choosing) has numbers. The default is 100 ms × 512, some 51 seconds.
///
/// All methods of [`TimerHandle`] can be called on it.
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
    owner: Owner,
}

/// A timer on a hierarchy of wheels: the owner. Dropping it stops the timer.
///
/// It follows the same rules as [`HashedWheelTimer`] and fires at the same ticks. The cost of a far timeout differs: it
/// moves down one level at a time, instead of being passed over once a revolution. For a fine tick with delays from milliseconds
/// to days. The default is a tick of 1 ms and 20 buckets per level: 20 ms, 400 ms, 8 s, 160 s and so on.
///
/// All methods of [`TimerHandle`] can be called on it.
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
    owner: Owner,
}

impl HashedWheelTimer {
    /// A timer with a resolution of `tick_duration`, on a wheel of `ticks_per_wheel` buckets, rounded up to a power of two.
    /// It starts with the first timeout.
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

    /// A builder with all settings.
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

    /// Ends the timer without waiting for the task that is running: for a program that has to go on, or for a task that
    /// may take long.
    ///
    /// The state is [`Shutdown`](crate::TimerState::Shutdown) when this returns. The running task ends in its own time, and no
    /// other begins. The timer thread then drops the pending timeouts without running them, and logs their number; with a
    /// [`ManualClock`](crate::ManualClock) that is done before this returns. To get the pending timeouts, or to know that no
    /// task runs any more, call [`stop`](TimerHandle::stop) instead. Unlike `stop`, this may be called from a task.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, TimerState};
    /// use std::time::Duration;
    ///
    /// let timer = HashedWheelTimer::default();
    /// let handle = timer.handle();
    /// timer.new_timeout(|_| std::thread::sleep(Duration::from_secs(3600)), Duration::ZERO)?;
    /// timer.shutdown_background(); // does not take an hour
    /// assert_eq!(handle.state(), TimerState::Shutdown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_background(mut self) {
        self.owner.waits = false;
    }
}

/// 100 ms, 512 buckets.
impl Default for HashedWheelTimer {
    fn default() -> Self {
        Self::builder()
            .build()
            .expect("the default settings are valid")
    }
}

impl HierarchicalWheelTimer {
    /// A timer with a resolution of `tick_duration`, on levels of `wheel_size` buckets. It starts with the first timeout.
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

    /// A builder with all settings.
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

    /// Ends the timer without waiting for the task that is running: for a program that has to go on, or for a task that
    /// may take long.
    ///
    /// The state is [`Shutdown`](crate::TimerState::Shutdown) when this returns. The running task ends in its own time, and no
    /// other begins. The timer thread then drops the pending timeouts without running them, and logs their number; with a
    /// [`ManualClock`](crate::ManualClock) that is done before this returns. To get the pending timeouts, or to know that no
    /// task runs any more, call [`stop`](TimerHandle::stop) instead. Unlike `stop`, this may be called from a task.
    ///
    /// ```
    /// use hashed_wheel::{HierarchicalWheelTimer, TimerState};
    /// use std::time::Duration;
    ///
    /// let timer = HierarchicalWheelTimer::default();
    /// let handle = timer.handle();
    /// timer.new_timeout(|_| std::thread::sleep(Duration::from_secs(3600)), Duration::ZERO)?;
    /// timer.shutdown_background(); // does not take an hour
    /// assert_eq!(handle.state(), TimerState::Shutdown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_background(mut self) {
        self.owner.waits = false;
    }
}

/// 1 ms, 20 buckets per level.
impl Default for HierarchicalWheelTimer {
    fn default() -> Self {
        Self::builder()
            .build()
            .expect("the default settings are valid")
    }
}

/// All methods of [`TimerHandle`].
impl Deref for HashedWheelTimer {
    type Target = TimerHandle;

    #[inline]
    fn deref(&self) -> &TimerHandle {
        &self.owner.handle
    }
}

impl fmt::Debug for HashedWheelTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.owner.handle.fmt_as("HashedWheelTimer", f)
    }
}

/// All methods of [`TimerHandle`].
impl Deref for HierarchicalWheelTimer {
    type Target = TimerHandle;

    #[inline]
    fn deref(&self) -> &TimerHandle {
        &self.owner.handle
    }
}

impl fmt::Debug for HierarchicalWheelTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.owner.handle.fmt_as("HierarchicalWheelTimer", f)
    }
}

/// What an owner holds: it stops the timer when it is dropped.
#[derive(Debug)]
pub struct Owner {
    handle: TimerHandle,
    /// Its drop waits for the running task.
    waits: bool,
}

impl Owner {
    pub(super) fn new(shared: Arc<Shared>) -> Owner {
        Owner {
            handle: TimerHandle::new(shared),
            waits: true,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.handle.shared().drop_owner(self.waits);
    }
}

/// What a builder needs to know of the timer that it builds. Nobody else can implement it.
pub trait WheelTimer: Sized {
    /// In logs, and the default name of the thread.
    const NAME: &'static str;

    /// The number of buckets for the one that was set.
    fn check_buckets(set: usize) -> Result<usize, ConfigError>;

    fn wheel(buckets: usize) -> AnyWheel;

    fn from_owner(owner: Owner) -> Self;
}

impl WheelTimer for HashedWheelTimer {
    const NAME: &'static str = "hashed-wheel-timer";

    fn check_buckets(slots: usize) -> Result<usize, ConfigError> {
        match slots {
            1..=ConfigError::MAX_BUCKETS => Ok(slots.next_power_of_two()),
            _ => Err(ConfigError::Slots { slots }),
        }
    }

    fn wheel(buckets: usize) -> AnyWheel {
        worker::hashed(buckets)
    }

    fn from_owner(owner: Owner) -> Self {
        HashedWheelTimer { owner }
    }
}

impl WheelTimer for HierarchicalWheelTimer {
    const NAME: &'static str = "hierarchical-wheel-timer";

    fn check_buckets(wheel_size: usize) -> Result<usize, ConfigError> {
        match wheel_size {
            2..=ConfigError::MAX_BUCKETS => Ok(wheel_size),
            _ => Err(ConfigError::WheelSize { wheel_size }),
        }
    }

    fn wheel(buckets: usize) -> AnyWheel {
        worker::hierarchical(buckets)
    }

    fn from_owner(owner: Owner) -> Self {
        HierarchicalWheelTimer { owner }
    }
}

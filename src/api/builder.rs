//! The settings of a timer.

mod options;

use super::driver::TimerDriver;
use super::timer::{HashedWheelTimer, HierarchicalWheelTimer, Owner, WheelTimer};
use crate::error::ConfigError;
use crate::shared::{Job, Prepare, Shared, in_loop, on_manual_clock};
use crate::sync::thread::JoinHandle;
use crate::time::ManualClock;
#[cfg(feature = "unstable-wheels")]
use crate::worker::AnyWheel;
use crate::worker::Executor;
use options::Options;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a timer: [`HashedWheelTimerBuilder`] or [`HierarchicalWheelTimerBuilder`], which the timers'
/// `builder` returns.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, TimerBuilder};
///
/// /// What all timers of a program have in common.
/// fn limited<Timer>(builder: TimerBuilder<Timer>) -> TimerBuilder<Timer> {
///     builder.max_pending_timeouts(1_000_000).thread_name("timeouts")
/// }
///
/// let requests = limited(HashedWheelTimer::builder()).ticks_per_wheel(4096).build()?;
/// let sessions = limited(HierarchicalWheelTimer::builder()).wheel_size(64).build()?;
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct TimerBuilder<Timer> {
    options: Options,
    timer: PhantomData<fn() -> Timer>,
}

/// The settings of a [`HashedWheelTimer`].
///
/// ```
/// use hashed_wheel::HashedWheelTimer;
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::builder()
///     .tick_duration(Duration::from_millis(10))
///     .ticks_per_wheel(4096)
///     .max_pending_timeouts(1_000_000)
///     .thread_name("timeouts")
///     .build()?;
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
pub type HashedWheelTimerBuilder = TimerBuilder<HashedWheelTimer>;

/// The settings of a [`HierarchicalWheelTimer`].
///
/// ```
/// use hashed_wheel::HierarchicalWheelTimer;
/// use std::time::Duration;
///
/// let timer = HierarchicalWheelTimer::builder()
///     .tick_duration(Duration::from_millis(1))
///     .wheel_size(64)
///     .build()?;
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
pub type HierarchicalWheelTimerBuilder = TimerBuilder<HierarchicalWheelTimer>;

impl Default for TimerBuilder<HashedWheelTimer> {
    fn default() -> Self {
        Self::new(Duration::from_millis(100), 512)
    }
}

impl Default for TimerBuilder<HierarchicalWheelTimer> {
    fn default() -> Self {
        Self::new(Duration::from_millis(1), 20)
    }
}

impl TimerBuilder<HashedWheelTimer> {
    /// The number of buckets, 1 to 2^24, rounded up to a power of two: 512 by default.
    ///
    /// More buckets take more memory; with fewer, a timeout is passed over more often. The time at which it fires does not
    /// change.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::time::Duration;
    ///
    /// // One revolution takes 41 s: right for delays of half a minute.
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(10))
    ///     .ticks_per_wheel(4096)
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn ticks_per_wheel(mut self, ticks_per_wheel: usize) -> Self {
        self.options.buckets = ticks_per_wheel;
        self
    }
}

impl TimerBuilder<HierarchicalWheelTimer> {
    /// The number of buckets per level, 2 to 2^24: 20 by default. The tick of a level is the tick of the level below times
    /// this.
    ///
    /// Levels are added as delays need them. With more buckets there are fewer levels, and a timeout moves less often.
    ///
    /// ```
    /// use hashed_wheel::HierarchicalWheelTimer;
    ///
    /// // Levels of 64 ms, 4 s, 262 s, 4.7 h …
    /// let timer = HierarchicalWheelTimer::builder().wheel_size(64).build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn wheel_size(mut self, wheel_size: usize) -> Self {
        self.options.buckets = wheel_size;
        self
    }
}

impl<Timer: WheelTimer> TimerBuilder<Timer> {
    fn new(tick_duration: Duration, buckets: usize) -> Self {
        TimerBuilder {
            options: Options::new(tick_duration, buckets),
            timer: PhantomData,
        }
    }

    /// Builds the timer. Its thread starts with the first timeout, or with `start`.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer};
    ///
    /// assert!(HashedWheelTimer::builder().build().is_ok());
    ///
    /// let error = HashedWheelTimer::builder().ticks_per_wheel(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "ticks_per_wheel is 0; it must be between 1 and 16777216");
    ///
    /// let error = HierarchicalWheelTimer::builder().wheel_size(1).build().unwrap_err();
    /// assert_eq!(error.to_string(), "wheel_size is 1; it must be between 2 and 16777216");
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] if a setting is outside its range; the message names the setting and the range.
    pub fn build(self) -> Result<Timer, ConfigError> {
        let shared = self.build_shared(None)?;
        Ok(Timer::from_owner(Owner::new(shared)))
    }

    /// Makes a timer without a thread, which the caller's own loop drives: see [`TimerDriver`].
    ///
    /// It is started, and its time zero is this call. Thread name and factory are ignored; an executor is used.
    ///
    /// ```
    /// use hashed_wheel::{ConfigError, HashedWheelTimer, HierarchicalWheelTimer, ManualClock, TimerState};
    /// use std::{thread, time::{Duration, Instant}};
    ///
    /// let (timer, mut driver) = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(1))
    ///     .build_driven()?;
    /// assert_eq!(timer.state(), TimerState::Started);
    ///
    /// timer.new_timeout(|_| println!("on this very thread"), Duration::from_millis(5))?;
    /// while let Some(due) = driver.next_due() {
    ///     thread::sleep(due.saturating_duration_since(Instant::now()));
    ///     driver.turn();
    /// }
    /// assert_eq!(timer.stats().expired, 1);
    ///
    /// let clocked = HierarchicalWheelTimer::builder().clock(&ManualClock::new());
    /// assert_eq!(clocked.build_driven().unwrap_err(), ConfigError::DrivenClock);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), and [`ConfigError::DrivenClock`] if a manual clock is set.
    pub fn build_driven(self) -> Result<(Timer, TimerDriver), ConfigError> {
        // A manual clock drives its timers itself.
        if self.options.clock.is_some() {
            return Err(ConfigError::DrivenClock);
        }
        let shared = self.build_shared(Some(in_loop))?;
        let driver = TimerDriver::start(&shared);
        Ok((Timer::from_owner(Owner::new(shared)), driver))
    }

    /// For [`global`](crate::global).
    pub(super) fn never_stopped(mut self) -> Self {
        self.options.is_global = true;
        self
    }

    /// `in_loop` for one that the caller's loop drives.
    pub(super) fn build_shared(
        mut self,
        in_loop: Option<Prepare>,
    ) -> Result<Arc<Shared>, ConfigError> {
        self.options.buckets = Timer::check_buckets(self.options.buckets)?;
        let scale = self.options.check(in_loop.is_some())?;
        let wheel = Timer::wheel(self.options.buckets);
        Ok(self.options.build(scale, in_loop, Timer::NAME, wheel))
    }
}

/// The settings of both timers.
impl<Timer> TimerBuilder<Timer> {
    /// The resolution of the timer: every timeout fires at a multiple of it. On the hierarchical wheel it is the tick of the
    /// lowest level. 100 ms by default on the hashed wheel, 1 ms on the hierarchical.
    ///
    /// Below 1 ms it becomes 1 ms, with a warning in the log, unless [`fine_ticks`](Self::fine_ticks) allows it.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(10))
    ///     .clock(&clock)
    ///     .build()?;
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_millis(11))?;
    /// clock.advance(Duration::from_millis(19));
    /// assert!(!timeout.is_expired());
    /// clock.advance(Duration::from_millis(1)); // the second tick
    /// assert!(timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick_duration(mut self, tick_duration: Duration) -> Self {
        self.options.tick_duration = tick_duration;
        self
    }

    /// The limit on pending timeouts, at least 1. Calls beyond it are rejected. Unlimited by default.
    /// Never exceeded, with any number of threads.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, RejectReason};
    /// use std::time::Duration;
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .max_pending_timeouts(1)
    ///     .build()?;
    /// let first = timer.new_timeout(|_| {}, Duration::from_secs(60))?;
    /// let refused = timer.new_timeout(|_| {}, Duration::from_secs(60)).unwrap_err();
    /// assert!(matches!(refused.reason, RejectReason::TooManyPending { max: 1 }));
    ///
    /// first.cancel(); // makes room at once
    /// assert!(timer.new_timeout(refused.task, Duration::from_secs(60)).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_pending_timeouts(mut self, max: usize) -> Self {
        self.options.max_pending = Some(max);
        self
    }

    /// The most entries that move from the pending queue to the wheel at one tick, at least 1; the rest
    /// waits for the next tick. 100 000 by default.
    ///
    /// It bounds the time that the timer thread spends on insertions before it fires. If timeouts are
    /// scheduled faster than this for long, they fire late.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .max_transfers_per_tick(1_000_000)
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn max_transfers_per_tick(mut self, max: usize) -> Self {
        self.options.max_transfers = max;
        self
    }

    /// The name of the timer's thread, any text without a NUL character. Ignored with a thread
    /// factory.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::{sync::mpsc, thread, time::Duration};
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(1))
    ///     .thread_name("sessions")
    ///     .build()?;
    /// let (sender, receiver) = mpsc::channel();
    /// let tell_name = move |_: &_| drop(sender.send(thread::current().name().map(str::to_owned)));
    /// timer.new_timeout(tell_name, Duration::ZERO)?;
    /// assert_eq!(receiver.recv()?.as_deref(), Some("sessions"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.options.thread_name = Some(name.into());
        self
    }

    /// Sets the function that starts the timer thread. It is given a job and must run it on a new thread. If it fails, drops
    /// the job, or runs it on the calling thread, starting the timer fails with an error, and the next call tries again.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::thread;
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .thread_factory(|job| thread::Builder::new().stack_size(256 * 1024).spawn(job))
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn thread_factory(
        mut self,
        factory: impl Fn(Job) -> io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        self.options.factory = Some(Arc::new(factory));
        self
    }

    /// Sets the function that runs the tasks. It is given each task as a [`Job`]. By default tasks run on the timer thread,
    /// where a slow one delays all others.
    ///
    /// The function is called on the timer thread and should return at once. A timeout counts as expired when its
    /// job is handed over. A job never unwinds; one that is dropped without running is counted in
    /// [`Stats::dropped_jobs`](crate::Stats::dropped_jobs). Futures are still woken on the timer thread.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, Job};
    /// use std::sync::mpsc;
    ///
    /// let (jobs, inbox) = mpsc::channel::<Job>();
    /// std::thread::spawn(move || inbox.into_iter().for_each(|job| job()));
    /// let timer = HashedWheelTimer::builder()
    ///     .executor(move |job| jobs.send(job).expect("the worker thread lives"))
    ///     .build()?;
    /// # Ok::<(), hashed_wheel::ConfigError>(())
    /// ```
    pub fn executor(mut self, executor: impl Fn(Job) + Send + Sync + 'static) -> Self {
        self.options.executor = Some(Executor::new(executor));
        self
    }

    /// Drives the timer by a [manual clock](ManualClock) instead of a thread: for tests and simulations.
    /// Several timers may share one clock.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(86_400))?;
    /// clock.advance(Duration::from_secs(86_400)); // returns at once, and all that was due has run
    /// assert!(timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: &ManualClock) -> Self {
        self.options.clock = Some(clock.clone());
        self.options.without_thread = Some(on_manual_clock);
        self
    }

    /// Allows ticks below 1 ms, down to 50 µs; a shorter one becomes 50 µs, with a warning in the log. Off by
    /// default.
    ///
    /// The timer thread then asks the system to wake it as punctually as it can, where the system can be asked
    /// (on Linux, a timer slack of 1 ns instead of 50 µs). It does not spin: it sleeps while nothing is due, whatever
    /// the tick. With a tick below 1 ms, a timeout due more than 2^45 ticks after the start never fires: 55 years at
    /// 50 µs.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_micros(100))
    ///     .fine_ticks(true)
    ///     .clock(&clock)
    ///     .build()?;
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_micros(250))?;
    /// clock.advance(Duration::from_micros(200));
    /// assert!(!timeout.is_expired());
    /// clock.advance(Duration::from_micros(100)); // the third tick
    /// assert!(timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn fine_ticks(mut self, fine_ticks: bool) -> Self {
        self.options.fine_ticks = fine_ticks;
        self
    }

    /// Logs a warning when a task holds the timer thread for longer than this, with its
    /// [label](crate::TimerHandle::labelled) and the time taken, at most once a second. Off by default.
    ///
    /// All timeouts wait while a task runs on the timer thread. Jobs that an [`executor`](Self::executor) runs on other
    /// threads are not logged. The time is that of the timer's clock, so a [`ManualClock`] shows no slow task.
    /// [`Stats::longest_task`](crate::Stats::longest_task) has the longest.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::time::Duration;
    ///
    /// let timer = HashedWheelTimer::builder()
    ///     .slow_task(Duration::from_millis(5))
    ///     .build()?;
    /// let uploads = timer.labelled("uploads");
    /// let blocking = |_: &_| std::thread::sleep(Duration::from_millis(20));
    /// // In the log: a task labelled "uploads" held the timer thread for 20.1ms; slow_task is 5ms
    /// uploads.new_timeout(blocking, Duration::ZERO)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn slow_task(mut self, limit: Duration) -> Self {
        self.options.slow_task = Some(limit);
        self
    }
}

#[cfg(feature = "unstable-wheels")]
impl TimerBuilder<HashedWheelTimer> {
    /// A timer over any wheel: see [`crate::unstable`].
    pub(crate) fn build_over(mut self, wheel: AnyWheel) -> Result<HashedWheelTimer, ConfigError> {
        self.options.buckets = 1;
        let scale = self.options.check(false)?;
        let shared = self.options.build(scale, None, "unstable-timer", wheel);
        Ok(WheelTimer::from_owner(Owner::new(shared)))
    }
}

impl<Timer> fmt::Debug for TimerBuilder<Timer> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerBuilder")
            .field("tick_duration", &self.options.tick_duration)
            .field("buckets", &self.options.buckets)
            .field("max_pending_timeouts", &self.options.max_pending)
            .field("max_transfers_per_tick", &self.options.max_transfers)
            .finish_non_exhaustive()
    }
}

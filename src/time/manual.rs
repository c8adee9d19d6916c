//! A clock that moves only when told, and drives the timers that are built on it.
//!
//! It holds weak references to the timers, as [`Driven`]: it knows neither queue nor wheel.

use super::scale::nanos;
use crate::sync::{AtomicU64, Mutex, Ordering};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A clock that moves only when `advance` is called: for tests and simulations.
///
/// Timers that are [built on it](crate::HashedWheelTimerBuilder::clock) start no thread. Their tasks
/// run inside [`advance`](ManualClock::advance), on the calling thread, boundary by boundary; all the
/// rest is the code that runs in production. Clones share one time.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
/// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(3600)).unwrap();
/// clock.advance(Duration::from_secs(3599));
/// assert!(!timeout.is_expired());
/// clock.advance(Duration::from_secs(1));
/// assert!(timeout.is_expired());
/// ```
#[derive(Clone)]
pub struct ManualClock {
    state: Arc<State>,
}

struct State {
    /// The instant of the clock's creation.
    origin: Instant,
    /// Nanoseconds since then.
    now: AtomicU64,
    /// The timers that have started on this clock.
    timers: Mutex<Vec<Weak<dyn Driven>>>,
    /// Held by the thread that advances the clock, for others that want to advance it. Tasks run meanwhile: they may do
    /// all but that.
    advancing: Mutex<()>,
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A timer, as the manual clock that drives it sees it.
pub(crate) trait Driven: Send + Sync {
    /// Returns `true` if this thread runs one of its tasks.
    fn is_in_task_here(&self) -> bool;

    /// Counts the boundaries before the present as processed, up to the next that has work, and returns the time of that one.
    fn next_due(&self) -> Option<u64>;

    /// Processes every boundary that the clock has reached. Counts as a wake-up.
    fn turn(self: Arc<Self>);

    /// The same where no boundary has work: all count as processed.
    fn catch_up(self: Arc<Self>);
}

impl ManualClock {
    /// A clock that reads zero.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    ///
    /// assert!(ManualClock::new().now().is_zero());
    /// ```
    pub fn new() -> Self {
        let state = Arc::new(State {
            origin: Instant::now(),
            now: AtomicU64::default(),
            timers: Mutex::default(),
            advancing: Mutex::default(),
        });
        ManualClock { state }
    }

    /// The time since its creation.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let same_clock = clock.clone();
    /// clock.advance(Duration::from_secs(90));
    /// assert_eq!(same_clock.now(), Duration::from_secs(90));
    /// ```
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Moves the clock forward by `by`, and every timer on it, boundary by boundary, on the calling
    /// thread. When this returns, every task that fell due has run.
    ///
    /// While a task runs, the clock reads the boundary that the task was due at. Delays of timeouts that it schedules
    /// count from there; they fire within the same call if they fall due. Several timers take turns
    /// in the order of their boundaries. The clock saturates at 2^64 ns; several threads that advance it take turns.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, ManualClock, Period};
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let runs = Arc::new(Mutex::new(Vec::new()));
    /// let (noted, now) = (Arc::clone(&runs), clock.clone());
    /// let note = move |_: &_| noted.lock().unwrap().push(now.now().as_secs());
    /// let period = Period::FixedRate(Duration::from_secs(20));
    /// timer.new_periodic(note, Duration::from_secs(10), period)?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(*runs.lock().unwrap(), [10, 30, 50]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When called by a task of a timer on this clock. Like any task's panic, it is caught and counted.
    ///
    /// # Deadlocks
    /// A task may advance *another* clock. If two threads advance two clocks, and a task on each advances the other
    /// one, each waits for its turn until the other has ended: for ever. Let tasks advance clocks in one direction
    /// only.
    pub fn advance(&self, by: Duration) {
        assert!(
            !self.timers().iter().any(|timer| timer.is_in_task_here()),
            "ManualClock::advance was called by a task that runs on this clock"
        );
        let _alone = self.state.advancing.lock();
        let target = self.nanos().saturating_add(nanos(by));
        while let Some((time, timer)) = self.next_timer(target) {
            self.set(time);
            // What a task schedules on another timer is not placed before the present.
            for other in self.timers() {
                if !Arc::ptr_eq(&other, &timer) {
                    other.next_due();
                }
            }
            timer.turn();
        }
        self.set(target);
        for timer in self.timers() {
            timer.catch_up();
        }
    }

    /// The instant of its creation.
    #[inline]
    pub(crate) fn origin(&self) -> Instant {
        self.state.origin
    }

    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        // Acquire pairs with the Release of `set`: a thread that reads a time also sees what ran up to it.
        self.state.now.load(Ordering::Acquire)
    }

    /// Sets the clock, never back: a timer may have a boundary that has already passed.
    fn set(&self, time: u64) {
        self.state.now.fetch_max(time, Ordering::AcqRel);
    }

    /// Distinguishes clocks; not 0.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.state).addr()
    }

    /// Drives the timer from now on.
    pub(crate) fn register(&self, timer: Weak<dyn Driven>) {
        let mut timers = self.state.timers.lock();
        timers.retain(|timer| timer.strong_count() > 0);
        timers.push(timer);
    }

    fn timers(&self) -> Vec<Arc<dyn Driven>> {
        self.state
            .timers
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// The earliest boundary up to `target` that any timer has work at.
    fn next_timer(&self, target: u64) -> Option<(u64, Arc<dyn Driven>)> {
        self.timers()
            .into_iter()
            .filter_map(|timer| Some((timer.next_due()?, timer)))
            .filter(|(time, _)| *time <= target)
            // The first of equals: the timer that started first.
            .min_by_key(|(time, _)| *time)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

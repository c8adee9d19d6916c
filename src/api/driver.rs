//! The caller's own loop in place of the timer's thread.

use crate::shared::Shared;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Drives a timer that has no thread, from the caller's own loop: made by
/// [`build_driven`](crate::HashedWheelTimerBuilder::build_driven) on either builder.
///
/// A loop asks [`next_due`](TimerDriver::next_due) how long it may sleep, waits for that or for its other events, and
/// calls [`turn`](TimerDriver::turn), which runs what has fallen due, on the calling thread. Everything else is as with a
/// thread: the timer and its handles may be used on any thread, and the same rules of time hold. If other threads schedule
/// while the loop sleeps, [`on_wake`](TimerDriver::on_wake) names what wakes it.
///
/// ```
/// use hashed_wheel::HashedWheelTimer;
/// use std::{thread, time::{Duration, Instant}};
///
/// let (timer, mut driver) = HashedWheelTimer::builder()
///     .tick_duration(Duration::from_millis(1))
///     .build_driven()?;
/// let this_loop = thread::current();
/// driver.on_wake(move || this_loop.unpark());
///
/// let handle = timer.handle();
/// let client = thread::spawn(move || handle.new_timeout(|_| println!("tick"), Duration::from_millis(2)).is_ok());
///
/// let mut fired = 0;
/// while fired == 0 {
///     match driver.next_due() {
///         Some(due) => thread::park_timeout(due.saturating_duration_since(Instant::now())),
///         None => thread::park(),
///     }
///     fired += driver.turn();
/// }
/// assert!(client.join().unwrap());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`stop`](crate::TimerHandle::stop) and the owner's drop work on any thread, also while `turn` runs on another. They wait for the
/// task that is running, and call the hook, so that a sleeping loop learns of it. Dropping the driver ends the timer as the
/// owner's drop does: what is pending is dropped without being run.
///
/// An executor is dropped on the driver's side: by its next call after the end of the timer, or by its drop.
#[must_use = "dropping the driver ends the timer"]
pub struct TimerDriver {
    shared: Arc<Shared>,
}

impl TimerDriver {
    /// Starts a timer that has just been made, and is its driver.
    pub(super) fn start(shared: &Arc<Shared>) -> TimerDriver {
        let started = shared.start();
        debug_assert!(matches!(started, Ok(true)), "{started:?}");
        let shared = Arc::clone(shared);
        TimerDriver { shared }
    }

    /// Processes every tick that has passed, on the calling thread, which is the timer thread meanwhile. Returns how many
    /// tasks it has run, or handed over to the executor; futures that it has woken count too.
    ///
    /// Ticks that pass while it runs are for the next call. It may be called at any time, also before something is due.
    /// Each call counts in [`Stats::wakeups`](crate::Stats::wakeups). After the timer has stopped: 0.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::{thread, time::Duration};
    ///
    /// let (timer, mut driver) = HashedWheelTimer::builder()
    ///     .tick_duration(Duration::from_millis(1))
    ///     .build_driven()?;
    /// for _ in 0..3 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(5))?;
    /// }
    /// thread::sleep(Duration::from_millis(10));
    /// assert_eq!(driver.turn(), 3);
    /// assert_eq!(driver.turn(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn turn(&mut self) -> usize {
        self.shared.turn()
    }

    /// The time at which [`turn`](TimerDriver::turn) has to be called next. `None` if nothing is pending that will fire, or
    /// if the timer has stopped.
    ///
    /// Never later than the next timeout is due. It may be earlier, for work inside the timer, or for a timeout that was reset or
    /// cancelled; then `turn` returns 0, and the next answer is later.
    ///
    /// It also says that the caller goes to sleep: from now until the next `turn` or `next_due`, a timeout that is
    /// due before the answer calls the [hook](TimerDriver::on_wake), once.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::time::{Duration, Instant};
    ///
    /// let (timer, mut driver) = HashedWheelTimer::builder().build_driven()?;
    /// assert_eq!(driver.next_due(), None);
    ///
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(10))?;
    /// let due = driver.next_due().expect("it is pending");
    /// assert!(due <= Instant::now() + Duration::from_millis(10_100)); // rounded up to a tick of 100 ms
    ///
    /// timeout.cancel();
    /// assert_eq!(driver.next_due(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_due(&mut self) -> Option<Instant> {
        let time = self.shared.next_due()?;
        // `None` if this platform's instants end before that.
        self.shared.clock().instant_of(time)
    }

    /// Sets the hook: it is called when a timeout is scheduled, or reset, that is due before the last answer of
    /// [`next_due`](TimerDriver::next_due), and when the timer is stopped. It replaces the hook that was set before.
    ///
    /// It is called on the scheduling thread, once until the next `turn` or `next_due`, and should wake the loop: write to an
    /// eventfd, call the waker of mio, unpark a thread. It must not get lost if the loop is just about to sleep; those three do
    /// not. No lock is held meanwhile, so it may call the timer. A panic in it is caught and logged.
    ///
    /// If it should have been called since the last `next_due`, and there was none, it is called at once. Set it once rather than in
    /// every turn of the loop: each call takes about 60 bytes until the timer's memory is released.
    ///
    /// ```
    /// use hashed_wheel::HashedWheelTimer;
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let (timer, mut driver) = HashedWheelTimer::builder().build_driven()?;
    /// let (sender, wakes) = mpsc::channel();
    /// driver.on_wake(move || sender.send(()).expect("the loop lives"));
    ///
    /// timer.new_timeout(|_| {}, Duration::from_secs(1))?;
    /// assert_eq!(wakes.try_iter().count(), 0); // the loop is awake
    ///
    /// driver.next_due();
    /// timer.new_timeout(|_| {}, Duration::from_secs(60))?;
    /// assert_eq!(wakes.try_iter().count(), 0); // there is time
    /// timer.new_timeout(|_| {}, Duration::ZERO)?;
    /// timer.new_timeout(|_| {}, Duration::ZERO)?;
    /// assert_eq!(wakes.try_iter().count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_wake(&mut self, hook: impl Fn() + Send + Sync + 'static) {
        self.shared.queue().parker.set_hook(Some(Arc::new(hook)));
    }
}

impl Drop for TimerDriver {
    fn drop(&mut self) {
        self.shared.drop_driver();
    }
}

impl fmt::Debug for TimerDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerDriver")
            .field("state", &self.shared.state())
            .field("tick", &self.shared.tick())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

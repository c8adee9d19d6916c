//! The methods of a timer: on its handle, to which both owners dereference. Those that make futures are in
//! [`super::future`].

use crate::error::{RejectReason, Rejected, StartError, StopError};
use crate::metrics::Stats;
use crate::shared::{Pending, Refused, Timeout, TimerHandle, TimerState, When};
use crate::slots::{Kind, StoredTask};
use crate::time::{Period, nanos};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl TimerHandle {
    /// Schedules `task` to run once, `delay` from now: at the first tick at or after that time, never before. Starts the
    /// timer if it has not started.
    ///
    /// Never runs the task itself, and never waits for the timer thread once it has started. A zero delay fires at the
    /// next tick, [`Duration::MAX`] never. Dropping the [`Timeout`] does not cancel it.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
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
    /// [`Rejected`], with the task inside, if the timer has stopped, has reached its limit of pending timeouts, or could
    /// not be started.
    ///
    /// # Panics
    /// If nearly 2^32 timeouts exist: pending, or with their [`Timeout`] not dropped.
    #[inline]
    pub fn new_timeout<F>(&self, task: F, delay: Duration) -> Result<Timeout, Rejected<F>>
    where
        F: FnOnce(&Timeout) + Send + 'static,
    {
        self.schedule_once(task, When::after(delay))
    }

    /// Schedules `task` as [`new_timeout`](Self::new_timeout) does, for a moment instead of a delay: at the first
    /// boundary at or after it, never before. Reads no clock.
    ///
    /// For a program that has already read the time, for example once for a whole batch of packets. A
    /// moment that has passed, even before the timer's start, counts as a zero delay; one beyond the end of time (2^64 ns)
    /// never fires. On a [`ManualClock`](crate::ManualClock), take moments from [`now`](Self::now).
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let received = timer.now();
    /// let reply = timer.new_timeout_at(|_| println!("no reply"), received + Duration::from_secs(5))?;
    /// let close = timer.new_timeout_at(|_| println!("close"), received + Duration::from_secs(30))?;
    /// clock.advance(Duration::from_secs(5));
    /// assert!(reply.is_expired() && !close.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for `new_timeout`.
    ///
    /// # Panics
    /// As for `new_timeout`.
    #[inline]
    pub fn new_timeout_at<F>(&self, task: F, deadline: Instant) -> Result<Timeout, Rejected<F>>
    where
        F: FnOnce(&Timeout) + Send + 'static,
    {
        let time = self.shared().clock().time_of(deadline);
        self.schedule_once(task, When::At(time))
    }

    #[inline]
    fn schedule_once<F>(&self, task: F, when: When) -> Result<Timeout, Rejected<F>>
    where
        F: FnOnce(&Timeout) + Send + 'static,
    {
        self.shared()
            .schedule(task, Kind::Once, self.label(), StoredTask::once, when)
            // SAFETY: what was stored, one line above, was `task`.
            .map_err(|refused| rejected(refused, |stored| unsafe { stored.into_once() }))
    }

    /// The time on the timer's clock, as an instant: [`Instant::now`], or that of a
    /// [`ManualClock`](crate::ManualClock), which is the instant of its creation plus its
    /// [`now`](crate::ManualClock::now).
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let before = timer.now();
    /// clock.advance(Duration::from_secs(3600));
    /// assert_eq!(timer.now() - before, Duration::from_secs(3600));
    /// # Ok::<(), ConfigError>(())
    /// ```
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared().clock().instant()
    }

    /// Schedules `task` to run periodically, first `initial_delay` from now and then every `period`, until it is cancelled
    /// or the timer stops. A period below one tick runs at every tick. Runs never overlap. A panic is counted, and the
    /// task runs again.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::sync::atomic::{AtomicU32, Ordering};
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let beats = Arc::new(AtomicU32::new(0));
    /// let count = Arc::clone(&beats);
    /// let beat = move |_: &Timeout| { count.fetch_add(1, Ordering::Relaxed); };
    /// let each_second = Period::FixedRate(Duration::from_secs(1));
    /// let heartbeat = timer.new_periodic(beat, Duration::from_secs(1), each_second)?;
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
        // Read now: later runs count from the deadline itself, not from its boundary.
        let first = self.shared().clock().ordered();
        let first = first.saturating_add(nanos(initial_delay));
        self.shared()
            .schedule(
                task,
                Kind::Periodic,
                self.label(),
                |task| StoredTask::periodic(task, period),
                When::At(first),
            )
            // SAFETY: what was stored, three lines above, was `task`.
            .map_err(|refused| rejected(refused, |stored| unsafe { stored.into_periodic() }))
    }

    /// Starts the timer, unless it has started. The first timeout does so by itself.
    ///
    /// An explicit call decides where the error of a failed thread start appears, and sets the time from which ticks are
    /// counted.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// let timer = HashedWheelTimer::default();
    /// timer.start()?;
    /// assert_eq!(timer.state(), TimerState::Started);
    /// timer.start()?; // no effect
    /// # Ok::<(), StartError>(())
    /// ```
    ///
    /// # Errors
    /// [`StartError`] if it has been stopped, or if its thread could not be started; then the next call tries again.
    pub fn start(&self) -> Result<(), StartError> {
        self.shared().start().map(drop)
    }

    /// Stops the timer, waits for its thread, and returns every pending timeout: cancelled, with its task
    /// [still inside](Timeout::take_task).
    ///
    /// With an [executor](crate::HashedWheelTimerBuilder::executor), it does not wait for the drop of the executor, which
    /// may wait for a job that waits for this call. On a manual clock the executor is dropped by the next
    /// [`advance`](crate::ManualClock::advance), or with the owner.
    ///
    /// A second or concurrent call returns an empty vector once the timer has stopped. Futures resolve to an error and are
    /// not returned.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
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
    /// [`StopError`] when called by a task on the timer thread, which it would wait for, or by the thread factory, or on
    /// the timer of [`global`](crate::global). The timer keeps running.
    ///
    /// # Deadlocks
    /// It waits for the running task. A task may stop *another* timer; if a task of that timer stops this one at the same
    /// time, they wait for each other forever. Dropping the owner in a task does not wait.
    pub fn stop(&self) -> Result<Vec<Timeout>, StopError> {
        self.shared().stop()
    }

    /// The state of the timer.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// let timer = HashedWheelTimer::default();
    /// assert_eq!(timer.state(), TimerState::Init);
    /// timer.stop()?;
    /// assert_eq!(timer.state(), TimerState::Shutdown);
    /// # Ok::<(), StopError>(())
    /// ```
    pub fn state(&self) -> TimerState {
        self.shared().state()
    }

    /// Cancels every timeout that is pending when it is called, as [`cancel`](Timeout::cancel) on each would, and
    /// returns how many. The timer goes on.
    ///
    /// On the timer of [`global`](crate::global) it cancels nothing and returns 0.
    ///
    /// Futures are not touched: they are cancelled by dropping them. Timeouts that other threads schedule meanwhile may
    /// or may not be among those cancelled. It takes time in proportion to the number of slots in use, and no other call
    /// waits for it.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// for _ in 0..3 {
    ///     timer.new_timeout(|_| println!("never"), Duration::from_secs(60))?;
    /// }
    /// assert_eq!(timer.cancel_all(), 3);
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If dropping what a task has captured panics: with the first such panic, when all are cancelled.
    pub fn cancel_all(&self) -> usize {
        self.shared().cancel_all()
    }

    /// Shows every pending timeout once, those of futures among them, in no order.
    ///
    /// Timeouts that are scheduled, fire or are cancelled meanwhile may or may not be shown. No lock is held while `show` runs, so
    /// it may call the timer, and no call of another thread waits for it. A million take some tens of milliseconds.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// timer.new_timeout(|_| {}, Duration::from_secs(60))?;
    /// timer.new_timeout(|_| {}, Duration::from_secs(3600))?;
    ///
    /// let mut within_five_minutes = 0;
    /// timer.for_each_pending(|timeout| {
    ///     within_five_minutes += u32::from(timeout.remaining <= Duration::from_secs(300));
    /// });
    /// assert_eq!(within_five_minutes, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each_pending(&self, show: impl FnMut(Pending)) {
        self.shared().for_each_pending(show);
    }

    /// The number of timeouts that have neither fired nor been cancelled.
    ///
    /// `cancel` decreases it at once, and firing before the task runs. It is 0 when the timer has stopped.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(60))?;
    /// assert_eq!(timer.pending_timeouts(), 1);
    /// timeout.cancel();
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pending_timeouts(&self) -> usize {
        self.shared().pending_timeouts()
    }

    /// A snapshot of the timer's counters.
    ///
    /// It takes no lock and allocates nothing: it copies some 300 counters, the histogram of lateness among them, and sums up
    /// those that each thread keeps for itself. So it takes longer the more threads have used the timer at the same time.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
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

    /// A handle to this timer.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let handle = timer.handle();
    /// std::thread::spawn(move || {
    ///     handle.new_timeout(|_| println!("from another thread"), Duration::from_secs(1)).is_ok()
    /// });
    /// ```
    #[must_use]
    pub fn handle(&self) -> TimerHandle {
        self.clone()
    }

    /// A handle to this timer whose timeouts, periodic tasks and futures carry `label`.
    ///
    /// [`Timeout::label`] returns the label, [`for_each_pending`](Self::for_each_pending) shows it, and the log lines
    /// about panics and [slow tasks](crate::HashedWheelTimerBuilder::slow_task) name it. Make the handle once and keep it:
    /// each call looks the label up under a lock, each `new_timeout` on the handle only copies its number. A timer holds at
    /// most 65 000 different labels; a handle beyond that has none.
    ///
    /// ```
    /// # use hashed_wheel::*;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let sessions = timer.labelled("sessions");
    /// for _ in 0..3 {
    ///     sessions.new_timeout(|_| println!("session closed"), Duration::from_secs(1800))?;
    /// }
    /// timer.new_timeout(|_| println!("without a label"), Duration::from_secs(5))?;
    ///
    /// let mut of_sessions = 0;
    /// timer.for_each_pending(|pending| of_sessions += u32::from(pending.label == Some("sessions")));
    /// assert_eq!(of_sessions, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn labelled(&self, label: &'static str) -> TimerHandle {
        let shared = self.shared();
        TimerHandle::with_label(Arc::clone(shared), shared.label(label))
    }

    pub(super) fn fmt_as(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name)
            .field("state", &self.state())
            .field("tick", &self.shared().tick())
            .field("pending", &self.pending_timeouts())
            .finish_non_exhaustive()
    }
}

/// The error that gives the task back.
#[cold]
pub(super) fn rejected<F>(
    (task, reason): (Refused<F>, RejectReason),
    from_stored: impl FnOnce(StoredTask<Timeout>) -> F,
) -> Rejected<F> {
    let task = match task {
        Refused::AsItCame(task) => task,
        Refused::Stored(stored) => from_stored(stored),
    };
    Rejected { task, reason }
}

impl fmt::Debug for TimerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_as("TimerHandle", f)
    }
}

//! The handle of one timeout.

mod cancel_on_drop;

pub use cancel_on_drop::CancelOnDrop;

use super::{Shared, Task, TimerHandle, When};
use crate::entry::SlotId;
use crate::slots::{Handle, Held, Label, Phase, ReleaseResult, Slot, StoredTask};
use crate::time::{Period, Tick};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One scheduled task.
///
/// Made by [`new_timeout`](TimerHandle::new_timeout) and
/// [`new_periodic`](TimerHandle::new_periodic), passed to the task itself when it runs, and returned
/// by [`stop`](TimerHandle::stop) for what was still pending. Dropping it does not cancel; to share
/// it, put it into an `Arc`.
///
/// ```
/// # use hashed_wheel::HashedWheelTimer;
/// # use std::time::Duration;
/// let timer = HashedWheelTimer::default();
/// let timeout = timer.new_timeout(|_| println!("too slow"), Duration::from_secs(30)).unwrap();
/// // The answer arrived:
/// assert!(timeout.cancel());
/// assert!(timeout.is_cancelled() && !timeout.is_expired());
/// ```
pub struct Timeout {
    /// Valid as long as this handle: its slot is not free, which keeps the timer's memory (see [`super::retired`]).
    shared: NonNull<Shared>,
    /// Without a handle bit in a running task: the state pins the slot, and the `Timeout` is never dropped.
    held: Held,
}

// SAFETY: a handle gives shared access to its slot, whose word decides by compare-and-swap what a thread may do, and to
// `Shared`, which is `Sync`. Tasks, which it can drop or return, are `Send`.
unsafe impl Send for Timeout {}
// SAFETY: as above; `&Timeout` can do no more than `Timeout`.
unsafe impl Sync for Timeout {}

impl Timeout {
    /// The handle for a bit that the caller has just set: U by arming the slot, R by `stop` or `cancel_all`.
    #[inline]
    pub(super) fn new(shared: &Arc<Shared>, slot: SlotId, handle: Handle) -> Timeout {
        Timeout {
            shared: as_ptr(shared),
            held: Held::new(slot, Some(handle)),
        }
    }

    /// The handle for a running task. It has no bit and must not be dropped.
    #[inline]
    pub(crate) fn of_runner(shared: &Arc<Shared>, slot: SlotId) -> ManuallyDrop<Timeout> {
        ManuallyDrop::new(Timeout {
            shared: as_ptr(shared),
            held: Held::new(slot, None),
        })
    }

    #[inline]
    fn shared(&self) -> &Shared {
        // SAFETY: this handle's bit, or the run, pins the slot, and a slot that is not free keeps the timer's memory: the
        // invariant of `retired`.
        unsafe { self.shared.as_ref() }
    }

    #[inline]
    fn slot(&self) -> &Slot<Timeout> {
        self.shared().slot(self.held.slot())
    }

    /// Cancels the timeout, if it has neither fired nor been cancelled. Returns `true` for exactly one caller; then the
    /// task will not run (again).
    ///
    /// The task is dropped on this thread, before this returns. A periodic task that is running is dropped by the
    /// thread that runs it, at the end of the run.
    ///
    /// The cost does not depend on the number of pending timeouts. Takes no lock and wakes no thread: a number in
    /// the queue, or an entry of 16 bytes in the wheel, stays until the timer thread comes to it.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::sync::Arc;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let connection = Arc::new("a connection");
    /// let held = Arc::clone(&connection);
    /// let timeout = timer.new_timeout(move |_| println!("{held}"), Duration::from_secs(30))?;
    ///
    /// assert!(timeout.cancel());
    /// assert_eq!(Arc::strong_count(&connection), 1); // what the task held is free again
    /// assert!(!timeout.cancel()); // the second time
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// If dropping what the task has captured panics. The timeout is cancelled all the same.
    #[inline]
    pub fn cancel(&self) -> bool {
        let shared = self.shared();
        self.slot().cancel(|| {
            shared.count(|counters| counters.cancelled.add(1));
            shared.release_pending();
        })
    }

    /// Returns `true` if it was cancelled, or returned by [`stop`](TimerHandle::stop). Once true, always true.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(30))?;
    /// assert!(!timeout.is_cancelled());
    /// timer.stop()?;
    /// assert!(timeout.is_cancelled());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_cancelled(&self) -> bool {
        matches!(self.phase(), Phase::Cancelled | Phase::Stopped)
    }

    /// Returns `true` if its task has begun to run. Never true of a periodic timeout.
    ///
    /// With an [executor](crate::HashedWheelTimerBuilder::executor): if its job was handed over.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let timeout = timer.new_timeout(|itself| assert!(itself.is_expired()), Duration::from_secs(1))?;
    /// assert!(!timeout.is_expired());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(timeout.is_expired());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_expired(&self) -> bool {
        let status = self.slot().status();
        match status.phase {
            Phase::Expired => true,
            Phase::Running => !status.periodic,
            _ => false,
        }
    }

    /// Moves a pending one-shot timeout: it fires `delay` from now, earlier or later than before.
    ///
    /// Returns `false`, without effect, if it has fired, was cancelled, or is periodic. Cheaper than `cancel` and a new
    /// timeout, and cheapest if the deadline stays in its tick: then no atomic read-modify-write is needed. If two resets race,
    /// one takes effect.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// let idle = timer.new_timeout(|_| println!("closed"), Duration::from_secs(30)).unwrap();
    /// clock.advance(Duration::from_secs(20));
    /// // A packet arrived: another 30 s.
    /// assert!(idle.reset(Duration::from_secs(30)));
    /// clock.advance(Duration::from_secs(20));
    /// assert!(!idle.is_expired());
    /// ```
    #[inline]
    pub fn reset(&self, delay: Duration) -> bool {
        self.reset_to(When::after(delay))
    }

    #[inline]
    pub(crate) fn reset_to(&self, when: When) -> bool {
        let (shared, slot) = (self.shared(), self.slot());
        let (due, early) = shared.due(when);
        if !slot.reset(due) {
            return false;
        }
        slot.set_early(shared.early(self.held.slot(), early));
        shared.make_findable_for(self.held.slot(), due, when);
        shared.count(|counters| counters.resets.add(1));
        true
    }

    /// Sets the period of a periodic timeout. The next run keeps its time, later ones follow by the new period. Called
    /// during a run, by the task or by another thread, it holds for the next run already.
    ///
    /// Returns `false`, without effect, if the timeout is not periodic, or was cancelled or returned by
    /// [`stop`](TimerHandle::stop).
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock, Period};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let seconds = |n| Period::FixedRate(Duration::from_secs(n));
    /// let poll = timer.new_periodic(|_| println!("polled"), Duration::from_secs(10), seconds(10))?;
    /// assert!(poll.set_period(seconds(60))); // the service is slow today
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(poll.remaining(), Duration::from_secs(60));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_period(&self, period: Period) -> bool {
        self.shared().set_period(self.held.slot(), period)
    }

    /// Moves a pending one-shot timeout as [`reset`](Timeout::reset) does, to a moment instead of a delay. Reads no
    /// clock.
    ///
    /// A moment that has passed counts as a zero delay: it fires at the next boundary.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// let received = timer.now(); // once for all that came in one batch
    /// let idle = timer.new_timeout(|_| println!("closed"), Duration::from_secs(30)).unwrap();
    /// assert!(idle.reset_at(received + Duration::from_secs(60)));
    /// assert_eq!(idle.deadline(), Some(received + Duration::from_secs(60)));
    /// ```
    #[inline]
    pub fn reset_at(&self, deadline: Instant) -> bool {
        self.reset_to(When::At(self.shared().clock().time_of(deadline)))
    }

    /// Its deadline; for a periodic timeout, that of its next run. `None` if it never fires.
    ///
    /// It stays the same when the timeout has fired or was cancelled. If the deadline had passed when the timeout was scheduled,
    /// it is the boundary that the timer had processed last.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let at_noon = timer.now() + Duration::from_secs(3600);
    /// let timeout = timer.new_timeout_at(|_| println!("lunch"), at_noon)?;
    /// assert_eq!(timeout.deadline(), Some(at_noon));
    ///
    /// let never = timer.new_timeout(|_| {}, Duration::MAX)?;
    /// assert_eq!(never.deadline(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        let (shared, due) = (self.shared(), self.slot().status().due);
        if due == Tick::NEVER {
            return None;
        }
        let deadline = shared.deadline_of(self.held.slot(), due);
        let started = shared.lifecycle.started_at();
        shared
            .settings
            .clock
            .instant_of(deadline.saturating_add(started))
    }

    /// The time to its deadline; zero when it is due, has fired or was cancelled.
    ///
    /// For a timeout that [`stop`](TimerHandle::stop) returned: the time that was left when the timer was stopped. For a
    /// periodic one: the time to its next run. [`Duration::MAX`] if it never fires.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(30))?;
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timeout.remaining(), Duration::from_secs(20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remaining(&self) -> Duration {
        let shared = self.shared();
        let status = self.slot().status();
        let now = match status.phase {
            Phase::Pending => shared.settings.clock.recent(),
            Phase::Stopped => shared.lifecycle.stopped_at(),
            _ => return Duration::ZERO,
        };
        shared.remaining_of(self.held.slot(), status.due, now)
    }

    /// Turns it into a guard, whose drop cancels it.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// {
    ///     let _slow = timer.new_timeout(|_| println!("slow"), Duration::from_secs(5))?.cancel_on_drop();
    ///     // Work that may return early, by `?` or by a panic.
    /// }
    /// assert_eq!(timer.pending_timeouts(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop::new(self)
    }

    /// A handle to its timer. Timeouts scheduled with it carry the label of this timeout.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock, Timeout};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let first_try = |timeout: &Timeout| {
    ///     let again = timeout.timer().new_timeout(|_| println!("second try"), Duration::from_secs(2));
    ///     assert!(again.is_ok());
    /// };
    /// timer.new_timeout(first_try, Duration::from_secs(1))?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(timer.stats().expired, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timer(&self) -> TimerHandle {
        // SAFETY: the pointer came from `Arc::as_ptr`, and the count is at least one: an `Arc` exists as long as this slot
        // is not free. This adds one, which the new `Arc` takes over.
        let shared = unsafe {
            Arc::increment_strong_count(self.shared.as_ptr());
            Arc::from_raw(self.shared.as_ptr())
        };
        TimerHandle::with_label(shared, self.slot().label())
    }

    /// Its label: that of the handle it was scheduled with, if that was made by
    /// [`labelled`](TimerHandle::labelled).
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let retries = timer.labelled("retries");
    /// let retry = retries.new_timeout(|_| println!("again"), Duration::from_secs(5))?;
    /// assert_eq!(retry.label(), Some("retries"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn label(&self) -> Option<&'static str> {
        self.shared().label_of(self.slot())
    }

    /// Takes the task out of a timeout that [`stop`](TimerHandle::stop) returned. For a periodic timeout, the task runs it
    /// once.
    ///
    /// `None` if the task was taken before, for any timeout that `stop` did not return, and for a periodic one that was
    /// running on an executor when the timer stopped.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// timer.new_timeout(|_| println!("run at shutdown instead"), Duration::from_secs(60)).unwrap();
    /// for timeout in timer.stop().unwrap() {
    ///     let task = timeout.take_task().unwrap();
    ///     task(&timeout);
    /// }
    /// ```
    pub fn take_task(&self) -> Option<Task> {
        self.slot().take_stopped().map(StoredTask::into_task)
    }

    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn slot_number(&self) -> u32 {
        self.held.slot().number()
    }

    // ── for futures ───────────────────────────────────────────────────────────────────────────

    pub(crate) fn label_number(&self) -> Label {
        self.slot().label()
    }

    /// The state of the timeout.
    #[inline]
    pub(crate) fn phase(&self) -> Phase {
        self.slot().status().phase
    }

    /// Ends the timeout of a future whose due tick has come, as if it had fired, but without calling its waker. Returns
    /// `false` if it has fired, or its timer has stopped.
    pub(crate) fn expire(&self) -> bool {
        let shared = self.shared();
        self.slot().cancel(|| {
            shared.count(|counters| counters.expired.add(1));
            shared.release_pending();
        })
    }

    /// Replaces the task of a future's timeout, if it is pending. Does not count as another timeout.
    pub(crate) fn replace_task(&self, task: StoredTask<Timeout>, when: When) {
        let (shared, slot) = (self.shared(), self.slot());
        let Some((running, old)) = slot.begin_replace(self.held.slot()) else {
            return;
        };
        let (due, early) = shared.due(when);
        let early = shared.early(self.held.slot(), early);
        let rearmed = slot.rearm(running, task, shared.next_stamp(), due, early);
        debug_assert!(rearmed.is_ok(), "an exchange cannot be cancelled");
        shared.make_findable_for(self.held.slot(), due, when);
        // As in `Shared::schedule`: a stop that this check misses finds the slot armed.
        if shared.lifecycle.is_shutdown() {
            shared.count_unprocessed(slot);
        }
        // Last: its drop is user code.
        drop(old);
    }

    /// Takes out the value of a delay queue, unless it is due.
    #[inline]
    pub(crate) fn take_value(&self) -> Option<StoredTask<Timeout>> {
        self.shared().take_value(self.slot())
    }

    /// Wakes the future of a handle that `stop` has just made.
    pub(super) fn wake_future(&self) {
        if let Some(task) = self.slot().take_stopped() {
            let run = || task.run(self);
            self.shared()
                .catch_panic_of("a waker", self.held.slot(), run);
        }
    }

    /// Drops the task of a handle that `stop` returned, and catches a panic: the handles are in a vector, and a second
    /// panic during unwinding would abort the process.
    fn drop_task(&self) {
        if let Some(task) = self.slot().take_stopped() {
            let what = "the drop of a stopped timer's task";
            self.shared()
                .catch_panic_of(what, self.held.slot(), || drop(task));
        }
    }
}

impl Drop for Timeout {
    #[inline]
    fn drop(&mut self) {
        let Some(handle) = self.held.handle() else {
            return;
        };
        if handle == Handle::Returned {
            self.drop_task();
        }
        let slot: *const Slot<Timeout> = self.slot();
        // SAFETY: this handle goes with that bit, and is gone after this. After `InUse` somebody else may free the
        // slot, and the timer's memory with it; an abandoned slot is this call's to free.
        unsafe {
            if Slot::release(slot, handle) == ReleaseResult::Abandoned {
                Shared::free(self.shared.as_ptr(), slot, self.held.slot());
            }
        }
    }
}

impl fmt::Debug for Timeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.slot().status();
        let phase = match status.phase {
            Phase::Pending => "pending",
            Phase::Running => "running",
            Phase::Expired => "expired",
            Phase::Cancelled => "cancelled",
            Phase::Stopped => "stopped",
        };
        f.debug_struct("Timeout")
            .field("state", &format_args!("{phase}"))
            .field("periodic", &status.periodic)
            .field("remaining", &self.remaining())
            .finish()
    }
}

fn as_ptr(shared: &Arc<Shared>) -> NonNull<Shared> {
    // SAFETY: an `Arc`'s pointer is not null.
    unsafe { NonNull::new_unchecked(Arc::as_ptr(shared).cast_mut()) }
}

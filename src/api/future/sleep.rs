//! A future that completes at a deadline.
//!
//! # Wake-up
//!
//! The task of its timeout is the waker, stored in the slot: nothing is allocated, and only the slot is shared. A poll
//! reads the slot's word. *No wake-up is lost:* a poll that finds the word armed, with its own waker inside, comes before
//! the timer thread's compare-and-swap, and so before the timer thread takes the waker out. A poll with another waker takes the
//! old one out by the compare-and-swap that the timer thread would have to win, stores the new one, and reads the word again. If the
//! timer thread has come to the due tick by then, it may have passed the entry over: such a poll ends the timeout and is ready. When the
//! timer stops, it wakes the wakers in the slots, and the words say that they were stopped.

use crate::error::RejectReason;
use crate::shared::{Shared, Timeout, TimerHandle, TimerState, When};
use crate::slots::{Kind, Label, Phase, StoredTask};
use crate::time::nanos;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Ready when its time has come: made by [`sleep`](TimerHandle::sleep) and
/// [`sleep_until`](TimerHandle::sleep_until). It is `Unpin`.
///
/// The delay counts from the call that made it. The first poll schedules a timeout, the drop cancels it. If the deadline has
/// passed at the first poll, it is ready at that poll, without a timeout. When the timer stops, it completes with an error: it
/// never hangs. A sleep that is refused keeps its error until it is reset.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, RejectReason, Sleep};
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// let sleep: Sleep = timer.sleep(Duration::from_secs(60));
/// assert_eq!(timer.pending_timeouts(), 0); // not polled yet
///
/// let mut sleep = pin!(sleep);
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(sleep.as_mut().poll(&mut context).is_pending());
/// assert_eq!(timer.pending_timeouts(), 1);
///
/// timer.stop()?;
/// assert!(matches!(sleep.poll(&mut context), Poll::Ready(Err(RejectReason::Stopped))));
/// # Ok::<(), hashed_wheel::StopError>(())
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    timer: Arc<Shared>,
    /// On the timer's clock.
    deadline: u64,
    stage: Stage,
}

enum Stage {
    Armed(Timeout, WakerId),
    /// Over, with the answer to every further poll; `None` before the first poll, and after a move. While it is armed, the slot has the label.
    Unarmed(Option<Result<(), RejectReason>>, Label),
}

/// The identity of the waker in the slot: what [`Waker::will_wake`] would compare. It is that of the clone, which the slot
/// owns, so that no other can have the same address as long as it is there. The waker that the future is
/// polled with may be a temporary, with other data than its clone: such a one is never found equal, and is
/// replaced by every poll.
type WakerId = (usize, usize);

#[inline]
fn id_of(waker: &Waker) -> WakerId {
    let vtable = ptr::from_ref(waker.vtable());
    (waker.data().addr(), vtable.addr())
}

/// The task of a future's timeout, and which waker it wakes.
#[inline]
fn waking(waker: &Waker) -> (StoredTask<Timeout>, WakerId) {
    let waker = waker.clone();
    let id = id_of(&waker);
    (StoredTask::future(move |_| waker.wake()), id)
}

impl Sleep {
    pub(crate) fn new(timer: &TimerHandle, delay: Duration) -> Sleep {
        let now = timer.shared().clock().elapsed();
        Self::until(timer, now.saturating_add(nanos(delay)))
    }

    /// Completes at a time of the timer's clock.
    pub(crate) fn until(timer: &TimerHandle, deadline: u64) -> Sleep {
        Sleep {
            timer: Arc::clone(timer.shared()),
            deadline,
            stage: Stage::Unarmed(None, timer.label()),
        }
    }

    fn label(&self) -> Label {
        match &self.stage {
            Stage::Armed(timeout, _) => timeout.label_number(),
            Stage::Unarmed(_, label) => *label,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.timer
    }

    /// Nanoseconds on the timer's clock.
    pub(super) fn time(&self) -> u64 {
        self.deadline
    }

    /// Returns `true` if it has not been armed, or moved since it was over.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.stage, Stage::Unarmed(None, _))
    }

    /// Its deadline; `None` if it never ends.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let at_noon = timer.now() + Duration::from_secs(3600);
    /// assert_eq!(timer.sleep_until(at_noon).deadline(), Some(at_noon));
    /// assert_eq!(timer.sleep(Duration::MAX).deadline(), None);
    /// ```
    pub fn deadline(&self) -> Option<Instant> {
        self.timer.clock().instant_of(self.deadline)
    }

    /// Returns `true` if it is ready because its time has come. It is `false` before the first poll, after a reset that moved it
    /// into the future, and if it has ended with an error.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::pin::pin;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// let mut sleep = pin!(timer.sleep(Duration::from_secs(1)));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(sleep.as_mut().poll(&mut context).is_pending());
    /// assert!(!sleep.is_elapsed());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(sleep.is_elapsed());
    /// ```
    pub fn is_elapsed(&self) -> bool {
        match &self.stage {
            Stage::Armed(timeout, _) => matches!(timeout.phase(), Phase::Running | Phase::Expired),
            Stage::Unarmed(end, _) => matches!(end, Some(Ok(()))),
        }
    }

    /// A handle on its timer.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let sleep = timer.sleep(Duration::from_secs(60));
    /// let as_long_again = sleep.timer().sleep(Duration::from_secs(60));
    /// ```
    pub fn timer(&self) -> TimerHandle {
        TimerHandle::with_label(Arc::clone(&self.timer), self.label())
    }

    /// Moves its deadline to `delay` from now, earlier or later than before.
    ///
    /// While it waits, that is done in place, like [`Timeout::reset`](crate::Timeout::reset), and it need not be polled
    /// again. If it has completed, or was never polled, its next poll schedules a timeout.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::pin::pin;
    /// # use std::task::{Context, Waker};
    /// # use std::time::Duration;
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// let mut idle = pin!(timer.sleep(Duration::from_secs(30)));
    /// let mut context = Context::from_waker(Waker::noop());
    /// assert!(idle.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(20));
    /// idle.reset(Duration::from_secs(30));
    /// clock.advance(Duration::from_secs(20));
    /// assert!(idle.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(10));
    /// assert!(idle.as_mut().poll(&mut context).is_ready());
    /// ```
    pub fn reset(&mut self, delay: Duration) {
        let now = self.timer.clock().elapsed();
        self.reset_to(now.saturating_add(nanos(delay)));
    }

    /// Moves its deadline to a moment, as [`reset`](Sleep::reset) does. Reads no clock. If the moment has passed,
    /// a sleep that waits is woken at the next boundary, and any other is ready at its next poll.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let mut sleep = timer.sleep(Duration::from_secs(30));
    /// let later = timer.now() + Duration::from_secs(60);
    /// sleep.reset_at(later);
    /// assert_eq!(sleep.deadline(), Some(later));
    /// ```
    pub fn reset_at(&mut self, deadline: Instant) {
        self.reset_to(self.timer.clock().time_of(deadline));
    }

    /// Moves its deadline to a time of the timer's clock.
    pub(crate) fn reset_to(&mut self, deadline: u64) {
        self.deadline = deadline;
        if let Stage::Armed(timeout, _) = &self.stage {
            if timeout.reset_to(When::At(deadline)) {
                return;
            }
        }
        // If it is just being fired, its waker is woken spuriously, and the poll that follows schedules it again.
        self.stage = Stage::Unarmed(None, self.label());
    }

    /// Returns `true` if its timer has stopped, and a poll has said so.
    #[cfg(feature = "stream")]
    pub(super) fn is_stopped(&self) -> bool {
        matches!(
            self.stage,
            Stage::Unarmed(Some(Err(RejectReason::Stopped)), _)
        )
    }

    /// Schedules a timeout that wakes the caller, if that has not been done, and waits for it.
    pub(super) fn poll_timeout(&mut self, waker: &Waker) -> Poll<Result<(), RejectReason>> {
        if self.is_new() {
            self.arm(waker)
        } else {
            self.check(waker)
        }
    }

    /// Schedules a timeout that wakes the caller.
    #[inline]
    fn arm(&mut self, waker: &Waker) -> Poll<Result<(), RejectReason>> {
        let (task, id) = waking(waker);
        let (label, when) = (self.label(), When::At(self.deadline));
        let timeout = self
            .timer
            .schedule(task, Kind::Future, label, |task| task, when);
        match timeout {
            Ok(timeout) => {
                self.stage = Stage::Armed(timeout, id);
                Poll::Pending
            }
            Err((task, reason)) => {
                self.stage = Stage::Unarmed(Some(Err(reason.copy())), label);
                drop(task);
                Poll::Ready(Err(reason))
            }
        }
    }

    /// Checks the timeout that an earlier poll scheduled.
    fn check(&mut self, waker: &Waker) -> Poll<Result<(), RejectReason>> {
        let mut replaced = false;
        let end = loop {
            let (timeout, last) = match &mut self.stage {
                Stage::Armed(timeout, last) => (timeout, last),
                Stage::Unarmed(Some(Ok(())), _) => return Poll::Ready(Ok(())),
                Stage::Unarmed(Some(Err(reason)), _) => return Poll::Ready(Err(reason.copy())),
                Stage::Unarmed(None, _) => return Poll::Pending,
            };
            match timeout.phase() {
                Phase::Running | Phase::Expired => break Ok(()),
                Phase::Cancelled | Phase::Stopped => break Err(RejectReason::Stopped),
                Phase::Pending if *last == id_of(waker) && !replaced => {
                    return Poll::Pending;
                }
                // Exchanged within its boundary, or about to be: the timer thread may have passed it over.
                Phase::Pending if self.timer.is_due(self.deadline) => {
                    if self.expire() {
                        return Poll::Ready(Ok(()));
                    }
                    // It has fired, or its timer has stopped.
                }
                // What was put in by this poll is a clone of `waker`, whether or not it is equal to it.
                Phase::Pending if replaced => return Poll::Pending,
                Phase::Pending => {
                    let (task, id) = waking(waker);
                    // First: the drop of the old waker may panic, and by then it is replaced.
                    *last = id;
                    replaced = true;
                    timeout.replace_task(task, When::At(self.deadline));
                    // It may have fired, or its timer stopped, before that.
                }
            }
        };
        self.stage = Stage::Unarmed(Some(end), self.label());
        self.check(waker)
    }

    /// Ends the sleep without its waker. Returns `false` if its timeout has fired, or was stopped.
    #[cold]
    fn expire(&mut self) -> bool {
        let over = Stage::Unarmed(Some(Ok(())), self.label());
        // First: the drop of the waker may panic.
        let armed = mem::replace(&mut self.stage, over);
        let expired = matches!(&armed, Stage::Armed(timeout, _) if timeout.expire());
        if !expired {
            self.stage = armed;
        }
        expired
    }
}

impl Future for Sleep {
    type Output = Result<(), RejectReason>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.is_new()
            && self.timer.clock().has_passed(self.deadline)
            && self.timer.state() != TimerState::Shutdown
        {
            self.stage = Stage::Unarmed(Some(Ok(())), self.label());
            return Poll::Ready(Ok(()));
        }
        self.poll_timeout(cx.waker())
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Armed(timeout, _) = &self.stage {
            timeout.cancel();
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Unarmed(None, _) => "new",
            Stage::Armed(..) => "waiting",
            Stage::Unarmed(Some(Ok(())), _) => "over",
            Stage::Unarmed(Some(Err(RejectReason::Stopped)), _) => "stopped",
            Stage::Unarmed(Some(Err(_)), _) => "refused",
        };
        let remaining = self.deadline.saturating_sub(self.timer.now());
        f.debug_struct("Sleep")
            .field("stage", &format_args!("{stage}"))
            .field("remaining", &Duration::from_nanos(remaining))
            .finish_non_exhaustive()
    }
}

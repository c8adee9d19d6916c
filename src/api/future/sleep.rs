//! A future that completes at a deadline.
//!
//! # Wake-up
//!
//! The task of its timeout is the waker, stored in the slot: nothing is allocated, and only the slot is shared. A poll
//! reads the slot's word. *No wake-up is lost:* a poll that finds the word armed, with its own waker inside, comes before
//! the worker's compare-and-swap, and so before the worker takes the waker out. A poll with another waker takes the old
//! one out by the compare-and-swap that the worker would have to win, stores the new one, and reads the word again; if that
//! happens within the boundary at which it was due, it is woken at the next. When the timer stops, it wakes the wakers in
//! the slots, and the words say that they were stopped.

use crate::error::RejectReason;
use crate::shared::{Shared, Timeout, TimerHandle, When};
use crate::slots::{Kind, Phase, StoredTask};
use crate::time::nanos;
use std::fmt;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Ready when its time has come: made by [`sleep`](TimerHandle::sleep) and
/// [`sleep_until`](TimerHandle::sleep_until). It is `Unpin`.
///
/// The delay counts from the call that made it. The first poll schedules a timeout, the drop cancels it. When the timer
/// stops, it completes with an error: it never hangs.
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
    /// Not polled yet.
    New,
    Armed(Timeout, WakerId),
    Over(End),
}

/// The end of a sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was due.
    Fired,
    /// Its timer stopped, or rejected it.
    Stopped,
}

/// The identity of the waker in the slot: what [`Waker::will_wake`] would compare. It is that of the clone, which the slot
/// owns, so that no other can have the same address as long as it is there. The waker that the future is
/// polled with may be a temporary, with other data than its clone: such a one is never found equal, and is
/// replaced by every poll.
#[derive(Clone, Copy, PartialEq, Eq)]
struct WakerId {
    data: usize,
    vtable: usize,
}

impl WakerId {
    #[inline]
    fn of(waker: &Waker) -> WakerId {
        WakerId {
            data: waker.data().addr(),
            vtable: ptr::from_ref(waker.vtable()).addr(),
        }
    }
}

/// The task of a future's timeout, and which waker it wakes.
#[inline]
fn waking(waker: &Waker) -> (StoredTask<Timeout>, WakerId) {
    let waker = waker.clone();
    let id = WakerId::of(&waker);
    (StoredTask::future(move |_| waker.wake()), id)
}

impl Sleep {
    pub(crate) fn new(timer: &Arc<Shared>, delay: Duration) -> Sleep {
        Self::until(timer, timer.recent().saturating_add(nanos(delay)))
    }

    /// Completes at a time of the timer's clock.
    pub(crate) fn until(timer: &Arc<Shared>, deadline: u64) -> Sleep {
        Sleep {
            timer: Arc::clone(timer),
            deadline,
            stage: Stage::New,
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
        matches!(self.stage, Stage::New)
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

    /// Returns `true` if its time has come and the timer has fired it: then it is ready. It is `false` before the first poll,
    /// which arms it, after a reset that moved it into the future, and if it has ended with an error.
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
            Stage::New => false,
            Stage::Armed(timeout, _) => matches!(timeout.phase(), Phase::Running | Phase::Expired),
            Stage::Over(end) => *end == End::Fired,
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
        TimerHandle::new(Arc::clone(&self.timer))
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
        self.reset_to(self.timer.recent().saturating_add(nanos(delay)));
    }

    /// Moves its deadline to a moment, as [`reset`](Sleep::reset) does. Reads no clock. A moment that has passed counts as a
    /// zero delay.
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
        self.stage = Stage::New;
    }

    /// Returns `true` if it has ended with an error.
    #[cfg(feature = "stream")]
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.stage, Stage::Over(End::Stopped))
    }

    /// Schedules a timeout that wakes the caller.
    #[inline]
    fn arm(&mut self, waker: &Waker) -> Result<(), RejectReason> {
        let (task, id) = waking(waker);
        let when = When::At(self.deadline);
        match self.timer.schedule(task, Kind::Future, |task| task, when) {
            Ok(timeout) => {
                self.stage = Stage::Armed(timeout, id);
                Ok(())
            }
            Err((task, reason)) => {
                self.stage = Stage::Over(End::Stopped);
                drop(task);
                Err(reason)
            }
        }
    }

    /// Checks the timeout that an earlier poll scheduled.
    fn check(&mut self, waker: &Waker) -> Poll<End> {
        let mut replaced = false;
        let end = loop {
            let (timeout, last) = match &mut self.stage {
                Stage::Armed(timeout, last) => (timeout, last),
                Stage::Over(end) => break *end,
                Stage::New => return Poll::Pending,
            };
            match timeout.phase() {
                Phase::Running | Phase::Expired => break End::Fired,
                Phase::Cancelled | Phase::Stopped => break End::Stopped,
                // What was put in by this poll is a clone of `waker`, whether or not it is equal to it.
                Phase::Pending if replaced || *last == WakerId::of(waker) => {
                    return Poll::Pending;
                }
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
        self.stage = Stage::Over(end);
        Poll::Ready(end)
    }
}

impl Future for Sleep {
    type Output = Result<(), RejectReason>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if matches!(self.stage, Stage::New) {
            return match self.arm(cx.waker()) {
                Ok(()) => Poll::Pending,
                Err(reason) => Poll::Ready(Err(reason)),
            };
        }
        self.check(cx.waker()).map(|end| match end {
            End::Fired => Ok(()),
            End::Stopped => Err(RejectReason::Stopped),
        })
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
            Stage::New => "new",
            Stage::Armed(..) => "waiting",
            Stage::Over(End::Fired) => "over",
            Stage::Over(End::Stopped) => "stopped",
        };
        let remaining = self.deadline.saturating_sub(self.timer.now());
        f.debug_struct("Sleep")
            .field("stage", &format_args!("{stage}"))
            .field("remaining", &Duration::from_nanos(remaining))
            .finish_non_exhaustive()
    }
}

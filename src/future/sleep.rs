//! A future that is ready at a moment.

use super::notice::{End, Notice, notice};
use crate::TimerHandle;
use crate::clock::nanos;
use crate::error::RejectReason;
use crate::inner::{Inner, When};
use crate::task::StoredTask;
use crate::timeout::Timeout;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Ready when its time has come: made by [`sleep`](TimerHandle::sleep).
///
/// Its time counts from the call that made it. It takes a timeout when it is first polled, and
/// cancels it when dropped. When the timer stops, it ends with an error: it never hangs.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    timer: Arc<Inner>,
    /// On the timer's clock.
    deadline: u64,
    stage: Stage,
}

enum Stage {
    /// Not polled yet.
    New,
    Armed(Timeout, Notice),
    Over(End),
}

impl Sleep {
    pub(crate) fn new(timer: &Arc<Inner>, delay: Duration) -> Sleep {
        Self::until(timer, timer.clock.now().saturating_add(nanos(delay)))
    }

    /// Ready at a moment of the timer's clock.
    pub(crate) fn until(timer: &Arc<Inner>, deadline: u64) -> Sleep {
        Sleep {
            timer: Arc::clone(timer),
            deadline,
            stage: Stage::New,
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.timer
    }

    /// Nanoseconds on the timer's clock.
    pub(super) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// A handle on its timer.
    pub fn timer(&self) -> TimerHandle {
        TimerHandle::new(Arc::clone(&self.timer))
    }

    /// Moves its end: it is ready `delay` from now, be that earlier or later.
    ///
    /// While it waits, that is done in place, like [`Timeout::reset`](crate::Timeout::reset), and it
    /// need not be polled again. One that is over, or was never polled, is armed by its next poll.
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
        self.reset_to(self.timer.clock.now().saturating_add(nanos(delay)));
    }

    /// Moves its end to a moment of the timer's clock.
    pub(crate) fn reset_to(&mut self, deadline: u64) {
        self.deadline = deadline;
        if let Stage::Armed(timeout, _) = &self.stage {
            if timeout.reset_to(When::At(deadline)) {
                return;
            }
        }
        // If it is being fired at this moment, its waker is woken: for nothing, but then whoever
        // waits comes to poll it, and so to arm it again.
        self.stage = Stage::New;
    }

    /// Whether it has ended with an error.
    #[cfg(feature = "stream")]
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.stage, Stage::Over(End::Stopped))
    }

    fn arm(&mut self, cx: &Context<'_>) -> Result<Stage, RejectReason> {
        let (notice, sender) = notice(cx.waker());
        let task = StoredTask::future(move |timeout| sender.fire(timeout));
        match self.timer.schedule(task, When::At(self.deadline)) {
            Ok(timeout) => Ok(Stage::Armed(timeout, notice)),
            Err((task, reason)) => {
                // Nobody is to be woken for a future that is told the reason now.
                notice.close();
                drop(task);
                Err(reason)
            }
        }
    }
}

impl Future for Sleep {
    type Output = Result<(), RejectReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let end = match &this.stage {
            Stage::New => match this.arm(cx) {
                Ok(armed) => {
                    this.stage = armed;
                    return Poll::Pending;
                }
                Err(reason) => {
                    this.stage = Stage::Over(End::Stopped);
                    return Poll::Ready(Err(reason));
                }
            },
            Stage::Armed(_, notice) => match notice.poll(cx.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(end) => end,
            },
            Stage::Over(end) => *end,
        };
        this.stage = Stage::Over(end);
        Poll::Ready(match end {
            End::Fired => Ok(()),
            End::Stopped => Err(RejectReason::Stopped),
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Stage::Armed(timeout, notice) = &self.stage {
            notice.close();
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
        let remaining = self.deadline.saturating_sub(self.timer.clock.now());
        f.debug_struct("Sleep")
            .field("stage", &format_args!("{stage}"))
            .field("remaining", &Duration::from_nanos(remaining))
            .finish_non_exhaustive()
    }
}

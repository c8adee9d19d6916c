//! A [`TimerHandle`] as the timer of hyper.

use super::future::Sleep;
use crate::shared::TimerHandle;
use ::hyper::rt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// For the `timer` method of hyper's builders, so that header timeouts, keep-alive and the like are on
/// the wheel. With the feature `hyper`.
///
/// ```
/// use hashed_wheel::HashedWheelTimer;
/// use hyper::rt::Timer;
/// use std::time::Duration;
///
/// let owner = HashedWheelTimer::new(Duration::from_millis(10), 512);
/// let timer = owner.handle();
/// // hyper::server::conn::http1::Builder::new()
/// //     .timer(timer.clone())
/// //     .header_read_timeout(Duration::from_secs(5))
/// let sleep = Timer::sleep_until(&timer, timer.now() + Duration::from_secs(5));
/// # drop(sleep);
/// ```
///
/// Keep the owner as long as connections are served: a handle does not keep the timer running.
///
/// **When the timer does not run**, because it has stopped, refuses one more timeout
/// (`max_pending_timeouts`) or has no thread, a sleep is **over at once**, and one that was waiting is over
/// when the timer stops. hyper's sleep cannot return an error, and the alternative would be a connection
/// that waits forever. So hyper closes the connection as if the time had elapsed.
///
/// `sleep_until` and `reset` read no clock: hyper has read it for the deadline.
///
/// **On a manual clock** `now` is the instant of the clock's creation plus its time. It stands still
/// with the clock, and `sleep_until(now + d)` is `sleep(d)`. hyper takes its deadlines from `now`. One that is
/// made from [`Instant::now`] is on another time scale and has no meaning here.
impl rt::Timer for TimerHandle {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HyperSleep(TimerHandle::sleep(self, duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HyperSleep(TimerHandle::sleep_until(self, deadline)))
    }

    fn now(&self) -> Instant {
        TimerHandle::now(self)
    }

    /// In place, if `sleep` is of this timer; otherwise it is replaced.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<HyperSleep>() {
            Some(mut own) if Arc::ptr_eq(own.0.shared(), self.shared()) => {
                own.0.reset_at(new_deadline);
            }
            _ => *sleep = rt::Timer::sleep_until(self, new_deadline),
        }
    }
}

/// A [`Sleep`] that is over, whatever its outcome.
struct HyperSleep(Sleep);

impl Future for HyperSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl rt::Sleep for HyperSleep {}

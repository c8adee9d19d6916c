//! A future with a time limit.

use super::Sleep;
use crate::error::TimeoutError;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future with a time limit: made by
/// [`with_timeout`](crate::TimerHandle::with_timeout).
///
/// The time counts from the call that made it. If the future is ready when first polled, the timer is not used.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, WithTimeout};
/// use std::future::{Ready, ready};
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// let limited: WithTimeout<Ready<u32>> = timer.with_timeout(ready(42), Duration::from_secs(5));
///
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(matches!(pin!(limited).poll(&mut context), Poll::Ready(Ok(42))));
/// assert_eq!(timer.stats().scheduled, 0);
/// ```
#[must_use = "futures do nothing unless polled"]
pub struct WithTimeout<F> {
    future: F,
    sleep: Sleep,
}

impl<F> WithTimeout<F> {
    pub(crate) fn new(future: F, sleep: Sleep) -> Self {
        WithTimeout { future, sleep }
    }

    /// The future.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let limited = timer.with_timeout(std::future::ready(42), Duration::from_secs(5));
    /// println!("{:?}", limited.get_ref());
    /// ```
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future, without its deadline.
    ///
    /// ```
    /// # use hashed_wheel::HashedWheelTimer;
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let limited = timer.with_timeout(std::future::ready(42), Duration::from_secs(5));
    /// let unlimited = limited.into_inner();
    /// assert_eq!(unlimited.into_inner(), 42); // that of `Ready`
    /// ```
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for WithTimeout<F> {
    type Output = Result<F::Output, TimeoutError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` is pinned whenever `self` is: it is never moved out of a pinned `self`, there is
        // no `Drop` that could, and `Unpin` is derived from the fields. `sleep` is `Unpin`.
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (
                Pin::new_unchecked(&mut this.future),
                Pin::new(&mut this.sleep),
            )
        };
        if let Poll::Ready(output) = future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        sleep
            .poll(cx)
            .map(|slept| Err(slept.map_or_else(TimeoutError::Rejected, |()| TimeoutError::Elapsed)))
    }
}

impl<F> fmt::Debug for WithTimeout<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTimeout")
            .field("sleep", &self.sleep)
            .finish_non_exhaustive()
    }
}

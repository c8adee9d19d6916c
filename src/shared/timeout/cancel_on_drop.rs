//! A guard that cancels its timeout.

use super::Timeout;
use std::fmt;
use std::ops::Deref;

/// A [`Timeout`] that is cancelled when this is dropped: made by [`Timeout::cancel_on_drop`].
///
/// It can do all that the timeout can. One that has fired, or was cancelled before, is left as it is. A panic in the
/// drop of the task's captures leaves the guard's drop, as it leaves [`cancel`](Timeout::cancel).
///
/// ```
/// use hashed_wheel::{CancelOnDrop, HashedWheelTimer, TimerHandle, Rejected, Timeout};
/// use std::time::Duration;
///
/// /// A connection that is closed when it is silent.
/// struct Connection {
///     idle: CancelOnDrop,
/// }
///
/// impl Connection {
///     fn on_packet(&self) {
///         self.idle.reset(Duration::from_secs(30)); // a method of the timeout
///     }
/// }
///
/// let timer = HashedWheelTimer::default();
/// let idle = timer.new_timeout(|_| println!("closed"), Duration::from_secs(30))?;
/// let connection = Connection { idle: idle.cancel_on_drop() };
/// connection.on_packet();
/// drop(connection);
/// assert_eq!(timer.stats().cancelled, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the timeout is cancelled when this is dropped, and that is at once"]
pub struct CancelOnDrop {
    /// Its `handle` is `None` once it has been given up: then there is nothing to be dropped.
    timeout: Timeout,
}

impl CancelOnDrop {
    pub(super) fn new(timeout: Timeout) -> CancelOnDrop {
        CancelOnDrop { timeout }
    }

    /// Gives up the guard: the timeout is not cancelled.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, Timeout};
    /// # use std::time::Duration;
    /// let timer = HashedWheelTimer::default();
    /// let guard = timer.new_timeout(|_| {}, Duration::from_secs(5))?.cancel_on_drop();
    /// let timeout: Timeout = guard.into_timeout();
    /// drop(timeout);
    /// assert_eq!(timer.pending_timeouts(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_timeout(mut self) -> Timeout {
        Timeout {
            shared: self.timeout.shared,
            held: self.timeout.held.take(),
        }
    }
}

impl Deref for CancelOnDrop {
    type Target = Timeout;

    fn deref(&self) -> &Timeout {
        &self.timeout
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if self.timeout.held.handle().is_some() {
            self.timeout.cancel();
        }
    }
}

impl fmt::Debug for CancelOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&self.timeout).finish()
    }
}

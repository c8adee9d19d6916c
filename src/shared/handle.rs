//! The handle to a timer.

use super::Shared;
use std::sync::Arc;

/// A handle to a timer of either kind, cheap to clone.
///
/// It has all methods of the owners, but does not keep the timer running: when the owner is dropped the timer stops. So a
/// task may hold a handle to its own timer without a cycle.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, TimerHandle, TimerState};
/// use std::time::Duration;
///
/// // Takes either timer.
/// fn remind(timer: &TimerHandle) -> bool {
///     timer.new_timeout(|_| println!("drink something"), Duration::from_secs(3600)).is_ok()
/// }
///
/// let timer = HashedWheelTimer::default();
/// let handle = timer.handle();
/// assert!(remind(&handle));
///
/// drop(timer);
/// assert_eq!(handle.state(), TimerState::Shutdown);
/// assert!(!remind(&handle));
/// ```
#[derive(Clone)]
pub struct TimerHandle {
    shared: Arc<Shared>,
}

impl TimerHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> TimerHandle {
        TimerHandle { shared }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

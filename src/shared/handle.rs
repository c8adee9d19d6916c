//! The handle on a timer.

use super::Shared;
use std::sync::Arc;

/// A handle on a timer of either kind, cheap to clone.
///
/// It can do all that an owner can. It does not keep the timer running: when the owner is dropped the timer
/// stops, and the handle says so. A task may therefore hold one on its own timer, without a cycle.
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

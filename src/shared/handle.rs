//! The handle to a timer.

use super::Shared;
use crate::slots::Label;
use std::sync::Arc;

/// A handle to a timer of either kind, cheap to clone.
///
/// It has all methods of the owners, but does not keep the timer running: when the owner is dropped the timer stops. So a
/// task may hold a handle to its own timer without a cycle.
///
/// A handle can also [`stop`](TimerHandle::stop) the timer, for everybody who shares it: give a handle only to code that
/// may do so. The handle of [`global`](crate::global) cannot.
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
    /// What its timeouts carry.
    label: Label,
}

impl TimerHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> TimerHandle {
        Self::with_label(shared, Label::NONE)
    }

    /// A handle whose timeouts carry that label.
    pub(crate) fn with_label(shared: Arc<Shared>, label: Label) -> TimerHandle {
        TimerHandle { shared, label }
    }

    #[inline]
    pub(crate) fn label(&self) -> Label {
        self.label
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

//! How punctually the system wakes a thread.
//!
//! Linux lets a sleeping thread oversleep by its *timer slack*, 50 µs unless told otherwise, so that wake-ups can be
//! gathered. That is as long as the finest tick.

/// Asks for the finest timer slack of this thread, as long as it lives. Elsewhere than on Linux it does nothing.
#[derive(Debug)]
#[must_use]
pub(crate) struct FinestSlack {
    /// The slack before, in nanoseconds, if it was changed.
    before: Option<u64>,
}

impl FinestSlack {
    pub(crate) fn ask() -> FinestSlack {
        let before = system::slack().filter(|_| system::set_slack(1));
        FinestSlack { before }
    }
}

impl Drop for FinestSlack {
    fn drop(&mut self) {
        // The thread may be a pool's, and outlive the timer.
        if let Some(before) = self.before {
            system::set_slack(before);
        }
    }
}

#[cfg(all(target_os = "linux", not(any(miri, hashed_wheel_loom))))]
mod system {
    pub(super) fn slack() -> Option<u64> {
        // SAFETY: the call takes no pointer. It returns the slack, or a negative number.
        let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        u64::try_from(slack).ok()
    }

    /// Returns `true` if the system has accepted it.
    pub(super) fn set_slack(nanos: u64) -> bool {
        // SAFETY: the call takes no pointer, and changes nothing but the slack of this thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos as libc::c_ulong, 0, 0, 0) == 0 }
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, hashed_wheel_loom)))))]
mod system {
    pub(super) fn slack() -> Option<u64> {
        None
    }

    pub(super) fn set_slack(_nanos: u64) -> bool {
        false
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, hashed_wheel_loom))))]
mod tests {
    use super::*;

    #[test]
    fn the_slack_is_the_finest_until_it_is_given_back() {
        let before = system::slack().unwrap();
        let finest = FinestSlack::ask();
        assert_eq!(system::slack(), Some(1));
        drop(finest);
        assert_eq!(system::slack(), Some(before));
    }
}

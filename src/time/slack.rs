//! Asking the system to wake a thread punctually.
//!
//! Linux lets a sleeping thread oversleep by its *timer slack*, 50 µs by default, so that wake-ups can be
//! gathered. That is as long as the finest tick.
//!
//! Its scheduler gives a runnable thread its share in *slices*, about 3 ms long. Since Linux 6.12 a thread may ask for another
//! length. Its share stays the same, but of two threads that are owed time the one with the shorter slice comes first.

/// A setting of this thread that was changed, and is set back when this is dropped: the thread may be a pool's, and outlive
/// the timer. Where the system has no such setting it does nothing.
#[derive(Debug)]
#[must_use]
pub(crate) struct ThreadSetting {
    set: fn(u64) -> Option<u64>,
    /// The value before, in nanoseconds, if it was changed.
    before: Option<u64>,
}

impl ThreadSetting {
    /// The shortest slice that Linux grants.
    const SHORTEST_SLICE: u64 = 100_000;

    /// Asks for the finest timer slack.
    pub(crate) fn finest_slack() -> ThreadSetting {
        ThreadSetting::change(system::set_slack, 1)
    }

    /// Asks for the shortest slice.
    pub(crate) fn shortest_slice() -> ThreadSetting {
        ThreadSetting::change(system::set_slice, ThreadSetting::SHORTEST_SLICE)
    }

    fn change(set: fn(u64) -> Option<u64>, nanos: u64) -> ThreadSetting {
        let before = set(nanos);
        ThreadSetting { set, before }
    }
}

impl Drop for ThreadSetting {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            (self.set)(before);
        }
    }
}

#[cfg(all(target_os = "linux", not(any(miri, hashed_wheel_loom))))]
mod system {
    use std::mem::{size_of, zeroed};

    fn scheduling() -> Option<libc::sched_attr> {
        // SAFETY: plain numbers.
        let mut attributes: libc::sched_attr = unsafe { zeroed() };
        let size = size_of::<libc::sched_attr>();
        // SAFETY: the system writes no more than `size` bytes to what it is given. 0 is the calling thread.
        let result =
            unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        (result == 0).then_some(attributes)
    }

    /// Sets the slice of this thread and leaves the rest as it is. Returns the slice before, if the system has accepted it.
    pub(super) fn set_slice(nanos: u64) -> Option<u64> {
        let mut attributes = scheduling()?;
        let before = attributes.sched_runtime;
        // A system with slices returns the current one. A real-time thread has none.
        if attributes.sched_policy != libc::SCHED_OTHER as u32 || before == 0 {
            return None;
        }
        attributes.size = size_of::<libc::sched_attr>() as u32;
        attributes.sched_runtime = nanos;
        // SAFETY: the system reads `size` bytes, and changes nothing but the scheduling of this thread.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
        (result == 0).then_some(before)
    }

    pub(super) fn slack() -> Option<u64> {
        // SAFETY: the call takes no pointer. It returns the slack, or a negative number.
        let slack = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
        u64::try_from(slack).ok()
    }

    /// Sets the slack of this thread. Returns the slack before, if the system has accepted it.
    pub(super) fn set_slack(nanos: u64) -> Option<u64> {
        let before = slack()?;
        // SAFETY: the call takes no pointer, and changes nothing but the slack of this thread.
        let result =
            unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanos as libc::c_ulong, 0, 0, 0) };
        (result == 0).then_some(before)
    }
}

#[cfg(not(all(target_os = "linux", not(any(miri, hashed_wheel_loom)))))]
mod system {
    pub(super) fn set_slack(_nanos: u64) -> Option<u64> {
        None
    }

    pub(super) fn set_slice(_nanos: u64) -> Option<u64> {
        None
    }
}

#[cfg(all(test, target_os = "linux", not(any(miri, hashed_wheel_loom))))]
mod tests {
    use super::*;

    #[test]
    fn the_slack_is_the_finest_until_it_is_given_back() {
        let before = system::slack().unwrap();
        let finest = ThreadSetting::finest_slack();
        assert_eq!(system::slack(), Some(1));
        drop(finest);
        assert_eq!(system::slack(), Some(before));
    }

    #[test]
    fn the_slice_is_the_shortest_until_it_is_given_back_where_the_system_knows_it() {
        let shortest = ThreadSetting::shortest_slice();
        let Some(before) = shortest.before else {
            // Linux before 6.12, or a sandbox that refuses.
            return;
        };
        assert_eq!(
            system::set_slice(ThreadSetting::SHORTEST_SLICE),
            Some(ThreadSetting::SHORTEST_SLICE)
        );
        drop(shortest);
        assert_eq!(system::set_slice(before), Some(before));
    }
}

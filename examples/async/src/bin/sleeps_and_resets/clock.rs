//! The CPU clocks of the process and of this thread.

use std::time::Duration;

/// CPU time of the whole process, all threads.
pub(crate) fn process_cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a `timespec` of this function, which the call fills in.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "the clock exists");
    let seconds = u64::try_from(time.tv_sec).expect("not negative");
    let nanos = u32::try_from(time.tv_nsec).expect("below a thousand million");
    Duration::new(seconds, nanos)
}

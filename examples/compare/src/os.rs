//! What the operating system knows about this process: CPU time, memory, wake-ups.

use std::fs;
use std::time::{Duration, Instant};

/// CPU time of all threads of this process.
pub(crate) fn process_cpu() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread.
pub(crate) fn thread_cpu() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads but the calling one: the timer's, while there are no others.
pub(crate) fn worker_cpu() -> Duration {
    process_cpu().saturating_sub(thread_cpu())
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, writable timespec, and POSIX has both clocks.
    let code = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert_eq!(code, 0, "clock_gettime({id}) failed");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Bytes of memory that are resident now.
pub(crate) fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1);
    // SAFETY: sysconf takes any name and has no other precondition.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.and_then(|it| it.parse::<u64>().ok()).unwrap_or(0) * page as u64
}

/// Waits until the other threads have worked off what they were given: until they use less than a
/// fifth of a core, but no longer than `limit`.
pub(crate) fn wait_until_quiet(limit: Duration) {
    const WINDOW: Duration = Duration::from_millis(20);
    let start = Instant::now();
    loop {
        let cpu = worker_cpu();
        std::thread::sleep(WINDOW);
        if start.elapsed() > limit || worker_cpu().saturating_sub(cpu) < WINDOW / 5 {
            return;
        }
    }
}

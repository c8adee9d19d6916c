//! The CPU clocks of the process and of this thread, and the wall clock beside them.

use std::time::{Duration, Instant};

/// What has gone by since it was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    wall: Instant,
    process: Duration,
    thread: Duration,
}

impl Stopwatch {
    pub(crate) fn start() -> Stopwatch {
        Stopwatch {
            wall: Instant::now(),
            process: process_cpu(),
            thread: thread_cpu(),
        }
    }

    pub(crate) fn wall(self) -> Duration {
        self.wall.elapsed()
    }

    /// CPU time of the whole process, all threads.
    pub(crate) fn cpu(self) -> Duration {
        process_cpu().saturating_sub(self.process)
    }

    /// CPU time of all threads but this one, which has started it.
    pub(crate) fn background(self) -> Duration {
        self.cpu()
            .saturating_sub(thread_cpu().saturating_sub(self.thread))
    }
}

fn process_cpu() -> Duration {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn thread_cpu() -> Duration {
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

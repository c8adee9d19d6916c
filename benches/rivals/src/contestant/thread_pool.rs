//! `scheduled-thread-pool`, with one thread.
//!
//! Best use: one worker, so that no two wait on its lock. Its interface demands a boxed closure.
//! A cancelled job stays in its heap until it falls due.

use std::time::Duration;

use scheduled_thread_pool::{JobHandle, ScheduledThreadPool};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Pool;

impl Contestant for Pool {
    type Timer<T: Task> = ScheduledThreadPool;
}

impl<T: Task> Timer<T> for ScheduledThreadPool {
    type Producer<'a> = &'a Self;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self::builder().num_threads(1).build()
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Producer<T> for &ScheduledThreadPool {
    type Handle = JobHandle;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> JobHandle {
        self.execute_after(delay, move || task.run())
    }

    #[inline]
    fn cancel(&mut self, job: JobHandle) {
        job.cancel();
    }
}

//! The crate `timerwheel`.
//!
//! Best use: an executor that runs the task at once on the timer's thread, instead of a pool; no limit
//! on pending timeouts; a caller that finds the command queue full waits, where the default refuses.
//! Its interface demands a boxed closure. A cancelled entry stays in its bucket until that is reached.

use std::sync::Arc;
use std::time::Duration;

use timerwheel::executor::{BoxTask, Executor, ExecutorMetrics, RejectedTask};
use timerwheel::{BackpressurePolicy, Timeout};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct TimerWheel;

impl Contestant for TimerWheel {
    type Timer<T: Task> = timerwheel::Timer;
    const CANCEL_FREES: bool = false;
}

/// Runs a task where it is handed over.
struct AtOnce;

impl Executor for AtOnce {
    fn try_execute(&self, task: BoxTask) -> Result<(), RejectedTask> {
        task.run();
        Ok(())
    }

    fn shutdown(&self) -> timerwheel::Result<()> {
        Ok(())
    }

    fn metrics(&self) -> ExecutorMetrics {
        ExecutorMetrics::default()
    }
}

impl<T: Task> Timer<T> for timerwheel::Timer {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, slots: usize) -> Self {
        Self::builder()
            .tick(tick)
            .bucket_count(slots)
            .max_pending(usize::MAX)
            .backpressure_policy(BackpressurePolicy::Block)
            .executor(Arc::new(AtOnce))
            .build()
            .expect("valid measures")
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Producer<T> for &timerwheel::Timer {
    type Handle = Timeout;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Timeout {
        self.schedule(delay, move || task.run())
            .expect("a running timer takes a timeout")
    }

    #[inline]
    fn cancel(&mut self, timeout: Timeout) {
        timeout.cancel();
    }
}

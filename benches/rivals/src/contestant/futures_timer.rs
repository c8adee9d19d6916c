//! `futures-timer`'s `Delay`.
//!
//! Best use: as for async-io. Its own thread drives it; a pending timeout is one `Delay` with the task
//! beside it. One that is only ever cancelled is never polled (making it registers it); one that fires has
//! a waker that runs the task on the thread of the timers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use futures_timer::Delay;

use super::async_io::RunOnWake;
use super::{Contestant, Producer, Task, Timer};

pub(crate) struct FuturesTimer;

impl Contestant for FuturesTimer {
    type Timer<T: Task> = Helper;
    const DROP_CANCELS: bool = true;
    const RESETS: bool = true;
}

/// The thread is a global of the process; it starts with the first delay.
pub(crate) struct Helper;

impl<T: Task> Timer<T> for Helper {
    type Producer<'a> = Self;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self
    }

    fn producer(&self) -> Self {
        Self
    }
}

impl<T: Task> Producer<T> for Helper {
    type Handle = (Delay, Option<T>);

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle {
        (Delay::new(delay), Some(task))
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn arm_to_fire(&mut self, task: T, delay: Duration) -> Self::Handle {
        let waker = Waker::from(Arc::new(RunOnWake::new(task)));
        let mut delay = Delay::new(delay);
        let poll = Pin::new(&mut delay).poll(&mut Context::from_waker(&waker));
        if poll.is_ready() {
            waker.wake_by_ref();
        }
        (delay, None)
    }

    #[inline]
    fn reset(&mut self, handle: &mut Self::Handle, delay: Duration) {
        handle.0.reset(delay);
    }
}

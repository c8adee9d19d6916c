//! async-io's `Timer`.
//!
//! Best use: the reactor's own thread drives it, no executor stands between. A pending timeout is
//! one `Timer` (it needs no box) with the task beside it, polled once, which is what registers it.
//! One that is only ever cancelled is polled with the no-op waker; one that fires has a waker that
//! runs the task on the reactor's thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct AsyncIo;

impl Contestant for AsyncIo {
    type Timer<T: Task> = Reactor;
    const DROP_CANCELS: bool = true;
}

/// The reactor is a global of the process; it starts with the first timer.
pub(crate) struct Reactor;

impl<T: Task> Timer<T> for Reactor {
    type Producer<'a> = Self;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self
    }

    fn producer(&self) -> Self {
        Self
    }
}

/// A waker that is the task: waking it runs the task, once, there and then.
///
/// The mutex is there because `Wake` shares; it is never contended.
pub(super) struct RunOnWake<T>(Mutex<Option<T>>);

impl<T> RunOnWake<T> {
    pub(super) fn new(task: T) -> Self {
        Self(Mutex::new(Some(task)))
    }
}

impl<T: Task> Wake for RunOnWake<T> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task.run();
        }
    }
}

/// Registers the timer. One that is due already is woken at once, as the reactor would do.
fn poll_once(timer: &mut async_io::Timer, waker: &Waker) {
    let poll = Pin::new(timer).poll(&mut Context::from_waker(waker));
    if poll.is_ready() {
        waker.wake_by_ref();
    }
}

impl<T: Task> Producer<T> for Reactor {
    type Handle = (async_io::Timer, Option<T>);

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle {
        let mut timer = async_io::Timer::after(delay);
        poll_once(&mut timer, Waker::noop());
        (timer, Some(task))
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        drop(handle);
    }

    fn arm_to_fire(&mut self, task: T, delay: Duration) -> Self::Handle {
        let waker = Waker::from(Arc::new(RunOnWake::new(task)));
        let mut timer = async_io::Timer::after(delay);
        poll_once(&mut timer, &waker);
        (timer, None)
    }
}

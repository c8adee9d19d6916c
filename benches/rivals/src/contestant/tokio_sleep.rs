//! tokio's `time::sleep`.
//!
//! Best use: a current-thread runtime on a thread of its own drives the timers, so no second
//! worker competes. A pending timeout is one boxed `Sleep` with the task beside it, polled once,
//! which is what registers it; no task is spawned for it. One that is only ever cancelled is
//! polled with the no-op waker; one that fires has a waker that runs the task on the driver's
//! thread, which is cheaper than a spawned task that awaits its sleep. Each producer enters the
//! runtime once, not for each timeout.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{EnterGuard, Handle};
use tokio::time::{Instant, MissedTickBehavior, Sleep};

use super::{Contestant, Producer, Repeats, Task, Timer};

pub(crate) struct Tokio;

impl Contestant for Tokio {
    type Timer<T: Task> = Runtime;
    const DROP_CANCELS: bool = true;
    const RESETS: bool = true;
}

pub(crate) struct Runtime(Handle);

/// A runtime with as many workers as processors, as a server has it. For the oversubscribed row,
/// where the repeated task is one of the runtime's own.
pub(crate) struct MultiThread;

impl Contestant for MultiThread {
    type Timer<T: Task> = Workers;
    const DROP_CANCELS: bool = true;
}

pub(crate) struct Workers(Option<tokio::runtime::Runtime>);

impl Workers {
    fn runtime(&self) -> &tokio::runtime::Runtime {
        self.0.as_ref().expect("it is there until the drop")
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl<T: Task> Timer<T> for Workers {
    type Producer<'a> = Entered<'a>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        Self(Some(
            builder.enable_time().build().expect("a tokio runtime"),
        ))
    }

    fn producer(&self) -> Entered<'_> {
        Entered {
            _guard: self.runtime().enter(),
        }
    }
}

impl<T: Task> Repeats<T> for Workers {
    fn every(&self, period: Duration, mut run: impl FnMut() + Send + 'static) {
        self.runtime().spawn(async move {
            let mut interval = tokio::time::interval(period);
            interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
            // The first tick of an interval is at once.
            interval.tick().await;
            loop {
                interval.tick().await;
                run();
            }
        });
    }
}

/// Starts a runtime on a thread of its own that drives its timers until the process ends.
pub(super) fn start_runtime() -> Handle {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a tokio runtime");
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("tokio-timers".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .expect("a thread for the runtime");
    handle
}

impl<T: Task> Timer<T> for Runtime {
    type Producer<'a> = Entered<'a>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self(start_runtime())
    }

    fn producer(&self) -> Entered<'_> {
        Entered {
            _guard: self.0.enter(),
        }
    }
}

pub(crate) struct Entered<'a> {
    _guard: EnterGuard<'a>,
}

/// A waker that is the task: waking it runs the task, once, there and then.
///
/// The mutex is there because `Wake` shares; it is never contended.
struct RunOnWake<T>(Mutex<Option<T>>);

impl<T> RunOnWake<T> {
    fn new(task: T) -> Self {
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

/// A sleep and, in the same allocation, the task that waits for it.
pub(crate) struct Armed<T> {
    sleep: Sleep,
    _task: Option<T>,
}

fn sleep_of<T>(armed: Pin<&mut Armed<T>>) -> Pin<&mut Sleep> {
    // SAFETY: the sleep is structurally pinned: it is never moved out of `Armed`, which has
    // neither a `Drop` nor an `Unpin` implementation of its own.
    unsafe { armed.map_unchecked_mut(|armed| &mut armed.sleep) }
}

/// Registers the sleep. One that is due already is woken at once, as its driver would do.
fn poll_once<T>(armed: Pin<&mut Armed<T>>, waker: &Waker) {
    if sleep_of(armed)
        .poll(&mut Context::from_waker(waker))
        .is_ready()
    {
        waker.wake_by_ref();
    }
}

impl<T: Task> Producer<T> for Entered<'_> {
    type Handle = Pin<Box<Armed<T>>>;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle {
        let mut armed = Box::pin(Armed {
            sleep: tokio::time::sleep(delay),
            _task: Some(task),
        });
        poll_once(armed.as_mut(), Waker::noop());
        armed
    }

    #[inline]
    fn cancel(&mut self, armed: Self::Handle) {
        drop(armed);
    }

    fn arm_to_fire(&mut self, task: T, delay: Duration) -> Self::Handle {
        let waker = Waker::from(Arc::new(RunOnWake::new(task)));
        let mut armed = Box::pin(Armed {
            sleep: tokio::time::sleep(delay),
            _task: None,
        });
        poll_once(armed.as_mut(), &waker);
        armed
    }
    #[inline]
    fn reset(&mut self, armed: &mut Self::Handle, delay: Duration) {
        sleep_of(armed.as_mut()).reset(Instant::now() + delay);
    }
}

//! tokio-util's `DelayQueue` behind a mutex.
//!
//! Best use: `parking_lot`'s mutex, held for the one call on the queue only; the task lies in the
//! queue itself, without a box; the runtime's thread takes all that is due under one lock and runs
//! it after letting go.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{EnterGuard, Handle};
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use super::tokio_sleep::start_runtime;
use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Queue;

impl Contestant for Queue {
    type Timer<T: Task> = Shared<T>;
    const RESETS: bool = true;
}

pub(crate) struct Shared<T> {
    queue: Arc<Mutex<DelayQueue<T>>>,
    runtime: Handle,
}

impl<T: Task> Timer<T> for Shared<T> {
    type Producer<'a> = Entered<'a, T>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        let queue = Arc::new(Mutex::new(DelayQueue::new()));
        let runtime = start_runtime();
        runtime.spawn(run_due(Arc::clone(&queue)));
        Self { queue, runtime }
    }

    fn producer(&self) -> Entered<'_, T> {
        Entered {
            queue: &self.queue,
            _guard: self.runtime.enter(),
        }
    }
}

async fn run_due<T: Task>(queue: Arc<Mutex<DelayQueue<T>>>) {
    let mut due = Vec::new();
    loop {
        poll_fn(|cx| take_due(&queue, cx, &mut due)).await;
        for task in due.drain(..) {
            task.run();
        }
    }
}

/// Moves all that is due to `due`; pending while that is nothing. An empty queue is pending too:
/// it has kept the waker and wakes it at its next insertion.
fn take_due<T>(queue: &Mutex<DelayQueue<T>>, cx: &mut Context<'_>, due: &mut Vec<T>) -> Poll<()> {
    let mut queue = queue.lock();
    while let Poll::Ready(Some(expired)) = queue.poll_expired(cx) {
        due.push(expired.into_inner());
    }
    if due.is_empty() {
        Poll::Pending
    } else {
        Poll::Ready(())
    }
}

pub(crate) struct Entered<'a, T> {
    queue: &'a Mutex<DelayQueue<T>>,
    _guard: EnterGuard<'a>,
}

impl<T: Task> Producer<T> for Entered<'_, T> {
    type Handle = Key;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Key {
        self.queue.lock().insert(task, delay)
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        let removed = self.queue.lock().remove(&key);
        drop(removed);
    }
    #[inline]
    fn reset(&mut self, key: &mut Key, delay: Duration) {
        self.queue.lock().reset(key, delay);
    }
}

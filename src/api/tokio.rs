//! Tasks on a tokio runtime.

use crate::shared::Job;
use ::tokio::runtime;

/// An [`executor`](crate::HashedWheelTimerBuilder::executor) that runs each task on a tokio runtime, where it may call
/// `tokio::spawn` and use tokio's sockets. With the feature `tokio`.
///
/// A task runs on a worker of the runtime, as a spawned future would: it must not block for long. Futures, delay queues and
/// wakers stay on the timer thread and need no runtime. When the runtime has shut down, tasks are dropped without running,
/// logged and counted in [`Stats::dropped_jobs`](crate::Stats::dropped_jobs).
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, tokio_executor};
/// use std::time::Duration;
/// use tokio::runtime::Builder;
///
/// let runtime = Builder::new_current_thread().build()?;
/// let timer = HashedWheelTimer::builder()
///     .tick_duration(Duration::from_millis(1))
///     .executor(tokio_executor(runtime.handle().clone()))
///     .build()?;
///
/// let (sender, receiver) = std::sync::mpsc::channel();
/// let task = move |_: &_| drop(tokio::spawn(async move { sender.send("spawned") }));
/// timer.new_timeout(task, Duration::from_millis(5))?;
/// # runtime.block_on(async {
/// # let spawned = loop {
/// #     match receiver.try_recv() {
/// #         Ok(text) => break text,
/// #         Err(_) => hashed_wheel::sleep(Duration::from_millis(1)).await.unwrap(),
/// #     }
/// # };
/// assert_eq!(spawned, "spawned");
/// # });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn tokio_executor(runtime: runtime::Handle) -> impl Fn(Job) + Send + Sync + 'static {
    move |job| drop(runtime.spawn(async move { job() }))
}

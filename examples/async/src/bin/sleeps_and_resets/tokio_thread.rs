//! tokio at its best for timers: a current-thread runtime on a thread of its own drives them, and
//! whoever makes or moves a timer has entered it once.

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// A runtime that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct TokioThread {
    pub(crate) handle: Handle,
    _end: oneshot::Sender<()>,
}

pub(crate) fn start() -> TokioThread {
    let runtime = Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a tokio runtime");
    let handle = runtime.handle().clone();
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || runtime.block_on(ended));
    TokioThread { handle, _end: end }
}

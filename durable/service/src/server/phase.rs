//! What a connection is doing, and for how long it may.
//!
//! hyper has one limit for the head of a request and the rest before it. These are two: a client may keep a connection for its next request, but not send half a head.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};

#[derive(Debug, Clone, Copy)]
enum Now {
    /// Open, and nothing has come yet.
    New(Instant),
    /// Some of a head has come.
    Head(Instant),
    /// A request is under way.
    Busy,
    /// An answer was given.
    Idle(Instant),
}

/// What a connection is doing.
#[derive(Debug, Clone)]
pub(super) struct Phase(Arc<Mutex<Now>>);

impl Phase {
    pub(super) fn new() -> Phase {
        Phase(Arc::new(Mutex::new(Now::New(Instant::now()))))
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request has begun.
    pub(super) fn begin(&self) {
        *self.lock() = Now::Busy;
    }

    /// It was answered.
    pub(super) fn end(&self) {
        *self.lock() = Now::Idle(Instant::now());
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(*self.lock(), Now::Busy)
    }

    fn received(&self) {
        let mut now = self.lock();
        if matches!(*now, Now::New(_) | Now::Idle(_)) {
            *now = Now::Head(Instant::now());
        }
    }

    /// The time that is left, with these limits. `None` while a request is under way.
    pub(super) fn left(&self, head: Duration, idle: Duration) -> Option<Duration> {
        let (since, limit) = match *self.lock() {
            Now::New(since) | Now::Head(since) => (since, head),
            Now::Idle(since) => (since, idle),
            Now::Busy => return None,
        };
        Some(limit.saturating_sub(since.elapsed()))
    }
}

/// A stream that tells its phase when something has come.
#[derive(Debug)]
pub(super) struct Watched<T> {
    stream: T,
    phase: Phase,
}

impl<T> Watched<T> {
    pub(super) fn new(stream: T, phase: Phase) -> Watched<T> {
        Watched { stream, phase }
    }
}

impl<T: Read + Unpin> Read for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            self.phase.received();
        }
        polled
    }
}

impl<T: Write + Unpin> Write for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}

//! A tower layer that gives each request its own deadline, and a policy for tower's `Retry` that backs off, both on
//! the wheel.
//!
//! The deadline is a moment, so that it holds for all tries of a request together, and for whatever it is passed on to; and no
//! layer on the way reads the clock.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hashed_wheel::{Sleep, TimeoutError, TimerHandle, WithTimeout};
use tower::retry::Policy;
use tower::{Layer, Service};

/// Whatever went wrong: the error of the service, or a [`TimeoutError`].
pub type BoxError = Box<dyn Error + Send + Sync>;

/// A layer that ends each request at its deadline, with [`TimeoutError::Elapsed`]. `deadline_of` tells it: from a header,
/// from a field, or from the length of the request.
#[derive(Clone)]
pub struct DeadlineLayer<D> {
    timer: TimerHandle,
    deadline_of: D,
}

impl<D> DeadlineLayer<D> {
    pub fn new(timer: &TimerHandle, deadline_of: D) -> Self {
        let timer = timer.clone();
        DeadlineLayer { timer, deadline_of }
    }
}

impl<D> fmt::Debug for DeadlineLayer<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadlineLayer")
            .field("timer", &self.timer)
            .finish_non_exhaustive()
    }
}

impl<S, D: Clone> Layer<S> for DeadlineLayer<D> {
    type Service = Deadline<S, D>;

    fn layer(&self, inner: S) -> Deadline<S, D> {
        let layer = self.clone();
        Deadline { inner, layer }
    }
}

/// See [`DeadlineLayer`].
#[derive(Debug, Clone)]
pub struct Deadline<S, D> {
    inner: S,
    layer: DeadlineLayer<D>,
}

impl<Q, S, D> Service<Q> for Deadline<S, D>
where
    S: Service<Q>,
    S::Error: Into<BoxError>,
    S::Future: Unpin,
    D: Fn(&Q) -> Instant,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = UntilDeadline<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Q) -> UntilDeadline<S::Future> {
        let deadline = (self.layer.deadline_of)(&request);
        let answer = self.inner.call(request);
        UntilDeadline(self.layer.timer.with_timeout_at(answer, deadline))
    }
}

/// The answer of a [`Deadline`]. It allocates nothing, and an answer that is there at once takes no timeout.
#[derive(Debug)]
pub struct UntilDeadline<F>(WithTimeout<F>);

impl<F, A, E> Future for UntilDeadline<F>
where
    F: Future<Output = Result<A, E>> + Unpin,
    E: Into<BoxError>,
{
    type Output = Result<A, BoxError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx).map(|ended| match ended {
            Ok(answer) => answer.map_err(Into::into),
            Err(late) => Err(late.into()),
        })
    }
}

/// Tries again after an error: after `first`, then after twice as long, and so on up to `longest`. A request that is out of
/// time is not tried again.
#[derive(Debug, Clone)]
pub struct Backoff {
    timer: TimerHandle,
    tries_left: u32,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// As many tries as `tries`, the first one among them.
    #[must_use]
    pub fn new(timer: &TimerHandle, tries: u32, first: Duration, longest: Duration) -> Self {
        Backoff {
            timer: timer.clone(),
            tries_left: tries.saturating_sub(1),
            next: first.min(longest),
            longest,
        }
    }
}

impl<Q: Clone, A> Policy<Q, A, BoxError> for Backoff {
    type Future = Pause;

    fn retry(&mut self, _: &mut Q, result: &mut Result<A, BoxError>) -> Option<Pause> {
        let error = result.as_ref().err()?;
        if self.tries_left == 0 || error.is::<TimeoutError>() {
            return None;
        }
        self.tries_left -= 1;
        let pause = self.timer.sleep(self.next);
        self.next = self.next.saturating_mul(2).min(self.longest);
        Some(Pause(pause))
    }

    fn clone_request(&mut self, request: &Q) -> Option<Q> {
        Some(request.clone())
    }
}

/// The time between two tries. When the timer has stopped it is over at once: the tries are counted, so that ends too.
#[derive(Debug)]
pub struct Pause(Sleep);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

//! A time limit for requests, as a tower layer.

use super::future::WithTimeout;
use crate::shared::TimerHandle;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// A tower layer that limits the time of each request. With the feature `tower`.
///
/// The time counts from the call. A request that is not answered by then ends with [`TimeoutError::Elapsed`], in a box from
/// which it can be downcast; an answer that is ready at the first poll schedules no timeout. Errors of the service are put
/// into the same kind of box. The layer does not keep the timer running: keep its owner, or use
/// [`global`](crate::global).
///
/// [`TimeoutError::Elapsed`]: crate::TimeoutError::Elapsed
///
/// ```
/// use hashed_wheel::{DeadlineLayer, HashedWheelTimer, ManualClock, TimeoutError};
/// use std::pin::pin;
/// use std::task::{Context, Poll, Waker};
/// use std::time::Duration;
/// use tower::{Layer, Service};
/// # mod tower { pub use tower_layer::Layer; pub use tower_service::Service; }
/// # struct Slow;
/// # impl Service<&str> for Slow {
/// #     type Response = ();
/// #     type Error = std::io::Error;
/// #     type Future = std::future::Pending<Result<(), std::io::Error>>;
/// #     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> { Poll::Ready(Ok(())) }
/// #     fn call(&mut self, _: &str) -> Self::Future { std::future::pending() }
/// # }
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
/// let layer = DeadlineLayer::new(timer.handle(), Duration::from_secs(5));
/// let mut service = layer.layer(Slow);
///
/// let mut answer = pin!(service.call("a request"));
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(answer.as_mut().poll(&mut context).is_pending());
/// clock.advance(Duration::from_secs(5));
/// let Poll::Ready(Err(error)) = answer.poll(&mut context) else { unreachable!() };
/// assert!(matches!(error.downcast_ref(), Some(TimeoutError::Elapsed)));
/// # Ok::<(), hashed_wheel::ConfigError>(())
/// ```
#[derive(Debug, Clone)]
pub struct DeadlineLayer {
    timer: TimerHandle,
    limit: Duration,
}

impl DeadlineLayer {
    /// A layer that gives each request `limit`, on that timer.
    ///
    /// ```
    /// use hashed_wheel::{DeadlineLayer, HashedWheelTimer};
    /// use std::time::Duration;
    ///
    /// let timer = HashedWheelTimer::new(Duration::from_millis(10), 4096);
    /// let layer = DeadlineLayer::new(timer.labelled("requests"), Duration::from_secs(5));
    /// # drop(layer);
    /// ```
    pub fn new(timer: TimerHandle, limit: Duration) -> DeadlineLayer {
        DeadlineLayer { timer, limit }
    }
}

impl<S> Layer<S> for DeadlineLayer {
    type Service = Deadline<S>;

    fn layer(&self, inner: S) -> Deadline<S> {
        let layer = self.clone();
        Deadline { inner, layer }
    }
}

/// A tower service whose requests have a time limit: made by [`DeadlineLayer`].
///
/// ```
/// use hashed_wheel::{Deadline, DeadlineLayer, global};
/// use std::time::Duration;
/// use tower::Layer;
/// # mod tower { pub use tower_layer::Layer; }
///
/// struct Client;
///
/// let layer = DeadlineLayer::new(global().clone(), Duration::from_secs(5));
/// let limited: Deadline<Client> = layer.layer(Client);
/// # drop(limited);
/// ```
#[derive(Debug, Clone)]
pub struct Deadline<S> {
    inner: S,
    layer: DeadlineLayer,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl<S, Request> Service<Request> for Deadline<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = DeadlineFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let DeadlineLayer { timer, limit } = &self.layer;
        let limited = timer.with_timeout(self.inner.call(request), *limit);
        DeadlineFuture { limited }
    }
}

/// The answer of a [`Deadline`].
///
/// ```
/// use hashed_wheel::DeadlineFuture;
/// use std::error::Error;
/// use std::io;
///
/// async fn value(answer: DeadlineFuture<impl Future<Output = Result<u32, io::Error>>>) -> Option<u32> {
///     let answer: Result<u32, Box<dyn Error + Send + Sync>> = answer.await;
///     answer.inspect_err(|error| eprintln!("{error}")).ok()
/// }
/// ```
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct DeadlineFuture<F> {
    limited: WithTimeout<F>,
}

impl<F, Response, E> Future for DeadlineFuture<F>
where
    F: Future<Output = Result<Response, E>>,
    E: Into<BoxError>,
{
    type Output = Result<Response, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the only field is pinned whenever `self` is: it is never moved out, and there is no `Drop`.
        let limited = unsafe { self.map_unchecked_mut(|this| &mut this.limited) };
        limited.poll(cx).map(|ended| match ended {
            Ok(answer) => answer.map_err(Into::into),
            Err(late) => Err(late.into()),
        })
    }
}

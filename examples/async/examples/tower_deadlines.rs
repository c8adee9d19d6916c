//! A tower service with a deadline for each request, and a client that tries again with back-off until its
//! deadline: all on one wheel.
//!
//! ```text
//! cargo run --release -p async-examples --example tower_deadlines
//! ```
//!
//! It takes a second.

use async_examples::deadline::{Backoff, BoxError, DeadlineLayer};
use hashed_wheel::{HashedWheelTimer, TimerHandle};
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tower::retry::Retry;
use tower::{Layer, ServiceExt, service_fn};

#[derive(Clone)]
struct Request {
    what: &'static str,
    /// The server is down for the first so many tries.
    failures: Arc<AtomicU32>,
    /// How long an answer takes.
    takes: Duration,
    deadline: Instant,
}

type Answer<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// One try.
fn serve(timer: TimerHandle, request: Request) -> Answer<u32> {
    Box::pin(async move {
        timer.sleep(request.takes).await?;
        let failures = &request.failures;
        let down =
            failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        down.map_or(Ok(42), |_| Err("the server is down".into()))
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().skip(1).any(|option| option != "--quick") {
        eprintln!("usage: tower_deadlines [--quick]");
        std::process::exit(2);
    }
    let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
    let handle = timer.handle();

    // Inside: tries that back off. Outside: one deadline for all of them.
    let backoff = Backoff::new(
        &timer,
        10,
        Duration::from_millis(20),
        Duration::from_millis(200),
    );
    let tries = Retry::new(
        backoff,
        service_fn(move |request| serve(handle.clone(), request)),
    );
    let boxed =
        service_fn(move |request| -> Answer<u32> { Box::pin(tries.clone().oneshot(request)) });
    let service = DeadlineLayer::new(&timer, |request: &Request| request.deadline).layer(boxed);

    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    println!("a deadline of 300 ms for each request, ten tries, back-off from 20 ms on\n");
    for (what, failures, takes) in [
        ("a healthy server", 0, 5),
        ("down for three tries", 3, 5),
        ("down for good", u32::MAX, 5),
        ("far too slow", 0, 60_000),
    ] {
        let begun = timer.now();
        let request = Request {
            what,
            failures: Arc::new(AtomicU32::new(failures)),
            takes: Duration::from_millis(takes),
            deadline: begun + Duration::from_millis(300),
        };
        let name = request.what;
        let told = match runtime.block_on(service.clone().oneshot(request)) {
            Ok(answer) => format!("answer {answer}"),
            Err(error) => error.to_string(),
        };
        let taken = timer.now() - begun;
        println!("{name:<22} {:>4} ms   {told}", taken.as_millis());
    }
    println!("\nstill pending: {}", timer.pending_timeouts());
    Ok(())
}

//! Deadlines that clients send along: the header `grpc-timeout`, as tonic and every other gRPC client writes it. A middleware
//! gives each request its own deadline on the wheel; a handler can pass on what is left.
//!
//! ```text
//! cargo run --release -p async-examples --example grpc_timeout
//! ```
//!
//! It takes a second. The middleware is one of axum's, on which tonic's server is built.

use async_examples::http::{Connection, timed};
use async_examples::options;
use axum::Router;
use axum::extract::{Extension, Request};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hashed_wheel::TimeoutError;
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// For clients that send no deadline, and for those that ask for more.
const LONGEST: Duration = Duration::from_secs(30);

/// The number of gRPC's status `DEADLINE_EXCEEDED`.
const DEADLINE_EXCEEDED: &str = "4";

/// When the answer has to be there.
#[derive(Clone, Copy)]
struct Deadline(Instant);

/// The header's value: up to eight digits and a unit.
fn grpc_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The middleware. A deadline is a moment: the clock is read once, whoever the request is passed on to.
async fn with_deadline(mut request: Request, next: Next) -> Response {
    let limit = grpc_timeout(request.headers())
        .unwrap_or(LONGEST)
        .min(LONGEST);
    let deadline = hashed_wheel::global().now() + limit;
    request.extensions_mut().insert(Deadline(deadline));
    match hashed_wheel::timeout_at(deadline, next.run(request)).await {
        Ok(response) => response,
        Err(TimeoutError::Elapsed) => ([("grpc-status", DEADLINE_EXCEEDED)], "").into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    }
}

/// Takes 80 ms. When the deadline comes before that, it is dropped.
async fn handler(Extension(Deadline(deadline)): Extension<Deadline>) -> Result<String, StatusCode> {
    let slept = hashed_wheel::sleep(Duration::from_millis(80)).await;
    slept.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    // A call of another service takes this along as its own `grpc-timeout`.
    let left = deadline.saturating_duration_since(Instant::now());
    Ok(format!("{}m are left", left.as_millis()))
}

async fn run() -> Result<(), Box<dyn Error>> {
    let app = Router::new()
        .route("/", get(handler))
        .layer(from_fn(with_deadline));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(axum::serve(listener, app).into_future());

    let mut client = Connection::open(address).await?;
    for (timeout, in_time) in [
        ("5S", true),
        ("2000m", true),
        ("50m", false),
        ("20000u", false),
        ("soon", true),
    ] {
        let header = format!("grpc-timeout: {timeout}\r\n");
        let (answer, took) = timed(client.get("/", &header)).await;
        let answer = answer?;
        let status = answer.header("grpc-status");
        println!(
            "grpc-timeout {timeout:>6}: {} after {:>2} ms, {}",
            answer.status,
            took.as_millis(),
            status.map_or(&*answer.body, |_| "grpc-status 4, deadline exceeded"),
        );
        assert_eq!(status.is_none(), in_time);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ = options::quick("usage: grpc_timeout [--quick]");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(run())
}

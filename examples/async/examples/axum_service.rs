//! An axum service whose timeouts are on one wheel: a limit for each request, by a tower layer, and idle connections that are
//! closed, by hyper's timer.
//!
//! ```text
//! cargo run --release -p async-examples --example axum_service
//! ```
//!
//! It takes a second.

use async_examples::http::{Connection, timed};
use async_examples::options;
use axum::Router;
use axum::error_handling::HandleErrorLayer;
use axum::http::StatusCode;
use axum::routing::get;
use hashed_wheel::{DeadlineLayer, HashedWheelTimer, TimeoutError, TimerHandle};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpListener;
use tower::{BoxError, ServiceBuilder};

/// For a request.
const REQUEST: Duration = Duration::from_millis(150);
/// For a connection between two requests.
const IDLE: Duration = Duration::from_millis(300);

fn app(timer: &TimerHandle) -> Router {
    // A handler that takes too long is dropped, and its client is told.
    let deadline = ServiceBuilder::new()
        .layer(HandleErrorLayer::new(too_late))
        .layer(DeadlineLayer::new(timer.labelled("requests"), REQUEST));
    Router::new()
        .route("/fast", get(|| async { "fast" }))
        .route("/slow", get(slow))
        .layer(deadline)
}

/// Sleeps on the timer of the whole program.
async fn slow() -> &'static str {
    match hashed_wheel::sleep(Duration::from_secs(50)).await {
        Ok(()) => "slow",
        Err(_) => "no timer",
    }
}

async fn too_late(error: BoxError) -> (StatusCode, String) {
    match error.downcast_ref() {
        Some(TimeoutError::Elapsed) => (StatusCode::GATEWAY_TIMEOUT, error.to_string()),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// What `axum::serve` does, with a timer for idle connections.
async fn serve(timer: TimerHandle) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let service = TowerToHyperService::new(app(&timer));
    let mut http = http1::Builder::new();
    // It counts from the end of a request to the headers of the next.
    http.timer(timer.labelled("connections"))
        .header_read_timeout(IDLE);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service.clone()));
        }
    });
    Ok(address)
}

async fn run(timer: TimerHandle) -> Result<(), Box<dyn Error>> {
    let address = serve(timer).await?;
    println!("a request has {REQUEST:?}, an idle connection {IDLE:?}\n");
    let mut client = Connection::open(address).await?;
    for (path, status) in [
        ("/fast", "200 OK"),
        ("/slow", "504 Gateway Timeout"),
        ("/fast", "200 OK"),
    ] {
        let (answer, took) = timed(client.get(path, "")).await;
        let answer = answer?;
        println!(
            "GET {path}: {} after {} ms",
            answer.status,
            took.as_millis()
        );
        assert_eq!(answer.status, status);
    }
    let (closed, took) = timed(client.closed()).await;
    println!(
        "silent since: the server has closed the connection after {} ms",
        took.as_millis()
    );
    assert!(closed && took >= IDLE);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let _ = options::quick("usage: axum_service [--quick]");
    // Of the service's own: the global timer would do as well.
    let timer = HashedWheelTimer::new(Duration::from_millis(5), 4096);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_io()
        .build()?;
    runtime.block_on(run(timer.handle()))?;
    let stats = timer.stats();
    println!(
        "\nthe timer: {} timeouts, {} expired, {} cancelled",
        stats.scheduled, stats.expired, stats.cancelled
    );
    Ok(())
}

//! QUIC with its timeouts on a wheel, by `WheelRuntime` of `src/quic.rs`: two connections on which nobody speaks. One sends
//! keep-alives and lives on; the other is closed by the idle timeout, at both ends. tokio's own timers are off.
//!
//! ```text
//! cargo run --release -p async-examples --example quic_timeouts             six seconds
//! cargo run --release -p async-examples --example quic_timeouts -- --quick  two seconds
//! ```

use async_examples::options;
use async_examples::quic::{Loopback, send};
use hashed_wheel::HashedWheelTimer;
use quinn::ConnectionError;
use std::error::Error;
use std::time::Duration;

const USAGE: &str = "usage: quic_timeouts [--quick]";

const KEEP_ALIVE: Duration = Duration::from_millis(100);

fn main() -> Result<(), Box<dyn Error>> {
    let idle_timeout = Duration::from_millis(if options::quick(USAGE) { 1000 } else { 3000 });

    // The owner lives longer than the connections; quinn gets a handle.
    let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_io().build()?; // no `enable_time`
    runtime.block_on(async {
        let loopback = Loopback::new(&timer, idle_timeout)?;
        let (kept, kept_by_server) = loopback.connect(Some(KEEP_ALIVE)).await?;
        let (silent, silent_at_server) = loopback.connect(None).await?;
        println!("an idle timeout of {idle_timeout:?}; one of two connections sends keep-alives every {KEEP_ALIVE:?}");

        let begun = timer.now();
        assert_eq!(silent.closed().await, ConnectionError::TimedOut);
        println!("silent: closed after {:.2?}", timer.now() - begun);
        assert_eq!(silent_at_server.closed().await, ConnectionError::TimedOut);

        timer.sleep_until(begun + 2 * idle_timeout).await?;
        assert!(send(b"still there", &kept, &kept_by_server).await?);
        println!("kept:   alive after {:.2?}", timer.now() - begun);
        Ok::<(), Box<dyn Error>>(())
    })?;

    let stats = timer.stats();
    println!(
        "the timer: {} timeouts, {} resets, {} cancelled, {} expired; late by {:.2?} in the median",
        stats.scheduled,
        stats.resets,
        stats.cancelled,
        stats.expired,
        stats.lateness.p50(),
    );
    Ok(())
}

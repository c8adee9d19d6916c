//! A hyper server whose timeouts are on a wheel: clients that never finish their headers are cut off
//! after `header_read_timeout`, while good requests pass.
//!
//! Every request arms a timeout that is nearly always cancelled: what a wheel is for.
//!
//! ```text
//! cargo run --release -p async-examples --example hyper_timeouts             three seconds
//! cargo run --release -p async-examples --example hyper_timeouts -- --quick  one second
//! ```

use async_examples::options;
use async_examples::server::{endless_client, good_client, start};
use hashed_wheel::HashedWheelTimer;
use std::error::Error;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: hyper_timeouts [--quick]";

const ENDLESS_CLIENTS: u32 = 100;
const GOOD_CLIENTS: u32 = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick(USAGE);
    let header_timeout = Duration::from_millis(if quick { 500 } else { 2000 });
    let requests = if quick { 100 } else { 2000 };

    // The owner lives as long as the server; hyper gets a handle.
    let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let address = start(timer.handle(), header_timeout).await?;
        println!(
            "a hyper server at http://{address}/ gives a client {header_timeout:?} for its headers; {GOOD_CLIENTS} \
             clients send good requests, {ENDLESS_CLIENTS} never finish their headers"
        );

        let begun = Instant::now();
        let endless: Vec<_> = (0..ENDLESS_CLIENTS)
            .map(|_| tokio::spawn(endless_client(address, Duration::from_millis(50))))
            .collect();
        let good: Vec<_> = (0..GOOD_CLIENTS)
            .map(|_| tokio::spawn(good_client(address, requests)))
            .collect();

        let mut answered = 0;
        for client in good {
            answered += client.await??;
        }
        let sent = GOOD_CLIENTS * requests;
        println!(
            "{answered} of {sent} good requests answered in {:.2?}",
            begun.elapsed()
        );
        let (mut first, mut last) = (Duration::MAX, Duration::ZERO);
        for client in endless {
            let survived = client.await??;
            (first, last) = (first.min(survived), last.max(survived));
        }
        println!("{ENDLESS_CLIENTS} endless clients cut off after {first:.2?} to {last:.2?}");
        Ok::<(), Box<dyn Error>>(())
    })?;

    let stats = timer.stats();
    println!(
        "the timer: {} timeouts, {} cancelled, {} expired; late by {:.2?} in the median, {:.2?} at most",
        stats.scheduled,
        stats.cancelled,
        stats.expired,
        stats.lateness.p50(),
        stats.lateness.max(),
    );
    Ok(())
}

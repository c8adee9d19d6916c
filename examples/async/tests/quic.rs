//! QUIC connections on loopback whose timeouts are on a wheel. tokio's own timers are off: quinn would panic if it used one.

use async_examples::quic::{Loopback, send};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, TimerHandle};
use quinn::ConnectionError;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Long enough for a keep-alive on a machine that is busy.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// After this time something hangs.
const WATCHDOG: Duration = Duration::from_secs(90);

fn run(timer: TimerHandle) {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_io().build().unwrap();
        runtime.block_on(a_silent_connection_is_closed_and_a_kept_one_lives_on(timer));
        done.send(()).unwrap();
    });
    ended
        .recv_timeout(WATCHDOG)
        .expect("it does not hang or fail");
}

async fn a_silent_connection_is_closed_and_a_kept_one_lives_on(timer: TimerHandle) {
    let loopback = Loopback::new(&timer, IDLE_TIMEOUT).unwrap();
    let keep_alive = Some(IDLE_TIMEOUT / 20);
    let (kept, kept_at_server) = loopback.connect(keep_alive).await.unwrap();

    // Silence counts from the last packet, which neither end has sent before this moment.
    let begun = timer.now();
    let (silent, silent_at_server) = loopback.connect(None).await.unwrap();
    assert_eq!(silent.closed().await, ConnectionError::TimedOut);
    assert_eq!(silent_at_server.closed().await, ConnectionError::TimedOut);
    let taken = timer.now() - begun;
    assert!(taken >= IDLE_TIMEOUT, "closed after {taken:?}");

    timer.sleep_until(begun + 2 * IDLE_TIMEOUT).await.unwrap();
    assert!(send(b"there?", &kept, &kept_at_server).await.unwrap());
    assert!(send(b"here!", &kept_at_server, &kept).await.unwrap());
    kept.close(0_u8.into(), b"done");
    let closed = kept_at_server.closed().await;
    assert!(
        matches!(closed, ConnectionError::ApplicationClosed(_)),
        "{closed}"
    );

    let stats = timer.stats();
    assert!(stats.expired >= 2, "each end, by this timer: {stats:?}");
    assert!(stats.resets > 0, "a packet moves a deadline: {stats:?}");
    assert_eq!((stats.rejected, stats.panicked), (0, 0));
}

#[test]
fn connections_on_the_hashed_wheel() {
    let timer = HashedWheelTimer::new(Duration::from_millis(1), 512);
    run(timer.handle());
}

#[test]
fn connections_on_the_hierarchical_wheel() {
    let timer = HierarchicalWheelTimer::default();
    run(timer.handle());
}

//! hyper on loopback, with its timeouts on the wheel.

use std::time::Duration;

use async_examples::server::{endless_client, good_client, start};
use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, TimerHandle};

/// After this time something hangs.
const WATCHDOG: Duration = ms(60_000);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(WATCHDOG, test).await })
        .expect("it does not hang")
}

async fn endless_clients_are_cut_off_while_thousands_of_requests_pass(timer: TimerHandle) {
    // Long enough for a good request on a machine that is busy.
    let header_timeout = ms(2000);
    let address = start(timer.clone(), header_timeout).await.unwrap();
    let endless: Vec<_> = (0..20)
        .map(|_| tokio::spawn(endless_client(address, ms(20))))
        .collect();
    let good: Vec<_> = (0..10)
        .map(|_| tokio::spawn(good_client(address, 500)))
        .collect();
    for client in good {
        assert_eq!(client.await.unwrap().unwrap(), 500);
    }
    for client in endless {
        let survived = client.await.unwrap().unwrap();
        assert!(survived >= header_timeout, "cut off after {survived:?}");
    }
    let stats = timer.stats();
    assert!(stats.expired >= 20, "by this timer: {stats:?}");
    assert_eq!((stats.rejected, stats.panicked), (0, 0));
}

#[test]
fn endless_clients_are_cut_off_by_the_hashed_wheel() {
    let timer = HashedWheelTimer::new(ms(5), 512);
    run(endless_clients_are_cut_off_while_thousands_of_requests_pass(timer.handle()));
}

#[test]
fn endless_clients_are_cut_off_by_the_hierarchical_wheel() {
    let timer = HierarchicalWheelTimer::new(ms(1), 20);
    run(endless_clients_are_cut_off_while_thousands_of_requests_pass(timer.handle()));
}

#[test]
fn a_stopped_timer_cuts_clients_off_rather_than_hang() {
    let timer = HashedWheelTimer::new(ms(5), 512);
    run(async {
        let address = start(timer.handle(), ms(600_000)).await.unwrap();
        let before = tokio::spawn(endless_client(address, ms(20)));
        // Its connection waits on the wheel.
        while timer.pending_timeouts() == 0 {
            tokio::time::sleep(ms(1)).await;
        }
        timer.stop().unwrap();
        before.await.unwrap().unwrap();
        // And so is one that comes later.
        endless_client(address, ms(20)).await.unwrap();
    });
}

//! The futures under tokio, smol and a hand-made executor: the same bodies, the same results.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use async_examples::executor::{BoxFuture, Executor};
use hashed_wheel::{
    HashedWheelTimer, HierarchicalWheelTimer, RejectReason, TimeoutError, TimerHandle,
};
use smol::stream::StreamExt;

/// After this time something hangs.
const WATCHDOG: Duration = ms(60_000);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

macro_rules! under_every_executor {
    ($($name:ident),+ $(,)?) => {
        mod tokio_current_thread {
            $(#[test] fn $name() { super::watch(super::Executor::TokioCurrentThread, super::$name); })+
        }
        mod tokio_multi_thread {
            $(#[test] fn $name() { super::watch(super::Executor::TokioMultiThread, super::$name); })+
        }
        mod smol_executor {
            $(#[test] fn $name() { super::watch(super::Executor::Smol, super::$name); })+
        }
        mod hand_made {
            $(#[test] fn $name() { super::watch(super::Executor::HandMade, super::$name); })+
        }
    };
}

under_every_executor![
    thousands_of_sleeps_end_and_none_early,
    a_timeout_tells_slow_from_fast,
    an_interval_is_a_stream,
    an_idle_timeout_is_put_off_by_reset,
    futures_of_a_stopped_timer_end_with_an_error,
];

/// Runs a test on a thread of its own, with both timers: a hang is a failure.
fn watch(executor: Executor, test: fn(Executor, &TimerHandle)) {
    let (done, ended) = mpsc::channel();
    let runner = thread::spawn(move || {
        let hashed = HashedWheelTimer::new(ms(1), 512);
        test(executor, &hashed.handle());
        let hierarchical = HierarchicalWheelTimer::new(ms(1), 20);
        test(executor, &hierarchical.handle());
        let _ = done.send(());
    });
    if ended.recv_timeout(WATCHDOG).is_err() {
        assert!(runner.is_finished(), "it hangs");
        runner.join().expect("the test passes");
    }
}

fn assert_nothing_is_left(timer: &TimerHandle) {
    let stats = timer.stats();
    let over = stats.expired + stats.cancelled + stats.unprocessed;
    assert_eq!((stats.scheduled, stats.pending), (over, 0));
}

fn thousands_of_sleeps_end_and_none_early(executor: Executor, timer: &TimerHandle) {
    let ended = Arc::new(AtomicU32::new(0));
    let tasks = (0..2000).map(|n| {
        let (timer, ended) = (timer.clone(), Arc::clone(&ended));
        let task = async move {
            for round in 0..3 {
                let delay = Duration::from_micros(n * 7919 % 40_000 + round);
                let start = Instant::now();
                timer.sleep(delay).await.unwrap();
                assert!(start.elapsed() >= delay);
                ended.fetch_add(1, Ordering::Relaxed);
            }
        };
        Box::pin(task) as BoxFuture
    });
    executor.run(tasks.collect());
    assert_eq!(ended.load(Ordering::Relaxed), 6000);
    // One whose time has passed when it is first polled takes no timeout.
    let stats = timer.stats();
    assert!(stats.expired <= 6000 && stats.cancelled == 0, "{stats:?}");
    assert_nothing_is_left(timer);
}

fn a_timeout_tells_slow_from_fast(executor: Executor, timer: &TimerHandle) {
    let tasks = (0..200).map(|n| {
        let timer = timer.clone();
        let task = async move {
            let slow = n % 2 == 0;
            let work = timer.sleep(if slow { ms(60_000) } else { ms(n / 10) });
            let limit = if slow { ms(20) } else { ms(60_000) };
            let result = timer.with_timeout(work, limit).await;
            match result {
                Err(TimeoutError::Elapsed) => assert!(slow),
                Ok(worked) => assert!(worked.is_ok() && !slow),
                other => panic!("{other:?}"),
            }
        };
        Box::pin(task) as BoxFuture
    });
    executor.run(tasks.collect());
    // The loser of each race, unless the winner's time had passed at its first poll.
    let cancelled = timer.stats().cancelled;
    assert!((100..=200).contains(&cancelled), "{cancelled}");
    assert_nothing_is_left(timer);
}

fn an_interval_is_a_stream(executor: Executor, timer: &TimerHandle) {
    let tasks = (1..=20).map(|n| {
        let timer = timer.clone();
        let task = async move {
            let (start, period) = (Instant::now(), ms(n));
            let mut ticks = timer.interval(period).take(5).enumerate();
            while let Some((before, tick)) = ticks.next().await {
                tick.unwrap();
                assert!(start.elapsed() >= period * (u32::try_from(before).unwrap() + 1));
            }
        };
        Box::pin(task) as BoxFuture
    });
    executor.run(tasks.collect());
    assert_eq!(timer.stats().expired, 100);
    assert_nothing_is_left(timer);
}

fn an_idle_timeout_is_put_off_by_reset(executor: Executor, timer: &TimerHandle) {
    let tasks = (0..50).map(|_| {
        let timer = timer.clone();
        let task = async move {
            let mut idle = timer.sleep(ms(200));
            for _packet in 0..10 {
                // A packet every 5 ms: the connection is not idle.
                timer.sleep(ms(5)).await.unwrap();
                idle.reset(ms(200));
            }
            let last = Instant::now();
            idle.await.unwrap();
            assert!(last.elapsed() >= ms(150), "200 ms after the last packet");
        };
        Box::pin(task) as BoxFuture
    });
    executor.run(tasks.collect());
    assert_nothing_is_left(timer);
}

fn futures_of_a_stopped_timer_end_with_an_error(executor: Executor, timer: &TimerHandle) {
    let waiting = Arc::new(AtomicU32::new(0));
    let mut tasks: Vec<BoxFuture> = Vec::new();
    for _ in 0..300 {
        let (timer, waiting) = (timer.clone(), Arc::clone(&waiting));
        tasks.push(Box::pin(async move {
            waiting.fetch_add(1, Ordering::Relaxed);
            let slept = timer.sleep(ms(600_000)).await;
            assert!(matches!(slept, Err(RejectReason::Stopped)), "{slept:?}");
            let limited = timer.with_timeout(pending::<()>(), ms(600_000)).await;
            assert!(matches!(
                limited,
                Err(TimeoutError::Rejected(RejectReason::Stopped))
            ));
        }));
    }
    let stopper = {
        let (timer, waiting) = (timer.clone(), Arc::clone(&waiting));
        thread::spawn(move || {
            while waiting.load(Ordering::Relaxed) < 300 {
                thread::sleep(ms(1));
            }
            timer.stop().unwrap()
        })
    };
    executor.run(tasks);
    assert!(
        stopper.join().unwrap().is_empty(),
        "futures are not returned"
    );
    assert_nothing_is_left(timer);
}

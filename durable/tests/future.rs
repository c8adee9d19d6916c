//! The calls as futures, async handlers, and typed payloads.
#![cfg(all(feature = "tokio", feature = "serde"))]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Folder;
use hashed_wheel_durable::{DurableTimer, Error, JobFilter, KindOptions, Outcome, Scheduled};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_secs(3600);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// One with a single thread: whatever blocks it shows.
fn single() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn every_call_is_a_future() {
    let folder = Folder::new();
    single().block_on(async {
        let builder = DurableTimer::builder().on("mail", |_| Outcome::Dead("no".into()));
        let timer = builder
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        let new = timer
            .job("call")
            .key("a")
            .payload("x")
            .after(HOUR)
            .await
            .unwrap();
        let kept = timer.job("call").key("a").after(HOUR).await.unwrap();
        assert_eq!(kept, Scheduled::Kept(new.id()));
        assert!(timer.reschedule("a", HOUR * 2).await.unwrap());
        assert!(
            timer
                .reschedule_at("a", std::time::SystemTime::now() + HOUR)
                .await
                .unwrap()
        );
        assert!(timer.cancel("a").await.unwrap());
        assert!(!timer.cancel("a").await.unwrap());
        assert!(matches!(timer.cancel("").await, Err(Error::Key(_))));
        let many = (0..100).map(|_| timer.job("call").due_in(HOUR));
        assert_eq!(timer.schedule_all(many).await.unwrap().len(), 100);
        assert_eq!(timer.pending().await.unwrap(), 100);
        assert_eq!(timer.pending_estimate().await.unwrap(), 100);
        assert_eq!(
            timer.jobs(JobFilter::new().limit(7)).await.unwrap().len(),
            7
        );
        for _ in 0..3 {
            timer.job("mail").after(Duration::ZERO).await.unwrap();
        }
        while timer.dead(10).await.unwrap().len() < 3 {
            sleep(ms(1)).await;
        }
        assert!(timer.pause("mail").await.unwrap());
        let dead = timer
            .dead_where(JobFilter::new().kind("mail"))
            .await
            .unwrap();
        assert!(timer.revive(dead[0].id).await.unwrap());
        assert!(timer.discard(dead[1].id).await.unwrap());
        assert_eq!(timer.discard_where(JobFilter::new()).await.unwrap(), 1);
        assert_eq!(timer.revive_where(JobFilter::new()).await.unwrap(), 0);
        assert!(timer.resume("mail").await.unwrap());
        assert_eq!(timer.stop_within(Duration::from_secs(60)).await.unwrap(), 0);
        timer.stop().await.unwrap();
        assert!(matches!(timer.pending().await, Err(Error::Stopped)));
    });
}

#[test]
fn many_futures_wait_at_once_and_share_commits() {
    let folder = Folder::new();
    single().block_on(async {
        let builder = DurableTimer::builder();
        let timer = Arc::new(
            builder
                .open_async(folder.file("timers.redb"))
                .await
                .unwrap(),
        );
        let calls: Vec<_> = (0..2000)
            .map(|_| {
                let timer = Arc::clone(&timer);
                tokio::spawn(async move { timer.job("mail").after(HOUR).await })
            })
            .collect();
        for call in calls {
            call.await.unwrap().unwrap();
        }
        assert_eq!(timer.pending().await.unwrap(), 2000);
        assert!(timer.stats().commits < 500, "{:?}", timer.stats());
    });
}

#[test]
fn async_handlers_run_in_the_runtime_and_no_more_than_told() {
    let folder = Folder::new();
    let most = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let seen = Arc::clone(&most);
    single().block_on(async {
        let timer = DurableTimer::builder()
            .threads(8)
            .on_async("mail", move |job| {
                let seen = Arc::clone(&seen);
                async move {
                    assert_eq!(job.json::<u32>(), Ok(7));
                    let now = seen[0].fetch_add(1, Ordering::SeqCst) + 1;
                    seen[1].fetch_max(now, Ordering::SeqCst);
                    sleep(ms(10)).await;
                    // Of a handler's own, also without async.
                    job.timer().job("fax").after(HOUR).unwrap();
                    job.async_timer()
                        .job("fax")
                        .key("one")
                        .after(HOUR)
                        .await
                        .unwrap();
                    seen[0].fetch_sub(1, Ordering::SeqCst);
                    Outcome::Done
                }
            })
            .kind("mail", KindOptions::default().concurrency(3))
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        for _ in 0..20 {
            timer
                .job("mail")
                .json(&7)
                .after(Duration::ZERO)
                .await
                .unwrap();
        }
        while timer.stats().fired < 20 || timer.pending().await.unwrap() > 21 {
            sleep(ms(5)).await;
        }
        timer.stop().await.unwrap();
    });
    assert!(
        (2..=3).contains(&most[1].load(Ordering::SeqCst)),
        "{most:?}"
    );
}

#[test]
fn a_future_that_is_dropped_after_it_was_sent_is_not_undone() {
    let folder = Folder::new();
    single().block_on(async {
        let timer = DurableTimer::builder()
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        let mut stored = 0;
        for _ in 0..50 {
            let call = timer.job("mail").after(HOUR);
            tokio::select! {
                biased;
                result = call => { result.unwrap(); }
                () = std::future::ready(()) => {}
            }
            stored += 1;
        }
        while timer.pending().await.unwrap() < stored {
            sleep(ms(1)).await;
        }
    });
}

#[test]
fn a_timer_that_is_dropped_inside_a_runtime_does_not_block_it() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    single().block_on(async {
        let timer = DurableTimer::builder()
            .on_async("mail", |_| async {
                sleep(ms(300)).await;
                Outcome::Done
            })
            .open_async(&path)
            .await
            .unwrap();
        timer.job("mail").after(Duration::ZERO).await.unwrap();
        while timer.stats().fired == 0 {
            sleep(ms(1)).await;
        }
        let start = Instant::now();
        drop(timer);
        assert!(start.elapsed() < ms(250), "{:?}", start.elapsed());
        // Its handler goes on, and then the file is free.
        while let Err(error) = DurableTimer::builder().open_async(&path).await {
            assert!(matches!(error, Error::InUse(_)), "{error}");
            sleep(ms(10)).await;
        }
    });
}

#[test]
fn an_async_handler_needs_a_runtime() {
    let folder = Folder::new();
    let refused = DurableTimer::builder()
        .on_async("mail", |_| async { Outcome::Done })
        .open(folder.file("timers.redb"));
    let Err(Error::Config(text)) = refused else {
        panic!()
    };
    assert!(
        text.contains("\"mail\"") && text.contains("async"),
        "{text}"
    );
}

#[test]
fn a_value_that_is_no_json_is_not_stored_and_a_payload_that_is_none_is_dead() {
    let folder = Folder::new();
    let timer = DurableTimer::builder()
        .on("mail", |job| {
            job.json::<Vec<u8>>()
                .map_or_else(|dead| dead, |_| Outcome::Done)
        })
        .open(folder.file("timers.redb"))
        .unwrap();
    let keys = std::collections::HashMap::from([(vec![1], 2)]);
    let refused = timer.job("mail").json(&keys).after(HOUR);
    assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    timer
        .job("mail")
        .payload("{")
        .after(Duration::ZERO)
        .unwrap();
    while timer.pending().unwrap() > 0 {
        std::thread::sleep(ms(1));
    }
    assert!(timer.dead(1).unwrap()[0].last_error.contains("as JSON"));
}

#[test]
fn handlers_that_wait_hold_no_thread() {
    let folder = Folder::new();
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (open, begun) = (Arc::clone(&gate), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&begun);
    single().block_on(async {
        let timer = DurableTimer::builder()
            .threads(2000)
            .on_async("mail", move |_| {
                let gate = Arc::clone(&gate);
                count.fetch_add(1, Ordering::SeqCst);
                async move {
                    let _ = gate.acquire().await.unwrap();
                    Outcome::Done
                }
            })
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        let jobs: Vec<_> = (0..2100).map(|_| timer.job("mail")).collect();
        timer.schedule_all(jobs).await.unwrap();
        while begun.load(Ordering::SeqCst) < 2000 {
            sleep(ms(5)).await;
        }
        sleep(ms(100)).await;
        assert_eq!(begun.load(Ordering::SeqCst), 2000);
        if let Ok(threads) = std::fs::read_dir("/proc/self/task") {
            assert!(threads.count() < 500);
        }
        open.add_permits(1);
        while timer.pending().await.unwrap() > 0 {
            sleep(ms(5)).await;
        }
        timer.stop().await.unwrap();
    });
    let refused = DurableTimer::builder().on("mail", |_| Outcome::Done);
    let refused = refused.threads(2000).open(folder.file("timers.redb"));
    assert!(matches!(refused, Err(Error::Config(_))));
}

#[test]
fn a_stop_in_an_async_handler_is_refused() {
    let folder = Folder::new();
    let (sender, refused) = std::sync::mpsc::channel();
    single().block_on(async {
        let timer = DurableTimer::builder()
            .on_async("mail", move |job| {
                let sender = sender.clone();
                async move {
                    sleep(ms(1)).await;
                    let timer = job.async_timer();
                    sender.send(timer.stop().await).unwrap();
                    sender
                        .send(timer.stop_within(HOUR).await.map(drop))
                        .unwrap();
                    sender.send(job.timer().stop()).unwrap();
                    Outcome::Done
                }
            })
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        timer.job("mail").after(Duration::ZERO).await.unwrap();
        while timer.pending().await.unwrap() > 0 {
            sleep(ms(1)).await;
        }
        timer.stop().await.unwrap();
    });
    let refused: Vec<_> = refused.iter().collect();
    assert_eq!(refused.len(), 3);
    for refused in refused {
        assert!(matches!(refused, Err(Error::FromHandler)), "{refused:?}");
    }
}

#[test]
fn a_run_whose_runtime_ends_is_tried_again() {
    let folder = Folder::new();
    let runtime = single();
    let timer = {
        let _inside = runtime.enter();
        DurableTimer::builder()
            .on_async("mail", |_| async {
                sleep(HOUR).await;
                Outcome::Done
            })
            .max_attempts(1)
            .open(folder.file("timers.redb"))
            .unwrap()
    };
    timer.job("mail").after(Duration::ZERO).unwrap();
    while timer.stats().fired == 0 {
        runtime.block_on(async { sleep(ms(1)).await });
    }
    runtime.block_on(async { sleep(ms(10)).await });
    drop(runtime);
    while timer.pending().unwrap() > 0 {
        std::thread::sleep(ms(1));
    }
    let dead = &timer.dead(1).unwrap()[0];
    assert!(dead.last_error.contains("runtime"), "{}", dead.last_error);
    // And so is one that begins after that.
    timer.job("mail").after(Duration::ZERO).unwrap();
    while timer.pending().unwrap() > 0 {
        std::thread::sleep(ms(1));
    }
    timer.stop().unwrap();
}

#[test]
fn a_panic_of_an_async_handler_is_a_retry_with_its_message() {
    let folder = Folder::new();
    single().block_on(async {
        let timer = DurableTimer::builder()
            .on_async("early", |_| -> std::future::Ready<Outcome> {
                panic!("at once")
            })
            .on_async("late", |_| async {
                sleep(ms(1)).await;
                panic!("later")
            })
            .max_attempts(1)
            .open_async(folder.file("timers.redb"))
            .await
            .unwrap();
        timer
            .schedule_all([timer.job("early"), timer.job("late")])
            .await
            .unwrap();
        while timer.pending().await.unwrap() > 0 {
            sleep(ms(1)).await;
        }
        let mut errors: Vec<_> = timer
            .dead(2)
            .await
            .unwrap()
            .into_iter()
            .map(|dead| dead.last_error)
            .collect();
        errors.sort();
        assert_eq!(errors, ["at once", "later"]);
    });
}

#[test]
fn async_handlers_run_on_a_manual_clock_inside_a_runtime() {
    let clock = hashed_wheel::ManualClock::new();
    single().block_on(async {
        let timer = DurableTimer::builder()
            .on_async("mail", |_| async {
                tokio::task::yield_now().await;
                Outcome::Done
            })
            .open_in_memory(&clock)
            .unwrap();
        timer.job("mail").after(HOUR).unwrap();
        clock.advance(HOUR);
        assert_eq!((timer.stats().fired, timer.pending().unwrap()), (1, 0));
        timer.job("mail").key("often").every(HOUR).unwrap();
        clock.advance(HOUR * 3);
        assert_eq!(timer.stats().fired, 4);
        assert!(timer.dead(1).unwrap().is_empty());
    });
}

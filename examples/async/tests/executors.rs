//! The `executor` setting with rayon, with tokio and with worker threads behind a channel; and with
//! executors that refuse or panic: nothing is lost silently.

use std::collections::HashSet;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, Job, Period, TimerHandle};

/// After this time something hangs.
const WATCHDOG: Duration = ms(60_000);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Both timers with an executor.
fn with_executor(
    executor: impl Fn(Job) + Clone + Send + Sync + 'static,
    test: impl Fn(&TimerHandle),
) {
    let hashed = HashedWheelTimer::builder()
        .tick_duration(ms(1))
        .executor(executor.clone())
        .build()
        .unwrap();
    test(&hashed.handle());
    let hierarchical = HierarchicalWheelTimer::builder()
        .executor(executor)
        .build()
        .unwrap();
    test(&hierarchical.handle());
}

/// Schedules a thousand tasks, of which one in ten panics, and a periodic one; where they ran.
fn load(timer: &TimerHandle) -> HashSet<ThreadId> {
    let (ran, threads): (_, Receiver<ThreadId>) = mpsc::channel();
    for n in 0..1000 {
        let ran = ran.clone();
        let task = move |_: &_| {
            ran.send(thread::current().id()).unwrap();
            assert!(n % 10 != 0, "on purpose: task {n}");
        };
        timer.new_timeout(task, ms(n % 30)).unwrap();
    }
    let (tick, ticks) = mpsc::channel();
    let beat = move |_: &_| _ = tick.send(());
    let beats = timer
        .new_periodic(beat, ms(1), Period::FixedRate(ms(2)))
        .unwrap();
    let threads: HashSet<_> = (0..1000)
        .map(|_| threads.recv_timeout(WATCHDOG).expect("it ran"))
        .collect();
    for _ in 0..5 {
        ticks.recv_timeout(WATCHDOG).expect("it runs again");
    }
    beats.cancel();
    eventually(|| timer.stats().panicked == 100);
    let stats = timer.stats();
    assert_eq!(
        (stats.expired, stats.dropped_jobs, stats.pending),
        (1000, 0, 0)
    );
    threads
}

fn eventually(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "never came true");
        thread::sleep(ms(1));
    }
}

#[test]
fn rayon_runs_the_tasks() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = Arc::new(pool.unwrap());
    let workers: HashSet<_> = pool
        .broadcast(|_| thread::current().id())
        .into_iter()
        .collect();
    let executor = {
        let pool = Arc::clone(&pool);
        move |job: Job| pool.spawn(job)
    };
    with_executor(executor, |timer| assert!(load(timer).is_subset(&workers)));
}

#[test]
fn a_tokio_handle_runs_the_tasks() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).build().unwrap();
    let handle = runtime.handle().clone();
    // Tasks that may block go to tokio's threads for that.
    let executor = move |job: Job| drop(handle.spawn_blocking(job));
    with_executor(executor, |timer| {
        load(timer);
    });
}

#[test]
fn worker_threads_behind_a_channel_run_the_tasks() {
    let (jobs, queue) = mpsc::channel::<Job>();
    let queue = Arc::new(Mutex::new(queue));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                loop {
                    let next = queue.lock().unwrap().recv();
                    let Ok(job) = next else { return };
                    job();
                }
            })
        })
        .collect();
    let ids: HashSet<_> = workers.iter().map(|worker| worker.thread().id()).collect();
    let executor = move |job| jobs.send(job).unwrap();
    with_executor(executor, |timer| assert!(load(timer).is_subset(&ids)));
    // The timers are gone, their executors with them, and so the channel is closed.
    for worker in workers {
        worker.join().unwrap();
    }
}

#[test]
fn what_a_full_channel_refuses_is_counted() {
    // Nobody takes the jobs out: four fit.
    let (jobs, queue) = mpsc::sync_channel::<Job>(4);
    let timer = HashedWheelTimer::builder()
        .tick_duration(ms(1))
        // The job comes back in the error, and is dropped: that is noticed.
        .executor(move |job| drop(jobs.try_send(job)))
        .build()
        .unwrap();
    let (ran, runs) = mpsc::channel();
    for _ in 0..10 {
        let ran = ran.clone();
        timer
            .new_timeout(move |_| ran.send(()).unwrap(), ms(1))
            .unwrap();
    }
    eventually(|| timer.stats().dropped_jobs == 6);
    for job in queue.try_iter() {
        job();
    }
    drop(ran);
    assert_eq!(runs.iter().count(), 4);
    let stats = timer.stats();
    assert_eq!(
        (stats.expired, stats.dropped_jobs, stats.panicked),
        (10, 6, 0)
    );
}

#[test]
fn an_executor_that_panics_is_counted_and_the_timer_goes_on() {
    // tokio's runtime is gone: `spawn` on its handle panics or drops what it is given.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    drop(runtime);
    let panics = |_: Job| panic!("on purpose: the executor");
    let gone = move |job: Job| drop(handle.spawn_blocking(job));
    let executors: [Box<dyn Fn(Job) + Send + Sync>; 2] = [Box::new(panics), Box::new(gone)];
    for executor in executors {
        let timer = HashedWheelTimer::builder()
            .tick_duration(ms(1))
            .executor(executor)
            .build()
            .unwrap();
        for round in 1..=3 {
            timer.new_timeout(|_| panic!("never runs"), ms(1)).unwrap();
            eventually(|| timer.stats().dropped_jobs == round);
        }
        assert_eq!((timer.stats().expired, timer.pending_timeouts()), (3, 0));
    }
}

//! The whole timer: who starts it, and what becomes of those who wait.

use super::{builder, explore};
use crate::{Job, StartError, TimerState};
use loom::thread::{self, JoinHandle};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A thread factory as it usually is.
fn spawn(job: Job) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().spawn(job)
}

#[test]
fn two_threads_start_once_and_a_failed_start_frees_the_waiters() {
    explore(["the first failed", "the second failed"], || {
        let calls = Arc::new(AtomicUsize::new(0));
        let factory = {
            let calls = Arc::clone(&calls);
            move |job| match calls.fetch_add(1, Ordering::Relaxed) {
                0 => Err(io::Error::other("not yet")),
                _ => spawn(job),
            }
        };
        let timer = builder().thread_factory(factory).build().unwrap();
        let second = thread::spawn({
            let timer = timer.handle();
            move || timer.start()
        });
        let results = [timer.start(), second.join().unwrap()];

        assert_eq!(
            (calls.load(Ordering::Relaxed), timer.state()),
            (2, TimerState::Started)
        );
        match results {
            [Err(StartError::Spawn(_)), Ok(())] => "the first failed",
            [Ok(()), Err(StartError::Spawn(_))] => "the second failed",
            odd => panic!("{odd:?}"),
        }
    });
}

#[test]
fn two_threads_start_one_worker() {
    explore(["the second waited or came later"], || {
        let calls = Arc::new(AtomicUsize::new(0));
        let factory = {
            let calls = Arc::clone(&calls);
            move |job| {
                calls.fetch_add(1, Ordering::Relaxed);
                spawn(job)
            }
        };
        let timer = builder().thread_factory(factory).build().unwrap();
        let second = thread::spawn({
            let timer = timer.handle();
            move || {
                timer.start().unwrap();
                assert_eq!(timer.state(), TimerState::Started);
            }
        });
        timer.start().unwrap();
        assert_eq!(timer.state(), TimerState::Started);
        second.join().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        "the second waited or came later"
    });
}

#[test]
fn a_start_and_a_stop_at_once_leave_it_stopped() {
    explore(["it was running", "it never ran"], || {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let factory = {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            move |job: Job| {
                begun.fetch_add(1, Ordering::Relaxed);
                let ended = Arc::clone(&ended);
                thread::Builder::new().spawn(move || {
                    job();
                    ended.fetch_add(1, Ordering::Relaxed);
                })
            }
        };
        let timer = builder().thread_factory(factory).build().unwrap();
        let starter = thread::spawn({
            let timer = timer.handle();
            move || timer.start()
        });
        assert_eq!(timer.stop().unwrap().len(), 0);
        let [begun, ended] = [begun, ended].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(begun, ended, "the thread is gone, if there was one");
        assert_eq!(timer.state(), TimerState::Shutdown);
        match starter.join().unwrap() {
            Ok(()) => "it was running",
            Err(StartError::Stopped) => "it never ran",
            Err(odd) => panic!("{odd:?}"),
        }
    });
}

/// A factory may start a thread and say that it has failed; then it depends on who comes first.
#[test]
fn a_job_that_runs_although_its_factory_failed_starts_the_timer_or_nothing() {
    explore(["started", "given up"], || {
        let factory = |job| {
            drop(spawn(job));
            Err(io::Error::other("it failed, or so it says"))
        };
        let timer = builder().thread_factory(factory).build().unwrap();
        let started = timer.start().is_ok();
        let expected = if started {
            TimerState::Started
        } else {
            TimerState::Init
        };
        assert_eq!(timer.state(), expected);
        assert_eq!(timer.stop().unwrap().len(), 0);
        if started { "started" } else { "given up" }
    });
}

#[test]
fn a_job_that_another_thread_drops_fails_the_start() {
    explore(["it failed"], || {
        let factory = |job: Job| thread::Builder::new().spawn(move || drop(job));
        let timer = builder().thread_factory(factory).build().unwrap();
        assert!(matches!(timer.start(), Err(StartError::Spawn(_))));
        assert_eq!(timer.state(), TimerState::Init);
        "it failed"
    });
}

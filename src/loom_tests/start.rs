//! The whole timer: who starts it, and what becomes of those who wait.

use super::{Probe, TICK, builder, explore, timer};
use crate::{Job, RejectReason, StartError, TimerState};
use loom::thread::{self, JoinHandle};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a thread factory does as a rule.
fn spawn(job: Job) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().spawn(job)
}

#[test]
fn two_threads_start_once() {
    explore(["started by the first", "started by the second"], || {
        let calls = Arc::new(AtomicUsize::new(0));
        let starter = Arc::new(AtomicUsize::new(0));
        let timer = builder().thread_factory({
            let calls = Arc::clone(&calls);
            move |job| {
                calls.fetch_add(1, Ordering::Relaxed);
                spawn(job)
            }
        });
        let timer = timer.build().unwrap();
        let handle = timer.handle();
        let second = thread::spawn({
            let (calls, starter) = (Arc::clone(&calls), Arc::clone(&starter));
            move || {
                handle.start().unwrap();
                assert_eq!(
                    (handle.state(), calls.load(Ordering::Relaxed)),
                    (TimerState::Started, 1)
                );
            }
        });
        timer.start().unwrap();
        assert_eq!(timer.state(), TimerState::Started);
        second.join().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        "started by the first"
    });
}

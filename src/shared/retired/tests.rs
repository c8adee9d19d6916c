use super::*;
use crate::{HashedWheelTimer, ManualClock, Timeout};
use std::sync::{Barrier, Weak};
use std::thread;
use std::time::{Duration, Instant};

const FAR: Duration = Duration::from_secs(3600);
/// Under Miri, which is slow, many seeds do the same.
const ROUNDS: usize = if cfg!(miri) { 1 } else { 100 };

fn is_retired(timer: u64) -> bool {
    RETIRED.lock().iter().any(|entry| entry.shared.id == timer)
}

/// A timer with that many timeouts, what tells whether its memory is there, and its number.
fn timer_with(timeouts: usize) -> (HashedWheelTimer, Vec<Timeout>, Weak<Shared>, u64) {
    let timer = HashedWheelTimer::builder()
        .clock(&ManualClock::new())
        .build()
        .unwrap();
    let held = (0..timeouts)
        .map(|_| timer.new_timeout(|_| {}, FAR).unwrap())
        .collect();
    let handle = timer.handle();
    let memory = Arc::downgrade(handle.shared());
    let number = handle.shared().id;
    (timer, held, memory, number)
}

/// The list is the process's: what another test's thread has taken from it, that thread drops a moment later.
pub(in crate::shared) fn assert_gone(memory: &Weak<Shared>) {
    let patience = Instant::now() + Duration::from_secs(60);
    while memory.strong_count() > 0 {
        assert!(Instant::now() < patience, "the memory is still there");
        thread::yield_now();
    }
}

#[test]
fn memory_goes_with_the_timer_when_no_handle_is_left() {
    let (timer, held, memory, number) = timer_with(100);
    drop(held);
    drop(timer);
    assert!(!is_retired(number));
    assert_gone(&memory);
}

#[test]
fn memory_stays_for_the_last_handle_and_goes_with_it() {
    let (timer, mut held, memory, number) = timer_with(100);
    drop(timer);
    let last = held.pop().unwrap();
    assert!(held.iter().all(Timeout::is_cancelled));
    drop(held);
    assert!(is_retired(number));
    assert!(last.is_cancelled() && !last.is_expired() && !last.cancel());
    assert_eq!(last.timer().pending_timeouts(), 0);
    // Another thread than the one that armed it: its cache is made and thrown away with it.
    thread::spawn(|| drop(last)).join().unwrap();
    assert!(!is_retired(number));
    assert_gone(&memory);
}

#[test]
fn the_last_of_owner_and_driver_retires_the_memory() {
    let (timer, held, _, number) = timer_with(1);
    drop(timer.stop().unwrap());
    assert!(!is_retired(number), "the owner is there");
    drop(timer);
    assert!(is_retired(number));
    drop(held);
    assert!(!is_retired(number));
}

/// The threads leave at the same time, so that one frees the memory while the others are on their way out.
/// For Miri.
#[test]
fn memory_goes_while_other_threads_let_go_of_their_handles() {
    for _ in 0..ROUNDS {
        let (timer, held, memory, number) = timer_with(3);
        drop(timer.stop());
        drop(timer);
        let together = Barrier::new(held.len());
        thread::scope(|scope| {
            for handle in held {
                scope.spawn(|| {
                    together.wait();
                    drop(handle);
                });
            }
        });
        // Nobody may have come to look for the last one: see the module's head.
        drop(timer_with(0));
        assert!(!is_retired(number));
        assert_gone(&memory);
    }
}

/// A handle is dropped while the owner is, on another thread.
#[test]
fn memory_goes_while_the_owner_does() {
    for _ in 0..ROUNDS {
        let (timer, held, memory, number) = timer_with(1);
        let together = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                together.wait();
                drop(held);
            });
            together.wait();
            drop(timer);
        });
        drop(timer_with(0));
        assert!(!is_retired(number));
        assert_gone(&memory);
    }
}

#[test]
fn users_and_returned_handles_may_go_in_any_order() {
    for users_first in [true, false] {
        let (timer, held, memory, number) = timer_with(10);
        let returned = timer.stop().unwrap();
        assert_eq!(returned.len(), 10);
        drop(timer);
        assert!(is_retired(number));
        if users_first {
            drop(held);
            assert!(returned.iter().all(|timeout| timeout.take_task().is_some()));
            drop(returned);
        } else {
            drop(returned);
            assert!(held.iter().all(|timeout| timeout.remaining() == FAR));
            drop(held);
        }
        assert!(!is_retired(number));
        assert_gone(&memory);
    }
}

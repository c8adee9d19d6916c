//! The caller's own loop: the hook against `next_due`, and the end of the timer against both. The whole timer, by its public
//! methods. Here the loop is the main thread; a wake-up that is lost is a deadlock.

use super::{TICK, explore, unexplored};
use crate::sync::{Condvar, Mutex};
use crate::{HashedWheelTimer, TimerDriver};
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The loop that the hook wakes: it remembers a call, as an eventfd does.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
    /// No part of the model.
    calls: AtomicUsize,
}

impl Bell {
    fn ring(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.rung.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.changed.wait(&mut rung);
        }
        *rung = false;
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

fn without_hook() -> (HashedWheelTimer, TimerDriver, Arc<Bell>) {
    unexplored(|| {
        let (timer, driver) = HashedWheelTimer::builder()
            .tick_duration(TICK)
            .ticks_per_wheel(2)
            .build_driven()
            .unwrap();
        (timer, driver, Arc::new(Bell::default()))
    })
}

fn driven() -> (HashedWheelTimer, TimerDriver, Arc<Bell>) {
    let (timer, mut driver, bell) = without_hook();
    let rung = Arc::clone(&bell);
    unexplored(|| driver.on_wake(move || rung.ring()));
    (timer, driver, bell)
}

#[test]
fn a_loop_that_falls_asleep_sees_a_push_or_is_woken() {
    let ends = ["seen", "seen, and woken all the same", "woken"];
    explore(ends, || {
        let (timer, mut driver, bell) = driven();
        let handle = timer.handle();
        let client = thread::spawn(move || drop(handle.new_timeout(|_| (), 2 * TICK).unwrap()));
        let end = if driver.next_due().is_some() {
            client.join().unwrap();
            ["seen", "seen, and woken all the same"][bell.calls()]
        } else {
            bell.wait();
            assert!(driver.next_due().is_some(), "woken for nothing");
            client.join().unwrap();
            assert_eq!(bell.calls(), 1);
            "woken"
        };
        unexplored(|| drop((driver, timer)));
        end
    });
}

#[test]
fn two_pushes_wake_a_sleeping_loop_once() {
    explore(["once"], || {
        let (timer, mut driver, bell) = driven();
        assert_eq!(driver.next_due(), None);
        let clients = [1, 2].map(|ticks| {
            let handle = timer.handle();
            thread::spawn(move || drop(handle.new_timeout(|_| (), ticks * TICK).unwrap()))
        });
        bell.wait();
        for client in clients {
            client.join().unwrap();
        }
        let calls = bell.calls();
        unexplored(|| drop((driver, timer)));
        ["never", "once", "twice"][calls]
    });
}

#[test]
fn a_stop_reaches_a_loop_wherever_it_is() {
    explore(["before", "while it slept"], || {
        let (timer, mut driver, bell) = driven();
        unexplored(|| drop(timer.new_timeout(|_| (), 2 * TICK).unwrap()));
        let handle = timer.handle();
        let stopper = thread::spawn(move || handle.stop().unwrap().len());
        let slept = driver.next_due().is_some();
        bell.wait();
        assert_eq!((driver.turn(), driver.next_due()), (0, None));
        assert_eq!(stopper.join().unwrap(), 1, "it is returned");
        unexplored(|| drop((driver, timer)));
        if slept { "while it slept" } else { "before" }
    });
}

#[test]
fn a_hook_that_is_set_during_a_push_misses_nothing() {
    explore(["told by the push", "told when it was set"], || {
        let (timer, mut driver, bell) = without_hook();
        let handle = timer.handle();
        unexplored(|| assert_eq!(driver.next_due(), None));
        let client = thread::spawn(move || drop(handle.new_timeout(|_| (), 2 * TICK).unwrap()));
        let rung = Arc::clone(&bell);
        driver.on_wake(move || rung.ring());
        let calls = bell.calls();
        client.join().unwrap();
        assert_eq!(bell.calls(), 1, "once");
        unexplored(|| drop((driver, timer)));
        ["told by the push", "told when it was set"][calls]
    });
}

#[test]
fn a_push_during_an_exchange_of_hooks_calls_one_of_them() {
    explore(["the old one", "the new one"], || {
        let (timer, mut driver, old) = driven();
        let (handle, new) = (timer.handle(), Arc::new(Bell::default()));
        unexplored(|| assert_eq!(driver.next_due(), None));
        let client = thread::spawn(move || drop(handle.new_timeout(|_| (), 2 * TICK).unwrap()));
        let rung = Arc::clone(&new);
        driver.on_wake(move || rung.ring());
        client.join().unwrap();
        let end = match (old.calls(), new.calls()) {
            (1, 0) => "the old one",
            (0, 1) => "the new one",
            both => panic!("{both:?} calls"),
        };
        unexplored(|| drop((driver, timer)));
        end
    });
}

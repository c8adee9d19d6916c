//! The word that the worker sleeps under, with a lane in front of it and a worker that does nothing
//! else, in the order of `worker::work`: empty the lane, plan, announce, empty it again, park. A wake-up
//! that is lost is a deadlock. Here the worker is the main thread.

use super::explore;
use super::queue::{Queue, Wheel};
use crate::entry::Entry;
use crate::queue::pending::{Inlet, Pushed};
use crate::queue::sleep::{Sleep, Slept};
use crate::shared::{Lifecycle, StartDecision, StopDecision};
use crate::sync::thread::current;
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;
use std::time::Duration;

struct Timer {
    queue: Queue,
    sleep: Sleep,
    lifecycle: Lifecycle,
}

impl Timer {
    /// A timer that has started, on this thread.
    fn new() -> Arc<Timer> {
        let timer = Timer {
            queue: Queue::new(0),
            sleep: Sleep::new(),
            lifecycle: Lifecycle::new(),
        };
        timer.sleep.adopt();
        assert_eq!(timer.lifecycle.begin_start(), StartDecision::Starting);
        timer.lifecycle.started(0);
        Arc::new(timer)
    }

    /// As `Shared::submit`.
    fn submit(&self, due: u64) -> Pushed {
        let pushed = self.queue.push(Entry::new(Tick(due), 1, 0, 0));
        let crowded = pushed == Pushed::Crowded;
        self.sleep.wake_for(Tick(due), crowded, || Tick::ZERO);
        pushed
    }
}

/// What the worker has.
#[derive(Default)]
struct Worker {
    inlet: Inlet,
    wheel: Wheel,
    announced: usize,
    slept: usize,
}

impl Worker {
    fn transfer(&mut self, timer: &Timer) {
        self.inlet
            .drain(timer.queue.lane(), usize::MAX, &mut self.wheel);
    }

    /// As `Engine::plan`, with the wheel at boundary 0.
    fn plan(&self) -> Tick {
        let due = self.wheel.0.iter().map(|entry| entry.due()).min();
        if self.inlet.is_drained() {
            due.unwrap_or(Tick::NEVER)
        } else {
            Tick(1)
        }
    }

    /// As `worker::sleep`, and `Engine::transfer_and_recheck` inside. Of the boundaries only the first comes by
    /// itself: to sleep until another is to sleep for ever, unless somebody comes.
    fn sleep(&mut self, timer: &Timer) {
        let plan = self.plan();
        self.announced += 1;
        let slept = timer.sleep.sleep(
            plan,
            true,
            || (plan == Tick(1)).then_some(Duration::from_millis(1)),
            || {
                if plan > Tick(1) {
                    self.transfer(timer);
                }
                self.plan() < plan || timer.lifecycle.is_shutdown()
            },
        );
        self.slept += usize::from(slept != Slept::Not);
    }

    fn knows(&self, due: u64) -> bool {
        self.wheel.0.iter().any(|entry| entry.due() == Tick(due))
    }
}

#[test]
fn a_push_while_the_worker_falls_asleep_is_seen_or_wakes_it() {
    let ends = [
        "seen at once",
        "seen in the last look",
        "woken",
        "met before its push was completed",
    ];
    explore(ends, || {
        let timer = Timer::new();
        let producer = thread::spawn({
            let timer = Arc::clone(&timer);
            move || assert_eq!(timer.submit(5), Pushed::Queued)
        });
        let mut worker = Worker::default();
        let mut unfinished = false;
        worker.transfer(&timer);
        while !worker.knows(5) {
            unfinished |= !worker.inlet.is_drained();
            worker.sleep(&timer);
            worker.transfer(&timer);
        }
        producer.join().unwrap();
        match (worker.announced, worker.slept) {
            (0, _) => "seen at once",
            _ if unfinished => "met before its push was completed",
            (_, 0) => "seen in the last look",
            _ => "woken",
        }
    });
}

#[test]
fn two_pushes_wake_once_and_the_earlier_is_on_time() {
    // How often the worker was woken; at most once for each plan.
    explore([0, 1, 2], || {
        let timer = Timer::new();
        let producers = [3, 5].map(|due| {
            let timer = Arc::clone(&timer);
            thread::spawn(move || assert_eq!(timer.submit(due), Pushed::Queued))
        });
        let mut worker = Worker::default();
        worker.transfer(&timer);
        while !worker.knows(3) {
            worker.sleep(&timer);
            worker.transfer(&timer);
        }
        for producer in producers {
            producer.join().unwrap();
        }
        let woken = current().unparks();
        assert!(woken <= worker.announced, "woken once for a plan");
        woken
    });
}

#[test]
fn a_crowded_lane_wakes_the_worker_unless_it_could_do_nothing() {
    /// Three entries are a crowd. None is due before the worker looks by itself.
    fn crowd(timer: &Timer) {
        let pushed = [7, 8, 9].map(|due| timer.submit(due));
        assert_eq!(pushed[2], Pushed::Crowded);
    }
    explore(["seen in the last look", "woken"], || {
        let timer = Timer::new();
        let producer = thread::spawn({
            let timer = Arc::clone(&timer);
            move || crowd(&timer)
        });
        let mut seen = false;
        let look = || {
            seen = !timer.queue.lane().is_empty();
            seen
        };
        timer.sleep.sleep(Tick(5), true, || None, look);
        producer.join().unwrap();
        if seen {
            "seen in the last look"
        } else {
            "woken"
        }
    });
    explore(["before it slept", "while it slept"], || {
        let timer = Timer::new();
        let producer = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                crowd(&timer);
                // The boundary comes.
                timer.sleep.unpark();
            }
        });
        let mut before = false;
        let look = || {
            before = timer.queue.lane().len() == 3;
            false
        };
        timer.sleep.sleep(Tick(5), false, || None, look);
        producer.join().unwrap();
        assert_eq!(current().unparks(), 1, "woken by the clock alone");
        if before {
            "before it slept"
        } else {
            "while it slept"
        }
    });
}

#[test]
fn stop_wakes_a_worker_that_is_falling_asleep() {
    explore(["seen at once", "seen in the last look", "woken"], || {
        let timer = Timer::new();
        let stop = thread::spawn({
            let timer = Arc::clone(&timer);
            move || {
                assert_eq!(timer.lifecycle.request_stop(false), StopDecision::Running);
                timer.sleep.unpark();
            }
        });
        let mut worker = Worker::default();
        while !timer.lifecycle.is_shutdown() {
            worker.sleep(&timer);
        }
        stop.join().unwrap();
        match (worker.announced, worker.slept) {
            (0, _) => "seen at once",
            (_, 0) => "seen in the last look",
            _ => "woken",
        }
    });
}

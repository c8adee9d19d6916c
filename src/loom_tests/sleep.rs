//! The sleep of the timer thread: the parker's word and the ready bits, with a timer thread that does nothing else, in the
//! order of `Engine::run`: look, take, plan, announce the plan, look again, park. A wake-up that is lost is a deadlock. Here
//! the timer thread is the main thread.

use super::queue::{Queue, Taker};
use super::{explore, unexplored};
use crate::queue::WakeReason;
use crate::shared::{Lifecycle, StartDecision, StopDecision};
use crate::sync::{AtomicU8, Ordering};
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

/// A queue whose timer thread is this one.
fn queue() -> Arc<Queue> {
    let queue = Queue::new();
    queue.queue.parker.register_worker();
    queue
}

/// The worker's own state.
struct Worker {
    queue: Arc<Queue>,
    taker: Taker,
    announced: usize,
    slept: usize,
}

impl Worker {
    fn new(queue: &Arc<Queue>) -> Worker {
        Worker {
            queue: Arc::clone(queue),
            taker: Taker::new(queue),
            announced: 0,
            slept: 0,
        }
    }

    fn transfer(&mut self) {
        self.taker.take();
    }

    /// As `Engine::next_tick`, once all is taken.
    fn plan(&self) -> Tick {
        self.taker.earliest().unwrap_or(Tick::NEVER)
    }

    /// As `worker::sleep`. No boundary comes by itself: to sleep is to sleep for ever, unless somebody comes.
    fn sleep(&mut self, stopped: impl Fn() -> bool) {
        let plan = self.plan();
        self.announced += 1;
        let queue = Arc::clone(&self.queue);
        let slept = queue.queue.parker.sleep(
            plan,
            true,
            || None,
            || {
                self.transfer();
                self.plan() < plan || stopped()
            },
        );
        self.slept += usize::from(slept != WakeReason::Awake);
    }

    /// Returns `true` if it will not be late for what is due then.
    fn knows(&self, due: u64) -> bool {
        self.plan() <= Tick(due)
    }

    /// Goes on until it knows of something due then.
    fn work_until_it_knows(&mut self, due: u64) {
        self.transfer();
        while !self.knows(due) {
            self.sleep(|| false);
            self.transfer();
        }
    }

    /// The same for tick 5, while a producer pushes.
    fn work_beside(&mut self, push: impl FnOnce(&Queue) + Send + 'static) -> &'static str {
        let producer = thread::spawn({
            let queue = Arc::clone(&self.queue);
            move || push(&queue)
        });
        self.work_until_it_knows(5);
        producer.join().unwrap();
        self.end()
    }

    /// Sleeps again and again while another thread stops the timer.
    fn work_beside_stop(&mut self) {
        let lifecycle = Arc::new(Lifecycle::default());
        unexplored(|| {
            assert_eq!(lifecycle.begin_start(), StartDecision::Starting);
            lifecycle.started(0);
        });
        let stop = thread::spawn({
            let (queue, lifecycle) = (Arc::clone(&self.queue), Arc::clone(&lifecycle));
            move || {
                assert_eq!(lifecycle.request_stop(false), StopDecision::Running);
                queue.queue.parker.unpark();
            }
        });
        while !lifecycle.is_shutdown() {
            self.sleep(|| lifecycle.is_shutdown());
        }
        stop.join().unwrap();
    }

    fn end(&self) -> &'static str {
        match (self.announced, self.slept) {
            (0, _) => "seen at once",
            (_, 0) => "seen in the last look",
            _ => "woken",
        }
    }
}

const ENDS: [&str; 3] = ["seen at once", "seen in the last look", "woken"];

#[test]
fn a_push_while_the_worker_falls_asleep_is_seen_or_wakes_it() {
    explore(ENDS, || {
        Worker::new(&queue()).work_beside(|queue| queue.push_to(0, 1, 5))
    });
}

/// It need not say so: the shard's bit is set already, and the worker comes by.
#[test]
fn an_earlier_push_to_a_shard_that_is_announced_is_seen_or_wakes_the_worker() {
    explore(ENDS, || {
        let queue = queue();
        // A whole block, so that the next number is not taken with it.
        unexplored(|| {
            queue.push_to(0, 1, 9);
            queue.push_to(0, 2, 9);
        });
        Worker::new(&queue).work_beside(|queue| queue.push_to(0, 3, 5))
    });
}

/// The worker has taken all that was in it.
#[test]
fn an_earlier_push_to_a_shard_that_was_emptied_is_seen_or_wakes_the_worker() {
    explore(ENDS, || {
        let queue = queue();
        let mut worker = Worker::new(&queue);
        unexplored(|| {
            queue.push_to(0, 1, 9);
            worker.transfer();
        });
        // A later one in between, which says something and changes nothing.
        worker.work_beside(|queue| {
            queue.push_to(0, 2, 9);
            queue.push_to(0, 3, 5);
        })
    });
}

#[test]
fn a_push_to_a_shard_that_is_being_emptied_is_seen_or_wakes_the_worker() {
    explore(["taken with the others", "seen", "woken"], || {
        let queue = queue();
        unexplored(|| queue.push_to(0, 1, 1));
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_to(0, 2, 5)
        });
        let mut worker = Worker::new(&queue);
        worker.transfer();
        assert_eq!(worker.plan(), Tick(1));
        worker.taker.forget_first();
        let taken = worker.knows(5);
        worker.work_until_it_knows(5);
        producer.join().unwrap();
        match (taken, worker.slept) {
            (true, _) => "taken with the others",
            (_, 0) => "seen",
            _ => "woken",
        }
    });
}

#[test]
fn two_pushes_to_two_shards_wake_the_worker_and_the_earlier_is_on_time() {
    // How often somebody has woken the worker; each at most once for each plan.
    explore([0, 1, 2], || {
        let queue = queue();
        let producers = [3, 5].map(|due| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || queue.push_to(due, due, u64::from(due)))
        });
        let mut worker = Worker::new(&queue);
        worker.work_until_it_knows(3);
        for producer in producers {
            producer.join().unwrap();
        }
        let woken = queue.queue.parker.wakes();
        assert!(woken <= 2 * worker.announced, "each once for a plan");
        woken
    });
}

/// One that has begun to wake the worker does nothing more: it is suspended. The next push wakes the worker all the same.
#[test]
fn a_push_wakes_the_worker_in_place_of_one_that_is_suspended() {
    let ends = [
        "seen, and nobody was suspended",
        "seen",
        "woken, and nobody was suspended",
        "woken",
    ];
    explore(ends, move || {
        let queue = queue();
        let suspended = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.queue.parker.begin_to_wake(Tick(7))
        });
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_to(0, 1, 5)
        });
        let mut worker = Worker::new(&queue);
        worker.work_until_it_knows(5);
        producer.join().unwrap();
        let suspended = suspended.join().unwrap();
        ends[usize::from(worker.slept > 0) * 2 + usize::from(suspended)]
    });
}

/// The same for a stop.
#[test]
fn stop_wakes_the_worker_in_place_of_one_that_is_suspended() {
    explore(["suspended", "nobody was suspended"], || {
        let queue = queue();
        let suspended = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.queue.parker.begin_to_wake(Tick(7))
        });
        Worker::new(&queue).work_beside_stop();
        if suspended.join().unwrap() {
            "suspended"
        } else {
            "nobody was suspended"
        }
    });
}

#[test]
fn a_crowded_shard_wakes_the_worker_unless_it_could_do_nothing() {
    /// The fourth is a crowd. None is due before the worker looks by itself.
    fn crowd(queue: &Queue) {
        for due in [6, 7, 8, 9] {
            queue.push_to(0, due, u64::from(due));
        }
    }
    explore(["seen in the last look", "woken"], || {
        let queue = queue();
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || crowd(&queue)
        });
        let mut seen = false;
        let look = || {
            seen = queue.queue.len() > 0;
            seen
        };
        queue.queue.parker.sleep(Tick(5), true, || None, look);
        producer.join().unwrap();
        if seen {
            "seen in the last look"
        } else {
            "woken"
        }
    });
    explore(["before it slept", "while it slept"], || {
        let queue = queue();
        let came = Arc::new(AtomicU8::new(0));
        let producer = thread::spawn({
            let (queue, came) = (Arc::clone(&queue), Arc::clone(&came));
            move || {
                crowd(&queue);
                // The boundary comes.
                came.store(1, Ordering::SeqCst);
                queue.queue.parker.unpark();
            }
        });
        let mut before = false;
        let look = || {
            before = came.load(Ordering::SeqCst) == 1;
            before
        };
        queue.queue.parker.sleep(Tick(5), false, || None, look);
        assert_eq!(came.load(Ordering::SeqCst), 1, "woken by the clock alone");
        producer.join().unwrap();
        if before {
            "before it slept"
        } else {
            "while it slept"
        }
    });
}

#[test]
fn stop_wakes_a_worker_that_is_falling_asleep() {
    explore(ENDS, || {
        let mut worker = Worker::new(&queue());
        worker.work_beside_stop();
        worker.end()
    });
}

/// As `a_push_wakes_the_worker_in_place_of_one_that_is_suspended`, but the worker has been told of the shard: that push notes nothing.
#[test]
fn a_push_to_a_shard_that_is_known_wakes_the_worker_in_place_of_one_that_is_suspended() {
    explore([false, true], move || {
        let queue = queue();
        unexplored(|| queue.push_to(1, 3, 8));
        let suspended = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.queue.parker.begin_to_wake(Tick(7))
        });
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                queue.push_to(0, 1, 9);
                queue.push_to(0, 2, 5);
            }
        });
        let mut worker = Worker::new(&queue);
        worker.work_until_it_knows(5);
        producer.join().unwrap();
        suspended.join().unwrap()
    });
}

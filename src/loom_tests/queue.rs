//! The pending queue: producers (the *owners* of their shards) push while the timer thread takes. A block has two numbers here.

use super::{Probe, Slot, arm_number, explore, free_slot, unexplored};
use crate::entry::{Lane, SlotId};
use crate::queue::{PendingQueue, Reader};
use crate::shared::{Lifecycle, StartDecision, StopDecision};
use crate::slots::{Place, StopOutcome};
use crate::sync::{AtomicU8, Ordering};
use crate::time::Tick;
use loom::thread;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// A queue, and the due tick of each number's slot. The map of due ticks is no part of the model.
pub(super) struct Queue {
    pub(super) queue: PendingQueue,
    due: Mutex<HashMap<u32, Tick>>,
}

impl Queue {
    pub(super) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            queue: PendingQueue::new(),
            due: Mutex::default(),
        })
    }

    /// Pushes numbers that are due at 9 to shard 0.
    fn push(&self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.push_to(0, number, 9);
        }
    }

    pub(super) fn push_to(&self, shard: u32, number: u32, due: u64) {
        self.due.lock().unwrap().insert(number, Tick(due));
        let (shard, id) = (self.queue.shard(shard), SlotId::from_number(number));
        self.queue
            .push(shard, Lane::Soon, id, Tick(due), || Tick::ZERO);
    }
}

/// The timer thread's side.
pub(super) struct Taker {
    queue: Arc<Queue>,
    reader: Reader,
    taken: Vec<u32>,
}

impl Taker {
    pub(super) fn new(queue: &Arc<Queue>) -> Taker {
        Taker {
            queue: Arc::clone(queue),
            reader: Reader::default(),
            taken: Vec::new(),
        }
    }

    /// Looks, and takes what was seen. Returns how many have been taken up to now.
    pub(super) fn take(&mut self) -> usize {
        self.reader.look(&self.queue.queue);
        let taken = &mut self.taken;
        let mut take = |ids: &[SlotId], _| taken.extend(ids.iter().map(|id| id.number()));
        self.reader.take(&self.queue.queue, &mut take);
        taken.len()
    }

    /// The earliest due tick of what was taken.
    pub(super) fn earliest(&self) -> Option<Tick> {
        let due = self.queue.due.lock().unwrap();
        self.taken.iter().map(|number| due[number]).min()
    }

    /// As if the first that was taken had fired.
    pub(super) fn forget_first(&mut self) {
        self.taken.remove(0);
    }

    /// Takes the rest when no thread pushes any more: one look must find all. Returns all numbers that were taken.
    fn finish(mut self) -> Vec<u32> {
        self.take();
        assert_eq!((self.queue.queue.len(), self.reader.waiting()), (0, 0));
        self.taken
    }
}

#[test]
fn what_an_owner_pushes_is_taken_once_and_in_order() {
    // How many of the three the timer thread took while they were pushed.
    explore([0, 1, 2, 3], || {
        let queue = Queue::new();
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(1..4)
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take();
        owner.join().unwrap();
        assert_eq!(taker.finish(), [1, 2, 3]);
        met
    });
}

/// The block is read when it holds one number, while the producer fills it, hands it over, and begins the next in its place.
#[test]
fn a_block_that_is_handed_over_while_it_is_read_is_taken_once() {
    explore([1, 2, 3, 4], || {
        let queue = Queue::new();
        unexplored(|| queue.push([1]));
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(2..5)
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take();
        owner.join().unwrap();
        assert_eq!(taker.finish(), [1, 2, 3, 4]);
        met
    });
}

/// A part of the block is taken already when it is handed over.
#[test]
fn the_rest_of_a_block_is_taken_once() {
    explore([1, 2, 3], || {
        let queue = Queue::new();
        let mut taker = Taker::new(&queue);
        unexplored(|| {
            queue.push([1]);
            taker.take();
        });
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(2..4)
        });
        let met = taker.take();
        owner.join().unwrap();
        assert_eq!(taker.finish(), [1, 2, 3]);
        met
    });
}

#[test]
fn two_owners_mix_nothing_up() {
    explore([0, 1, 2, 3, 4], || {
        let queue = Queue::new();
        let owners = [0, 1].map(|shard| {
            let queue = Arc::clone(&queue);
            let first = shard * 100;
            thread::spawn(move || (first..first + 2).for_each(|n| queue.push_to(shard, n, 9)))
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take();
        for owner in owners {
            owner.join().unwrap();
        }
        let taken = taker.finish();
        let (one, two): (Vec<u32>, Vec<u32>) = taken.iter().partition(|number| **number < 100);
        assert_eq!((one, two), (vec![0, 1], vec![100, 101]));
        met
    });
}

/// As `Shared::schedule` against `shutdown::finalize`, with one slot.
fn schedule_and_stop(prepare: fn(&Queue, &Slot)) -> &'static str {
    struct Timer {
        slot: Slot,
        queue: Arc<Queue>,
        lifecycle: Lifecycle,
    }
    let timer = Arc::new(Timer {
        slot: free_slot(),
        queue: Queue::new(),
        lifecycle: Lifecycle::default(),
    });
    unexplored(|| {
        assert_eq!(timer.lifecycle.begin_start(), StartDecision::Starting);
        timer.lifecycle.started(0);
        prepare(&timer.queue, &timer.slot);
    });
    let probe = Probe::default();
    let producer = thread::spawn({
        let (timer, probe) = (Arc::clone(&timer), probe.clone());
        move || {
            let (place, _) = arm_number(&timer.slot, probe.task(), 9, Lane::Soon);
            if place == Place::Nowhere {
                timer.queue.push([5]);
            }
            timer.lifecycle.is_shutdown() && timer.slot.disarm().is_some()
        }
    });
    assert_eq!(timer.lifecycle.request_stop(false), StopDecision::Running);
    timer.queue.queue.order_after_pushes();
    let returned = timer.slot.stop() == StopOutcome::Returned;
    let taken_back = producer.join().unwrap();
    assert!(
        returned ^ taken_back,
        "one of the two: {returned}, {taken_back}"
    );
    if returned {
        drop(timer.slot.take_stopped());
        "returned"
    } else {
        "taken back"
    }
}

#[test]
fn a_push_is_before_the_scan_of_stop_or_sees_the_stop() {
    // Nothing but P1 is sequentially consistent in this push.
    explore(["returned", "taken back"], || {
        schedule_and_stop(|queue, _| queue.push([1]))
    });
}

#[test]
fn the_first_push_to_a_shard_is_before_the_scan_of_stop_or_sees_the_stop() {
    explore(["returned", "taken back"], || schedule_and_stop(|_, _| ()));
}

#[test]
fn an_arming_without_a_push_is_before_the_scan_of_stop_or_sees_the_stop() {
    explore(["returned", "taken back"], || {
        schedule_and_stop(|_, slot| {
            let (place, _) = arm_number(slot, Probe::default().task(), 5, Lane::Soon);
            assert_eq!(place, Place::Nowhere);
            assert!(slot.cancel(|| ()));
            let _ = slot.release_here(crate::slots::Handle::User);
            slot.free_here();
        })
    });
}

/// The contract of `order_after_pushes` by itself: the stopping thread does nothing else that is sequentially consistent, as
/// `Lifecycle::request_stop` is in the models above.
#[test]
fn what_follows_the_order_after_pushes_sees_every_push_that_has_not_seen_the_stop() {
    explore(
        ["seen by both", "seen by the push", "seen by the stop"],
        || {
            struct Timer {
                queue: Arc<Queue>,
                stopped: AtomicU8,
                armed: AtomicU8,
            }
            let timer = Arc::new(Timer {
                queue: Queue::new(),
                stopped: AtomicU8::new(0),
                armed: AtomicU8::new(0),
            });
            // So that nothing but P1 is sequentially consistent in the push.
            unexplored(|| timer.queue.push([1]));
            let producer = thread::spawn({
                let timer = Arc::clone(&timer);
                move || {
                    timer.armed.store(1, Ordering::Relaxed);
                    timer.queue.push([2]);
                    timer.stopped.load(Ordering::Relaxed) == 1
                }
            });
            timer.stopped.store(1, Ordering::Relaxed);
            timer.queue.queue.order_after_pushes();
            let seen = timer.armed.load(Ordering::Relaxed) == 1;
            match (producer.join().unwrap(), seen) {
                (true, true) => "seen by both",
                (true, false) => "seen by the push",
                (false, true) => "seen by the stop",
                (false, false) => panic!("lost between the two"),
            }
        },
    );
}

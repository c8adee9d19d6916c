//! The ring and the lane: what several producers push, one worker takes. The ring has room for two
//! entries here, and a heap of two is compacted.

use super::Slot;
use super::{Probe, arm_number, explore, free_slot};
use crate::entry::Entry;
use crate::queue::pending::{EntrySink, Inlet, InsertOutcome, Lane, Liveness, Pushed};
use crate::queue::ring::Ring;
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

/// A lane and the slots that its entries are about.
pub(super) struct Queue {
    pub(super) lane: Box<[Lane]>,
    pub(super) slots: Vec<Slot>,
}

impl Queue {
    pub(super) fn new(slots: usize) -> Queue {
        Queue {
            lane: Lane::all(),
            slots: (0..slots).map(|_| free_slot()).collect(),
        }
    }

    pub(super) fn lane(&self) -> &Lane {
        &self.lane[0]
    }

    pub(super) fn push(&self, entry: Entry) -> Pushed {
        self.lane().push(entry, self)
    }

    fn put(&self, entry: Entry) {
        let _ = self.push(entry);
    }
}

impl Liveness for Queue {
    fn now(&self) -> u64 {
        0
    }

    fn prefetch(&self, _: Entry) {}

    /// Without slots, every entry lives.
    fn is_dead(&self, entry: Entry) -> bool {
        let slot = self.slots.get(entry.slot() as usize);
        slot.is_some_and(|slot| slot.is_dead(entry))
    }
}

/// A wheel that only remembers what was filed.
#[derive(Default)]
pub(super) struct Wheel(pub(super) Vec<Entry>);

impl EntrySink for Wheel {
    fn prefetch(&self, _: Entry) {}

    fn file(&mut self, entry: Entry) -> InsertOutcome {
        self.0.push(entry);
        InsertOutcome::InWheel
    }
}

/// An entry that is known by its number, of a producer whose entries have the same hundred.
fn entry(number: u32) -> Entry {
    Entry::new(Tick(1), 1, number, 0)
}

/// Checks that all of these came, each producer's in order.
fn check(filed: &[Entry], expected: &[u32]) {
    let numbers: Vec<_> = filed.iter().map(|entry| entry.slot()).collect();
    let mut by_producer = numbers.clone();
    by_producer.sort_by_key(|number| number / 100);
    assert_eq!(by_producer, expected, "filed as {numbers:?}");
}

#[test]
fn two_producers_and_the_consumer_of_a_ring_lose_nothing() {
    explore(["all went in", "one found it full"], || {
        let ring = Arc::new(Ring::new(2));
        let other = thread::spawn({
            let ring = Arc::clone(&ring);
            move || ring.push(entry(200))
        });
        let consumer = thread::spawn({
            let ring = Arc::clone(&ring);
            move || [ring.pop(), ring.pop()]
        });
        let pushed = [
            ring.push(entry(100)),
            ring.push(entry(101)),
            other.join().unwrap(),
        ];
        let early = consumer.join().unwrap();
        let late = [ring.pop(), ring.pop(), ring.pop()];
        assert_eq!(ring.len(), 0);

        let popped: Vec<_> = early.into_iter().chain(late).flatten().collect();
        let pushed: Vec<_> = [100, 101, 200]
            .into_iter()
            .zip(pushed)
            .filter_map(|(number, pushed)| pushed.then_some(number))
            .collect();
        check(&popped, &pushed);
        if pushed.len() == 3 {
            "all went in"
        } else {
            "one found it full"
        }
    });
}

#[test]
fn one_threads_order_survives_overflow_and_a_cut_transfer() {
    // How many of the entries the first transfer has filed; it was to file two at most.
    explore([0, 1, 2], || {
        let queue = Arc::new(Queue::new(0));
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || (100..105).for_each(|number| queue.put(entry(number)))
        });
        let (mut inlet, mut wheel) = (Inlet::default(), Wheel::default());
        let first = inlet.drain(queue.lane(), 2, &mut wheel);
        inlet.drain(queue.lane(), 2, &mut wheel);
        producer.join().unwrap();
        // Until all that was taken out is filed, and then what is left.
        inlet.drain(queue.lane(), 9, &mut wheel);
        inlet.drain(queue.lane(), 9, &mut wheel);

        assert!(inlet.is_drained() && inlet.is_empty(queue.lane()));
        check(&wheel.0, &[100, 101, 102, 103, 104]);
        first
    });
}

#[test]
fn two_producers_that_make_room_at_once_keep_their_orders() {
    // How many entries were in the queue when the worker came.
    explore([2, 3, 4], || {
        let queue = Arc::new(Queue::new(0));
        (100..102).for_each(|number| queue.put(entry(number)));
        let other = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.put(entry(200))
        });
        let worker = thread::spawn({
            let queue = Arc::clone(&queue);
            move || {
                let (mut inlet, mut wheel) = (Inlet::default(), Wheel::default());
                let found = inlet.drain(queue.lane(), 9, &mut wheel);
                (inlet, wheel, found)
            }
        });
        queue.put(entry(102));
        other.join().unwrap();
        let (mut inlet, mut wheel, found) = worker.join().unwrap();
        inlet.drain(queue.lane(), 9, &mut wheel);
        check(&wheel.0, &[100, 101, 102, 200]);
        found
    });
}

#[test]
fn a_lane_is_never_found_empty_while_its_ring_is_moved_to_the_heap() {
    explore(["before", "meanwhile", "after"], || {
        let queue = Arc::new(Queue::new(0));
        (100..102).for_each(|number| queue.put(entry(number)));
        let producer = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.put(entry(102))
        });
        assert!(!queue.lane().is_empty());
        let end = match queue.lane().len() {
            2 => "before",
            3 => "after",
            _ => "meanwhile",
        };
        producer.join().unwrap();
        end
    });
}

#[test]
fn a_compaction_drops_the_dead_and_only_them() {
    explore(["dropped by the producer", "left to the worker"], || {
        let queue = Arc::new(Queue::new(3));
        let probes: Vec<_> = (0..3).map(|_| Probe::default()).collect();
        let arm = |queue: &Queue, number: u32| {
            let index = number as usize;
            arm_number(&queue.slots[index], number, probes[index].task(), 1)
        };
        (0..2).for_each(|number| queue.put(arm(&queue, number)));
        let user = thread::spawn({
            let queue = Arc::clone(&queue);
            move || assert!(queue.slots[0].cancel(|| ()))
        });
        let crowded = queue.push(arm(&queue, 2)) == Pushed::Crowded;
        user.join().unwrap();

        let (mut inlet, mut wheel) = (Inlet::default(), Wheel::default());
        let filed = inlet.drain(queue.lane(), 9, &mut wheel);
        let live: Vec<_> = wheel
            .0
            .iter()
            .filter(|entry| !queue.is_dead(**entry))
            .collect();
        assert_eq!(
            live.iter().map(|entry| entry.slot()).collect::<Vec<_>>(),
            [1, 2]
        );
        assert_eq!(
            crowded,
            filed == 3,
            "two that live are a crowd here, one is not"
        );
        (1..3).for_each(|index| assert!(queue.slots[index].disarm().is_some()));
        if filed == 2 {
            "dropped by the producer"
        } else {
            "left to the worker"
        }
    });
}

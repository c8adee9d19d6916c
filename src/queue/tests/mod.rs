//! The queue from both ends: an owner's pushes and what the reader gets. The slots and the wheel are made up here.

mod interrupted;
mod owner;
mod scan;
mod transfer;

use super::*;
use crate::entry::SlotId;
use std::sync::atomic::AtomicBool;

/// Slots, of which it is only known whether they live. An entry's slot is its number.
struct Slots(Vec<AtomicBool>);

impl Slots {
    fn new(count: usize) -> Slots {
        Slots((0..count).map(|_| AtomicBool::new(true)).collect())
    }

    fn kill(&self, number: u32) {
        self.0[number as usize].store(false, Ordering::Relaxed);
    }
}

impl Liveness for Slots {
    fn prefetch(&self, _: Entry) {}

    fn is_dead(&self, entry: Entry) -> bool {
        !self
            .0
            .get(entry.slot().number() as usize)
            .is_some_and(|live| live.load(Ordering::Relaxed))
    }
}

/// A wheel that remembers the numbers of what lived.
struct Wheel<'a> {
    slots: &'a Slots,
    filed: Vec<u32>,
    met: usize,
}

impl EntrySink for Wheel<'_> {
    fn prefetch(&self, _: Entry) {}

    fn insert(&mut self, entry: Entry) -> InsertOutcome {
        self.met += 1;
        if self.slots.is_dead(entry) {
            return InsertOutcome::Dropped;
        }
        self.filed.push(entry.slot().number());
        InsertOutcome::Inserted
    }
}

impl<'a> Wheel<'a> {
    fn new(slots: &'a Slots) -> Self {
        Wheel {
            slots,
            filed: Vec::new(),
            met: 0,
        }
    }
}

fn entry(number: u32, due: u64) -> Entry {
    Entry::new(Tick(due), 1, SlotId::from_number(number), 0)
}

fn push(queue: &PendingQueue, shard: u32, entry: Entry, slots: &Slots) {
    queue.push(shard, queue.shard(shard), entry, slots, || Tick(3));
}

/// All that is due by then.
fn soon(due: u64, now: u64) -> Take {
    let due = Tick(due);
    Take::Soon {
        due,
        near: due,
        now,
    }
}

fn take_all(queue: &PendingQueue, slots: &Slots) -> Vec<u32> {
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(slots));
    reader.look(queue, 0);
    reader.transfer(queue, Take::Everything, usize::MAX, &mut wheel);
    assert!(reader.is_drained());
    wheel.filed
}

fn take_the_rest(queue: &PendingQueue, reader: &mut Reader, wheel: &mut Wheel<'_>) -> usize {
    reader.look(queue, 0);
    let moved = reader.transfer(queue, Take::Everything, usize::MAX, wheel);
    assert!(reader.is_drained());
    moved
}

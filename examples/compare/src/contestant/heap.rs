//! `heap`: one binary heap of entries by due tick, with lazy deletion.
//!
//! It models the timer that most programs begin with: `BinaryHeap` (or `PriorityQueue`, `heapq`,
//! `container/heap`) and a thread that sleeps until the head is due. A cancelled timeout stays in the heap
//! until it comes to the head, or until more than half of all are such: then the heap is built anew without
//! them, in one go. Filing and firing cost some log₂(n) comparisons.
//!
//! In its favour: sixteen bytes an entry, compared by one integer, and no lock of its own.

use super::compared::Key;
use hashed_wheel::unstable::{Entry, Liveness, Tick, Wheel, WheelCounters};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::mem;

#[derive(Debug, Default)]
pub(crate) struct Heap {
    now: u64,
    entries: BinaryHeap<Item>,
}

/// The earliest is the greatest.
#[derive(Clone, Copy, Debug)]
struct Item(Entry);

impl Item {
    #[inline]
    fn key(&self) -> Reverse<Key> {
        Reverse(Key(self.0.due().0))
    }
}

impl Ord for Item {
    #[inline]
    fn cmp(&self, other: &Item) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Item {
    #[inline]
    fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Item {
    fn eq(&self, other: &Item) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Item {}

impl Wheel for Heap {
    #[inline]
    fn now(&self) -> Tick {
        Tick(self.now)
    }

    #[inline]
    fn len(&self) -> usize {
        self.entries.len()
    }

    #[inline]
    fn insert(&mut self, entry: Entry) {
        self.entries.push(Item(entry));
    }

    #[inline]
    fn next_expiration(&self) -> Option<Tick> {
        let head = self.entries.peek()?;
        Some(head.0.due().max(Tick(self.now + 1)))
    }

    fn advance(&mut self, Tick(to): Tick, due: &mut Vec<Entry>, _: &dyn Liveness) {
        self.now = to;
        while self.entries.peek().is_some_and(|head| head.0.due().0 <= to) {
            if let Some(Item(entry)) = self.entries.pop() {
                due.push(entry);
            }
        }
    }

    /// All at once: what is left of a heap without some of its entries has to be built anew.
    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize {
        let items = mem::take(&mut self.entries).into_vec();
        let looked = items.len();
        let mut entries: Vec<Entry> = items.into_iter().map(|item| item.0).collect();
        liveness.remove_dead(&mut entries);
        entries.shrink_to(2 * entries.len());
        let items: Vec<Item> = entries.into_iter().map(Item).collect();
        self.entries = items.into();
        looked
    }

    fn counters(&self) -> WheelCounters {
        WheelCounters {
            levels: 1,
            ..WheelCounters::default()
        }
    }

    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Item>()
    }
}

//! A `Mutex<BinaryHeap>` and a condition variable: what is written by hand second.
//!
//! Best use: as for the tree, a short `parking_lot` lock, a notification only for a new earliest
//! timeout, all that is due taken at once. A heap cannot remove from its middle, so the task lies
//! in a vector of slots with generations beside the heap: `cancel` empties the slot, and once more
//! than half of the heap is dead, the dead are swept out, so memory stays bounded. `reset` is a new
//! generation and a new entry for the same slot.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Contestant, Nanos, Producer, Task, Timer};

pub(crate) struct Heap;

impl Contestant for Heap {
    type Timer<T: Task> = Shared<T>;
    const RESETS: bool = true;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    due: u64,
    key: Key,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    generation: u64,
    slot: usize,
}

struct Slot<T> {
    generation: u64,
    task: Option<T>,
}

struct Queue<T> {
    heap: BinaryHeap<Reverse<Entry>>,
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

impl<T> Queue<T> {
    /// Whether the new timeout is the earliest, and its key.
    fn insert(&mut self, due: u64, task: T) -> (bool, Key) {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(Slot {
                generation: 0,
                task: None,
            });
        }
        self.slots[slot].task = Some(task);
        let generation = self.slots[slot].generation;
        let key = Key { generation, slot };
        let earliest = self.heap.peek().is_none_or(|first| due < first.0.due);
        self.heap.push(Reverse(Entry { due, key }));
        (earliest, key)
    }

    fn remove(&mut self, key: Key) -> Option<T> {
        let slot = &mut self.slots[key.slot];
        if slot.generation != key.generation {
            return None;
        }
        slot.generation += 1;
        self.free.push(key.slot);
        slot.task.take()
    }

    /// Whether the timeout is the earliest now, and its new key; `None` if it has fired.
    fn reset(&mut self, key: Key, due: u64) -> Option<(bool, Key)> {
        let slot = &mut self.slots[key.slot];
        if slot.generation != key.generation {
            return None;
        }
        slot.generation += 1;
        let generation = slot.generation;
        let key = Key { generation, ..key };
        let earliest = self.heap.peek().is_none_or(|first| due < first.0.due);
        self.heap.push(Reverse(Entry { due, key }));
        self.sweep();
        Some((earliest, key))
    }

    fn cancel(&mut self, key: Key) -> Option<T> {
        let task = self.remove(key);
        self.sweep();
        task
    }

    fn sweep(&mut self) {
        let live = self.slots.len() - self.free.len();
        if self.heap.len() > 2 * live + 64 {
            let slots = &self.slots;
            self.heap
                .retain(|Reverse(entry)| slots[entry.key.slot].generation == entry.key.generation);
        }
    }

    fn take_due(&mut self, now: u64, due: &mut Vec<T>) {
        while let Some(Reverse(entry)) = self.heap.peek().copied()
            && entry.due <= now
        {
            self.heap.pop();
            due.extend(self.remove(entry.key));
        }
    }
}

struct Inner<T> {
    clock: Nanos,
    queue: Mutex<Queue<T>>,
    earlier: Condvar,
}

pub(crate) struct Shared<T>(Arc<Inner<T>>);

impl<T: Task> Timer<T> for Shared<T> {
    type Producer<'a> = &'a Self;

    fn new(_tick: Duration, _slots: usize) -> Self {
        let queue = Queue {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
        };
        let inner = Arc::new(Inner {
            clock: Nanos::start(),
            queue: Mutex::new(queue),
            earlier: Condvar::new(),
        });
        let worker = Arc::clone(&inner);
        std::thread::Builder::new()
            .name("heap-timer".to_owned())
            .spawn(move || run_due(&worker))
            .expect("a timer thread");
        Self(inner)
    }

    fn producer(&self) -> &Self {
        self
    }
}

fn run_due<T: Task>(inner: &Inner<T>) {
    let mut due = Vec::new();
    let mut queue = inner.queue.lock();
    loop {
        queue.take_due(inner.clock.now(), &mut due);
        if due.is_empty() {
            let first = queue.heap.peek().map(|first| first.0.due);
            match first {
                None => inner.earlier.wait(&mut queue),
                Some(first) => {
                    let first = inner.clock.instant(first);
                    inner.earlier.wait_until(&mut queue, first);
                }
            }
        } else {
            MutexGuard::unlocked(&mut queue, || due.drain(..).for_each(Task::run));
        }
    }
}

impl<T: Task> Producer<T> for &Shared<T> {
    type Handle = Key;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Key {
        let due = self.0.clock.after(delay);
        let (earliest, key) = self.0.queue.lock().insert(due, task);
        if earliest {
            self.0.earlier.notify_one();
        }
        key
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        let removed = self.0.queue.lock().cancel(key);
        drop(removed);
    }
    #[inline]
    fn reset(&mut self, key: &mut Key, delay: Duration) {
        let due = self.0.clock.after(delay);
        let moved = self.0.queue.lock().reset(*key, due);
        if let Some((earliest, moved)) = moved {
            *key = moved;
            if earliest {
                self.0.earlier.notify_one();
            }
        }
    }
}

//! The pending queue: how entries get from any thread to the worker.
//!
//! It is made of a few *lanes*; a thread keeps to one, so that two threads seldom meet. A lane is a
//! lock-free [ring](crate::ring), and a *heap* of entries that were moved out of it, under a lock.
//!
//! A push that finds the ring full moves all of it to the heap and goes on: once in [`RING`] pushes,
//! so the usual push is one locked instruction. The worker takes the heap, and then the ring.
//!
//! # Order
//!
//! What one thread pushes is filed in the order it was pushed: the ring is in order, and everything in
//! the heap was in the ring before. Ring and heap are emptied only under the heap's lock.
//!
//! # Rubbish
//!
//! Entries of timeouts that were cancelled meanwhile stay where they are until they are met. When the
//! heap has grown to twice what lived at the last count, the producer that finds it so drops the dead
//! ones: a lane stays below a constant plus twice the live ones, also when the worker is held up and
//! nobody else would. And it is cheap: the slots are those that this producer has just used, still in its
//! cache, from which the worker would have to fetch them. A timeout that is cancelled soon never reaches
//! the worker.
//!
//! # Fences
//!
//! The ring's tail is moved on by a sequentially consistent operation before the entry is in place,
//! and [`Lane::is_empty`] reads it: whoever finds a lane empty after it has announced something (a plan
//! to sleep, a stop) can be sure that a later pusher will see what it has announced. The protocols of
//! [`crate::sleep`] and [`crate::launch`] build on that.

use crate::entry::Entry;
use crate::ring::Ring;
use crate::sync::{AtomicUsize, Mutex, Ordering};
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;

/// Entries that a ring holds.
const RING: usize = 1024;
/// Entries that a heap holds before a producer looks for dead ones among them.
const COMPACT_FROM: usize = 16 * RING;
/// Live entries in a heap that are worth waking the worker for.
const WORTH_A_WAKE: usize = COMPACT_FROM / 2;
/// How often a producer yields to one that was interrupted in a push, before it sleeps.
const YIELDS: usize = 64;
/// How far ahead slots are fetched into the cache.
const LOOKAHEAD: usize = 8;

/// A lane for each processor, as far as it pays.
pub(crate) fn lane_count() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.next_power_of_two().min(8)
}

/// What the pusher has to know.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[must_use]
pub(crate) enum Pushed {
    /// The entry is in the queue.
    Queued,
    /// The entry is in the queue, and the worker should come and take a load off it.
    Crowded,
}

/// One lane of the queue.
#[repr(align(128))]
pub(crate) struct Lane {
    ring: Ring,
    heap: Mutex<Heap>,
    /// The number of entries in the heap, written under its lock: before they are gone from the ring,
    /// and after they are gone from the heap.
    heaped: AtomicUsize,
}

struct Heap {
    entries: VecDeque<Entry>,
    compact_at: usize,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane {
            ring: Ring::new(RING),
            heap: Mutex::new(Heap {
                entries: VecDeque::new(),
                compact_at: COMPACT_FROM,
            }),
            heaped: AtomicUsize::new(0),
        }
    }

    /// Puts an entry into the queue. `is_dead` tells whether an entry met on the way can be dropped.
    #[inline]
    pub(crate) fn push(&self, entry: Entry, is_dead: impl Fn(Entry) -> bool) -> Pushed {
        if self.ring.push(entry) {
            Pushed::Queued
        } else {
            self.push_slow(entry, is_dead)
        }
    }

    #[cold]
    fn push_slow(&self, entry: Entry, is_dead: impl Fn(Entry) -> bool) -> Pushed {
        let mut pushed = Pushed::Queued;
        for tries in 0.. {
            if self.make_room(&is_dead) == Pushed::Crowded {
                pushed = Pushed::Crowded;
            }
            if self.ring.push(entry) {
                break;
            }
            // Other threads have filled the ring again, or one of them was interrupted in a push and
            // has to come back to it.
            if tries < YIELDS {
                thread::yield_now();
            } else {
                thread::sleep(Duration::from_micros(50));
            }
        }
        pushed
    }

    /// Moves the ring to the heap, and drops the dead ones from it if it has grown.
    fn make_room(&self, is_dead: impl Fn(Entry) -> bool) -> Pushed {
        let mut heap = self.heap.lock();
        self.empty_ring(&mut heap);
        if heap.entries.len() < heap.compact_at {
            return Pushed::Queued;
        }
        heap.entries.retain(|&entry| !is_dead(entry));
        let live = heap.entries.len();
        heap.compact_at = (2 * live).max(COMPACT_FROM);
        self.heaped.store(live, Ordering::Release);
        if live > WORTH_A_WAKE {
            Pushed::Crowded
        } else {
            Pushed::Queued
        }
    }

    fn empty_ring(&self, heap: &mut Heap) {
        // Said before it is done: who finds the ring empty must see that the heap is not.
        let entries = self.ring.len();
        self.heaped
            .store(heap.entries.len() + entries, Ordering::Release);
        heap.entries
            .extend((0..entries).map_while(|_| self.ring.pop()));
        self.heaped.store(heap.entries.len(), Ordering::Release);
    }

    /// Whether nothing waits. Sequentially consistent with the pushes: see the module's head.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0 && self.heaped.load(Ordering::Acquire) == 0
    }

    /// About how many entries are waiting.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a figure for people.
        self.ring.len() + self.heaped.load(Ordering::Relaxed)
    }

    /// Takes everything out, in order. The buffer that `into` had is used for what comes next.
    fn take(&self, into: &mut VecDeque<Entry>) {
        debug_assert!(into.is_empty());
        let mut heap = self.heap.lock();
        self.empty_ring(&mut heap);
        into.shrink_to(COMPACT_FROM);
        std::mem::swap(&mut heap.entries, into);
        heap.compact_at = COMPACT_FROM;
        self.heaped.store(0, Ordering::Release);
    }

    /// Forgets all entries: the timer has stopped, and its slab says what was pending.
    pub(crate) fn clear(&self) {
        self.take(&mut VecDeque::new());
    }

    /// Bytes held, used or reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.bytes() + self.heap.lock().entries.capacity() * size_of::<Entry>()
    }
}

/// What became of an entry that was offered to be filed.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Filed {
    /// It is in the wheel now: it counts against the limit of a tick.
    InWheel,
    /// It was dead.
    Dropped,
}

/// Where entries go that are taken out of the queue.
pub(crate) trait Filer {
    /// Says that this entry will be filed soon.
    fn prefetch(&self, entry: Entry);
    /// Takes the entry, or drops it.
    fn file(&mut self, entry: Entry) -> Filed;
}

/// The worker's end of one lane: what it has taken out and not filed yet.
#[derive(Default)]
pub(crate) struct Inlet {
    entries: VecDeque<Entry>,
}

impl Inlet {
    /// Whether nothing waits, here or in the lane.
    pub(crate) fn is_empty(&self, lane: &Lane) -> bool {
        self.entries.is_empty() && lane.is_empty()
    }

    /// Files entries, in order, until `quota` of them have gone into the wheel or all that was there at
    /// the beginning has been seen. Returns how many went.
    pub(crate) fn drain(&mut self, lane: &Lane, quota: usize, wheel: &mut impl Filer) -> usize {
        let filed = self.file_some(quota, wheel);
        if filed == quota || lane.is_empty() {
            return filed;
        }
        lane.take(&mut self.entries);
        filed + self.file_some(quota - filed, wheel)
    }

    fn file_some(&mut self, quota: usize, wheel: &mut impl Filer) -> usize {
        let (mut filed, mut seen) = (0, 0);
        while seen < self.entries.len() && filed < quota {
            if let Some(&ahead) = self.entries.get(seen + LOOKAHEAD) {
                wheel.prefetch(ahead);
            }
            filed += usize::from(wheel.file(self.entries[seen]) == Filed::InWheel);
            seen += 1;
        }
        self.entries.drain(..seen);
        filed
    }
}

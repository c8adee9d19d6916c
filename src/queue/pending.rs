//! The pending queue: how entries get from any thread to the worker.
//!
//! It is made of a few *lanes*; a thread keeps to one, so that two threads seldom meet. A lane is a
//! lock-free [ring](crate::queue::ring), and a *heap* of entries that were moved out of it, under a lock.
//!
//! A push that finds the ring full moves all of it to the heap and goes on: once in [`RING`] pushes,
//! so the usual push is one locked instruction. The worker takes the heap, and then the ring.
//!
//! # Order
//!
//! What one thread pushes is filed in the order it was pushed: the ring is in order, and everything in
//! the heap was in the ring before. Ring and heap are emptied only under the heap's lock.
//!
//! # When the worker comes
//!
//! It empties the lanes whenever it is awake. It is woken for an entry that is due before it would look
//! by itself ([`crate::queue::sleep`]), and when the lanes hold so many live entries that moving them all at the
//! last moment would make it late. The heap notes since when it has been waiting, because the boundaries
//! that have passed meanwhile each had room for some of it.
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
//! [`crate::queue::sleep`] and [`crate::shared::launch`] build on that.

use crate::entry::Entry;
use crate::queue::ring::Ring;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, thread};
use std::mem;
use std::sync::OnceLock;
use std::time::Duration;

/// Whether interleavings are explored, in which everything has to be small.
const MODEL: bool = cfg!(hashed_wheel_loom);
/// Entries that a ring holds.
const RING: usize = if MODEL { 2 } else { 1024 };
/// Entries that a heap holds before a producer looks for dead ones among them.
const COMPACT_FROM: usize = if MODEL { 2 } else { 16 * RING };
/// Live entries that are worth waking the worker for, in the heaps of as many lanes as there are
/// processors. It moves them to the wheel in a few milliseconds, which is as late as it can be because of them.
const CROWD: usize = if MODEL { 1 } else { 256 * RING };
/// How often a producer yields to one that was interrupted in a push, before it sleeps.
const YIELDS: usize = 64;
/// How far ahead slots are fetched into the cache.
const LOOKAHEAD: usize = 8;
/// What [`Lane::waiting_since`] reads while the heap is empty.
const NOT_WAITING: u64 = u64::MAX;

/// Most lanes that a timer has.
const MOST_LANES: usize = 8;

/// How many producers can be running at the same time, as far as it matters here. Asked once: the answer
/// may change, and a timer must have as many inlets as lanes.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        processors.next_power_of_two().min(MOST_LANES)
    })
}

/// Twice as many as processors: with more threads than processors, two that run at the same time then
/// seldom share a lane.
fn lane_count() -> usize {
    let lanes = if MODEL { 1 } else { 2 * processors() };
    lanes.min(MOST_LANES)
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

/// What a lane has to know of the timer it belongs to.
pub(crate) trait Liveness {
    /// The time on the timer's clock.
    fn now(&self) -> u64;
    /// Says that this entry will be asked about soon.
    fn prefetch(&self, entry: Entry);
    /// Whether the entry can never fire anything, and is to be dropped.
    fn is_dead(&self, entry: Entry) -> bool;
}

/// One lane of the queue.
#[repr(align(128))]
pub(crate) struct Lane {
    ring: Ring,
    heap: Mutex<Heap>,
    /// The number of entries in the heap, written under its lock: before they are gone from the ring,
    /// and after they are gone from the heap.
    heaped: AtomicUsize,
    /// When the heap got the first of the entries that are in it, written under its lock.
    waiting_since: AtomicU64,
}

struct Heap {
    entries: Vec<Entry>,
    compact_at: usize,
    /// Live entries that are worth waking the worker for.
    crowd: usize,
}

impl Lane {
    /// One of those that so many processors push to at the same time.
    fn new(processors: usize) -> Lane {
        Lane {
            ring: Ring::new(RING),
            heap: Mutex::new(Heap {
                entries: Vec::new(),
                compact_at: COMPACT_FROM,
                crowd: CROWD / processors,
            }),
            heaped: AtomicUsize::new(0),
            waiting_since: AtomicU64::new(NOT_WAITING),
        }
    }

    /// All lanes of a timer.
    pub(crate) fn all() -> Box<[Lane]> {
        (0..lane_count()).map(|_| Lane::new(processors())).collect()
    }

    /// Puts an entry into the queue.
    #[inline]
    pub(crate) fn push(&self, entry: Entry, timer: &impl Liveness) -> Pushed {
        if self.ring.push(entry) {
            Pushed::Queued
        } else {
            self.push_slow(entry, timer)
        }
    }

    #[cold]
    fn push_slow(&self, entry: Entry, timer: &impl Liveness) -> Pushed {
        let mut pushed = Pushed::Queued;
        for tries in 0.. {
            if self.make_room(timer) == Pushed::Crowded {
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
    fn make_room(&self, timer: &impl Liveness) -> Pushed {
        let now = timer.now();
        let mut heap = self.heap.lock();
        if heap.entries.is_empty() {
            // Relaxed, here and elsewhere: a hint, which orders nothing.
            self.waiting_since.store(now, Ordering::Relaxed);
        }
        self.empty_ring(&mut heap);
        if heap.entries.len() < heap.compact_at {
            return Pushed::Queued;
        }
        let counted = drop_dead(&mut heap.entries, timer);
        let live = heap.entries.len();
        self.heaped.store(live, Ordering::Release);
        if !counted {
            return Pushed::Queued;
        }
        heap.compact_at = (2 * live).max(COMPACT_FROM);
        if live > heap.crowd {
            Pushed::Crowded
        } else {
            Pushed::Queued
        }
    }

    /// Moves the ring to the heap; whether that was all of it, or a push is under way.
    fn empty_ring(&self, heap: &mut Heap) -> bool {
        // Said before it is done: who finds the ring empty must see that the heap is not.
        let entries = self.ring.len();
        self.heaped
            .store(heap.entries.len() + entries, Ordering::Release);
        let before = heap.entries.len();
        heap.entries
            .extend((0..entries).map_while(|_| self.ring.pop()));
        self.heaped.store(heap.entries.len(), Ordering::Release);
        heap.entries.len() == before + entries
    }

    /// Whether nothing waits. Sequentially consistent with the pushes: see the module's head.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.len() == 0 && self.heaped.load(Ordering::Acquire) == 0
    }

    /// Since when entries have been waiting that did not fit the ring, on the timer's clock.
    pub(crate) fn waiting_since(&self) -> Option<u64> {
        let since = self.waiting_since.load(Ordering::Relaxed);
        (since != NOT_WAITING).then_some(since)
    }

    /// About how many entries are waiting.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a figure for people.
        self.ring.len() + self.heaped.load(Ordering::Relaxed)
    }

    /// Takes everything out, in order; whether that was all, or a push is under way. The buffer that
    /// `into` had is used for what comes next.
    fn take(&self, into: &mut Vec<Entry>) -> bool {
        debug_assert!(into.is_empty());
        let mut heap = self.heap.lock();
        let all = self.empty_ring(&mut heap);
        into.shrink_to(COMPACT_FROM);
        mem::swap(&mut heap.entries, into);
        heap.compact_at = COMPACT_FROM;
        self.waiting_since.store(NOT_WAITING, Ordering::Relaxed);
        self.heaped.store(0, Ordering::Release);
        all
    }

    /// Forgets all entries: the timer has stopped, and its slab says what was pending.
    pub(crate) fn clear(&self) {
        self.take(&mut Vec::new());
    }

    /// Bytes held, used or reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.bytes() + self.heap.lock().entries.capacity() * size_of::<Entry>()
    }
}

/// Drops dead entries, in order; whether it has seen all of them.
///
/// Timeouts of one length end in about the order in which they began, and then the dead come first. So
/// it stops early when three eighths are gone and the last [`RING`] were all alive: what is left will
/// be seen when it has come to the front.
fn drop_dead(entries: &mut Vec<Entry>, timer: &impl Liveness) -> bool {
    let enough = entries.len() / 8 * 3;
    let (mut seen, mut kept, mut alive_in_a_row) = (0, 0, 0);
    while seen < entries.len() && (alive_in_a_row < RING || seen - kept < enough) {
        if let Some(&ahead) = entries.get(seen + LOOKAHEAD) {
            timer.prefetch(ahead);
        }
        if timer.is_dead(entries[seen]) {
            alive_in_a_row = 0;
        } else {
            entries[kept] = entries[seen];
            kept += 1;
            alive_in_a_row += 1;
        }
        seen += 1;
    }
    let all = seen == entries.len();
    entries.drain(kept..seen);
    all
}

/// What became of an entry that was offered to be filed.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum InsertOutcome {
    /// It is in the wheel now: it counts against the limit of a tick.
    InWheel,
    /// It was dead.
    Dropped,
}

/// Where entries go that are taken out of the queue.
pub(crate) trait EntrySink {
    /// Says that this entry will be filed soon.
    fn prefetch(&self, entry: Entry);
    /// Takes the entry, or drops it.
    fn file(&mut self, entry: Entry) -> InsertOutcome;
}

/// The worker's end of one lane: what it has taken out and not filed yet.
#[derive(Default)]
pub(crate) struct Inlet {
    entries: Vec<Entry>,
    /// How many of them have been seen to.
    seen: usize,
    /// A push was under way when they were taken out: what came before it may still be in the lane.
    incomplete: bool,
}

impl Inlet {
    /// One for each lane of a timer.
    pub(crate) fn all() -> Box<[Inlet]> {
        (0..lane_count()).map(|_| Inlet::default()).collect()
    }

    /// How many entries have been taken out and not filed.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.seen
    }

    /// Whether all that was pushed before the last [`Inlet::drain`] has been filed.
    pub(crate) fn is_drained(&self) -> bool {
        self.entries.is_empty() && !self.incomplete
    }

    /// Whether nothing waits, here or in the lane.
    pub(crate) fn is_empty(&self, lane: &Lane) -> bool {
        self.entries.is_empty() && lane.is_empty()
    }

    /// Files entries, in order, until `quota` of them have gone into the wheel or all that was there at
    /// the beginning has been seen. Returns how many went.
    pub(crate) fn drain(&mut self, lane: &Lane, quota: usize, wheel: &mut impl EntrySink) -> usize {
        let filed = self.file_some(quota, wheel);
        if !self.entries.is_empty() {
            return filed;
        }
        self.incomplete = !lane.is_empty() && !lane.take(&mut self.entries);
        filed + self.file_some(quota - filed, wheel)
    }

    fn file_some(&mut self, quota: usize, wheel: &mut impl EntrySink) -> usize {
        let mut filed = 0;
        while self.seen < self.entries.len() && filed < quota {
            if let Some(&ahead) = self.entries.get(self.seen + LOOKAHEAD) {
                wheel.prefetch(ahead);
            }
            filed += usize::from(wheel.file(self.entries[self.seen]) == InsertOutcome::InWheel);
            self.seen += 1;
        }
        if self.seen == self.entries.len() {
            self.entries.clear();
            self.seen = 0;
        }
        filed
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

#[cfg(all(test, not(hashed_wheel_loom)))]
mod lane_tests;

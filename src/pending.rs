//! The pending queue: how entries get from any thread to the worker.
//!
//! It is made of a few *lanes*; a thread keeps to one, so that two threads seldom meet. A lane is a
//! lock-free ring, with an overflow behind it for when the ring is full.
//!
//! # Order
//!
//! What one thread pushes is filed in the order it was pushed. Ring and overflow are each in order;
//! between them two rules keep it:
//!
//! - *sticky*: while anything of the overflow has not been filed ([`Lane::overflowing`] ≠ 0), every
//!   push goes to the overflow. So an entry in the ring is never younger than one of the same thread
//!   in the overflow.
//! - *overflow first, filed last*: the worker takes the overflow out **before** it goes through the
//!   ring, and files it only when it has gone through all that the ring held. What a thread pushed
//!   into the ring before its first overflow is in the ring by then, hence filed before.
//!
//! # Rubbish
//!
//! Entries of timeouts that were cancelled meanwhile stay where they are until they are met. The
//! ring is bounded. A producer that finds the overflow grown to twice what lived at the last count
//! drops the dead ones itself, under the overflow's lock: so the overflow stays below
//! [`COMPACT_FROM`] plus twice the live ones, also when the worker is held up and nobody else would.
//! The slots are the producer's own, still in its cache; the worker would have to fetch them.
//!
//! # Fences
//!
//! Both [`Lane::pushed`] and [`Lane::overflowing`] are changed by a sequentially consistent
//! read-modify-write *after* the entry is in place. The sleep protocol and the stop protocol build
//! on that; crossbeam's own tail happens to be one, but does not promise it.

use crate::entry::Entry;
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crossbeam_queue::ArrayQueue;
use std::collections::VecDeque;
use std::mem;

/// Entries that a ring holds.
const RING: usize = 1024;
/// Entries that an overflow holds before a producer looks for dead ones among them.
const COMPACT_FROM: usize = 4096;
/// Live entries in an overflow that are worth waking the worker for.
const WORTH_A_WAKE: usize = COMPACT_FROM / 2;

/// Entries that the worker's buffer for the overflow may keep room for.
const KEPT_BACKLOG: usize = 4 * COMPACT_FROM;
/// How often the worker looks whether a push that is under way has ended.
const LOOKS: usize = 32;
/// How far ahead slots are fetched into the cache.
const LOOKAHEAD: usize = 8;

/// What the pusher has to know.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
#[must_use]
pub(crate) enum Pushed {
    /// The entry is in the queue.
    Queued,
    /// The entry is in the queue, and the worker should come and take a load off it.
    Crowded,
}

/// One lane of the queue: the producers' end.
#[repr(align(128))]
pub(crate) struct Lane {
    ring: ArrayQueue<Entry>,
    overflow: Mutex<Overflow>,
    tallies: Tallies,
}

#[repr(align(128))]
struct Tallies {
    /// Entries that were ever pushed into the ring. Only grows.
    pushed: AtomicU64,
    /// Entries that went to the overflow and have been neither filed nor dropped.
    overflowing: AtomicUsize,
}

struct Overflow {
    entries: VecDeque<Entry>,
    compact_at: usize,
}

impl Lane {
    pub(crate) fn new() -> Lane {
        Lane {
            ring: ArrayQueue::new(RING),
            overflow: Mutex::new(Overflow {
                entries: VecDeque::new(),
                compact_at: COMPACT_FROM,
            }),
            tallies: Tallies {
                pushed: AtomicU64::new(0),
                overflowing: AtomicUsize::new(0),
            },
        }
    }

    /// Puts an entry into the queue. `is_dead` tells whether an entry met on the way can be dropped.
    #[inline]
    pub(crate) fn push(&self, entry: Entry, is_dead: impl Fn(Entry) -> bool) -> Pushed {
        // Acquire is not needed: if this thread has pushed to the overflow, it sees its own addition.
        if self.tallies.overflowing.load(Ordering::Relaxed) == 0 && self.ring.push(entry).is_ok() {
            self.tallies.pushed.fetch_add(1, Ordering::SeqCst);
            return Pushed::Queued;
        }
        self.push_overflow(entry, is_dead)
    }

    fn push_overflow(&self, entry: Entry, is_dead: impl Fn(Entry) -> bool) -> Pushed {
        let mut overflow = self.overflow.lock();
        overflow.entries.push_back(entry);
        self.tallies.overflowing.fetch_add(1, Ordering::SeqCst);
        if overflow.entries.len() < overflow.compact_at {
            return Pushed::Queued;
        }
        let before = overflow.entries.len();
        overflow.entries.retain(|&entry| !is_dead(entry));
        let live = overflow.entries.len();
        overflow.compact_at = (2 * live).max(COMPACT_FROM);
        self.tallies
            .overflowing
            .fetch_sub(before - live, Ordering::SeqCst);
        if live > WORTH_A_WAKE {
            Pushed::Crowded
        } else {
            Pushed::Queued
        }
    }

    /// Makes every push that happened before this call visible to the caller, or else lets the
    /// pusher see what the caller wrote before it: the scan of `stop` begins with this.
    pub(crate) fn synchronize(&self) {
        self.tallies.pushed.load(Ordering::SeqCst);
        self.tallies.overflowing.load(Ordering::SeqCst);
    }

    /// About how many entries are waiting.
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a figure for people.
        self.ring.len() + self.tallies.overflowing.load(Ordering::Relaxed)
    }

    /// Forgets all entries: the timer has stopped, and its slab says what was pending.
    pub(crate) fn clear(&self) {
        drop(mem::take(&mut self.overflow.lock().entries));
    }

    /// Bytes held, used or reserved.
    pub(crate) fn bytes(&self) -> usize {
        // A cell of the ring holds a stamp beside the entry.
        RING * (size_of::<Entry>() + size_of::<usize>())
            + self.overflow.lock().entries.capacity() * size_of::<Entry>()
    }
}

/// The worker's end of one lane.
///
/// What is taken out goes `ring → front → wheel` and `overflow → backlog → wheel`, and the backlog
/// waits until the front is empty.
#[derive(Default)]
pub(crate) struct Inlet {
    /// Entries that were ever taken out of the ring.
    taken: u64,
    /// What was taken out of the ring and has not been filed.
    front: VecDeque<Entry>,
    /// What was taken out of the overflow and has not been filed.
    backlog: VecDeque<Entry>,
    /// The ring has been gone through since the backlog was taken.
    ring_passed: bool,
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

impl Inlet {
    /// Whether nothing waits. Pairs with the pushers' sequentially consistent additions.
    pub(crate) fn is_empty(&self, lane: &Lane) -> bool {
        lane.tallies.pushed.load(Ordering::SeqCst) == self.taken
            && lane.tallies.overflowing.load(Ordering::SeqCst) == 0
            && self.front.is_empty()
    }

    /// Takes entries out and files them, in order, until `quota` of them have gone into the wheel or
    /// all that was there at the beginning has been seen. Returns how many went.
    pub(crate) fn drain(&mut self, lane: &Lane, quota: usize, filer: &mut impl Filer) -> usize {
        if self.backlog.is_empty() && lane.tallies.overflowing.load(Ordering::SeqCst) != 0 {
            self.take_overflow(lane);
        }
        if self.front.is_empty() {
            self.take_ring(lane);
        }
        let (mut filed, _) = file_some(&mut self.front, quota, filer);
        if self.front.is_empty() && self.ring_passed && !self.backlog.is_empty() {
            let (more, seen) = file_some(&mut self.backlog, quota - filed, filer);
            filed += more;
            // Only now may producers go back to the ring: what they overflowed is filed.
            lane.tallies.overflowing.fetch_sub(seen, Ordering::SeqCst);
        }
        filed
    }

    fn take_overflow(&mut self, lane: &Lane) {
        let mut overflow = lane.overflow.lock();
        if self.backlog.capacity() > KEPT_BACKLOG {
            self.backlog = VecDeque::new();
        }
        mem::swap(&mut self.backlog, &mut overflow.entries);
        overflow.compact_at = COMPACT_FROM;
        self.ring_passed = false;
    }

    /// Empties the ring, unless a push is under way: popping might then have to wait for its thread
    /// to be scheduled. `pushed` counts the pushes that are done, the ring's length those that
    /// were begun; if the length, read later, is no larger, none is under way in between.
    fn take_ring(&mut self, lane: &Lane) {
        for _ in 0..LOOKS {
            let done = lane.tallies.pushed.load(Ordering::SeqCst) - self.taken;
            if lane.ring.len() as u64 == done {
                self.front.extend((0..done).map_while(|_| lane.ring.pop()));
                self.taken += done;
                self.ring_passed = true;
                return;
            }
            std::hint::spin_loop();
        }
    }
}

/// Files from the front of `entries` until `quota` of them have gone into the wheel. Returns how
/// many went, and how many were removed from `entries`.
fn file_some(
    entries: &mut VecDeque<Entry>,
    quota: usize,
    filer: &mut impl Filer,
) -> (usize, usize) {
    let (mut filed, mut seen) = (0, 0);
    while seen < entries.len() && filed < quota {
        if let Some(&ahead) = entries.get(seen + LOOKAHEAD) {
            filer.prefetch(ahead);
        }
        filed += usize::from(filer.file(entries[seen]) == Filed::InWheel);
        seen += 1;
    }
    entries.drain(..seen);
    (filed, seen)
}

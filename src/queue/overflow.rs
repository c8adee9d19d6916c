//! What the owner of a shard has promoted: batches, on their way to the timer thread.
//!
//! They go through *segments*, each an `ArrayQueue` of crossbeam's that is filled once, emptied once, and then used again by
//! whichever shard needs one:
//!
//! ```text
//!            the timer thread pops                       the owner pushes
//!   ┌──────────────┐        ┌──────────────┐        ┌──────────────┐
//!   │ · · · █ █ █  │ ─next→ │ █ █ █ █ █ █  │ ─next→ │ █ █          │
//!   └──────────────┘        └──────────────┘        └──────────────┘
//! ```
//!
//! # Nobody waits
//!
//! - A pop of `ArrayQueue` waits for a push that has claimed its place and not written it yet: the timer thread pops only what
//!   was announced, a count that is stored after the push has returned.
//! - A push waits for a pop that has claimed its place and not emptied it yet: a segment that is filled again was released by the
//!   timer thread after its last pop had returned.
//! - There is one pusher, the owner, and one popper, the timer thread.
//!
//! # The timer thread neither allocates nor frees
//!
//! An allocator may have a lock, and a producer may be suspended while it holds it: glibc frees a block under the lock of the
//! arena that it came from. So segments are allocated by owners and kept as long as the timer; the timer thread releases a
//! number.

use super::shard::Batch;
use crate::memory::{BoxTable, FreeSet};
use crate::sync::{ArrayQueue, AtomicU32, CachePadded, Ordering};

/// Batches of a segment: about a kilobyte.
const BATCHES: u32 = if cfg!(hashed_wheel_loom) { 1 } else { 31 };
/// The number of no segment.
const NONE: u32 = 0;

/// The segments of one timer.
pub(super) struct Segments {
    table: BoxTable<Segment>,
    free: FreeSet,
}

struct Segment {
    batches: ArrayQueue<Batch>,
    /// The segment that was begun when this one was full. Relaxed: it comes before a batch that is announced.
    next: AtomicU32,
}

impl Segments {
    pub(super) fn new() -> Segments {
        let free = FreeSet::new();
        free.claim_bits(0, 1 << NONE);
        Segments {
            table: BoxTable::new(),
            free,
        }
    }

    /// A segment for the caller alone, which is empty.
    fn claim(&self) -> (u32, &Segment) {
        let number = self.free.claim_one(0);
        let make = || Segment {
            batches: ArrayQueue::new(BATCHES as usize),
            next: AtomicU32::new(NONE),
        };
        (number, self.table.get_or_insert(number, make))
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> usize {
        let batch = size_of::<Batch>() + size_of::<usize>();
        let each = size_of::<Segment>() + BATCHES as usize * batch;
        self.table.used().saturating_sub(1) as usize * each
    }

    /// How many are in use.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> u32 {
        self.free.claimed(0).count_ones() - 1
    }
}

/// One end of a shard's chain of segments: where it is, and how many batches have passed through that segment.
#[derive(Default)]
struct End {
    segment: AtomicU32,
    batches: AtomicU32,
}

/// The batches of one shard.
#[derive(Default)]
pub(super) struct Overflow {
    /// Only the owner uses it.
    tail: CachePadded<End>,
    /// Only the timer thread uses it.
    head: CachePadded<End>,
    /// The first segment that was ever used: what comes after none.
    first: AtomicU32,
}

impl Overflow {
    /// Appends a batch. For the owner. It reaches the timer thread when it is announced.
    pub(super) fn push(&self, batch: Batch, segments: &Segments) {
        // Relaxed throughout: ends belong to one thread, and change hands with the shard.
        let End { segment, batches } = &*self.tail;
        let mut place = segments.table.get(segment.load(Ordering::Relaxed));
        let mut filled = batches.load(Ordering::Relaxed);
        if place.is_none() || filled == BATCHES {
            let (number, next) = segments.claim();
            let link = place.map_or(&self.first, |full| &full.next);
            link.store(number, Ordering::Relaxed);
            segment.store(number, Ordering::Relaxed);
            (place, filled) = (Some(next), 0);
        }
        let pushed = place.map(|place| place.batches.push(batch));
        debug_assert!(matches!(pushed, Some(Ok(()))), "a new segment is empty");
        batches.store(filled + 1, Ordering::Relaxed);
    }

    /// Takes the oldest batch. For the timer thread, which knows that one more has been announced than it has taken.
    pub(super) fn pop(&self, segments: &Segments) -> Option<Batch> {
        let End { segment, batches } = &*self.head;
        let mut number = segment.load(Ordering::Relaxed);
        let mut emptied = batches.load(Ordering::Relaxed);
        if number == NONE {
            number = self.first.load(Ordering::Relaxed);
            segment.store(number, Ordering::Relaxed);
        } else if emptied == BATCHES {
            let next = segments.table.get(number)?.next.load(Ordering::Relaxed);
            segments.free.release_one(number);
            segment.store(next, Ordering::Relaxed);
            (number, emptied) = (next, 0);
        }
        let batch = segments.table.get(number)?.batches.pop();
        batches.store(emptied + 1, Ordering::Relaxed);
        batch
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

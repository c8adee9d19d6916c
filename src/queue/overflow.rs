//! What the owner of a shard has promoted: batches, on their way to the timer thread.
//!
//! They go through chains of *segments*, each an `ArrayQueue` of crossbeam's that is filled once, emptied once, and then used again by
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
//! - There is one pusher, the owner, and one popper, the timer thread; of a chain that [`super::compact`] has put out of use,
//!   the owner.
//!
//! # The timer thread neither allocates nor frees segments
//!
//! An allocator may have a lock, and a producer may be suspended while it holds it: glibc frees a block under the lock of the
//! arena that it came from. So segments are allocated by owners and kept as long as the timer; the timer thread releases a
//! number.

use super::chunk::ChunkId;
use super::compact::Work;
use super::position::Position;
use super::probe::{Step, looked};
use super::shard::Batch;
use crate::memory::{BoxTable, FreeSet};
use crate::sync::{ArrayQueue, AtomicU32, AtomicU64, CachePadded, Ordering};

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
    /// What the owner knows of the batches, so that it can look at one without popping it.
    notes: [Note; BATCHES as usize],
}

/// Relaxed: only owners use it.
#[derive(Default)]
struct Note {
    chunk: AtomicU32,
    len: AtomicU32,
    to: AtomicU64,
}

impl Segment {
    fn note(&self, place: u32, batch: &Batch) {
        let note = &self.notes[place as usize];
        note.chunk.store(batch.chunk.0, Ordering::Relaxed);
        note.len.store(batch.len, Ordering::Relaxed);
        note.to.store(batch.to.0, Ordering::Relaxed);
    }
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
            notes: std::array::from_fn(|_| Note::default()),
        };
        (number, self.table.get_or_insert(number, make))
    }

    /// The place of a batch of a chain, if `place` of `segment` may be the end of that.
    pub(super) fn place(&self, segment: u32, place: u32) -> Option<(u32, u32)> {
        if place < BATCHES {
            return Some((segment, place));
        }
        Some((self.table.get(segment)?.next.load(Ordering::Relaxed), 0))
    }

    /// What the owner knows of the batch in a place: its chunk, its length, and where it ends.
    pub(super) fn peek(&self, segment: u32, place: u32) -> Option<(ChunkId, u32, Position)> {
        let note = self.table.get(segment)?.notes.get(place as usize)?;
        let chunk = ChunkId(note.chunk.load(Ordering::Relaxed));
        let to = Position(note.to.load(Ordering::Relaxed));
        Some((chunk, note.len.load(Ordering::Relaxed), to))
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

/// One end of a chain of segments: where it is, and how many batches have passed through that segment.
#[derive(Default)]
pub(super) struct End {
    pub(super) segment: AtomicU32,
    pub(super) batches: AtomicU32,
}

/// The batches of one shard. They lie in one of two chains; the other one is for [`super::compact`].
#[derive(Default)]
pub(super) struct Overflow {
    pub(super) own: CachePadded<Own>,
    pub(super) taken: CachePadded<Taken>,
}

/// What the owner writes, of both chains.
#[derive(Default)]
pub(super) struct Own {
    tails: [End; 2],
    /// The first segment that was ever used: what comes after none.
    first: [AtomicU32; 2],
    /// The number of the next batch: those before it have been pushed, and the push has returned.
    pub(super) announced: [AtomicU64; 2],
    pub(super) work: Work,
}

/// What the timer thread writes, but for what [`super::compact`] says.
#[derive(Default)]
pub(super) struct Taken {
    pub(super) heads: [End; 2],
    /// The number of the oldest batch, and the chain that it is in: `number << 1 | chain`. Numbers only go up.
    pub(super) root: AtomicU64,
    /// The timer thread has popped the batches before this number.
    pub(super) done: AtomicU64,
}

/// The number of the oldest batch, and the chain that it is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Root(pub(super) u64);

impl Root {
    pub(super) fn new(number: u64, chain: usize) -> Root {
        Root(number << 1 | chain as u64)
    }

    pub(super) fn number(self) -> u64 {
        self.0 >> 1
    }

    pub(super) fn chain(self) -> usize {
        (self.0 & 1) as usize
    }
}

impl Overflow {
    pub(super) fn root(&self) -> Root {
        // Acquire: a chain that the owner has put in the place of the other.
        Root(self.taken.root.load(Ordering::Acquire))
    }

    /// The number of the next batch: those before it can be popped, or have been.
    pub(super) fn announced(&self) -> u64 {
        loop {
            let root = self.root();
            looked::reach(Step::Rooted);
            // Acquire: the batches and their cells.
            let announced = self.own.announced[root.chain()].load(Ordering::Acquire);
            // A chain that is out of use by now may be being filled: what is announced of it is not to be popped yet. Once more
            // only if the owner has put a copy of more than a thousand batches in place meanwhile.
            if self.root().chain() == root.chain() {
                return announced;
            }
        }
    }

    /// How many batches wait.
    pub(super) fn len(&self) -> usize {
        let root = self.root();
        let announced = self.own.announced[root.chain()].load(Ordering::Acquire);
        announced.saturating_sub(root.number()) as usize
    }

    /// Appends a batch. For the owner. It reaches the timer thread when it is announced.
    pub(super) fn push(&self, batch: Batch, segments: &Segments) {
        self.push_to(self.root().chain(), batch, segments);
    }

    /// Announces the batch that was pushed, and returns its number. For the owner.
    pub(super) fn announce(&self) -> u64 {
        let announced = &self.own.announced[self.root().chain()];
        let number = announced.load(Ordering::Relaxed);
        // Release: the batch and its cells.
        announced.store(number + 1, Ordering::Release);
        number
    }

    pub(super) fn push_to(&self, chain: usize, batch: Batch, segments: &Segments) {
        // Relaxed throughout: ends belong to one thread, and change hands with the shard or with the chain.
        let End { segment, batches } = &self.own.tails[chain];
        let mut place = segments.table.get(segment.load(Ordering::Relaxed));
        let mut filled = batches.load(Ordering::Relaxed);
        if place.is_none() || filled == BATCHES {
            let (number, next) = segments.claim();
            let link = place.map_or(&self.own.first[chain], |full| &full.next);
            link.store(number, Ordering::Relaxed);
            segment.store(number, Ordering::Relaxed);
            (place, filled) = (Some(next), 0);
        }
        if let Some(place) = place {
            place.note(filled, &batch);
            let pushed = place.batches.push(batch);
            debug_assert!(pushed.is_ok(), "a new segment is empty");
        }
        batches.store(filled + 1, Ordering::Relaxed);
    }

    /// Takes the oldest batch, if its number is below `announced`. For the timer thread.
    pub(super) fn pop(&self, announced: u64, segments: &Segments) -> Option<Batch> {
        let root = self.root();
        if root.number() >= announced {
            return None;
        }
        let next = Root::new(root.number() + 1, root.chain());
        // Acquire, as above, and Release, with the owner's: it sees no batch of this chain as its own any more. It fails if
        // the owner has put the other chain in its place: all of that has later numbers.
        self.taken
            .root
            .compare_exchange(root.0, next.0, Ordering::AcqRel, Ordering::Relaxed)
            .ok()?;
        let batch = self.pop_from(root.chain(), segments);
        // Release: the chain is as this leaves it.
        self.taken.done.store(next.number(), Ordering::Release);
        batch
    }

    pub(super) fn pop_from(&self, chain: usize, segments: &Segments) -> Option<Batch> {
        let End { segment, batches } = &self.taken.heads[chain];
        let (number, emptied) = self.oldest(chain, segments)?;
        if segment.load(Ordering::Relaxed) != number {
            if segment.load(Ordering::Relaxed) != NONE {
                segments.free.release_one(segment.load(Ordering::Relaxed));
            }
            segment.store(number, Ordering::Relaxed);
        }
        let batch = segments.table.get(number)?.batches.pop();
        batches.store(emptied + 1, Ordering::Relaxed);
        batch
    }

    /// Where the oldest batch of a chain is that has one: its segment, and its place there.
    pub(super) fn oldest(&self, chain: usize, segments: &Segments) -> Option<(u32, u32)> {
        let End { segment, batches } = &self.taken.heads[chain];
        let at = segment.load(Ordering::Relaxed);
        if at == NONE {
            return Some((self.own.first[chain].load(Ordering::Relaxed), 0));
        }
        segments.place(at, batches.load(Ordering::Relaxed))
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

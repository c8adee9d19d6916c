//! How the owner of a shard rids its overflow of what has died there.
//!
//! The timer thread empties the overflow whenever it comes to the shard. If it is held up for long, what was alive when it was
//! promoted dies there. So when many batches wait, the owner **copies** what lives, in order, to a second chain of segments, a few
//! batches at each chunk that it opens, and then puts that chain in the place of the first by one compare-and-swap of the *root*,
//! the number of the oldest batch and the chain that it is in:
//!
//! ```text
//!   root ──► chain 0   █▒▒▒ ▒▒█▒ ▒▒▒▒ █▒▒▒ ▒█▒▒        ▒ dead       the timer thread pops here, as ever
//!            chain 1   ████                            █ alive      nobody knows of it yet
//! ```
//!
//! - *Nothing is hidden*, wherever the owner is interrupted: the first chain is whole until the root moves, and the second is
//!   complete by then. What is promoted meanwhile goes to the first chain, and is copied as well.
//! - *Each batch is taken once*: the timer thread moves the root before it pops. If it has moved it since the copying began, the
//!   owner's compare-and-swap fails, and the copy is thrown away. (There is nothing to be gained: the timer thread is there.)
//! - *Nobody waits*: the timer thread pops the chain that the root names; the owner pops the other one, which nobody else uses. It
//!   begins to copy only when the timer thread is not in the middle of a pop: when `done` has come to the root's number, or nothing
//!   was popped of the last copy.
//! - *Numbers do not come again*: the second chain begins with the number that the first has come to, so no root is met twice.
//! - *Order* is that of the positions: a batch of the copy ends where the last that went into it did.
//!
//! The owner reads batches that it has pushed, without popping them, by the notes that it keeps beside them. While it does, the
//! timer thread may pop them, and their chunks and segments may change hands: what is read may be anything then, and the root has
//! moved.

use super::chunk::{CELLS, ChunkId, Chunks};
use super::overflow::{End, Overflow, Root};
use super::position::Position;
use super::probe::{Step, looked, way};
use super::shard::Batch;
use crate::entry::{Entry, Liveness};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Batches that may wait before they are copied, however few live: half a megabyte.
const FEW: u64 = if cfg!(hashed_wheel_loom) {
    2
} else if cfg!(test) {
    16
} else {
    1024
};
/// Batches that are thrown away in one step.
const CLEARED: u64 = 8;

const IDLE: u8 = 0;
const COPYING: u8 = 1;
const CLEARING: u8 = 2;

/// Where the owner stands. Its own: relaxed throughout, as it changes hands with the shard.
#[derive(Default)]
pub(super) struct Work {
    phase: AtomicU8,
    /// Batches that may wait, if more than [`FEW`].
    limit: AtomicU64,
    /// The number of the last batch that the timer thread was faster than, plus one.
    void: AtomicU64,
    /// The number that the last copy began with: if it is the root's still, nothing was popped of it.
    put: AtomicU64,
    /// Copying: the root when it began; the number of the next batch to copy, and where it is.
    root: AtomicU64,
    next: AtomicU64,
    at: End,
    /// Copying: how many entries of that batch are copied.
    cell: AtomicU32,
    /// Copying: the batch that is being filled, and how many were pushed before it.
    chunk: AtomicU32,
    len: AtomicU32,
    to: AtomicU64,
    /// Batches of the other chain.
    others: AtomicU64,
}

impl Overflow {
    /// Notes that the timer thread had taken what lies in the batch of that number, which is for nobody.
    pub(super) fn set_void(&self, number: u64) {
        self.own.work.void.store(number + 1, Ordering::Relaxed);
    }

    /// Returns `true` if the next step looks at entries.
    pub(super) fn is_copying(&self) -> bool {
        self.own.work.phase.load(Ordering::Relaxed) == COPYING
    }

    #[cfg(all(test, hashed_wheel_loom))]
    pub(super) fn left_to_copy(&self) -> Option<u64> {
        let next = self.own.work.next.load(Ordering::Relaxed);
        self.is_copying().then(|| self.announced() - next)
    }

    #[cfg(all(test, hashed_wheel_loom))]
    pub(super) fn is_compacting(&self) -> bool {
        self.own.work.phase.load(Ordering::Relaxed) != IDLE
    }

    /// One step, if too many batches wait. Looks at no more than a chunk of entries, and moves no more. For the owner.
    pub(super) fn compact(&self, chunks: &Chunks, liveness: &impl Liveness) {
        let work = &self.own.work;
        match work.phase.load(Ordering::Relaxed) {
            IDLE => self.begin(chunks),
            COPYING if self.root().0 == work.root.load(Ordering::Relaxed) => {
                self.copy(chunks, liveness);
            }
            COPYING => self.give_up(chunks),
            _ => self.clear(chunks),
        }
    }

    fn begin(&self, chunks: &Chunks) {
        let work = &self.own.work;
        let limit = work.limit.load(Ordering::Relaxed).max(FEW);
        if self.len() as u64 <= limit {
            return;
        }
        let root = self.root();
        // Acquire, with the Release of `pop`: where the timer thread has left the chain.
        let done = self.taken.done.load(Ordering::Acquire);
        if root.number() != done && root.number() != work.put.load(Ordering::Relaxed) {
            return;
        }
        let Some((segment, place)) = self.oldest(root.chain(), &chunks.segments) else {
            return;
        };
        work.root.store(root.0, Ordering::Relaxed);
        work.next.store(root.number(), Ordering::Relaxed);
        work.at.segment.store(segment, Ordering::Relaxed);
        work.at.batches.store(place, Ordering::Relaxed);
        work.cell.store(0, Ordering::Relaxed);
        work.chunk.store(ChunkId::NONE.0, Ordering::Relaxed);
        work.phase.store(COPYING, Ordering::Relaxed);
    }

    /// Copies as many entries as a chunk has.
    fn copy(&self, chunks: &Chunks, liveness: &impl Liveness) {
        let work = &self.own.work;
        let root = Root(work.root.load(Ordering::Relaxed));
        let announced = self.own.announced[root.chain()].load(Ordering::Relaxed);
        let void = work.void.load(Ordering::Relaxed);
        let (mut looks, mut moved) = (0, 0);
        let mut next = work.next.load(Ordering::Relaxed);
        while next < announced && looks < CELLS {
            let segment = work.at.segment.load(Ordering::Relaxed);
            let place = work.at.batches.load(Ordering::Relaxed);
            let found = chunks.segments.place(segment, place);
            let Some((segment, place)) = found else {
                return self.give_up(chunks);
            };
            let batch = chunks.segments.peek(segment, place);
            let batch = batch.and_then(|(id, len, to)| Some((chunks.get(id)?, len, to)));
            let Some((chunk, len, to)) = batch else {
                return self.give_up(chunks);
            };
            // If the segment has changed hands, it may be another batch.
            let from = work.cell.load(Ordering::Relaxed).min(len);
            let end = len.min(from + CELLS - looks);
            looks += (end - from).max(1);
            if next + 1 != void {
                let entries = || chunk.entries(from..end);
                entries().for_each(|entry| liveness.prefetch(entry));
                for entry in entries().filter(|entry| !liveness.is_dead(*entry)) {
                    self.append(entry, to, chunks);
                    moved += 1;
                }
            }
            work.cell.store(end, Ordering::Relaxed);
            if end < len {
                break;
            }
            next += 1;
            work.next.store(next, Ordering::Relaxed);
            work.cell.store(0, Ordering::Relaxed);
            work.at.segment.store(segment, Ordering::Relaxed);
            work.at.batches.store(place + 1, Ordering::Relaxed);
        }
        looked::note(looks as usize);
        looked::note_moved(moved);
        if next == announced {
            self.put_in_place(root, announced, chunks);
        }
    }

    fn append(&self, entry: Entry, to: Position, chunks: &Chunks) {
        let work = &self.own.work;
        if work.len.load(Ordering::Relaxed) == CELLS {
            self.push_copy(chunks);
        }
        if work.chunk.load(Ordering::Relaxed) == ChunkId::NONE.0 {
            let (id, _) = chunks.claim(ChunkId::NONE);
            work.chunk.store(id.0, Ordering::Relaxed);
            work.len.store(0, Ordering::Relaxed);
        }
        let len = work.len.load(Ordering::Relaxed);
        if let Some(chunk) = chunks.get(ChunkId(work.chunk.load(Ordering::Relaxed))) {
            chunk.write(len, entry);
        }
        work.len.store(len + 1, Ordering::Relaxed);
        work.to.store(to.0, Ordering::Relaxed);
    }

    /// Pushes the batch that was being filled, if there is one, to the other chain.
    fn push_copy(&self, chunks: &Chunks) {
        let work = &self.own.work;
        let chunk = ChunkId(work.chunk.load(Ordering::Relaxed));
        if chunk == ChunkId::NONE {
            return;
        }
        let to = Position(work.to.load(Ordering::Relaxed));
        let batch = Batch {
            chunk,
            len: work.len.load(Ordering::Relaxed),
            // The head has passed all of them.
            from: to,
            to,
            were_in: 0,
        };
        let root = Root(work.root.load(Ordering::Relaxed));
        self.push_to(1 - root.chain(), batch, &chunks.segments);
        work.chunk.store(ChunkId::NONE.0, Ordering::Relaxed);
        work.len.store(0, Ordering::Relaxed);
        let others = work.others.load(Ordering::Relaxed);
        work.others.store(others + 1, Ordering::Relaxed);
    }

    /// All is copied: the other chain takes the place of this one.
    fn put_in_place(&self, root: Root, announced: u64, chunks: &Chunks) {
        self.push_copy(chunks);
        let work = &self.own.work;
        let copied = work.others.load(Ordering::Relaxed);
        let other = 1 - root.chain();
        // Relaxed: published with the root.
        self.own.announced[other].store(announced + copied, Ordering::Relaxed);
        looked::reach(Step::Compacted);
        let new = Root::new(announced, other);
        // Release: the chain, and what was announced of it. Nothing is read that the timer thread has written since `begin`.
        let put = (self.taken.root)
            .compare_exchange(root.0, new.0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if put {
            way::note(way::REPLACED);
            work.limit.store(copied + copied / 2, Ordering::Relaxed);
            work.put.store(announced, Ordering::Relaxed);
            work.others
                .store(announced - root.number(), Ordering::Relaxed);
        }
        work.phase.store(CLEARING, Ordering::Relaxed);
    }

    /// The timer thread has come.
    fn give_up(&self, chunks: &Chunks) {
        self.push_copy(chunks);
        self.own.work.phase.store(CLEARING, Ordering::Relaxed);
    }

    /// Throws away what is left of the chain that is not in use.
    fn clear(&self, chunks: &Chunks) {
        let work = &self.own.work;
        let chain = 1 - self.root().chain();
        let mut others = work.others.load(Ordering::Relaxed);
        for _ in 0..others.min(CLEARED) {
            if let Some(batch) = self.pop_from(chain, &chunks.segments) {
                chunks.release(batch.chunk);
            }
            others -= 1;
        }
        work.others.store(others, Ordering::Relaxed);
        if others == 0 {
            work.phase.store(IDLE, Ordering::Relaxed);
        }
    }
}

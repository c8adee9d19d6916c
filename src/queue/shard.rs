//! The part of the pending queue that one thread pushes to.
//!
//! A shard has one **owner**, the thread that pushes; the **timer thread** takes. Neither waits for the other, in
//! whatever state it was interrupted.
//!
//! ```text
//!          overflow (ArrayQueue)               chunks
//!   ┌────────┬────────┬────────┐   ┌────────┬────────┬────────┐
//!   │ batch  │ batch  │ batch  │   │ ▒▒▒███ │ ██████ │ ███    │
//!   └────────┴────────┴────────┘   └────┬───┴────────┴───┬────┘
//!    older: live when they were        head             tail
//!    moved here by the owner      moved by both      moved by the owner
//! ```
//!
//! # Push (owner)
//!
//! The entry is written to the cell at the tail, and then the tail moves on: P1, one sequentially consistent
//! exchange, the only locked instruction of the usual push. Half a push does not exist.
//!
//! # Whoever moves the head takes the entries
//!
//! Owner and timer thread read entries from the head on, put them aside, and then move the head by
//! compare-and-swap. Only if that succeeds do the entries count. Otherwise the other one was faster: the chunk
//! may already be in use elsewhere, and what was read may be anything. Who moves the head out of a chunk gives the
//! chunk back.
//!
//! # What the owner does beside (when it opens a chunk, once in [`CELLS`] pushes; a step of sampling also half-way)
//!
//! - **Trim**: it passes over dead entries at the head, and over those that the timer thread has copied to its wheel, as many as
//!   the other steps leave of [`LOOKS`](super::trim::LOOKS). Timeouts of one length end about in the order in which they began, so what is
//!   cancelled soon never reaches the timer thread.
//! - **Sample**, when more than [`Owner::limit`] entries wait: one entry of each of the next two chunks, until it has
//!   been through all of them. If most live, the limit grows. Otherwise
//! - **promote**: the live entries of the first chunk become a *batch*, a chunk of their own, which goes through the overflow, and
//!   the head passes the chunk. So one live entry at the head does not keep thousands of dead ones.
//! - **Compact**, when more than a thousand batches wait in the overflow, because the timer thread does not come:
//!   [`super::compact`].
//!
//! Together they look at no more than [`LOOKS`](super::trim::LOOKS) entries in one push, and move no more than two chunks of them.
//!
//! # Promote against take
//!
//! The batch is pushed and announced *before* the head moves. The timer thread reads the head first, then empties the overflow, and
//! then takes from the head it has read. For a batch with the positions `from..to`:
//!
//! - *interrupted before the announcement*: the head has not moved, so nothing has happened;
//! - *announced, head not moved yet*: the timer thread moves it (it helps), and the owner's compare-and-swap fails;
//! - *the timer thread had taken the chunk before the announcement*: `from` lies before what it has taken, the batch is void;
//! - *the owner moves the head after the timer thread has read it and found the overflow empty*: the timer thread's
//!   compare-and-swap fails, and it starts again with the overflow. So older entries are always filed first.
//!
//! The overflow makes nobody wait either: [`super::overflow`].

use super::chunk::{CELLS, Chunk, ChunkId, Chunks};
use super::overflow::Overflow;
use super::position::Position;
use super::probe::{Step, looked};
use super::trim::{FEW, NOT_SAMPLING};
use crate::entry::{Entry, Liveness};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, CachePadded, Ordering};
use crate::time::Tick;
use std::sync::OnceLock;
use std::{array, iter};

/// The live entries of a stretch of the shard, on their way through the overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// Where they are, from cell 0 on.
    pub(super) chunk: ChunkId,
    pub(super) len: u32,
    /// Where they were.
    pub(super) from: Position,
    pub(super) to: Position,
    /// A bit for each cell of the chunk of `to` that one of them was in.
    pub(super) were_in: u32,
}

impl Batch {
    /// The cells that they were in, in the chunk of `to`. For what has no bit, one that no chunk has.
    pub(super) fn cells(&self) -> impl Iterator<Item = u32> {
        let were_in = self.were_in;
        let known = (0..CELLS).filter(move |cell| were_in >> cell & 1 == 1);
        known.chain(iter::repeat(CELLS))
    }
}

/// See the module's head.
pub(crate) struct Shard {
    owner: CachePadded<Owner>,
    taken: CachePadded<Taken>,
    pub(super) overflow: Overflow,
    /// The chunks that were opened last, by serial number: a hint for the timer thread, which would have to wait for each chunk to
    /// find the next. Made when the shard has more than a few entries.
    trail: OnceLock<Box<[AtomicU32; TRAIL]>>,
}

/// Chunks of the trail: 16 000 entries.
const TRAIL: usize = 512;
/// How many chunks ahead are fetched.
const LOOKAHEAD: u32 = 8;

/// What the timer thread writes.
pub(super) struct Taken {
    /// Moved by compare-and-swap, by the owner and by the timer thread.
    pub(super) head: AtomicU64,
    /// The timer thread has copied to its wheel what lies before `copied_to` and is due by `copied_due`.
    copied_to: AtomicU64,
    copied_due: AtomicU64,
}

/// What the wheel has a copy of: as good as dead in here.
#[derive(Clone, Copy)]
pub(super) struct Copied {
    to: Position,
    pub(super) due: Tick,
}

impl Copied {
    /// What lies before `to` and is due by `due`.
    pub(super) fn new(to: Position, due: Tick) -> Copied {
        Copied { to, due }
    }

    /// Returns `true` if the wheel has a copy of `entry`, which lies in `cell` of the chunk of `at`.
    #[inline]
    pub(super) fn has(self, at: Position, cell: u32, entry: Entry) -> bool {
        cell < self.cells(at) && entry.due() <= self.due
    }

    /// The cells of the chunk of `at` that were looked at: those before this one.
    #[inline]
    pub(super) fn cells(self, at: Position) -> u32 {
        match at.chunks_to(self.to) {
            Some(0) => self.to.cell(),
            Some(_) => CELLS,
            None => 0,
        }
    }
}

/// What only the owner writes, but for `urgency` and `dirty`, which the timer thread resets. "Own" marks what nobody
/// else reads: a relaxed atomic, as ownership passes from thread to thread.
pub(super) struct Owner {
    pub(super) tail: AtomicU64,
    /// [`Tick::NEVER`] minus the earliest due tick that was pushed since the timer thread last looked; 0 for none.
    pub(super) urgency: AtomicU64,
    /// The timer thread has been told that there is something to look at.
    pub(super) dirty: AtomicU8,
    /// The tick that had passed when `dirty` was last set.
    pub(super) since: AtomicU64,
    /// The first chunk that was ever opened: what comes after [`Position::START`].
    pub(super) first: AtomicU32,
    /// Own. An entry that is due by this tick is marked in its chunk's header: a scan need not look at the others.
    pub(super) near: AtomicU64,
    /// Own. Entries that may wait before they are sampled.
    pub(super) limit: AtomicU32,
    /// Own. Where sampling goes on; [`NOT_SAMPLING`] or `PROMOTING` otherwise.
    pub(super) sampling: AtomicU64,
    /// Own. Entries sampled, and how many of them lived.
    pub(super) sampled: AtomicU32,
    pub(super) sampled_live: AtomicU32,
}

/// What a push has to tell the timer thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Growth {
    /// Nothing.
    Usual,
    /// Many more live entries wait than before: moving them takes longer than was planned for.
    Crowded,
}

impl Shard {
    pub(super) fn new() -> Shard {
        Shard {
            owner: CachePadded::new(Owner {
                tail: AtomicU64::new(Position::START.0),
                urgency: AtomicU64::new(0),
                dirty: AtomicU8::new(0),
                since: AtomicU64::new(0),
                first: AtomicU32::new(0),
                near: AtomicU64::new(0),
                limit: AtomicU32::new(FEW),
                sampling: AtomicU64::new(NOT_SAMPLING),
                sampled: AtomicU32::new(0),
                sampled_live: AtomicU32::new(0),
            }),
            taken: CachePadded::new(Taken {
                head: AtomicU64::new(Position::START.0),
                copied_to: AtomicU64::new(Position::START.0),
                copied_due: AtomicU64::new(0),
            }),
            overflow: Overflow::default(),
            trail: OnceLock::new(),
        }
    }

    #[inline]
    pub(super) fn owner(&self) -> &Owner {
        &self.owner
    }

    #[inline]
    pub(super) fn head(&self) -> Position {
        // Acquire: see `move_head`.
        Position(self.taken.head.load(Ordering::Acquire))
    }

    /// The entry's due tick was pushed: W2 of the parker's protocol will see it.
    #[inline]
    fn lower_earliest(&self, due: Tick) {
        let urgency = Tick::NEVER.0 - due.0;
        // SeqCst, as the timer thread's exchange: see `PendingQueue::push`. Only this thread raises it.
        if urgency > self.owner.urgency.load(Ordering::SeqCst) {
            self.owner.urgency.store(urgency, Ordering::SeqCst);
        }
    }

    /// Notes that what lies before `to` and is due by `due` is in the wheel. For the timer thread.
    pub(super) fn set_copied(&self, to: Position, due: Tick) {
        // In this order, and Release: whoever sees the position sees its tick or a later one. An earlier position with a
        // later tick is right, too: nothing before it was due in between, or it would have been copied.
        self.taken.copied_due.store(due.0, Ordering::Release);
        self.taken.copied_to.store(to.0, Ordering::Release);
    }

    pub(super) fn copied(&self) -> Copied {
        let to = Position(self.taken.copied_to.load(Ordering::Acquire));
        let due = Tick(self.taken.copied_due.load(Ordering::Acquire));
        Copied::new(to, due)
    }

    /// Where the next entry goes, if that is not the end of a chunk. For the owner.
    #[inline]
    pub(super) fn tail(&self) -> Position {
        // Relaxed: the owner wrote it last.
        Position(self.owner.tail.load(Ordering::Relaxed))
    }

    /// Appends an entry at the tail, in a chunk that has room. For the owner.
    #[inline]
    pub(super) fn append(&self, tail: Position, entry: Entry, chunks: &Chunks) {
        if let Some(chunk) = chunks.get(tail.chunk()) {
            chunk.write(tail.cell(), entry);
            // Relaxed: own.
            let near = Tick(self.owner.near.load(Ordering::Relaxed));
            chunk.note_due(tail.cell(), entry.due(), near);
        }
        looked::reach(Step::Written);
        // P1. Release for the cell; SeqCst for the parker and for stop.
        self.owner.tail.swap(tail.forward(1).0, Ordering::SeqCst);
        looked::reach(Step::Published);
        self.lower_earliest(entry.due());
    }

    /// Opens a chunk behind the tail, which stands at the end of one, and does what the owner does beside. For the owner.
    pub(super) fn open(
        &self,
        tail: Position,
        chunks: &Chunks,
        liveness: &impl Liveness,
    ) -> (Position, Growth) {
        let (growth, emptied) = self.tidy(tail, chunks, liveness);
        let (id, chunk) = match emptied {
            Some(id) => chunks.reuse(id),
            None => chunks.claim(tail.chunk()),
        };
        chunk.clear_header();
        // Only a guess at what a scan will look for: what the last one has looked for.
        let near = self.copied().due;
        self.owner.near.store(near.0, Ordering::Relaxed);
        let to = tail.in_next(id);
        if let Some(trail) = self.trail.get() {
            trail[to.serial() as usize % TRAIL].store(id.0, Ordering::Relaxed);
        }
        looked::reach(Step::Claimed);
        match chunks.get(tail.chunk()) {
            Some(last) if tail.chunk() != ChunkId::NONE => last.set_next(id),
            // Relaxed: published with the tail.
            _ => self.owner.first.store(id.0, Ordering::Relaxed),
        }
        (to, growth)
    }

    /// From now on it is known where the last chunks are. For the owner.
    pub(super) fn keep_trail(&self) {
        // The models have no memory to wait for.
        if !cfg!(hashed_wheel_loom) {
            self.trail
                .get_or_init(|| Box::new(array::from_fn(|_| AtomicU32::new(0))));
        }
    }

    /// Prefetches the header of a chunk some way after the one at `from`, if it is known. For the timer thread.
    #[inline]
    pub(super) fn prefetch_after(&self, from: Position, chunks: &Chunks) {
        if let Some(trail) = self.trail.get() {
            let ahead = from.serial().wrapping_add(LOOKAHEAD) as usize % TRAIL;
            chunks.prefetch(ChunkId(trail[ahead].load(Ordering::Relaxed)));
        }
    }

    /// The position of the next entry at or after `at`, which is before the tail. Also the chunk that it lies in.
    /// `None` if `at` was lost meanwhile.
    pub(super) fn resolve<'a>(
        &self,
        at: Position,
        chunks: &'a Chunks,
    ) -> Option<(Position, Chunk<'a>)> {
        if !at.is_chunk_end() {
            return Some((at, chunks.get(at.chunk())?));
        }
        let next = if at.chunk() == ChunkId::NONE {
            ChunkId(self.owner.first.load(Ordering::Relaxed))
        } else {
            chunks.get(at.chunk())?.next()
        };
        if next == ChunkId::NONE {
            return None;
        }
        Some((at.in_next(next), chunks.get(next)?))
    }

    /// Moves the head from `from` to `to`; whether it was there. Gives back the chunks that it leaves, `left`.
    pub(super) fn move_head(
        &self,
        from: Position,
        to: Position,
        left: impl IntoIterator<Item = ChunkId>,
        chunks: &Chunks,
    ) -> bool {
        // Release, with the Acquire of `head`: a timer thread that reads where a promotion has moved the head to finds
        // the batch announced. Acquire: nothing relies on it, as the position that is compared was loaded with Acquire
        // or came with an announced batch. Reads of the cells come before the writes of the chunk's next owner by
        // the free set, through which a chunk changes hands; what the owner fills again itself, it has read itself.
        let moved = self
            .taken
            .head
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok();
        if moved {
            left.into_iter()
                .filter(|id| *id != ChunkId::NONE)
                .for_each(|id| chunks.release(id));
        }
        moved
    }

    /// Bytes of the shard itself.
    pub(super) fn bytes(&self) -> usize {
        let trail = self.trail.get().map_or(0, |trail| size_of_val(&**trail));
        size_of::<Shard>() + trail
    }

    /// Entries in chunks and overflow, dead ones included, each batch counted as a full one. About, while others work.
    pub(super) fn len(&self) -> usize {
        let batches = self.overflow.len();
        let head = self.head();
        let waiting = head.distance(Position(self.owner.tail.load(Ordering::SeqCst)));
        batches * CELLS as usize + waiting
    }
}

/// The cell behind the last entry in the chunk of `at`, if the shard ends at `tail`.
#[inline]
pub(super) fn end_in_chunk(at: Position, tail: Position) -> u32 {
    if at.serial() == tail.serial() {
        tail.cell()
    } else {
        CELLS
    }
}

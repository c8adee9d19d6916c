//! Where entries wait: cells in chunks of half a kilobyte, linked in the order of pushing.
//!
//! A chunk belongs to one shard at a time. It is claimed by the shard's owner and released by whoever moves the head out
//! of it, owner or timer thread, back to all shards of the timer. The memory stays mapped, so a thread that still
//! looks at a chunk that it has lost reads old or foreign entries, never anything else, and throws them away.

use super::overflow::Segments;
use crate::entry::Entry;
use crate::memory::{FreeSet, Table};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::time::Tick;
use std::ops::Range;

/// Entries in a chunk.
pub(super) const CELLS: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 31 };
/// The cell in the middle of a chunk, before which a push has a part of its owner's other work to do. In a model that is the end.
pub(super) const MIDDLE: u32 = if cfg!(hashed_wheel_loom) { CELLS } else { 15 };
/// Chunks of the first block: 32 KiB.
const FIRST: u32 = if cfg!(hashed_wheel_loom) { 8 } else { 64 };

/// Chunks of one timer at most, as many as a `Position` can name: 2 × 10^9 entries.
pub(super) const LIMIT: u32 = 1 << 26;

/// The number of a chunk, below [`LIMIT`]; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkId(pub(super) u32);

impl ChunkId {
    pub(super) const NONE: ChunkId = ChunkId(0);
}

/// Sixteen bytes: an entry, or a chunk's header. Relaxed throughout: the shard's tail and head order them.
type Cell = [AtomicU64; 2];
/// The first cell is the header: `marks:32 | next:32`, and [`Tick::NEVER`] minus the earliest due tick of what is not marked.
type Cells = [Cell; CELLS as usize + 1];

const _: () = assert!(cfg!(hashed_wheel_loom) || size_of::<Cells>() == 512);

/// Entries in the order of pushing, and what comes after them.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a>(&'a Cells);

impl Chunk<'_> {
    #[inline]
    pub(super) fn write(self, cell: u32, entry: Entry) {
        let words = &self.0[cell as usize + 1];
        let [first, second] = entry.to_words();
        words[0].store(first, Ordering::Relaxed);
        words[1].store(second, Ordering::Relaxed);
    }

    /// The entry in a cell. It means something only if the caller finds afterwards that the chunk was its own.
    #[inline]
    pub(super) fn read(self, cell: u32) -> Entry {
        let words = &self.0[cell as usize + 1];
        Entry::from_words([0, 1].map(|word: usize| words[word].load(Ordering::Relaxed)))
    }

    /// The entries in cells that follow each other, as [`Chunk::read`] tells them.
    #[inline]
    pub(super) fn entries(self, cells: Range<u32>) -> impl Iterator<Item = Entry> {
        let cells = cells.start as usize + 1..cells.end as usize + 1;
        let read = |words: &Cell| {
            Entry::from_words([0, 1].map(|word: usize| words[word].load(Ordering::Relaxed)))
        };
        self.0.get(cells).unwrap_or_default().iter().map(read)
    }

    /// The chunk that was opened after this one.
    pub(super) fn next(self) -> ChunkId {
        ChunkId(self.0[0][0].load(Ordering::Relaxed) as u32)
    }

    /// Links the chunk that is opened after this one. For the owner, like all that writes the header.
    pub(super) fn set_next(self, next: ChunkId) {
        let marks = self.0[0][0].load(Ordering::Relaxed) >> 32 << 32;
        self.0[0][0].store(marks | u64::from(next.0), Ordering::Relaxed);
    }

    /// Begins the header of a chunk that is empty.
    pub(super) fn clear_header(self) {
        self.0[0][0].store(0, Ordering::Relaxed);
        self.0[0][1].store(0, Ordering::Relaxed);
    }

    /// Notes in the header when the entry of a cell is due. It is marked if that is by `near`.
    #[inline]
    pub(super) fn note_due(self, cell: u32, due: Tick, near: Tick) {
        let [marks, urgency] = &self.0[0];
        if due <= near {
            let marked = marks.load(Ordering::Relaxed) | 1 << (32 + cell);
            marks.store(marked, Ordering::Relaxed);
        } else if Tick::NEVER.0 - due.0 > urgency.load(Ordering::Relaxed) {
            urgency.store(Tick::NEVER.0 - due.0, Ordering::Relaxed);
        }
    }

    /// The marked cells, as bits, and the earliest due tick of the others.
    #[inline]
    pub(super) fn header(self) -> (u32, Tick) {
        let [marks, urgency] = &self.0[0];
        let marks = (marks.load(Ordering::Relaxed) >> 32) as u32;
        (marks, Tick(Tick::NEVER.0 - urgency.load(Ordering::Relaxed)))
    }
}

/// The chunks of one timer. They are claimed one by one; their memory goes back to the system 64 at a time, which are
/// eight pages.
pub(super) struct Chunks {
    table: Table<Cells, FIRST>,
    free: FreeSet,
    /// A bit for each word of `free`: its chunks have been used since they were mapped or discarded.
    touched: Table<AtomicU64, { if cfg!(hashed_wheel_loom) { 1 } else { 512 } }>,
    /// How many of these bits are set.
    touched_count: AtomicU32,
    /// Words of `free` below have been claimed from.
    used_words: AtomicU32,
    /// Where batches wait: what is shared by the shards beside the chunks.
    pub(super) segments: Segments,
}

impl Chunks {
    pub(super) fn new() -> Chunks {
        let free = FreeSet::new();
        // Number 0 is none.
        free.claim_bits(0, 1);
        Chunks {
            table: Table::new(),
            free,
            touched: Table::new(),
            touched_count: AtomicU32::new(0),
            used_words: AtomicU32::new(0),
            segments: Segments::new(),
        }
    }

    /// The chunk of that number; `None` only of a number that was read from a chunk that was lost.
    #[inline]
    pub(super) fn get(&self, id: ChunkId) -> Option<Chunk<'_>> {
        self.table.get(id.0).map(Chunk)
    }

    /// Prefetches the header of a chunk, which need not exist.
    #[inline]
    pub(super) fn prefetch(&self, id: ChunkId) {
        self.table.prefetch(id.0);
    }

    /// A chunk for the caller alone, of the free ones near `near` if there are any.
    ///
    /// # Panics
    /// If all are in use. Nothing has changed then.
    pub(super) fn claim(&self, near: ChunkId) -> (ChunkId, Chunk<'_>) {
        let id = self.free.claim_one(near.0 / 64);
        if id >= LIMIT {
            self.free.release_one(id);
            too_many();
        }
        let word = id / 64;
        let (touched, bit) = (self.touched.get_or_grow(word / 64), 1 << (word % 64));
        // The loads keep the usual case free of locked instructions. Relaxed: figures, and hints for `discard_free`.
        if touched.load(Ordering::Relaxed) & bit == 0
            && touched.fetch_or(bit, Ordering::Relaxed) & bit == 0
        {
            self.touched_count.fetch_add(1, Ordering::Relaxed);
        }
        if word >= self.used_words.load(Ordering::Relaxed) {
            self.used_words.fetch_max(word + 1, Ordering::Relaxed);
        }
        self.reuse(ChunkId(id))
    }

    /// A chunk that the caller owns, for other entries.
    pub(super) fn reuse(&self, id: ChunkId) -> (ChunkId, Chunk<'_>) {
        // With the fence of a scan, which reads cells that may have changed hands: whoever reads what is written from here on
        // sees that the head of the chunk's last owner has left it, which happened before its release.
        fence(Ordering::Release);
        (id, Chunk(self.table.get_or_grow(id.0)))
    }

    /// Gives a chunk back that the caller owns.
    pub(super) fn release(&self, id: ChunkId) {
        self.free.release_one(id.0);
    }

    /// Gives the memory of free chunks back to the system. For one thread at a time.
    pub(super) fn discard_free(&self) {
        for word in 0..self.used_words.load(Ordering::Relaxed) {
            let (touched, bit) = (self.touched.get_or_grow(word / 64), 1 << (word % 64));
            // Word 0 has the number that is none.
            if touched.load(Ordering::Relaxed) & bit == 0 || !self.free.claim_all(word, u64::MAX) {
                continue;
            }
            if self.table.discard_claimed(word * 64..(word + 1) * 64) {
                touched.fetch_and(!bit, Ordering::Relaxed);
                self.touched_count.fetch_sub(1, Ordering::Relaxed);
            }
            self.free.release(word, u64::MAX);
        }
    }

    /// Leaves none for anybody.
    #[cfg(all(test, not(hashed_wheel_loom)))]
    pub(super) fn use_up(&self) {
        while self.free.claim_word().0 < LIMIT / 64 - 1 {}
    }

    /// How many of the first 63 are in use.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(super) fn in_use(&self) -> u32 {
        self.free.claimed(0).count_ones() - 1
    }

    /// Bytes of the chunks and segments in use or kept for later.
    pub(super) fn bytes(&self) -> usize {
        let chunks = self.touched_count.load(Ordering::Relaxed) as usize * 64;
        chunks * size_of::<Cells>() + self.segments.bytes()
    }
}

#[cold]
fn too_many() -> ! {
    panic!("about 2000000000 timeouts of one timer wait in its queue; there is no room for more")
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

//! A place in the stream of entries that one shard has ever held.

use super::chunk::{CELLS, ChunkId, LIMIT, MIDDLE};
use std::fmt;

/// `serial:32 | chunk:26 | cell:6`, in one word, so that one compare-and-swap moves it.
///
/// 26 bits name a chunk: `Chunks` hands out no others. The serial number goes up with each chunk that the shard opens. A word comes again after 2^32 chunks, 1.3 × 10^11
/// pushes of one thread: only a thread that was interrupted for hours, between a load and its compare-and-swap, and
/// that comes back at the very word could mistake one for the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Position(pub(super) u64);

impl Position {
    /// Where a shard begins: at the end of no chunk.
    pub(super) const START: Position = Position(CELLS as u64);

    #[inline]
    pub(super) fn new(serial: u32, chunk: ChunkId, cell: u32) -> Position {
        Position(u64::from(serial) << 32 | u64::from(chunk.0) << 6 | u64::from(cell))
    }

    #[inline]
    pub(super) fn serial(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    pub(super) fn chunk(self) -> ChunkId {
        ChunkId((self.0 >> 6) as u32 & ((1 << 26) - 1))
    }

    #[inline]
    pub(super) fn cell(self) -> u32 {
        self.0 as u32 & 63
    }

    /// The position behind the last cell of its chunk: the next entry lies in the next chunk.
    #[inline]
    pub(super) fn is_chunk_end(self) -> bool {
        self.cell() == CELLS
    }

    /// The next push has more to do than to append.
    #[inline]
    pub(super) fn is_stop(self) -> bool {
        self.cell() == CELLS || self.cell() == MIDDLE
    }

    /// The position in the same chunk, `cells` further on.
    #[inline]
    pub(super) fn forward(self, cells: u32) -> Position {
        debug_assert!(self.cell() + cells <= CELLS);
        Position(self.0 + u64::from(cells))
    }

    /// The first cell of the chunk that follows.
    #[inline]
    pub(super) fn in_next(self, chunk: ChunkId) -> Position {
        Position::new(self.serial().wrapping_add(1), chunk, 0)
    }

    /// Chunks from here to `other`, if that does not lie in an earlier one. Serial numbers may wrap in between. Positions that
    /// are in use at one time are no further apart than a timer has chunks; one that seems to be was left behind long ago.
    #[inline]
    pub(super) fn chunks_to(self, other: Position) -> Option<u32> {
        let chunks = other.serial().wrapping_sub(self.serial());
        (chunks <= LIMIT).then_some(chunks)
    }

    /// Entries from here to `end`; 0 if that lies before.
    #[inline]
    pub(super) fn distance(self, end: Position) -> usize {
        let chunks = self.chunks_to(end).unwrap_or(0) as usize;
        (chunks * CELLS as usize + end.cell() as usize).saturating_sub(self.cell() as usize)
    }

    /// The later one of this and `other`; this one if `other` was left behind long ago.
    pub(super) fn or_later(self, other: Position) -> Position {
        if self.is_before(other) { other } else { self }
    }

    /// Returns `true` if this lies before `other`.
    #[inline]
    pub(super) fn is_before(self, other: Position) -> bool {
        match self.chunks_to(other) {
            Some(0) => self.cell() < other.cell(),
            chunks => chunks.is_some(),
        }
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.serial(), self.cell(), self.chunk().0)
    }
}

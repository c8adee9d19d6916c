//! Takes entries out of a shard.

use super::chunk::Chunks;
use super::inlet::{ATTEMPTS, Budget, End, Inlet};
use super::position::Position;
use super::probe::way;
use super::reader::EntrySink;
use super::shard::{Shard, end_in_chunk};

impl Inlet {
    /// Takes entries out and files them, in order, up to `end`. Returns `true` when that is done.
    pub(super) fn drain(
        &mut self,
        shard: &Shard,
        chunks: &Chunks,
        end: Position,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        let end = End::new(shard, end);
        loop {
            self.file(budget, sink);
            if self.backlog() > 0 {
                return false;
            }
            match self.refill(shard, chunks, end) {
                Refill::Taken if self.taken_out.is_empty() => {
                    // The wheel has a copy of all of it. As in a scan, reading is cheap beside filing.
                    budget.stretch = budget.stretch.saturating_sub(4);
                    if budget.stretch == 0 {
                        return false;
                    }
                }
                Refill::Taken => {}
                Refill::Lost => return false,
                Refill::Empty => return true,
            }
        }
    }

    /// Takes a batch or the rest of a chunk out of the shard, as far as `end`.
    fn refill(&mut self, shard: &Shard, chunks: &Chunks, end: End) -> Refill {
        for _ in 0..ATTEMPTS {
            // Before the overflow: see the shard's head.
            let head = shard.head();
            if self.pop_batch(shard, chunks, end.announced) {
                return Refill::Taken;
            }
            if end.is_outdated(shard) {
                return Refill::Lost;
            }
            if !head.is_before(end.tail) {
                // What the owner has trimmed counts as taken, or serial numbers might wrap in between. Batches from
                // before the head have been popped above, or are void.
                self.taken = head;
                return Refill::Empty;
            }
            let Some((from, chunk)) = shard.resolve(head, chunks) else {
                continue;
            };
            let cells = from.cell()..end_in_chunk(from, end.tail);
            let to = from.forward(cells.len() as u32);
            let copied = self.copied(shard);
            if copied.iter().all(|copied| copied.cells(from) == 0) {
                self.taken_out.extend(chunk.entries(cells));
            } else {
                let taken = cells.clone().zip(chunk.entries(cells));
                let taken = taken
                    .filter(|(cell, entry)| copied.iter().all(|c| !c.has(from, *cell, *entry)));
                self.taken_out.extend(taken.map(|(_, entry)| entry));
            }
            let left = (from.serial() != head.serial()).then_some(head.chunk());
            if shard.move_head(head, to, left, chunks) {
                self.taken = to;
                return Refill::Taken;
            }
            way::note(way::LOST);
            self.taken_out.clear();
        }
        Refill::Lost
    }

    /// Takes a batch out of the overflow whose number is below `announced`.
    pub(super) fn pop_batch(&mut self, shard: &Shard, chunks: &Chunks, announced: u64) -> bool {
        while let Some(batch) = shard.overflow.pop(announced, &chunks.segments) {
            let void = batch.from.is_before(self.taken);
            if !void {
                // If the owner was interrupted before it moved the head, it is moved for it.
                let left = (batch.from.serial() != batch.to.serial()).then_some(batch.from.chunk());
                if shard.move_head(batch.from, batch.to, left, chunks) {
                    way::note(way::HELPED);
                }
                self.taken = batch.to;
                if let Some(chunk) = chunks.get(batch.chunk) {
                    // A scan may have read an entry where it was before.
                    let copied = self.copied(shard);
                    let taken = batch.cells().zip(chunk.entries(0..batch.len));
                    let taken = taken.filter(|(cell, entry)| {
                        copied.iter().all(|c| !c.has(batch.to, *cell, *entry))
                    });
                    self.taken_out.extend(taken.map(|(_, entry)| entry));
                }
            }
            chunks.release(batch.chunk);
            if !void {
                return true;
            }
            way::note(way::VOID);
        }
        false
    }
}

enum Refill {
    /// There is something in the backlog.
    Taken,
    /// Nothing is left before the end.
    Empty,
    /// The owner was faster three times, or has promoted meanwhile.
    Lost,
}

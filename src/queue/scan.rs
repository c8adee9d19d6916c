//! Copies what is due soon. The head of [`super::reader`] tells when, and why nothing is lost.

use super::chunk::Chunks;
use super::inlet::{ATTEMPTS, Budget, End, Inlet};
use super::position::Position;
use super::reader::EntrySink;
use super::shard::{Shard, end_in_chunk};
use crate::time::Tick;

impl Inlet {
    /// Copies what is due by `due` to the wheel, in order, up to `tail`. Returns `true` when that is done.
    pub(super) fn scan(
        &mut self,
        due: Tick,
        shard: &Shard,
        chunks: &Chunks,
        tail: Position,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        let end = End::new(shard, tail);
        if self.far <= due {
            // Something that was scanned has come near: from the head on again.
            self.fresh = self.fresh.min(self.far);
            (self.far, self.scanned) = (Tick::NEVER, shard.head());
        }
        for _ in 0..ATTEMPTS {
            // Before the overflow: see the shard's head.
            let head = shard.head();
            loop {
                self.file(budget, sink);
                if self.backlog() > 0 {
                    return false;
                }
                if !self.pop_batch(shard, chunks, end.announced) {
                    break;
                }
            }
            if end.is_outdated(shard) {
                return false;
            }
            if self.scanned.is_before(head) {
                self.scanned = head;
            }
            loop {
                if !self.scanned.is_before(end.tail) {
                    self.fresh = Tick::NEVER;
                    shard.set_copied(end.tail, due);
                    return true;
                }
                if budget.is_used_up() {
                    return false;
                }
                let Some((from, chunk)) = shard.resolve(self.scanned, chunks) else {
                    break;
                };
                let cells = from.cell()..end_in_chunk(from, end.tail);
                let to = from.forward(cells.len() as u32);
                let before = self.taken_out.len();
                let mut far = self.far;
                for entry in cells.map(|cell| chunk.read(cell)) {
                    if entry.due() <= due {
                        self.taken_out.push(entry);
                    } else {
                        far = far.min(entry.due());
                    }
                }
                let now = shard.head();
                let passed = now.serial() != self.scanned.serial() && self.scanned.is_before(now);
                if passed && now.chunk() != from.chunk() {
                    self.taken_out.truncate(before);
                    break;
                }
                (self.far, self.scanned) = (far, to);
                // Reading is cheap beside filing.
                budget.stretch = budget.stretch.saturating_sub(4);
                self.file(budget, sink);
                if self.backlog() > 0 {
                    return false;
                }
            }
        }
        false
    }
}

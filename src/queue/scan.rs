//! Copies what is due soon. The head of [`super::reader`] tells when, and why nothing is lost.
//!
//! A scan is made in *passes*: one looks for what is due by a fixed tick, up to a fixed end, and is completed before the next one
//! begins, however often the limits cut it. So what the wheel has a copy of is told by two pairs of position and tick: how far the
//! pass has come, and [`Copied`], the passes before it. Later passes and the drain leave that out: an entry goes into the wheel once.
//!
//! A pass that begins again at the head looks at all that waits. So it looks for more than what is due soon, and it is some time
//! until the next one. Other passes look for nothing that is due with, or after, what was left before: that has to be filed first.
//!
//! Of a chunk, a pass looks at the header, and at the entries that are marked there, unless others are due as well: one or two
//! cache lines instead of eight, and most of what a scan costs is fetching lines from the owner's cache.

use super::chunk::Chunks;
use super::inlet::{ATTEMPTS, Budget, End, Inlet};
use super::position::Position;
use super::probe::{Step, looked};
use super::reader::EntrySink;
use super::shard::{Copied, Shard, end_in_chunk};
use crate::sync::{Ordering, fence};
use crate::time::Tick;
use std::mem;

/// Copies that are filed together, so that the slots of all are on their way from memory when the first is looked at.
const FILED_AT_ONCE: usize = if cfg!(hashed_wheel_loom) { 2 } else { 32 };

/// A scan that is under way.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    pub(super) due: Tick,
    tail: Position,
    /// A lower bound of what it is to find.
    pub(super) earliest: Tick,
}

impl Inlet {
    /// Copies what is due by `due` to the wheel, in order, up to `tail`; and of what is due by `near`, what the order allows.
    /// Returns `true` when that is done.
    pub(super) fn scan(
        &mut self,
        [due, near]: [Tick; 2],
        shard: &Shard,
        chunks: &Chunks,
        tail: Position,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        // Twice at most: a pass that was cut, and one for what has come, or come near, since.
        while self.pass.is_some() || self.earliest() <= due {
            let copied = shard.copied();
            // Never an earlier tick than the last: one pair tells what all passes have copied.
            let near = near.max(copied.due);
            let pass = match self.pass {
                Some(pass) => pass,
                None => self.begin_pass([due, near], tail),
            };
            if !self.go_on(pass, copied, shard, chunks, budget, sink) {
                return false;
            }
            shard.set_copied(pass.tail, pass.due);
            self.pass = None;
        }
        true
    }

    fn begin_pass(&mut self, [due, near]: [Tick; 2], tail: Position) -> Pass {
        let mut earliest = mem::replace(&mut self.fresh, Tick::NEVER);
        if self.far <= due {
            // Something that was scanned has come near: from the beginning again. Not from the head on, for what lies in
            // the overflow has not been looked at.
            earliest = earliest.min(self.far);
            (self.far, self.scanned) = (Tick::NEVER, self.taken);
        }
        let pass = Pass {
            // What was left is due after all that was copied.
            due: near.min(self.far.previous()),
            tail,
            earliest,
        };
        self.pass = Some(pass);
        pass
    }

    /// Goes on with a pass. Returns `true` when it is complete.
    fn go_on(
        &mut self,
        pass: Pass,
        copied: Copied,
        shard: &Shard,
        chunks: &Chunks,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        let end = End::new(shard, pass.tail);
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
            // What lay in between has been popped just now, or was dead. A batch may have come after the look at the head.
            self.scanned = head.or_later(self.taken).or_later(self.scanned);
            loop {
                if !self.scanned.is_before(end.tail) {
                    self.file(budget, sink);
                    return self.backlog() == 0;
                }
                if budget.is_used_up() {
                    return false;
                }
                let Some((from, chunk)) = shard.resolve(self.scanned, chunks) else {
                    break;
                };
                shard.prefetch_after(from, chunks);
                looked::reach(Step::Scanning);
                let cells = from.cell()..end_in_chunk(from, end.tail);
                let to = from.forward(cells.len() as u32);
                let before = self.taken_out.len();
                let in_wheel = copied.cells(from);
                let mut far = self.far;
                let mut wanted = (1 << cells.end) - (1 << cells.start);
                let (marks, others) = chunk.header();
                if others > pass.due {
                    far = far.min(others);
                    wanted &= marks;
                }
                while wanted != 0 {
                    let cell = wanted.trailing_zeros();
                    wanted &= wanted - 1;
                    let entry = chunk.read(cell);
                    if entry.due() > pass.due {
                        far = far.min(entry.due());
                    } else if cell >= in_wheel || entry.due() > copied.due {
                        sink.prefetch(entry);
                        self.taken_out.push(entry);
                    }
                }
                // With the fence of `Chunks::reuse`: if one of the cells was read as its next owner has written it, the head
                // is seen where it has moved to before.
                fence(Ordering::Acquire);
                if has_passed(shard.head(), from) {
                    self.taken_out.truncate(before);
                    break;
                }
                (self.far, self.scanned) = (far, to);
                // Reading is cheap beside filing.
                budget.stretch = budget.stretch.saturating_sub(4);
                if self.taken_out.len() >= FILED_AT_ONCE {
                    self.file(budget, sink);
                    if self.backlog() > 0 {
                        return false;
                    }
                }
            }
        }
        false
    }

    /// What this reader has copied of the shard: by the passes that are complete, and by the one that is under way.
    pub(super) fn copied(&self, shard: &Shard) -> [Copied; 2] {
        let complete = shard.copied();
        let under_way = self.pass.map(|pass| Copied::new(self.scanned, pass.due));
        [complete, under_way.unwrap_or(complete)]
    }
}

/// Returns `true` if the head has left the chunk of `from` behind, or if that was not the shard's chunk at all.
fn has_passed(head: Position, from: Position) -> bool {
    match head.chunks_to(from) {
        // `from` was found by the link of a chunk that had changed hands.
        Some(0) => head.chunk() != from.chunk(),
        // Whatever its number: it may be the same chunk again, with later entries.
        ahead => ahead.is_none(),
    }
}

//! The owner of a shard trims, samples and promotes beside pushing; [`super::compact`] is the fourth step. The head of
//! [`super::shard`] tells what they are for.

use super::chunk::{CELLS, ChunkId, Chunks};
use super::position::Position;
use super::probe::{Step, looked};
use super::shard::{Batch, Growth, Shard, end_in_chunk};
use crate::entry::Liveness;
use crate::sync::Ordering;
use std::mem::ManuallyDrop;

/// Entries that one push looks at, at most.
pub(super) const LOOKS: usize = 64;
/// Entries that a shard holds before its owner asks how many of them live.
pub(super) const FEW: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 1024 };
/// Up to this many, half of the entries may be dead; beyond, a quarter.
const MANY: u32 = 262_144;
/// Entries that are worth telling the timer thread about: it moves them in about half a millisecond.
const CROWD: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 8192 };
/// Chunks of which one sampling step looks at an entry each. There are two steps for each chunk that is opened, so that one call
/// does not wait for memory so often: the chunks lead to each other.
const SAMPLED_CHUNKS: u32 = if cfg!(hashed_wheel_loom) { 4 } else { 2 };

/// No chunk has cell 63.
pub(super) const NOT_SAMPLING: u64 = 63;
const PROMOTING: u64 = 62;

/// A chunk that the owner has emptied. It is given back, unless it is kept.
struct Emptied<'a>(ChunkId, &'a Chunks);

impl Emptied<'_> {
    fn keep(self) -> ChunkId {
        ManuallyDrop::new(self).0
    }
}

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        self.1.release(self.0);
    }
}

impl Shard {
    /// Looks at no more than [`LOOKS`] entries, and moves no more than two chunks of them. `tail` stands at the end of a
    /// chunk.
    ///
    /// Returns also a chunk that it has emptied and not given back, if there is one: it is in the cache.
    pub(super) fn tidy(
        &self,
        tail: Position,
        chunks: &Chunks,
        liveness: &impl Liveness,
    ) -> (Growth, Option<ChunkId>) {
        let promoting = self.owner().sampling.load(Ordering::Relaxed) == PROMOTING;
        let reserved = if promoting { CELLS } else { SAMPLED_CHUNKS };
        let copied = if self.overflow.is_copying() { CELLS } else { 0 };
        let emptied = self
            .trim(LOOKS - (reserved + copied) as usize, tail, chunks, liveness)
            .map(|id| Emptied(id, chunks));
        // Both may panic for want of chunks.
        let growth = self.check_limit(tail, chunks, liveness);
        self.overflow.compact(chunks, liveness);
        (growth, emptied.map(Emptied::keep))
    }

    /// Passes over dead entries at the head, at most `most`. Returns one of the chunks that this has emptied, which is the caller's
    /// now. For the owner.
    fn trim(
        &self,
        most: usize,
        tail: Position,
        chunks: &Chunks,
        liveness: &impl Liveness,
    ) -> Option<ChunkId> {
        let head = self.head();
        let copied = self.copied();
        let mut at = head;
        let mut left = [ChunkId::NONE; LOOKS / CELLS as usize + 2];
        let mut leaving = left.iter_mut();
        let mut budget = most as u32;
        while budget > 0 && at != tail {
            let (from, chunk) = self.resolve(at, chunks)?;
            if from.serial() != at.serial() {
                if let Some(place) = leaving.next() {
                    *place = at.chunk();
                }
            }
            let end = end_in_chunk(from, tail).min(from.cell() + budget);
            let looked_at = copied.cells(from);
            // Nothing is fetched ahead: the processor runs ahead by itself, as no look waits for the one before.
            let mut entries = (from.cell()..).zip(chunk.entries(from.cell()..end));
            let live = entries.find(|(cell, entry)| {
                let in_wheel = *cell < looked_at && entry.due() <= copied.due;
                !in_wheel && !liveness.is_dead(*entry)
            });
            let cell = live.map_or(end, |(cell, _)| cell);
            at = from.forward(cell - from.cell());
            budget -= cell - from.cell();
            if cell < end {
                budget -= 1;
                break;
            }
        }
        looked::note(most - budget as usize);
        if at == head {
            return None;
        }
        looked::reach(Step::Trimming);
        // The first one stays with the owner, unless it is none.
        let [kept, others @ ..] = left;
        let moved = self.move_head(head, at, others, chunks);
        (moved && kept != ChunkId::NONE).then_some(kept)
    }

    /// Samples or promotes, if more entries wait than the limit. For the owner.
    fn check_limit(&self, tail: Position, chunks: &Chunks, liveness: &impl Liveness) -> Growth {
        let head = self.head();
        let waiting = head.distance(tail) as u32;
        let limit = self.owner().limit.load(Ordering::Relaxed);
        let sampling = self.owner().sampling.load(Ordering::Relaxed);
        if waiting < limit {
            // While promoting, the limit is what is to be left.
            if sampling == PROMOTING {
                self.owner()
                    .limit
                    .store(FEW.max(2 * waiting), Ordering::Relaxed);
            } else if limit > FEW && waiting < limit / 4 {
                self.owner().limit.store(limit / 2, Ordering::Relaxed);
            }
            self.owner().sampling.store(NOT_SAMPLING, Ordering::Relaxed);
            return Growth::Usual;
        }
        match sampling {
            PROMOTING => {
                self.promote(head, tail, chunks, liveness);
                Growth::Usual
            }
            NOT_SAMPLING => {
                self.keep_trail();
                self.owner().sampled.store(0, Ordering::Relaxed);
                self.owner().sampled_live.store(0, Ordering::Relaxed);
                self.sample(head, head, tail, chunks, liveness)
            }
            _ => self.sample_further(tail, chunks, liveness),
        }
    }

    /// Goes on with sampling, if that is under way. For the owner.
    pub(super) fn sample_further(
        &self,
        tail: Position,
        chunks: &Chunks,
        liveness: &impl Liveness,
    ) -> Growth {
        match self.owner().sampling.load(Ordering::Relaxed) {
            NOT_SAMPLING | PROMOTING => Growth::Usual,
            at => {
                let head = self.head();
                self.sample(head.or_later(Position(at)), head, tail, chunks, liveness)
            }
        }
    }

    /// Looks at an entry of each of the next few chunks from `at` on; at the tail it decides.
    fn sample(
        &self,
        mut at: Position,
        head: Position,
        tail: Position,
        chunks: &Chunks,
        liveness: &impl Liveness,
    ) -> Growth {
        let owner = self.owner();
        let copied = self.copied();
        let mut looks = 0;
        let (mut live, mut end) = (0, false);
        for step in 0..SAMPLED_CHUNKS {
            if at == tail {
                end = true;
                break;
            }
            let next = self.resolve(at, chunks).filter(|_| at.is_before(tail));
            let Some((resolved, chunk)) = next else {
                // The timer thread has taken it: begin again. So does a sampling that a lost chunk has led into the
                // chunks of another shard, where it would never meet the tail.
                owner.sampling.store(NOT_SAMPLING, Ordering::Relaxed);
                return Growth::Usual;
            };
            // Another cell of each chunk, so that no pattern of the caller's is met again and again.
            let cells = end_in_chunk(resolved, tail) - resolved.cell();
            let cell =
                resolved.cell() + resolved.serial().wrapping_mul(7).wrapping_add(step) % cells;
            let entry = chunk.read(cell);
            let gone = copied.has(resolved, cell, entry) || liveness.is_dead(entry);
            live += u32::from(!gone);
            looks += 1;
            at = resolved.forward(cells);
        }
        looked::note(looks as usize);
        let sampled = owner.sampled.load(Ordering::Relaxed) + looks;
        let live = owner.sampled_live.load(Ordering::Relaxed) + live;
        owner.sampled.store(sampled, Ordering::Relaxed);
        owner.sampled_live.store(live, Ordering::Relaxed);
        owner.sampling.store(at.0, Ordering::Relaxed);
        if !end && at != tail {
            return Growth::Usual;
        }
        let waiting = head.distance(tail) as u32;
        let dead = sampled - live;
        let few_dead = if waiting < MANY {
            dead <= live
        } else {
            dead * 3 <= live
        };
        if few_dead {
            let limit = if waiting < MANY / 2 {
                waiting * 2
            } else {
                waiting / 2 * 3
            };
            owner.limit.store(limit.max(FEW), Ordering::Relaxed);
            owner.sampling.store(NOT_SAMPLING, Ordering::Relaxed);
            if waiting >= CROWD {
                Growth::Crowded
            } else {
                Growth::Usual
            }
        } else {
            // Until about a third of what is left is dead.
            let live = u64::from(waiting) * u64::from(live) / u64::from(sampled.max(1));
            owner
                .limit
                .store((FEW / 2).max((live / 2 * 3) as u32), Ordering::Relaxed);
            owner.sampling.store(PROMOTING, Ordering::Relaxed);
            Growth::Usual
        }
    }

    /// Moves the live entries of the first chunk to the overflow. For the owner.
    fn promote(&self, head: Position, tail: Position, chunks: &Chunks, liveness: &impl Liveness) {
        let Some((from, chunk)) = self.resolve(head, chunks) else {
            return;
        };
        let end = end_in_chunk(from, tail);
        let mut batch = Batch {
            chunk: ChunkId::NONE,
            len: 0,
            from: head,
            to: from.forward(end - from.cell()),
            were_in: 0,
        };
        // Their slots may lie anywhere, and a look at one that lives ends nothing here.
        for entry in chunk.entries(from.cell()..end) {
            liveness.prefetch(entry);
        }
        let copied = self.copied();
        let mut copy = None;
        for cell in from.cell()..end {
            let entry = chunk.read(cell);
            if !copied.has(from, cell, entry) && !liveness.is_dead(entry) {
                let (id, copy) = *copy.get_or_insert_with(|| chunks.claim(from.chunk()));
                copy.write(batch.len, entry);
                batch.chunk = id;
                batch.len += 1;
                batch.were_in |= 1 << cell;
            }
        }
        looked::note((end - from.cell()) as usize);
        looked::note_moved(batch.len as usize);
        let moved_on = (from.serial() != head.serial()).then_some(head.chunk());
        if batch.len > 0 {
            looked::reach(Step::Copied);
            self.overflow.push(batch, &chunks.segments);
            looked::reach(Step::Pushed);
            // After the push has returned: see the shard's head.
            let number = self.overflow.announce();
            looked::reach(Step::Announced);
            if !self.move_head(head, batch.to, moved_on, chunks) {
                // Or it has popped the batch, and moved the head to where it is now.
                self.overflow.set_void(number);
            }
        } else {
            self.move_head(head, batch.to, moved_on, chunks);
        }
    }
}

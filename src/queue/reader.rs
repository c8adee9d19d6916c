//! The timer thread's end of the pending queue.
//!
//! # What is taken, and when
//!
//! A timeout that is cancelled while its entry waits in its shard costs the timer thread nothing. So on a system clock a shard is left alone while
//! it is young and nothing in it is due soon ([`Take::Soon`]): it is taken when
//!
//! - its earliest entry is due by the given tick, or
//! - it holds no more than a few entries, which are not worth a second look, or
//! - it was first seen with something in it [`AGE`] ago.
//!
//! The earliest due tick of a shard is a lower bound: the timeout may have been cancelled or moved since. Then the shard is taken for nothing,
//! once.

use super::PendingQueue;
use super::chunk::Chunks;
use super::position::Position;
use super::shard::{Shard, end_in_chunk};
use crate::entry::Entry;
use crate::sync::Ordering;
use crate::time::Tick;

/// Attempts to take a chunk against an owner that trims.
const ATTEMPTS: usize = 3;
/// Entries that are taken at once rather than looked at twice.
const FEW: usize = 64;
/// How long entries stay in their shard if nothing in it is due, in nanoseconds.
pub(crate) const AGE: u64 = 200_000_000;
/// How far ahead slots are fetched into the cache.
const LOOKAHEAD: usize = 8;

/// What became of an entry that was offered to a wheel.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum InsertOutcome {
    /// It is in the wheel now: it counts against the limit of a tick.
    Inserted,
    /// It was dead.
    Dropped,
}

/// Where entries go that are taken out of the queue.
pub(crate) trait EntrySink {
    /// Fetches what [`EntrySink::insert`] will read.
    fn prefetch(&self, entry: Entry);
    fn insert(&mut self, entry: Entry) -> InsertOutcome;
}

/// Which shards are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// All.
    Everything,
    /// Those that hold something that is due by this tick, and those that the module's head names. The time is `now`.
    Soon { due: Tick, now: u64 },
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Reader {
    /// One for each shard that was ever seen, by its number.
    inlets: Vec<Inlet>,
    /// The numbers of those that may hold something.
    active: Vec<u32>,
    /// The one of them that is served first, in turn.
    first: usize,
    /// The last transfer has left something that was wanted.
    cut: bool,
}

/// What the timer thread knows of one shard.
struct Inlet {
    /// Taken out of the shard; the first `filed` of them are filed.
    taken_out: Vec<Entry>,
    filed: usize,
    /// Everything before has been taken by this reader.
    taken: Position,
    /// A lower bound of what is due in the shard and in the backlog.
    earliest: Tick,
    /// When something was first seen in the shard, on the timer's clock and in ticks.
    seen_at: Option<u64>,
    since: Tick,
    active: bool,
}

impl Default for Inlet {
    fn default() -> Self {
        Inlet {
            taken_out: Vec::new(),
            filed: 0,
            taken: Position::START,
            earliest: Tick::NEVER,
            seen_at: None,
            since: Tick::NEVER,
            active: false,
        }
    }
}

impl Reader {
    /// Notes what was pushed since the last look: L1 to L4 of the queue's head. `now` is the time.
    pub(crate) fn look(&mut self, queue: &PendingQueue, now: u64) {
        for word in 0..queue.shards.used().div_ceil(64) {
            let Some(ready) = queue.ready.get(word) else {
                continue;
            };
            // L1. The load leaves the line to the pushers when there is nothing. SeqCst: see the queue's head.
            if ready.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = ready.swap(0, Ordering::SeqCst);
            while bits != 0 {
                self.look_at(word * 64 + bits.trailing_zeros(), queue, now);
                bits &= bits - 1;
            }
        }
    }

    fn look_at(&mut self, index: u32, queue: &PendingQueue, now: u64) {
        let Some(shard) = queue.shards.get(index) else {
            return;
        };
        let place = index as usize;
        if self.inlets.len() <= place {
            self.inlets.resize_with(place + 1, Inlet::default);
        }
        let (inlet, owner) = (&mut self.inlets[place], shard.owner());
        owner.dirty.store(0, Ordering::SeqCst); // L2
        let urgency = owner.urgency.swap(0, Ordering::SeqCst); // L3
        inlet.earliest = inlet.earliest.min(Tick(Tick::NEVER.0 - urgency));
        // L4. Nothing depends on the value: what is there when it is taken is taken.
        owner.tail.load(Ordering::SeqCst);
        inlet.since = inlet.since.min(Tick(owner.since.load(Ordering::Relaxed)));
        inlet.seen_at.get_or_insert(now);
        if !inlet.active {
            inlet.active = true;
            self.active.push(index);
        }
    }

    /// Moves entries to `sink`, in the order of each shard, until `quota` of them have gone into the wheel or all that
    /// was there at the beginning is taken. Returns how many went.
    ///
    /// The shards share the quota: each gets its part first, and the next time another begins, so that one that
    /// is always full cannot starve the others.
    pub(crate) fn transfer(
        &mut self,
        queue: &PendingQueue,
        take: Take,
        quota: usize,
        sink: &mut impl EntrySink,
    ) -> usize {
        self.cut = false;
        if self.active.is_empty() {
            return 0;
        }
        let count = self.active.len();
        self.first %= count;
        self.active.rotate_left(self.first);
        self.first = 1;
        let mut left = quota;
        for part in [quota.div_ceil(count), usize::MAX] {
            let mut cut = false;
            for &index in &self.active {
                let inlet = &mut self.inlets[index as usize];
                let Some(shard) = queue.shards.get(index) else {
                    continue;
                };
                if inlet.is_wanted(take, shard) {
                    if left > 0 {
                        left -= inlet.drain(shard, &queue.chunks, part.min(left), sink);
                    }
                    cut |= inlet.seen_at.is_some();
                }
            }
            self.cut = cut;
            if !cut || left == 0 {
                break;
            }
        }
        let inlets = &mut self.inlets;
        self.active.retain(|&index| {
            let inlet = &mut inlets[index as usize];
            inlet.active = inlet.seen_at.is_some();
            inlet.active
        });
        quota - left
    }

    /// Whether all that was seen has been taken and filed.
    pub(crate) fn is_drained(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether the last transfer has left something that was wanted: the quota was used up, or an owner was faster.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// The earliest tick that anything seen may be due at.
    pub(crate) fn earliest(&self) -> Tick {
        let earliest = |index: &u32| self.inlets[*index as usize].earliest;
        self.active
            .iter()
            .map(earliest)
            .min()
            .unwrap_or(Tick::NEVER)
    }

    /// The tick that had passed when the first of what was seen was pushed.
    pub(crate) fn waiting_since(&self) -> Option<Tick> {
        self.active
            .iter()
            .map(|index| self.inlets[*index as usize].since)
            .min()
    }

    /// Entries in the shards that have something, and in the backlog.
    pub(crate) fn waiting(&self, queue: &PendingQueue) -> usize {
        let waiting = |index: &u32| {
            let backlog = self.inlets[*index as usize].backlog();
            backlog + queue.shards.get(*index).map_or(0, Shard::len)
        };
        self.active.iter().map(waiting).sum()
    }

    /// Entries that were taken out and not filed yet.
    pub(crate) fn backlog(&self) -> usize {
        let backlog = |index: &u32| self.inlets[*index as usize].backlog();
        self.active.iter().map(backlog).sum()
    }
}

impl Inlet {
    fn is_wanted(&self, take: Take, shard: &Shard) -> bool {
        let Some(seen_at) = self.seen_at else {
            return false;
        };
        match take {
            Take::Everything => true,
            Take::Soon { due, now } => {
                self.earliest <= due
                    || self.backlog() > 0
                    || now.saturating_sub(seen_at) >= AGE
                    || shard.len() <= FEW
            }
        }
    }

    /// Files entries, in order, until `quota` of them are in the wheel or all that was there at the beginning is filed.
    fn drain(
        &mut self,
        shard: &Shard,
        chunks: &Chunks,
        quota: usize,
        sink: &mut impl EntrySink,
    ) -> usize {
        let end = Position(shard.owner().tail.load(Ordering::SeqCst));
        let mut filed = 0;
        loop {
            filed += self.file(quota - filed, sink);
            if self.backlog() > 0 {
                return filed;
            }
            match self.refill(shard, chunks, end) {
                Refill::Taken => {}
                Refill::Lost => return filed,
                Refill::Empty => {
                    // All that was seen is filed. What has come since is announced anew.
                    self.seen_at = None;
                    self.since = Tick::NEVER;
                    self.earliest = Tick::NEVER;
                    self.taken_out.shrink_to(FEW);
                    return filed;
                }
            }
        }
    }

    /// Entries that were taken out and not filed yet.
    fn backlog(&self) -> usize {
        self.taken_out.len() - self.filed
    }

    fn file(&mut self, quota: usize, sink: &mut impl EntrySink) -> usize {
        let mut inserted = 0;
        let mut left = self.taken_out[self.filed..].iter();
        while inserted < quota {
            let Some(&entry) = left.next() else {
                break;
            };
            if let Some(&ahead) = left.as_slice().get(LOOKAHEAD) {
                sink.prefetch(ahead);
            }
            inserted += usize::from(sink.insert(entry) == InsertOutcome::Inserted);
        }
        self.filed = self.taken_out.len() - left.len();
        if left.len() == 0 {
            self.taken_out.clear();
            self.filed = 0;
        }
        inserted
    }

    /// Takes a batch or the rest of a chunk out of the shard, as far as `end`.
    fn refill(&mut self, shard: &Shard, chunks: &Chunks, end: Position) -> Refill {
        for _ in 0..ATTEMPTS {
            // Before the overflow: see the shard's head.
            let head = shard.head();
            if self.pop_batch(shard, chunks) {
                return Refill::Taken;
            }
            if head == end || end.is_before(head) {
                // What the owner has trimmed counts as taken, or serial numbers might wrap in between. Batches from
                // before the head have been popped above, or are void.
                self.taken = head;
                return Refill::Empty;
            }
            let Some((from, chunk)) = shard.resolve(head, chunks) else {
                continue;
            };
            let cells = from.cell()..end_in_chunk(from, end);
            let to = from.forward(cells.len() as u32);
            self.taken_out.extend(cells.map(|cell| chunk.read(cell)));
            let left = (from.serial() != head.serial()).then_some(head.chunk());
            if shard.move_head(head, to, left, chunks) {
                self.taken = to;
                return Refill::Taken;
            }
            self.taken_out.clear();
        }
        Refill::Lost
    }

    /// Takes a batch out of the overflow, if there is one.
    fn pop_batch(&mut self, shard: &Shard, chunks: &Chunks) -> bool {
        // Relaxed: only the reader writes it.
        let mut popped = shard.taken().popped.load(Ordering::Relaxed);
        // Acquire: the batches that were announced.
        while popped < shard.owner().announced.load(Ordering::Acquire) {
            let Some(batch) = shard.overflow.pop() else {
                return false;
            };
            popped += 1;
            shard.taken().popped.store(popped, Ordering::Relaxed);
            let void = batch.from.is_before(self.taken);
            if !void {
                // If the owner was interrupted before it moved the head, it is moved for it.
                let left = (batch.from.serial() != batch.to.serial()).then_some(batch.from.chunk());
                shard.move_head(batch.from, batch.to, left, chunks);
                self.taken = batch.to;
                if let Some(chunk) = chunks.get(batch.chunk) {
                    self.taken_out
                        .extend((0..batch.len).map(|cell| chunk.read(cell)));
                }
            }
            chunks.release(batch.chunk);
            if !void {
                return true;
            }
        }
        false
    }
}

enum Refill {
    /// There is something in the backlog.
    Taken,
    /// Nothing is left before the end.
    Empty,
    /// The owner was faster three times.
    Lost,
}

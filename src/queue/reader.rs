//! The timer thread's end of the pending queue.
//!
//! # What is moved to the wheel, and when
//!
//! A timeout that is cancelled while its entry waits in its shard costs the timer thread nothing. So on a system clock
//! ([`Take::Soon`]) entries stay in their shard as long as they can:
//!
//! - A shard with few entries is **drained**: taken out whole. So are, of any shard, those that were there [`AGE`] ago.
//! - Otherwise a shard that may hold something due soon is **scanned**: what is due soon is *copied* to the wheel, in
//!   order, and stays where it is. When the owner or a drain comes to it later, its timeout has fired, and it is dead. If
//!   it is not (the timeout was reset), it is filed a second time, which does no harm: one of the two fires it, and the
//!   other is dead then.
//!
//! On a manual clock everything is drained ([`Take::Everything`]).
//!
//! # Order
//!
//! What is due soon is copied in the order of the shard, and so is a drain. An entry that is not due soon when it is
//! scanned is copied when it is: the scan that finds it so begins at the head again, before anything that was pushed
//! later is copied.
//!
//! # A scan does not move the head
//!
//! So the owner may trim or promote what is being read, and the chunk may be in use elsewhere. After reading a chunk, the
//! head is looked at: if it has not passed the chunk, the reading was good. Otherwise the scan starts again with the
//! overflow, where the entries may be by now.

use super::PendingQueue;
use super::chunk::Chunks;
use super::position::Position;
use super::shard::{Shard, end_in_chunk};
use crate::entry::Entry;
use crate::sync::Ordering;
use crate::time::Tick;

/// Attempts to take a chunk against an owner that trims.
const ATTEMPTS: usize = 3;
/// Entries that one transfer meets at most on a system clock, dead or alive: some tenths of a millisecond. Then the timer
/// thread looks what is due, and goes on.
const STRETCH: usize = if cfg!(hashed_wheel_loom) { 64 } else { 4096 };
/// Entries that are taken at once rather than looked at twice.
const FEW: usize = if cfg!(hashed_wheel_loom) { 0 } else { 64 };
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

/// What is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Take {
    /// Everything.
    Everything,
    /// What is due by this tick, and what the module's head names. The time is `now`.
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
    /// The last transfer has left something that was wanted, because the quota was used up or an owner was faster.
    cut: bool,
    /// The last transfer has left something that was wanted, because it had met enough.
    interrupted: bool,
}

/// What the timer thread knows of one shard.
struct Inlet {
    /// Taken out of the shard; the first `filed` of them are filed.
    taken_out: Vec<Entry>,
    filed: usize,
    /// Everything before has been taken by this reader.
    taken: Position,
    /// Everything before has been scanned, or was gone when its turn came.
    scanned: Position,
    /// A lower bound of what is due and has not been scanned.
    fresh: Tick,
    /// A lower bound of what is due and was not due soon when it was scanned.
    far: Tick,
    /// Where the shard ended some time ago, and when.
    mark: Option<(Position, u64)>,
    /// A drain to here is under way.
    draining: Option<Position>,
    /// The tick that had passed when the first of what is there was pushed.
    since: Tick,
    /// The shard, or what was taken out, may hold something.
    occupied: bool,
    active: bool,
}

impl Default for Inlet {
    fn default() -> Self {
        Inlet {
            taken_out: Vec::new(),
            filed: 0,
            taken: Position::START,
            scanned: Position::START,
            fresh: Tick::NEVER,
            far: Tick::NEVER,
            mark: None,
            draining: None,
            since: Tick::NEVER,
            occupied: false,
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
        inlet.fresh = inlet.fresh.min(Tick(Tick::NEVER.0 - urgency));
        let tail = Position(owner.tail.load(Ordering::SeqCst)); // L4
        inlet.since = inlet.since.min(Tick(owner.since.load(Ordering::Relaxed)));
        inlet.mark.get_or_insert((tail, now));
        inlet.occupied = true;
        if !inlet.active {
            inlet.active = true;
            self.active.push(index);
        }
    }

    /// Moves entries to `sink`, in the order of each shard, until `quota` of them have gone into the wheel or all that
    /// was there at the beginning is taken; with [`Take::Soon`], until it has met [`STRETCH`] of them. Returns how many
    /// went.
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
        (self.cut, self.interrupted) = (false, false);
        if self.active.is_empty() {
            return 0;
        }
        let count = self.active.len();
        self.first %= count;
        self.active.rotate_left(self.first);
        self.first = 1;
        let stretch = match take {
            Take::Everything => usize::MAX,
            Take::Soon { .. } => STRETCH,
        };
        let mut budget = Budget { quota, stretch };
        let fair = budget.share(count);
        for most in [fair, budget] {
            let mut left = false;
            for &index in &self.active {
                let inlet = &mut self.inlets[index as usize];
                let Some(shard) = queue.shards.get(index) else {
                    continue;
                };
                let most = Budget {
                    quota: budget.quota.min(most.quota),
                    stretch: budget.stretch.min(most.stretch),
                };
                let mut unused = most;
                left |= inlet.serve(take, shard, &queue.chunks, &mut unused, sink);
                budget.quota -= most.quota - unused.quota;
                budget.stretch -= most.stretch - unused.stretch;
            }
            self.interrupted = left && budget.stretch == 0;
            self.cut = left && !self.interrupted;
            if !left || budget.is_used_up() {
                break;
            }
        }
        let inlets = &mut self.inlets;
        self.active.retain(|&index| {
            let inlet = &mut inlets[index as usize];
            inlet.active = inlet.occupied;
            inlet.active
        });
        quota - budget.quota
    }

    /// Whether the last transfer has left something that was wanted, because it had met enough: it can go on at once.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted
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
        let earliest = |index: &u32| self.inlets[*index as usize].earliest();
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

    /// After so many transfers of [`Take::Soon`] all that was seen has been met, whatever is pushed meanwhile: each gives
    /// every shard its part.
    pub(crate) fn transfers_to_go(&self, queue: &PendingQueue) -> usize {
        let part = STRETCH / self.active.len().max(1);
        self.waiting(queue).div_ceil(part.max(1))
    }

    /// Entries that were taken out and not filed yet.
    pub(crate) fn backlog(&self) -> usize {
        let backlog = |index: &u32| self.inlets[*index as usize].backlog();
        self.active.iter().map(backlog).sum()
    }
}

impl Inlet {
    /// A lower bound of what is due and not in the wheel.
    fn earliest(&self) -> Tick {
        self.fresh.min(self.far)
    }

    /// Moves what is wanted, as far as the budget goes. Returns `true` if some of it is left.
    fn serve(
        &mut self,
        take: Take,
        shard: &Shard,
        chunks: &Chunks,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        if !self.occupied {
            return false;
        }
        let tail = Position(shard.owner().tail.load(Ordering::SeqCst));
        if let Take::Soon { due, now } = take {
            let (mark, marked_at) = self.mark.unwrap_or((tail, now));
            if self.draining.is_some() || shard.len() <= FEW {
                self.draining.get_or_insert(tail);
            } else if now.saturating_sub(marked_at) >= AGE {
                self.draining = Some(mark);
                self.mark = Some((tail, now));
            } else {
                return self.earliest() <= due
                    && !self.scan(due, shard, chunks, tail, budget, sink);
            }
        } else {
            self.draining = Some(tail);
        }
        let end = self.draining.unwrap_or(tail);
        if !self.drain(shard, chunks, end, budget, sink) {
            return true;
        }
        self.draining = None;
        if end == tail {
            // All that was seen is filed. What has come since is announced anew.
            self.occupied = false;
            self.mark = None;
            self.since = Tick::NEVER;
            (self.fresh, self.far) = (Tick::NEVER, Tick::NEVER);
            self.taken_out.shrink_to(FEW);
            return false;
        }
        // What is left may still be due soon.
        match take {
            Take::Everything => false,
            Take::Soon { due, .. } => {
                self.earliest() <= due && !self.scan(due, shard, chunks, tail, budget, sink)
            }
        }
    }

    /// Takes entries out and files them, in order, up to `end`. Returns `true` when that is done.
    fn drain(
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
                Refill::Taken => {}
                Refill::Lost => return false,
                Refill::Empty => return true,
            }
        }
    }

    /// Copies what is due by `due` to the wheel, in order, up to `tail`. Returns `true` when that is done.
    fn scan(
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

    /// Entries that were taken out and not filed yet.
    fn backlog(&self) -> usize {
        self.taken_out.len() - self.filed
    }

    fn file(&mut self, budget: &mut Budget, sink: &mut impl EntrySink) {
        let mut left = self.taken_out[self.filed..].iter();
        while !budget.is_used_up() {
            let Some(&entry) = left.next() else {
                break;
            };
            if let Some(&ahead) = left.as_slice().get(LOOKAHEAD) {
                sink.prefetch(ahead);
            }
            budget.stretch -= 1;
            budget.quota -= usize::from(sink.insert(entry) == InsertOutcome::Inserted);
        }
        self.filed = self.taken_out.len() - left.len();
        if left.len() == 0 {
            self.taken_out.clear();
            self.filed = 0;
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
            if head == end.tail || end.tail.is_before(head) {
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
            self.taken_out.extend(cells.map(|cell| chunk.read(cell)));
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

    /// Takes a batch out of the overflow, of the first `announced`.
    fn pop_batch(&mut self, shard: &Shard, chunks: &Chunks, announced: u64) -> bool {
        // Relaxed: only the reader writes it.
        let mut popped = shard.taken().popped.load(Ordering::Relaxed);
        while popped < announced {
            let Some(batch) = shard.overflow.pop() else {
                return false;
            };
            popped += 1;
            shard.taken().popped.store(popped, Ordering::Relaxed);
            let void = batch.from.is_before(self.taken);
            if !void {
                // If the owner was interrupted before it moved the head, it is moved for it.
                let left = (batch.from.serial() != batch.to.serial()).then_some(batch.from.chunk());
                if shard.move_head(batch.from, batch.to, left, chunks) {
                    way::note(way::HELPED);
                }
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

/// How far a drain or a scan goes.
#[derive(Clone, Copy)]
struct End {
    tail: Position,
    announced: u64,
}

impl End {
    fn new(shard: &Shard, tail: Position) -> End {
        End {
            tail,
            // Acquire: the batches that were announced.
            announced: shard.owner().announced.load(Ordering::Acquire),
        }
    }

    /// Batches have come since, which are older than what is at the head now.
    fn is_outdated(self, shard: &Shard) -> bool {
        shard.owner().announced.load(Ordering::Acquire) > self.announced
    }
}

/// What a transfer may still do.
#[derive(Clone, Copy)]
struct Budget {
    /// Entries that may go into the wheel.
    quota: usize,
    /// Entries that may be met.
    stretch: usize,
}

impl Budget {
    fn is_used_up(self) -> bool {
        self.quota == 0 || self.stretch == 0
    }

    /// One of `count` equal shares, rounded up.
    fn share(self, count: usize) -> Budget {
        Budget {
            quota: self.quota.div_ceil(count),
            stretch: self.stretch.div_ceil(count),
        }
    }
}

/// Tells the models which way a race went.
pub(crate) mod way {
    /// The owner was faster.
    pub(crate) const LOST: u8 = 1;
    /// The reader has moved the head for the owner.
    pub(crate) const HELPED: u8 = 2;
    /// The reader had taken what a batch holds.
    pub(crate) const VOID: u8 = 4;

    #[cfg(not(all(test, hashed_wheel_loom)))]
    #[inline]
    pub(super) fn note(_way: u8) {}

    #[cfg(all(test, hashed_wheel_loom))]
    mod noting {
        use std::cell::Cell;
        // All threads of a model are run by one thread.
        std::thread_local! {
            static WAYS: Cell<u8> = const { Cell::new(0) };
        }
        pub(in crate::queue) fn note(way: u8) {
            WAYS.set(WAYS.get() | way);
        }
        /// All that was noted since the last call.
        pub(crate) fn take() -> u8 {
            WAYS.take()
        }
    }
    #[cfg(all(test, hashed_wheel_loom))]
    pub(super) use noting::note;
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) use noting::take;
}

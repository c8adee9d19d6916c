//! The pending queue: how entries get from any thread to the timer thread. Lock-free, for many producers and one
//! consumer.
//!
//! It is made of *shards*, one for each thread that schedules; a shard whose thread has ended is adopted by a later
//! one. The timer thread's end is the [`Reader`]. How owner and timer thread share a [`shard`] is told there.
//!
//! | call | bound |
//! |---|---|
//! | push | no lock, no wait; one locked instruction, and up to three more once in 31 calls (some twenty while it clears batches away: [`compact`]); then it also looks at up to 64 entries and moves up to 62 of them, and half-way between at two. It allocates when the queue grows: a page-wise mapping, a segment of the overflow for 31 batches, or once, from a thousand entries on, the list of its last chunks |
//! | take | no lock, no wait; three attempts against a trimming owner, then at the next tick. It frees nothing that owners have allocated, and allocates only for its own vectors |
//!
//! # How the timer thread finds what is new
//!
//! Each shard has a bit in a shared word. The push that finds its shard's `dirty` flag down raises it and sets the bit; so between two
//! looks of the timer thread a shard writes to the shared word once.
//!
//! ```text
//! push                                        look (W2 of the parker)
//! P1  tail moves on                           L1  bits = word.swap(0); for each shard:
//!     lower the earliest due tick             L2  dirty = false
//!     if !dirty: dirty = true, set the bit    L3  earliest.swap(none)
//! P2  read the parker's word                   L4  read the tail
//! ```
//!
//! All of these are sequentially consistent. *Nothing is overlooked*: if P1 comes before L4, the look sees the entry. Its due tick is
//! in what L3 took, or at least as early a one is; or the push lowers it after L3, hence after L2, so it finds `dirty`
//! down or raised again since: the bit is set, and the next look comes. In that case, and if P1 comes after L4, P2 comes after
//! the parker's W1, and reads the plan that this look was made for.

mod chunk;
mod compact;
mod drain;
mod inlet;
mod overflow;
pub(crate) mod parker;
mod position;
mod probe;
mod reader;
mod scan;
mod shard;
mod trim;

pub(crate) use parker::{Hook, WakeReason};
#[cfg(all(test, hashed_wheel_loom))]
pub(crate) use probe::way;
pub(crate) use reader::{EntrySink, InsertOutcome, Reader, Take};
pub(crate) use shard::Shard;

use crate::entry::{Entry, Liveness};
use crate::memory::{BoxTable, Table};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Tick;
use chunk::Chunks;
use parker::Parker;
use shard::Growth;
use std::time::Duration;

/// See the module's head.
pub(crate) struct PendingQueue {
    shards: BoxTable<Shard>,
    /// A bit for each shard that has something new.
    ready: Table<AtomicU64, { if cfg!(hashed_wheel_loom) { 1 } else { 64 } }>,
    chunks: Chunks,
    parker: Parker,
}

impl PendingQueue {
    pub(crate) fn new() -> PendingQueue {
        PendingQueue {
            shards: BoxTable::new(),
            ready: Table::new(),
            chunks: Chunks::new(),
            parker: Parker::new(),
        }
    }

    /// The shard of a thread's number.
    pub(crate) fn shard(&self, number: u32) -> &Shard {
        // Its word of bits comes first: a look that knows of the shard, by the number of those in use, then finds the
        // word as well.
        self.ready.get_or_grow(number / 64);
        self.shards.get_or_insert(number, Shard::new)
    }

    /// Appends an entry to the shard of that number, and wakes the timer thread if it would be late for it. `passed`
    /// tells the tick that has passed.
    ///
    /// The caller sees to it that no two threads push to the same shard at once. If they do, entries may be lost, but
    /// nothing worse.
    #[inline]
    pub(crate) fn push(
        &self,
        number: u32,
        shard: &Shard,
        entry: Entry,
        liveness: &impl Liveness,
        passed: impl Fn() -> Tick,
    ) {
        if entry.due() == Tick::NEVER {
            // No entry: nothing will ever have to be done about it, until `stop` scans the slots. The fence stands
            // where a push has its sequentially consistent exchange.
            return fence(Ordering::SeqCst);
        }
        let tail = shard.tail();
        if tail.is_stop() {
            return self.push_at_stop(number, shard, entry, liveness, passed);
        }
        shard.append(tail, entry, &self.chunks);
        self.tell(number, shard, entry.due(), false, passed);
    }

    /// The same at the end of a chunk or in its middle. A call of its own, so that the usual one needs no registers saved.
    #[cold]
    fn push_at_stop(
        &self,
        number: u32,
        shard: &Shard,
        entry: Entry,
        liveness: &impl Liveness,
        passed: impl Fn() -> Tick,
    ) {
        let tail = shard.tail();
        let (tail, growth) = if tail.is_chunk_end() {
            shard.open(tail, &self.chunks, liveness)
        } else {
            (tail, shard.sample_further(tail, &self.chunks, liveness))
        };
        shard.append(tail, entry, &self.chunks);
        let crowded = growth == Growth::Crowded;
        self.tell(number, shard, entry.due(), crowded, passed);
    }

    /// Tells the timer thread of an entry that was pushed, if it does not know of the shard or sleeps too long.
    #[inline]
    fn tell(
        &self,
        number: u32,
        shard: &Shard,
        due: Tick,
        crowded: bool,
        passed: impl Fn() -> Tick,
    ) {
        let known = shard.owner().dirty.load(Ordering::SeqCst) != 0;
        if !known || self.parker.is_late(due, crowded) {
            self.tell_now(number, shard, due, crowded, passed);
        }
    }

    #[cold]
    fn tell_now(
        &self,
        number: u32,
        shard: &Shard,
        due: Tick,
        crowded: bool,
        passed: impl Fn() -> Tick,
    ) {
        // Asked again: it is known only now that a reading of the clock is worth it.
        if shard.owner().dirty.load(Ordering::SeqCst) == 0 {
            self.announce(number, shard, passed());
        }
        self.parker.wake_if_late(due, crowded, passed);
    }

    fn announce(&self, index: u32, shard: &Shard, passed: Tick) {
        let owner = shard.owner();
        // Relaxed: published with the bit.
        owner.since.store(passed.0, Ordering::Relaxed);
        owner.dirty.store(1, Ordering::SeqCst);
        let word = self.ready.get_or_grow(index / 64);
        word.fetch_or(1 << (index % 64), Ordering::SeqCst);
    }

    /// About how many entries wait, dead ones included; without what the reader has taken out.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|(_, shard)| shard.len()).sum()
    }

    /// Orders what follows after every push that has not seen what the caller has announced before: the tails are
    /// read.
    pub(crate) fn order_after_pushes(&self) {
        for (_, shard) in self.shards.iter() {
            shard.len();
        }
        fence(Ordering::SeqCst);
    }

    /// Gives the memory of free chunks back to the system. For the timer thread.
    pub(crate) fn discard_free(&self) {
        self.chunks.discard_free();
    }

    /// Bytes held, used or kept for later.
    pub(crate) fn bytes(&self) -> usize {
        let shards = self.shards.iter().map(|(_, shard)| shard.bytes());
        self.chunks.bytes() + shards.sum::<usize>()
    }

    /// Leaves no chunk for anybody.
    #[cfg(all(test, not(hashed_wheel_loom)))]
    pub(crate) fn use_up(&self) {
        self.chunks.use_up();
    }

    /// Shards, chunks in use, and segments in use.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn holdings(&self) -> (u32, u32, u32) {
        let (chunks, segments) = (self.chunks.in_use(), self.chunks.segments.in_use());
        (self.shards.used(), chunks, segments)
    }

    /// Batches of shard 0 that are still to be copied, while they are.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn left_to_copy(&self) -> Option<u64> {
        self.shard(0).overflow.left_to_copy()
    }

    /// Batches of shard 0 that wait.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn batches(&self) -> usize {
        self.shard(0).overflow.len()
    }

    /// Whether the owner of shard 0 copies batches, or clears them away.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn is_compacting(&self) -> bool {
        self.shard(0).overflow.is_compacting()
    }

    /// How often a thread was woken, or asked to wake up.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn wakes(&self) -> usize {
        self.parker.wakes()
    }

    /// Does what a push that is due then begins with to wake the timer thread, and no more, as if it were suspended there.
    #[cfg(all(test, hashed_wheel_loom))]
    pub(crate) fn begin_to_wake(&self, due: Tick) -> bool {
        self.parker.begin_to_wake(due)
    }

    /// Says who is to be woken: the calling thread.
    pub(crate) fn register_worker(&self) {
        self.parker.register_worker();
    }

    /// Wakes the timer thread whatever its plan.
    pub(crate) fn wake_worker(&self) {
        self.parker.unpark();
    }

    /// Says that a loop of the caller's is to be woken, by a hook that is set later.
    pub(crate) fn register_loop(&self) {
        self.parker.register_loop();
    }

    /// Sets what wakes the caller's loop, or removes it.
    pub(crate) fn set_hook(&self, hook: Option<Hook>) {
        self.parker.set_hook(hook);
    }

    /// Announces that the caller's loop sleeps until `plan`. What is pushed from now on calls the hook if it is due before that.
    pub(crate) fn announce_plan(&self, plan: Tick) {
        // Crowds do not wake it: it is told of what is due, and of nothing else.
        self.parker.announce(plan, false);
    }

    /// The loop is awake. Returns the boundary that had passed when the hook was called, if it was.
    pub(crate) fn withdraw_plan(&self) -> Option<Tick> {
        self.parker.withdraw()
    }

    /// Lets the timer thread sleep: see [`parker`].
    pub(crate) fn park_worker(
        &self,
        plan: Tick,
        room: bool,
        until: impl FnOnce() -> Option<Duration>,
        recheck: impl FnOnce() -> bool,
    ) -> WakeReason {
        self.parker.sleep(plan, room, until, recheck)
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

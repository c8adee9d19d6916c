//! The pending queue: how slots get from any thread to the timer thread. Lock-free, for many producers and one consumer.
//!
//! It carries numbers of slots, and is made of [shards](shard), one for each thread that schedules; a shard whose thread has
//! ended is adopted by a later one. The timer thread's end is the [`Reader`]. Which slots have to be pushed is told in
//! `slots/slot/place.rs`: a slot that waits already is not pushed again, nor one that the wheel will look at in time.
//!
//! A push takes no lock and waits for no thread: one locked instruction, two more with every sixteenth, and up to four
//! when the timer thread has to be told. What it calls then may wait: the hook of a driven timer, and `unpark` where there is no
//! futex. It allocates two kilobytes with every 496th, a block of `SegQueue`.
//!
//! # How the timer thread finds what is new
//!
//! Each shard has a bit in a shared word. The push that finds its shard's `dirty` flag down raises it and sets the bit; so
//! between two looks of the timer thread a shard writes to the shared word once.
//!
//! ```text
//! push                                        look (W2, a transfer)  
//! P1  announce the number                     L1  bits = word.swap(0); for each shard:
//!     if !dirty: dirty = true, set the bit    L2  dirty = false
//! P2  read the parker's word                  L3  read how many were announced
//! ```
//!
//! All of these are sequentially consistent. *Nothing is overlooked*: if P1 comes before L3, the look sees the number.
//! Otherwise it comes after L2, so the push finds `dirty` down or raised again since: the bit is set, and the next look comes.
//! Then P2 comes after the parker's W1, and reads the plan that this look was made for.
//!
//! # The order of boundaries
//!
//! The timer thread takes all that it has seen before it processes a boundary, up to `max_transfers_per_tick`. Within that
//! limit, what waits here is due at a boundary that has not been processed: the clock is read before the look, and no
//! boundary after that reading is processed before the next look.

mod hook;
pub(crate) mod parker;
mod reader;
mod shard;

pub(crate) use hook::Hook;
pub(crate) use parker::WakeReason;
pub(crate) use reader::Reader;
pub(crate) use shard::Shard;

use crate::entry::SlotId;
use crate::memory::{BoxTable, Table};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Tick;
use parker::Parker;
use std::time::Duration;

/// See the module's head.
pub(crate) struct PendingQueue {
    shards: BoxTable<Shard>,
    /// A bit for each shard that has something new.
    ready: Table<AtomicU64, { if cfg!(hashed_wheel_loom) { 1 } else { 64 } }>,
    parker: Parker,
}

impl PendingQueue {
    pub(crate) fn new() -> PendingQueue {
        PendingQueue {
            shards: BoxTable::new(),
            ready: Table::new(),
            parker: Parker::new(),
        }
    }

    /// The shard of a thread's number.
    pub(crate) fn shard(&self, number: u32) -> &Shard {
        // Its word of bits comes first: a look that knows of the shard, by the number of those in use, then finds the
        // word as well.
        self.ready.get_or_grow(number / 64);
        self.shards.get_or_insert(number, || Shard::new(number))
    }

    /// Appends a slot that is due at `due` to the calling thread's shard, and wakes the timer thread if it would be late for it.
    /// `passed` tells the tick that has passed.
    #[inline]
    pub(crate) fn push(&self, shard: &Shard, id: SlotId, due: Tick, passed: impl Fn() -> Tick) {
        let crowded = shard.push(id);
        if !shard.is_dirty() || self.parker.is_late(due, crowded) {
            self.tell(shard, due, crowded, passed);
        }
    }

    #[cold]
    fn tell(&self, shard: &Shard, due: Tick, crowded: bool, passed: impl Fn() -> Tick) {
        if !shard.is_dirty() {
            shard.set_dirty(passed().0);
            let word = self.ready.get_or_grow(shard.number / 64);
            word.fetch_or(1 << (shard.number % 64), Ordering::SeqCst);
        }
        self.parker.wake_if_late(due, crowded, passed);
    }

    /// Wakes the timer thread if it would be late for a slot that waits already, and is now due at `due`.
    #[inline]
    pub(crate) fn hasten(&self, due: Tick, passed: impl Fn() -> Tick) {
        if self.parker.is_late(due, false) {
            self.parker.wake_if_late(due, false, passed);
        }
    }

    /// About how many numbers wait; without what the reader has taken.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|(_, shard)| shard.len()).sum()
    }

    /// Orders what follows after every push that has not seen what the caller has announced before.
    pub(crate) fn order_after_pushes(&self) {
        // Reads what each has announced.
        self.len();
        fence(Ordering::SeqCst);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|(_, shard)| shard.bytes()).sum()
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

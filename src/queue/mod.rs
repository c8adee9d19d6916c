//! The pending queue: carries slot numbers from the producers to the timer thread. Lock-free, with many producers and one
//! consumer.
//!
//! It consists of [shards](shard), one for each producer; a later thread adopts the shard of one that has ended. The timer thread
//! reads through the [`Reader`]. `slots/slot/place.rs` says which slots are pushed: not those whose number waits, nor those that
//! the wheel will look at in time.
//!
//! A push takes no lock and waits for no thread. It costs one locked instruction, two more with every sixteenth, and up to five
//! when the timer thread has to be told. The wake-up itself may wait: in the hook of a driven timer, and in `unpark` where there is
//! no futex. Every 496th push allocates two kilobytes, a block of `SegQueue`.
//!
//! # How the timer thread finds new numbers
//!
//! Each shard has a bit in a shared word. A push that finds its shard's `dirty` flag down raises the flag and sets the bit. So
//! between two looks of the timer thread a shard writes to the shared word once.
//!
//! ```text
//! push                                        look (W2, a transfer)
//! P1  announce the number                     L1  bits = word.swap(0); for each shard with a bit:
//!     if !dirty: dirty = true, set the bit    L2  dirty = false
//! P2  read the parker's word                  L3  read how many were announced
//! ```
//!
//! All of these are sequentially consistent. *No number is overlooked*:
//!
//! - The look finds the bit, and P1 comes before L3: the look sees the number.
//! - The look finds the bit, and P1 comes after L3: then P1 also comes after L2. The push finds `dirty` down, or it was raised
//!   again by an earlier push of this shard. The bit is set again, and the next look finds it.
//! - The look does not find the bit: an earlier look has taken it and has seen the number, or the push has not set it yet.
//!
//! If the look does not see the number, P2 comes after L1, and so after the parker's W1: the push reads the plan that this look was
//! made for, or a later word.
//!
//! # Late lanes
//!
//! A shard has two lanes. A call that arms a free slot puts its number into the late one if the slot is due in more than a tenth of a
//! second. Most of these slots are freed before, and armed for late again, while their numbers wait. So the timer thread leaves the late lanes alone until the
//! earliest of the slots is due. Each thread keeps, in its shard, the earliest due tick of the slots that it has pushed there or
//! found there, in any shard. The timer thread publishes the earliest of these that it has seen, so that a `reset` to later has to
//! read no more than that.
//!
//! ```text
//! a call                                      opening the late lanes
//! E1  push the number, or find its mark       O1  late_due = never, in the queue and each shard
//! E2  is the slot due before late_due of      O2  read how many were announced, in each shard
//!     the caller's shard, or of the queue?
//! E3  yes: late_due = due, then as after P1
//! ```
//!
//! These are sequentially consistent, too. *No slot is found too late*:
//!
//! - *E3 is done.* L3 reads `late_due` as well, so with E3 for P1 the argument above shows that the timer thread learns the tick
//!   before it sleeps beyond it. Only an O1 can erase the tick first. Then E1 came before that O1, and O2 sees the number.
//! - *E2 finds a tick that is early enough.* That tick was announced so, and the lanes are opened by then. The O1 of that opening comes
//!   after E2, and so after E1.
//! - A number whose mark was found, and that O2 does not see, was taken in between: then the timer thread looks at the slot after
//!   the arming, or will (T2 of `slots/slot/place.rs`).
//!
//! An O1 between E2 and E3 leaves a tick for which nothing waits: the lanes are opened once in vain.
//!
//! # The order of boundaries
//!
//! The timer thread reads the clock, then looks here, and until the next look processes no boundary after that reading. Before
//! it processes a boundary, it takes all numbers that it has seen, up to `max_transfers_per_tick`; those of the late lanes only if one
//! of their slots is due by then. So, within that limit, a number that still waits belongs to a slot that is due at a later boundary.

mod blocks;
mod hook;
pub(crate) mod parker;
mod reader;
mod shard;

pub(crate) use parker::WakeReason;
pub(crate) use reader::Reader;
pub(crate) use shard::Shard;

use crate::entry::{Lane, SlotId};
use crate::memory::{BoxTable, Table};
use crate::sync::{AtomicU64, Ordering, fence};
use crate::time::Tick;
use parker::Parker;

/// See the module's head.
pub(crate) struct PendingQueue {
    shards: BoxTable<Shard>,
    /// A bit for each shard that has something new.
    ready: Table<AtomicU64, { if cfg!(hashed_wheel_loom) { 1 } else { 64 } }>,
    /// How the timer thread sleeps, and is woken.
    pub(crate) parker: Parker,
    /// The earliest due tick in late lanes that the timer thread knows.
    late_due: AtomicU64,
}

impl PendingQueue {
    pub(crate) fn new() -> PendingQueue {
        PendingQueue {
            late_due: AtomicU64::new(Tick::NEVER.0),
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

    /// Appends a slot that is due at `due` to a lane of the calling thread's shard, and wakes the timer thread if it would be late
    /// for it. `passed` returns the last boundary that has passed.
    #[inline]
    pub(crate) fn push(
        &self,
        shard: &Shard,
        lane: Lane,
        id: SlotId,
        due: Tick,
        passed: impl Fn() -> Tick,
    ) {
        let crowded = shard.push(lane, id);
        if lane == Lane::Late {
            self.expect(shard, due, crowded, passed);
        } else if !shard.is_dirty() || self.parker.is_late(due, crowded) {
            self.tell(shard, due, crowded, passed);
        }
    }

    /// E2, where the timer thread knows a tick that is early enough.
    #[inline]
    pub(crate) fn expects(&self, due: Tick) -> bool {
        self.late_due.load(Ordering::SeqCst) <= due.0
    }

    /// E2 and E3, on the calling thread's shard, for a slot whose number waits in a late lane, perhaps another thread's.
    #[inline]
    pub(crate) fn expect(
        &self,
        shard: &Shard,
        due: Tick,
        crowded: bool,
        passed: impl Fn() -> Tick,
    ) {
        let is_earlier = due < shard.late_due();
        if is_earlier {
            shard.set_late_due(due);
        }
        if is_earlier || crowded {
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

    /// Wakes the timer thread if it would be late for a slot whose number waits already, and which is now due at `due`.
    #[inline]
    pub(crate) fn hasten(&self, due: Tick, passed: impl Fn() -> Tick) {
        if self.parker.is_late(due, false) {
            self.parker.wake_if_late(due, false, passed);
        }
    }

    /// About how many numbers wait. Those that the reader has taken are not counted.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|(_, shard)| shard.len()).sum()
    }

    /// Orders the caller's later reads after every push whose thread does not see what the caller has written before.
    pub(crate) fn order_after_pushes(&self) {
        // Reads each shard's `pushed`: pairs with P1.
        self.len();
        fence(Ordering::SeqCst);
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|(_, shard)| shard.bytes()).sum()
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

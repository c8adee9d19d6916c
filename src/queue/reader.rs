//! The timer thread's end of the pending queue.
//!
//! # What is moved to the wheel, and when
//!
//! A timeout that is cancelled while its entry waits in its shard costs the timer thread nothing. So on a system clock
//! ([`Take::Soon`]) entries stay in their shard as long as they can:
//!
//! - A shard with few entries is **drained**: taken out whole. So are, of any shard, those that were there [`AGE`] ago, unless
//!   nothing in it is due soon and its owner has pushed many since: it drops what is dead by itself.
//! - Otherwise a shard that may hold something due soon is **scanned**: what is due soon is *copied* to the wheel, in
//!   order, and stays where it is. When the owner, a drain or a later scan comes to it, it is left out: the wheel has it.
//!
//! On a manual clock everything is drained ([`Take::Everything`]).
//!
//! # Order
//!
//! What is due soon is copied in the order of the shard, and so is a drain. An entry that is not due soon when it is
//! scanned is copied when it is: the scan that finds it so begins at the head again, before anything that was pushed
//! later is copied. Until then no scan copies what is due at its tick or later.
//!
//! # A scan does not move the head
//!
//! So the owner may trim or promote what is being read, and the chunk may be in use elsewhere. After reading a chunk, the
//! head is looked at: if it has not passed the chunk, the reading was good. Otherwise the scan starts again with the
//! overflow, where the entries may be by now.
//!
//! # Once
//!
//! What was copied is known by its position and its due tick ([`super::scan`]), also when it comes through the overflow: a batch
//! tells which cells its entries were in. Only where the owner has [put batches together](super::compact), because this thread was away for
//! long after a scan that was cut, may what that scan had copied be filed a second time, if it is alive. That does no harm: one of
//! the two fires the timeout, and the other is dead then.

use super::PendingQueue;
use super::inlet::{Budget, Inlet};
use super::position::Position;
use super::shard::Shard;
use crate::entry::Entry;
use crate::sync::Ordering;
use crate::time::Tick;

/// Entries that one transfer meets at most on a system clock, dead or alive: some tenths of a millisecond. Then the timer
/// thread looks what is due, and goes on.
const STRETCH: usize = if cfg!(hashed_wheel_loom) { 64 } else { 4096 };
/// How long entries stay in their shard if nothing in it is due, in nanoseconds.
pub(crate) const AGE: u64 = 200_000_000;

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
    /// What is due by the tick `due`, and what the module's head names; along with it, what is due by `near`, so that the next
    /// scan is some time away. The time is `now`.
    Soon { due: Tick, near: Tick, now: u64 },
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

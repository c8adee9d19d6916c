//! The timer thread's end of the pending queue.

use super::PendingQueue;
use crate::entry::{Lane, SlotId};
use crate::sync::Ordering;
use crate::time::Tick;
use std::mem;

/// See the module's head.
pub(crate) struct Reader {
    soon: Intake,
    late: Intake,
    /// The earliest due tick of the slots whose numbers wait in late lanes, as far as it was seen.
    late_due: Tick,
    /// The late lanes were opened: their numbers count as waiting until the next `take`.
    late_is_open: bool,
}

/// What the timer thread knows of one lane of all shards.
#[derive(Default)]
struct Intake {
    /// One for each shard that was ever seen, by its number.
    inlets: Vec<Inlet>,
    /// The numbers of the shards that have something to take.
    active: Vec<u32>,
    /// How many numbers were seen and not taken.
    waiting: usize,
}

/// What the timer thread knows of one lane of one shard.
#[derive(Default)]
struct Inlet {
    /// Numbers that were announced, as the last look read it.
    seen: u64,
    /// Numbers that were taken.
    taken: u64,
    /// The boundary that had passed when the first of the numbers in between was pushed.
    since: u64,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            soon: Intake::default(),
            late: Intake::default(),
            late_due: Tick::NEVER,
            late_is_open: false,
        }
    }
}

impl Reader {
    /// Notes what was pushed since the last look: L1 to L3 of the queue's head.
    pub(crate) fn look(&mut self, queue: &PendingQueue) {
        for word in 0..queue.shards.used().div_ceil(64) {
            let Some(ready) = queue.ready.get(word) else {
                continue;
            };
            // L1. A load first: a swap would take the cache line from the pushers even if no bit is set.
            if ready.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut bits = ready.swap(0, Ordering::SeqCst);
            while bits != 0 {
                let number = word * 64 + bits.trailing_zeros();
                if let Some(shard) = queue.shards.get(number) {
                    let seen = shard.look();
                    self.soon.note(number, seen.soon, seen.since);
                    self.late.note(number, seen.late, seen.since);
                    if seen.late_due < self.late_due {
                        self.set_late_due(queue, seen.late_due);
                    }
                }
                bits &= bits - 1;
            }
        }
    }

    /// The earliest due tick that a caller has announced for a slot in a late lane since these were opened, or [`Tick::NEVER`].
    pub(crate) fn late_due(&self) -> Tick {
        self.late_due
    }

    /// About how many numbers wait in late lanes.
    pub(crate) fn late_len(&self) -> usize {
        self.late.waiting
    }

    /// The numbers in the late lanes count as waiting from now on: O1 and O2 of the queue's head.
    pub(crate) fn open_late(&mut self, queue: &PendingQueue) {
        self.set_late_due(queue, Tick::NEVER);
        for (_, shard) in queue.shards.iter() {
            if shard.late_due() != Tick::NEVER {
                shard.set_late_due(Tick::NEVER);
            }
        }
        for (number, shard) in queue.shards.iter() {
            self.late
                .note(number, shard.lane(Lane::Late).pushed(), shard.since());
        }
        self.late_is_open = true;
    }

    fn set_late_due(&mut self, queue: &PendingQueue, due: Tick) {
        self.late_due = due;
        queue.late_due.store(due.0, Ordering::SeqCst);
    }

    /// Takes all numbers that wait, shard by shard, in blocks.
    pub(crate) fn take(&mut self, queue: &PendingQueue, take: &mut dyn FnMut(&[SlotId], Lane)) {
        self.soon.take(queue, Lane::Soon, usize::MAX, take);
        if mem::take(&mut self.late_is_open) {
            self.late.take(queue, Lane::Late, usize::MAX, take);
        }
    }

    /// Takes about so many late numbers before their time.
    pub(crate) fn take_late(
        &mut self,
        queue: &PendingQueue,
        count: usize,
        take: &mut dyn FnMut(&[SlotId], Lane),
    ) {
        self.late.take(queue, Lane::Late, count, take);
    }

    /// How many numbers wait. Late ones count once they are to be taken.
    pub(crate) fn waiting(&self) -> usize {
        let late = if self.late_is_open {
            self.late.waiting
        } else {
            0
        };
        self.soon.waiting + late
    }

    /// The boundary that had passed when the first of the waiting numbers was pushed.
    pub(crate) fn waiting_since(&self) -> Option<Tick> {
        let late = if self.late_is_open {
            self.late.since()
        } else {
            None
        };
        self.soon.since().into_iter().chain(late).min()
    }
}

impl Intake {
    fn note(&mut self, number: u32, pushed: u64, since: u64) {
        let place = number as usize;
        if self.inlets.len() <= place {
            self.inlets.resize_with(place + 1, Inlet::default);
        }
        let inlet = &mut self.inlets[place];
        let (seen, was_empty) = (inlet.seen, inlet.seen == inlet.taken);
        // It may have taken more than was seen.
        inlet.seen = pushed.max(inlet.taken);
        self.waiting += (inlet.seen - seen) as usize;
        if was_empty && inlet.seen > inlet.taken {
            inlet.since = since;
            self.active.push(number);
        }
    }

    fn take(
        &mut self,
        queue: &PendingQueue,
        lane: Lane,
        mut count: usize,
        take: &mut dyn FnMut(&[SlotId], Lane),
    ) {
        while let (Some(&number), true) = (self.active.last(), count > 0) {
            let inlet = &mut self.inlets[number as usize];
            let Inlet { seen, taken, .. } = *inlet;
            let end = seen.min(taken.saturating_add(count as u64));
            if let Some(shard) = queue.shards.get(number) {
                let lane_of = shard.lane(lane);
                lane_of.take(&mut inlet.taken, end, &mut |ids| take(ids, lane));
            }
            inlet.seen = seen.max(inlet.taken);
            count = count.saturating_sub((inlet.taken - taken) as usize);
            self.waiting -= ((seen - taken) - (inlet.seen - inlet.taken)) as usize;
            if inlet.seen == inlet.taken {
                self.active.pop();
            }
        }
    }

    /// The boundary that had passed when the first of the waiting numbers was pushed.
    fn since(&self) -> Option<Tick> {
        let inlets = self
            .active
            .iter()
            .map(|&number| &self.inlets[number as usize]);
        inlets.map(|inlet| Tick(inlet.since)).min()
    }
}

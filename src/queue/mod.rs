//! The pending queue: how entries get from any thread to the worker, and how the worker sleeps behind it.

pub(crate) mod pending;
pub(crate) mod ring;
pub(crate) mod sleep;

pub(crate) use pending::{EntrySink, InsertOutcome, Liveness};
pub(crate) use sleep::Slept as WakeReason;

use crate::entry::Entry;
use crate::sync::{Ordering, fence};
use crate::time::Tick;
use pending::{Inlet, Lane, Pushed};
use sleep::Sleep;
use std::time::Duration;

/// The queue of one timer, as all threads see it.
pub(crate) struct PendingQueue {
    /// A power of two of them.
    lanes: Box<[Lane]>,
    sleep: Sleep,
}

impl PendingQueue {
    pub(crate) fn new() -> PendingQueue {
        PendingQueue {
            lanes: Lane::all(),
            sleep: Sleep::new(),
        }
    }

    /// Puts an entry into the lane of that thread and wakes the worker if it would be late for it. `passed`
    /// tells the boundary that has passed.
    #[inline]
    pub(crate) fn push(
        &self,
        entry: Entry,
        thread: usize,
        timer: &impl Liveness,
        passed: impl FnOnce() -> Tick,
    ) {
        if entry.due() == Tick::NEVER {
            // No entry: nothing will ever have to be done about it, until `stop` scans the slots.
            // The fence stands where a push has its sequentially consistent addition.
            return fence(Ordering::SeqCst);
        }
        let lane = &self.lanes[thread & (self.lanes.len() - 1)];
        let crowded = lane.push(entry, timer) == Pushed::Crowded;
        self.sleep.wake_for(entry.due(), crowded, passed);
    }

    /// About how many entries are waiting.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum()
    }

    /// Since when entries have been waiting beyond the usual, on the timer's clock.
    pub(crate) fn waiting_since(&self) -> Option<u64> {
        self.lanes.iter().filter_map(Lane::waiting_since).min()
    }

    /// Bytes held, used or reserved.
    pub(crate) fn bytes(&self) -> usize {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    /// Orders what follows after every push that has not seen what the caller has announced before: the
    /// lanes' tails are read.
    pub(crate) fn order_after_pushes(&self) {
        for lane in &self.lanes {
            lane.is_empty();
        }
        fence(Ordering::SeqCst);
    }

    /// Forgets all entries: the timer has stopped, and its slots say what was pending.
    pub(crate) fn clear(&self) {
        self.lanes.iter().for_each(Lane::clear);
    }

    /// Says who is to be woken: the calling thread.
    pub(crate) fn register_worker(&self) {
        self.sleep.adopt();
    }

    /// Wakes the worker whatever its plan.
    pub(crate) fn wake_worker(&self) {
        self.sleep.unpark();
    }

    /// Lets the worker sleep: see [`sleep`].
    pub(crate) fn park_worker(
        &self,
        plan: Tick,
        room: bool,
        until: impl FnOnce() -> Option<Duration>,
        news: impl FnOnce() -> bool,
    ) -> WakeReason {
        self.sleep.sleep(plan, room, until, news)
    }
}

/// The worker's end of the queue: what it has taken out and not filed yet.
pub(crate) struct Reader {
    /// One for each lane.
    inlets: Box<[Inlet]>,
    /// The lane that is served first, in turn.
    first_lane: usize,
}

impl Reader {
    pub(crate) fn new() -> Reader {
        Reader {
            inlets: Inlet::all(),
            first_lane: 0,
        }
    }

    /// How many entries have been taken out and not filed.
    pub(crate) fn len(&self) -> usize {
        self.inlets.iter().map(Inlet::len).sum()
    }

    /// Whether all that was pushed before the last [`Reader::transfer`] has been filed.
    pub(crate) fn is_drained(&self) -> bool {
        self.inlets.iter().all(Inlet::is_drained)
    }

    /// Whether nothing waits, here or in the queue.
    pub(crate) fn is_empty(&self, queue: &PendingQueue) -> bool {
        let mut lanes = self.inlets.iter().zip(&queue.lanes);
        lanes.all(|(inlet, lane)| inlet.is_empty(lane))
    }

    /// Files entries, at most `room` of them; how many went into the wheel.
    ///
    /// The lanes share what is allowed: each gets its part first, and the next time another begins, so
    /// that a lane which is always full cannot starve the others.
    pub(crate) fn transfer(
        &mut self,
        queue: &PendingQueue,
        room: usize,
        sink: &mut impl EntrySink,
    ) -> usize {
        let lanes = self.inlets.len();
        let mut left = room;
        for part in [room.div_ceil(lanes), usize::MAX] {
            let mut drained = true;
            for lane in 0..lanes {
                let lane = (self.first_lane + lane) % lanes;
                if left > 0 {
                    let quota = part.min(left);
                    let inlet = &mut self.inlets[lane];
                    left -= inlet.drain(&queue.lanes[lane], quota, sink);
                    drained &= inlet.is_drained();
                }
            }
            if drained {
                break;
            }
        }
        self.first_lane = (self.first_lane + 1) % lanes;
        room - left
    }
}

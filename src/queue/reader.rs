//! The timer thread's end of the pending queue.

use super::PendingQueue;
use crate::entry::SlotId;
use crate::sync::Ordering;
use crate::time::Tick;

/// See the module's head.
#[derive(Default)]
pub(crate) struct Reader {
    /// One for each shard that was ever seen, by its number.
    inlets: Vec<Inlet>,
    /// The numbers of the shards that have something to take.
    active: Vec<u32>,
}

/// What the timer thread knows of one shard.
#[derive(Default)]
struct Inlet {
    /// `pushed` of the shard, as the last look read it.
    seen: u64,
    /// Numbers that were taken.
    taken: u64,
    /// The boundary that had passed when the first of the numbers in between was pushed.
    since: u64,
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
                self.look_at(word * 64 + bits.trailing_zeros(), queue);
                bits &= bits - 1;
            }
        }
    }

    fn look_at(&mut self, number: u32, queue: &PendingQueue) {
        let Some(shard) = queue.shards.get(number) else {
            return;
        };
        let place = number as usize;
        if self.inlets.len() <= place {
            self.inlets.resize_with(place + 1, Inlet::default);
        }
        let inlet = &mut self.inlets[place];
        let was_empty = inlet.seen == inlet.taken;
        let (seen, since) = shard.look();
        inlet.seen = seen.max(inlet.taken);
        if was_empty && inlet.seen > inlet.taken {
            inlet.since = since;
            self.active.push(number);
        }
    }

    /// Takes all that was seen, shard by shard, in blocks.
    pub(crate) fn take(&mut self, queue: &PendingQueue, take: &mut dyn FnMut(&[SlotId])) {
        for number in self.active.drain(..) {
            let inlet = &mut self.inlets[number as usize];
            if let Some(shard) = queue.shards.get(number) {
                shard.take(&mut inlet.taken, inlet.seen, take);
                // `take` may have taken more than was seen.
                inlet.seen = inlet.taken;
            }
        }
    }

    /// How many numbers were seen and not taken.
    pub(crate) fn waiting(&self) -> usize {
        let waiting = |inlet: &Inlet| (inlet.seen - inlet.taken) as usize;
        self.active().map(waiting).sum()
    }

    /// The boundary that had passed when the first of the waiting numbers was pushed.
    pub(crate) fn waiting_since(&self) -> Option<Tick> {
        self.active().map(|inlet| Tick(inlet.since)).min()
    }

    fn active(&self) -> impl Iterator<Item = &Inlet> {
        self.active
            .iter()
            .map(|number| &self.inlets[*number as usize])
    }
}

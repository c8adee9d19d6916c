//! The part of the pending queue that one thread pushes to: two lanes of numbers, and what the timer thread is told of them.

use super::blocks::Blocks;
use crate::entry::{Lane, SlotId};
use crate::sync::{AtomicU8, AtomicU64, CachePadded, Ordering};
use crate::time::Tick;

/// See the module's head. Its producer writes to it; the timer thread writes `dirty`, `late_due` and how many it has taken.
pub(crate) struct Shard {
    /// Its index in the queue.
    pub(super) number: u32,
    soon: Blocks,
    late: Blocks,
    notice: CachePadded<Notice>,
}

struct Notice {
    /// 1 from the first push that the timer thread has not seen, until it looks at this shard.
    dirty: AtomicU8,
    /// The boundary that had passed at that push.
    since: AtomicU64,
    /// The earliest due tick of the slots that this thread has found or put in a late lane, since the timer thread opened these.
    late_due: AtomicU64,
}

/// What a look finds.
pub(super) struct Seen {
    pub(super) soon: u64,
    pub(super) late: u64,
    pub(super) since: u64,
    pub(super) late_due: Tick,
}

impl Shard {
    pub(super) fn new(number: u32) -> Shard {
        Shard {
            number,
            soon: Blocks::new(),
            late: Blocks::new(),
            notice: CachePadded::new(Notice {
                dirty: AtomicU8::new(0),
                since: AtomicU64::new(0),
                late_due: AtomicU64::new(Tick::NEVER.0),
            }),
        }
    }

    #[inline]
    pub(super) fn lane(&self, lane: Lane) -> &Blocks {
        match lane {
            Lane::Soon => &self.soon,
            Lane::Late => &self.late,
        }
    }

    /// P1 of the queue's head: see [`Blocks::push`].
    #[inline]
    pub(super) fn push(&self, lane: Lane, id: SlotId) -> bool {
        self.lane(lane).push(id)
    }

    /// Returns `true` if the timer thread has been told of this shard since it last looked at it.
    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.notice.dirty.load(Ordering::SeqCst) != 0
    }

    /// Notes that the timer thread is told, when the boundary `passed` has passed.
    pub(super) fn set_dirty(&self, passed: u64) {
        // Relaxed: published with the bit.
        self.notice.since.store(passed, Ordering::Relaxed);
        self.notice.dirty.store(1, Ordering::SeqCst);
    }

    /// E2 of the queue's head.
    #[inline]
    pub(super) fn late_due(&self) -> Tick {
        Tick(self.notice.late_due.load(Ordering::SeqCst))
    }

    /// E3.
    pub(super) fn set_late_due(&self, due: Tick) {
        self.notice.late_due.store(due.0, Ordering::SeqCst);
    }

    /// L2 and L3 of the queue's head.
    pub(super) fn look(&self) -> Seen {
        self.notice.dirty.store(0, Ordering::SeqCst);
        Seen {
            soon: self.soon.pushed(),
            late: self.late.pushed(),
            since: self.since(),
            late_due: self.late_due(),
        }
    }

    /// The boundary that had passed when the timer thread was last told of this shard.
    pub(super) fn since(&self) -> u64 {
        self.notice.since.load(Ordering::Relaxed)
    }

    /// About how many numbers wait.
    pub(super) fn len(&self) -> usize {
        self.soon.len() + self.late.len()
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Shard>() + self.soon.bytes() + self.late.bytes()
    }
}

//! The part of the pending queue that one thread pushes to: crossbeam's `SegQueue`, in blocks of numbers.
//!
//! ```text
//!    full: SegQueue of blocks                     open: the block that is being filled
//!   ┌─────────┬─────────┬─────────┐              ┌─────────┐
//!   │ 16      │ 16      │ 16      │              │ 5       │      pushed = 3 × 16 + 5
//!   └─────────┴─────────┴─────────┘              └─────────┘
//!    the timer thread pops                        the timer thread reads
//! ```
//!
//! A push writes the number to the open block, hands the block over if that fills it, and then announces the number by
//! `pushed`. So one number costs one locked instruction, and one in sixteen the two of `SegQueue::push` as well.
//!
//! # Why neither side waits
//!
//! The loops of `SegQueue` go round again for a second pusher, a second popper, or a push that has claimed its place and not
//! written it yet. There is one pusher, the thread that the shard belongs to; one popper, the timer thread; and that pops only
//! blocks that were announced, so their push has returned.
//!
//! # The open block is read while it may change
//!
//! The pusher may hand the block over and begin the next in the same place while the timer thread reads it. The timer thread
//! looks at `pushed` again after reading: if the block is still open, it has read what was announced. Otherwise the block
//! has been handed over and announced, and is popped instead.

use crate::entry::{SlotCell, SlotId};
use crate::sync::{AtomicU8, AtomicU64, CachePadded, Ordering, SpscSegQueue as SegQueue, fence};
use crate::tuning::{CROWD, QUEUE_BLOCK};

/// The bytes of a number on its way: those of `SegQueue`'s memory for 31 blocks.
const BYTES: usize = (31 * (QUEUE_BLOCK * 4 + 8) + 8) / (31 * QUEUE_BLOCK) + 1;

/// See the module's head.
pub(crate) struct Shard {
    /// Its place in the queue.
    pub(super) number: u32,
    producer: CachePadded<Producer>,
    full: SegQueue<[SlotId; QUEUE_BLOCK]>,
    /// Numbers that were taken: a copy of the timer thread's count, for statistics.
    taken: CachePadded<AtomicU64>,
}

/// What the producer writes.
struct Producer {
    /// Numbers that were pushed.
    pushed: AtomicU64,
    /// 1 from the first push that the timer thread has not seen, until it looks at this shard.
    dirty: AtomicU8,
    /// The tick that had passed at that push.
    since: AtomicU64,
    open: [SlotCell; QUEUE_BLOCK],
}

impl Shard {
    pub(super) fn new(number: u32) -> Shard {
        Shard {
            number,
            producer: CachePadded::new(Producer {
                pushed: AtomicU64::new(0),
                dirty: AtomicU8::new(0),
                since: AtomicU64::new(0),
                open: std::array::from_fn(|_| SlotCell::default()),
            }),
            full: SegQueue::new(),
            taken: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Appends a number: P1 of the queue's head. Returns `true` if the timer thread should be woken for the crowd.
    ///
    /// The caller sees to it that no two threads push to the same shard at once. If they do, numbers may be lost, but
    /// nothing worse.
    #[inline]
    pub(super) fn push(&self, id: SlotId) -> bool {
        let producer = &*self.producer;
        // Relaxed: the producer wrote it.
        let pushed = producer.pushed.load(Ordering::Relaxed);
        let place = pushed as usize % QUEUE_BLOCK;
        // Release: whoever reads this number in place of an earlier one sees that the earlier block was announced.
        producer.open[place].store(id, Ordering::Release);
        if place == QUEUE_BLOCK - 1 {
            self.hand_over();
        }
        producer.pushed.store(pushed + 1, Ordering::SeqCst);
        (pushed + 1) % CROWD == 0
    }

    #[cold]
    fn hand_over(&self) {
        self.full.push(self.read_open());
    }

    /// Takes the numbers from `taken` to `end`, which were announced, or up to the end of that block; a block or less at a time.
    /// For the timer thread.
    pub(super) fn take(&self, taken: &mut u64, end: u64, take: &mut dyn FnMut(&[SlotId])) {
        while *taken < end {
            let first = *taken as usize % QUEUE_BLOCK;
            let block = *taken - first as u64;
            let (ids, count) = self.block(block, end);
            *taken = block + count as u64;
            self.taken.store(*taken, Ordering::Relaxed);
            take(&ids[first..count]);
        }
    }

    /// The numbers of the block that begins at `block`: those before `end` if it is open, otherwise all.
    fn block(&self, block: u64, end: u64) -> ([SlotId; QUEUE_BLOCK], usize) {
        let next = block + QUEUE_BLOCK as u64;
        if end < next {
            let ids = self.read_open();
            // With the Release of `push`.
            fence(Ordering::Acquire);
            if self.producer.pushed.load(Ordering::SeqCst) < next {
                return (ids, (end - block) as usize);
            }
        }
        // It was announced, so there is one.
        (
            self.full.pop().unwrap_or_else(|| self.read_open()),
            QUEUE_BLOCK,
        )
    }

    fn read_open(&self) -> [SlotId; QUEUE_BLOCK] {
        std::array::from_fn(|place| self.producer.open[place].load(Ordering::Relaxed))
    }

    /// Whether the timer thread has been told of this shard since it last looked at it.
    #[inline]
    pub(super) fn is_dirty(&self) -> bool {
        self.producer.dirty.load(Ordering::SeqCst) != 0
    }

    /// Notes that the timer thread is told, when the boundary `passed` has passed.
    pub(super) fn set_dirty(&self, passed: u64) {
        // Relaxed: published with the bit.
        self.producer.since.store(passed, Ordering::Relaxed);
        self.producer.dirty.store(1, Ordering::SeqCst);
    }

    /// L2 and L3 of the queue's head. Returns how many numbers were pushed, and since when.
    pub(super) fn look(&self) -> (u64, u64) {
        self.producer.dirty.store(0, Ordering::SeqCst);
        let pushed = self.producer.pushed.load(Ordering::SeqCst);
        (pushed, self.producer.since.load(Ordering::Relaxed))
    }

    /// About how many numbers wait.
    pub(super) fn len(&self) -> usize {
        let pushed = self.producer.pushed.load(Ordering::SeqCst);
        pushed.saturating_sub(self.taken.load(Ordering::Relaxed)) as usize
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Shard>() + self.len() * BYTES
    }
}

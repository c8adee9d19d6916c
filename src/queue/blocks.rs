//! The numbers that one thread pushes and the timer thread takes, in order: crossbeam's `SegQueue`, in blocks of numbers.
//!
//! ```text
//!    full: SegQueue of blocks                     open: the block that is being filled
//!   ┌─────────┬─────────┬─────────┐              ┌─────────┐
//!   │ 16      │ 16      │ 16      │              │ 5       │      pushed = 3 × 16 + 5
//!   └─────────┴─────────┴─────────┘              └─────────┘
//!    the timer thread pops                        the timer thread reads
//! ```
//!
//! A push writes the number to the open block, hands the block over if the number fills it, and then announces the number by
//! `pushed`. So a number costs one locked instruction, and every sixteenth also the two of `SegQueue::push`.
//!
//! # Why neither side waits
//!
//! A loop of `SegQueue` repeats because of a second pusher, a second popper, or a push that has claimed its place and not yet
//! written it. Here, one thread pushes, its producer; one thread pops, the timer thread; and it pops only announced
//! blocks, whose push has returned.
//!
//! # The open block is read while it may change
//!
//! The pusher may hand the block over and write the next one in the same place while the timer thread reads it. So the timer
//! thread reads `pushed` again afterwards. If the block was still open then, the announced numbers were read. Otherwise the block
//! was handed over and announced, and the timer thread pops it instead. A number that the timer thread read too early, from the
//! next block, shows it the new `pushed`: Release in `push`, the Acquire fence in `block`.

use crate::entry::{SlotCell, SlotId};
use crate::sync::{AtomicU64, CachePadded, Ordering, SpscSegQueue as SegQueue, fence};
use crate::tuning::{CROWD, QUEUE_BLOCK};

/// Bytes for each number that waits: its own four, and a part of what `SegQueue` allocates for each block.
const BYTES: usize = 5;

/// See the module's head.
pub(super) struct Blocks {
    producer: CachePadded<Producer>,
    full: SegQueue<[SlotId; QUEUE_BLOCK]>,
    /// Numbers that were taken: a copy of the timer thread's count, for statistics.
    taken: CachePadded<AtomicU64>,
}

/// What the producer writes.
struct Producer {
    /// Numbers that were pushed.
    pushed: AtomicU64,
    open: [SlotCell; QUEUE_BLOCK],
}

impl Blocks {
    pub(super) fn new() -> Blocks {
        Blocks {
            producer: CachePadded::new(Producer {
                pushed: AtomicU64::new(0),
                open: std::array::from_fn(|_| SlotCell::default()),
            }),
            full: SegQueue::new(),
            taken: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// Appends a number: P1 of the queue's head. Returns `true` with every `CROWD`th: the timer thread should be woken then.
    ///
    /// The caller sees to it that no two threads push at once. If they do, numbers may be lost, but nothing worse.
    #[inline]
    pub(super) fn push(&self, id: SlotId) -> bool {
        let producer = &*self.producer;
        // Relaxed: the producer wrote it.
        let pushed = producer.pushed.load(Ordering::Relaxed);
        let place = pushed as usize % QUEUE_BLOCK;
        // Release, with the fence in `block`: a reader that finds this number in place of one of the block before sees that
        // that block was announced.
        producer.open[place].store(id, Ordering::Release);
        if place == QUEUE_BLOCK - 1 {
            self.hand_over();
        }
        producer.pushed.store(pushed + 1, Ordering::SeqCst);
        (pushed + 1) % CROWD == 0
    }

    /// How many numbers were announced.
    pub(super) fn pushed(&self) -> u64 {
        self.producer.pushed.load(Ordering::SeqCst)
    }

    #[cold]
    fn hand_over(&self) {
        self.full.push(self.read_open());
    }

    /// Takes the numbers from `taken` to `end`, a block or less at a time, and perhaps the rest of the last block. Those before
    /// `end` were announced. For the timer thread.
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

    /// The numbers of the block that begins at `block`, and how many: those before `end` if the block is open, otherwise all.
    fn block(&self, block: u64, end: u64) -> ([SlotId; QUEUE_BLOCK], usize) {
        let next = block + QUEUE_BLOCK as u64;
        if end < next {
            let ids = self.read_open();
            // With the Release of `push`.
            fence(Ordering::Acquire);
            if self.pushed() < next {
                return (ids, (end - block) as usize);
            }
        }
        // The block was announced, so it is there.
        (
            self.full.pop().unwrap_or_else(|| self.read_open()),
            QUEUE_BLOCK,
        )
    }

    fn read_open(&self) -> [SlotId; QUEUE_BLOCK] {
        std::array::from_fn(|place| self.producer.open[place].load(Ordering::Relaxed))
    }

    /// About how many numbers wait.
    pub(super) fn len(&self) -> usize {
        let taken = self.taken.load(Ordering::Relaxed);
        self.pushed().saturating_sub(taken) as usize
    }

    /// Bytes held beyond its own.
    pub(super) fn bytes(&self) -> usize {
        self.len() * BYTES
    }
}

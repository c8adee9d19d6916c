//! No timer at all: what the same work costs on a plain array.
//!
//! It shows how much of a growth curve is the cache's: every op reads the clock, writes a 64-byte
//! slot with the task in it and clears the slot of the oldest, in an array as large as the number
//! of timeouts in flight. Nothing fires and nothing is shared.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Array;

impl Contestant for Array {
    type Timer<T: Task> = Plain<T>;
}

pub(crate) struct Plain<T>(PhantomData<fn(T)>);

impl<T: Task> Timer<T> for Plain<T> {
    type Producer<'a> = Slots<T>;

    fn new(_tick: Duration, _slots: usize) -> Self {
        Self(PhantomData)
    }

    fn producer(&self) -> Slots<T> {
        Slots {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

#[repr(align(64))]
struct Slot<T> {
    due: Instant,
    task: Option<T>,
}

pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

impl<T: Task> Producer<T> for Slots<T> {
    type Handle = usize;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> usize {
        let slot = Slot {
            due: Instant::now() + delay,
            task: Some(task),
        };
        let Some(free) = self.free.pop() else {
            self.slots.push(slot);
            return self.slots.len() - 1;
        };
        self.slots[free] = slot;
        free
    }

    #[inline]
    fn cancel(&mut self, handle: usize) {
        let slot = &mut self.slots[handle];
        std::hint::black_box(slot.due);
        slot.task = None;
        self.free.push(handle);
    }
}

//! This crate's two timers, used as their documentation says: tasks of a few words are stored in
//! place, a handle is dropped when nobody will cancel.

use std::time::Duration;

use hashed_wheel::{HashedWheelTimer, HierarchicalWheelTimer, Timeout};

use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Hashed;
pub(crate) struct Hierarchical;

impl Contestant for Hashed {
    type Timer<T: Task> = HashedWheelTimer;
}

impl Contestant for Hierarchical {
    type Timer<T: Task> = HierarchicalWheelTimer;
}

/// The hierarchy's own default: 20 buckets a level, whatever the hashed wheel is given.
const WHEEL_SIZE: usize = 20;

impl<T: Task> Timer<T> for HashedWheelTimer {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, slots: usize) -> Self {
        Self::new(tick, slots)
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Timer<T> for HierarchicalWheelTimer {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, _slots: usize) -> Self {
        Self::new(tick, WHEEL_SIZE)
    }

    fn producer(&self) -> &Self {
        self
    }
}

macro_rules! producer {
    ($timer:ty) => {
        impl<T: Task> Producer<T> for &$timer {
            type Handle = Timeout;

            #[inline]
            fn arm(&mut self, task: T, delay: Duration) -> Timeout {
                self.new_timeout(move |_| task.run(), delay)
                    .expect("a running timer takes a timeout")
            }

            #[inline]
            fn cancel(&mut self, timeout: Timeout) {
                timeout.cancel();
            }
        }
    };
}

producer!(HashedWheelTimer);
producer!(HierarchicalWheelTimer);

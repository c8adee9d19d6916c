//! This crate's two timers, used as their documentation says: tasks of a few words are stored in
//! place, a handle is dropped when nobody will cancel.

use std::time::Duration;

use hashed_wheel::{
    DelayKey, DelayQueue, HashedWheelTimer, HierarchicalWheelTimer, Period, Timeout,
};

use super::{Contestant, Producer, Repeats, Task, Timer};

pub(crate) struct Hashed;
pub(crate) struct Hierarchical;

impl Contestant for Hashed {
    type Timer<T: Task> = HashedWheelTimer;
    const RESETS: bool = true;
}

impl Contestant for Hierarchical {
    type Timer<T: Task> = HierarchicalWheelTimer;
    const RESETS: bool = true;
}

/// The hierarchy's own default: 20 buckets a level, whatever the hashed wheel is given.
const WHEEL_SIZE: usize = 20;

/// A timer with these measures. Ticks below 1 ms are kept as they are.
pub(crate) fn hashed(tick: Duration, slots: usize) -> HashedWheelTimer {
    let builder = HashedWheelTimer::builder()
        .tick_duration(tick)
        .ticks_per_wheel(slots);
    let builder = builder.fine_ticks(tick < Duration::from_millis(1));
    builder.build().expect("valid measures")
}

pub(crate) fn hierarchical(tick: Duration) -> HierarchicalWheelTimer {
    let builder = HierarchicalWheelTimer::builder()
        .tick_duration(tick)
        .wheel_size(WHEEL_SIZE);
    let builder = builder.fine_ticks(tick < Duration::from_millis(1));
    builder.build().expect("valid measures")
}

impl<T: Task> Timer<T> for HashedWheelTimer {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, slots: usize) -> Self {
        hashed(tick, slots)
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Timer<T> for HierarchicalWheelTimer {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, _slots: usize) -> Self {
        hierarchical(tick)
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

            #[inline]
            fn reset(&mut self, timeout: &mut Timeout, delay: Duration) {
                timeout.reset(delay);
            }
        }

        impl<T: Task> Repeats<T> for $timer {
            fn every(&self, period: Duration, mut run: impl FnMut() + Send + 'static) {
                let every = Period::FixedRate(period);
                self.new_periodic(move |_| run(), period, every)
                    .expect("a running timer takes a periodic task");
            }

            fn queued(&self) -> Option<u64> {
                Some(self.stats().queued)
            }
        }
    };
}

producer!(HashedWheelTimer);
producer!(HierarchicalWheelTimer);

/// This crate's `DelayQueue`, on a hashed wheel. Nobody takes its values out: the row only inserts and removes.
pub(crate) struct Values;

impl Contestant for Values {
    type Timer<T: Task> = ValueQueue<T>;
}

pub(crate) struct ValueQueue<T: Task> {
    queue: DelayQueue<T>,
    _timer: HashedWheelTimer,
}

impl<T: Task> Timer<T> for ValueQueue<T> {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, slots: usize) -> Self {
        let timer = hashed(tick, slots);
        Self {
            queue: DelayQueue::new(&timer.handle()),
            _timer: timer,
        }
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Producer<T> for &ValueQueue<T> {
    type Handle = DelayKey;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> DelayKey {
        match self.queue.insert(task, delay) {
            Ok(key) => key,
            Err(_) => unreachable!("a running timer takes a value"),
        }
    }

    #[inline]
    fn cancel(&mut self, key: DelayKey) {
        drop(self.queue.remove(&key));
    }
}

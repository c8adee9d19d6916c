//! `kestrel-timer`'s `TimerWheel`.
//!
//! Best use: the wheel itself, not its service with channels; a current-thread runtime on a thread of its
//! own. Its interface demands a callback that makes a future and may be called again, so the task lies
//! in a mutex that is never contended. It spawns a tokio task for each callback.

use std::time::Duration;

use kestrel_timer::config::{BatchConfig, WheelConfig};
use kestrel_timer::{CallbackWrapper, TimerTask, TimerWheel};
use parking_lot::Mutex;

use super::tokio_sleep::start_runtime;
use super::{Contestant, Producer, Task, Timer};

pub(crate) struct Kestrel;

impl Contestant for Kestrel {
    type Timer<T: Task> = TimerWheel;
    const RESETS: bool = true;
}

/// The upper wheel, as in its defaults.
const UPPER_TICK: Duration = Duration::from_secs(1);
const UPPER_SLOTS: usize = 64;

impl<T: Task> Timer<T> for TimerWheel {
    type Producer<'a> = &'a Self;

    fn new(tick: Duration, slots: usize) -> Self {
        let config = WheelConfig::builder()
            .l0_tick_duration(tick)
            .l0_slot_count(slots.next_power_of_two())
            .l1_tick_duration(UPPER_TICK)
            .l1_slot_count(UPPER_SLOTS)
            .build()
            .expect("valid measures");
        let runtime = start_runtime();
        let _guard = runtime.enter();
        Self::new(config, BatchConfig::default()).expect("a timer")
    }

    fn producer(&self) -> &Self {
        self
    }
}

impl<T: Task> Producer<T> for &TimerWheel {
    type Handle = kestrel_timer::TimerHandleWithCompletion;

    #[inline]
    fn arm(&mut self, task: T, delay: Duration) -> Self::Handle {
        let task = Mutex::new(Some(task));
        let callback = CallbackWrapper::new(move || {
            let task = task.lock().take();
            async move {
                if let Some(task) = task {
                    task.run();
                }
            }
        });
        let task = TimerTask::new_oneshot(delay, Some(callback));
        self.register(self.allocate_handle(), task)
            .expect("a running timer takes a timeout")
    }

    #[inline]
    fn cancel(&mut self, handle: Self::Handle) {
        let _ = handle.cancel();
    }

    #[inline]
    fn reset(&mut self, handle: &mut Self::Handle, delay: Duration) {
        let _ = handle.postpone(delay, None);
    }
}

//! The public methods: owners, handle, builders and futures.

mod builder;
#[expect(unsafe_code, reason = "a value gets its type back")]
mod delay_queue;
mod driver;
mod future;
mod global;
#[expect(unsafe_code, reason = "a closure that is refused gets its type back")]
mod handle;
#[cfg(feature = "hyper")]
mod hyper;
mod timer;
#[cfg(feature = "tokio")]
mod tokio;
#[cfg(feature = "tower")]
#[expect(unsafe_code, reason = "a pinned field")]
mod tower;

pub use builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder, TimerBuilder};
#[cfg(feature = "stream")]
pub use delay_queue::DelayStream;
pub use delay_queue::{DelayKey, DelayQueue};
pub use driver::TimerDriver;
pub use future::{Interval, MissedTicks, Sleep, WithTimeout};
pub use global::{global, interval, sleep, sleep_until, timeout, timeout_at};
pub use timer::{HashedWheelTimer, HierarchicalWheelTimer};
#[cfg(feature = "tokio")]
pub use tokio::tokio_executor;
#[cfg(feature = "tower")]
pub use tower::{Deadline, DeadlineFuture, DeadlineLayer};

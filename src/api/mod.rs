//! The public methods: owners, handle, builders and futures.

mod builder;
mod driver;
mod future;
#[expect(unsafe_code, reason = "a closure that is refused gets its type back")]
mod handle;
#[cfg(feature = "hyper")]
mod hyper;
mod timer;

pub use builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder, TimerBuilder};
pub use driver::TimerDriver;
pub use future::{Interval, MissedTicks, Sleep, WithTimeout};
pub use timer::{HashedWheelTimer, HierarchicalWheelTimer};

//! Futures on a timer, without an async runtime.

mod interval;
mod sleep;
#[expect(unsafe_code, reason = "a pinned field")]
mod with_timeout;

pub use interval::{Interval, MissedTicks};
pub use sleep::Sleep;
pub use with_timeout::WithTimeout;

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

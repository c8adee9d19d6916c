//! Futures on a timer, without an async runtime.

mod interval;
mod notice;
mod sleep;
mod with_timeout;

pub use interval::Interval;
pub use sleep::Sleep;
pub use with_timeout::WithTimeout;

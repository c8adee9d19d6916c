//! Time: ticks, clocks, and the only place where durations become ticks.

mod clock;
mod manual;
// Allowed, not expected: only Linux's clock needs it.
#[allow(unsafe_code, reason = "the C library is asked for the time")]
mod monotonic;
mod period;
mod scale;
mod tick;

pub(crate) use clock::Clock;
pub(crate) use manual::Driven;
pub use manual::ManualClock;
pub use period::Period;
pub(crate) use period::next_at_fixed_rate;
pub(crate) use scale::{FOREVER, Scale, nanos};
pub(crate) use tick::Tick;

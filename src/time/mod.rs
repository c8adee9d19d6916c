//! Time: ticks, clocks, and the only place where durations become ticks.

#[forbid(unsafe_code)]
mod clock;
#[forbid(unsafe_code)]
mod manual;
// Allowed, not expected: only Linux's clock needs it.
#[allow(unsafe_code, reason = "the C library is asked for the time")]
mod monotonic;
#[forbid(unsafe_code)]
mod period;
#[forbid(unsafe_code)]
mod scale;
#[forbid(unsafe_code)]
mod tick;

pub(crate) use clock::Clock;
pub(crate) use manual::Driven;
pub use manual::ManualClock;
pub use period::Period;
pub(crate) use period::next_at_fixed_rate;
pub(crate) use scale::{FOREVER, Scale, nanos};
pub(crate) use tick::Tick;

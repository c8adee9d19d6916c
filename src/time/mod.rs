//! Time: ticks, clocks, and the only place where durations become ticks.

pub(crate) mod clock;
pub(crate) mod manual;
// Allowed, not expected: only Linux's clock needs it.
#[allow(unsafe_code, reason = "the C library is asked for the time")]
pub(crate) mod monotonic;
pub(crate) mod tick;

//! Time: ticks, clocks, and the only place where durations become ticks.
//!
//! | word | meaning |
//! |---|---|
//! | time | nanoseconds on a timer's clock, saturating at [`FOREVER`] |
//! | tick | the resolution of a timer, a duration; [`Tick`] *t* is the number of a boundary |
//! | boundary | the time *t* × tick after the timer's start: timeouts fire at boundaries only |
//! | moment | a time that the caller gives as an `Instant`, in the docs |
//! | deadline | the time that the caller asked for, counted from the timer's start |
//! | due | the first boundary at or after the deadline: the tick that a timeout fires at |
//!
//! A deadline rounds **up** to its due tick, the present rounds **down** to the last boundary that has passed.
//! So nothing fires early.

mod clock;
// Allowed, not expected: only x86-64 has it.
#[allow(unsafe_code, reason = "the processor's counter is read")]
mod counter;
mod manual;
// Allowed, not expected: only Linux's clock needs it.
#[allow(unsafe_code, reason = "the C library is asked for the time")]
mod monotonic;
mod period;
mod scale;
// Likewise: only Linux has it.
#[allow(unsafe_code, reason = "the system is asked by a call of the C library")]
mod slack;
mod tick;

pub(crate) use clock::Clock;
#[cfg(all(
    test,
    target_os = "linux",
    target_arch = "x86_64",
    not(any(miri, hashed_wheel_loom))
))]
pub(crate) use counter::set_back;
pub(crate) use manual::Driven;
pub use manual::ManualClock;
pub use period::Period;
pub(crate) use period::next_at_fixed_rate;
pub(crate) use scale::{FOREVER, Scale, nanos};
pub(crate) use slack::ThreadSetting;
#[cfg_attr(
    not(feature = "unstable-wheels"),
    expect(unreachable_pub, reason = "for wheels from outside")
)]
pub use tick::Tick;

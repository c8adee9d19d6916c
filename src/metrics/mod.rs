//! Counters: what a timer has done, and what it holds.

mod counters;
mod histogram;
mod stats;

#[cfg_attr(
    not(feature = "unstable-wheels"),
    expect(unreachable_pub, reason = "for wheels from outside")
)]
pub use counters::WheelCounters;
pub(crate) use counters::{Counter, CounterTable, Metrics, ThreadCounters};
pub use histogram::Lateness;
pub use stats::Stats;

//! Counters: what a timer has done, and what it holds.

mod counters;
mod histogram;
mod stats;

pub(crate) use counters::{Counter, CounterTable, Metrics, ThreadCounters, WheelCounters};
pub use histogram::Lateness;
pub use stats::Stats;

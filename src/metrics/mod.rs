//! Counters: what a timer has done, and what it holds.

pub(crate) mod histogram;
pub(crate) mod stats;

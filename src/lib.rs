//! Timers for a great many timeouts: a port of Netty's `HashedWheelTimer`, with the hierarchical
//! wheel of Kafka beside it.
//!
//! Scheduling and cancelling cost the same whether ten timeouts are pending or ten million, take no
//! lock and wake nobody. One thread runs what falls due, and sleeps when nothing does.
//!
//! ```
//! use hashed_wheel::HashedWheelTimer;
//! use std::time::Duration;
//!
//! let timer = HashedWheelTimer::new(Duration::from_millis(100), 512);
//! let timeout = timer.new_timeout(|_| println!("hello"), Duration::from_secs(3))?;
//! timeout.cancel();
//! for left in timer.stop()? { /* the unprocessed ones */ }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! How to choose the settings, how it works inside, and what to expect: see the guide, [`docs`].
#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod clock;
mod contain;
mod context;
#[cfg(any(doc, doctest))]
pub mod docs;
mod engine;
mod entry;
mod error;
mod future;
mod histogram;
#[cfg(feature = "hyper")]
mod hyper;
mod inner;
mod launch;
mod lifecycle;
#[cfg(all(test, hashed_wheel_loom))]
mod loom_tests;
mod manual;
mod parked;
mod pending;
mod ring;
mod run;
mod slab;
mod sleep;
mod stats;
mod sync;
mod task;
mod tick;
mod timeout;
mod timer;
#[cfg(feature = "unstable-wheels")]
#[doc(hidden)]
pub mod unstable;
mod wheel;
mod worker;

pub use builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder};
pub use error::{ConfigError, RejectReason, Rejected, StartError, StopError, TimeoutError};
pub use future::{Interval, Sleep, WithTimeout};
pub use histogram::Lateness;
pub use lifecycle::TimerState;
pub use manual::ManualClock;
pub use stats::Stats;
pub use task::{Job, Period, Task};
pub use timeout::Timeout;
pub use timer::{HashedWheelTimer, HierarchicalWheelTimer, TimerHandle};

/// The programs in the README, compiled and run with the tests of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! A timer for very many timeouts: Netty's `HashedWheelTimer` for Rust, with Kafka's hierarchical wheel
//! beside it.
//!
//! Scheduling, cancelling and resetting cost the same whether ten timeouts are pending or ten million. They
//! take no lock, wait for nobody, and wake nobody unless the new timeout is the earliest. One thread, or the caller's
//! own loop, runs what falls due, and sleeps when nothing does. There is no async runtime to bring along.
//!
#![doc = include_str!("docs/wheel.svg")]
//!
//! # A first program
//!
//! ```
//! use hashed_wheel::HashedWheelTimer;
//! use std::time::Duration;
//!
//! // A tick of 10 ms and 512 buckets. The thread starts with the first timeout.
//! let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
//!
//! // A deadline, and the answer that came in time: the task is dropped, and will never run.
//! let deadline = timer.new_timeout(|_| println!("no answer"), Duration::from_secs(3))?;
//! assert!(deadline.cancel());
//!
//! // Traffic on a connection: the same timeout, a new deadline.
//! let idle = timer.new_timeout(|_| println!("silent for a minute"), Duration::from_secs(60))?;
//! assert!(idle.reset(Duration::from_secs(60)));
//!
//! // What has not fired comes back, with its task inside.
//! for left in timer.stop()? {
//!     println!("{:?} before its time", left.remaining());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is what
//!
//! | for | see |
//! |---|---|
//! | a timer, and which of the two | [`HashedWheelTimer`] unless delays spread from milliseconds to days; then [`HierarchicalWheelTimer`] |
//! | its settings | [`HashedWheelTimerBuilder`], [`HierarchicalWheelTimerBuilder`] |
//! | passing it around | [`TimerHandle`], which does not keep it running |
//! | one timeout | [`Timeout`]: [`cancel`](Timeout::cancel), [`reset`](Timeout::reset), [`remaining`](Timeout::remaining) |
//! | a moment instead of a delay | [`now`](TimerHandle::now), [`new_timeout_at`](TimerHandle::new_timeout_at), [`reset_at`](Timeout::reset_at), [`deadline`](Timeout::deadline); [`sleep_until`](TimerHandle::sleep_until), [`with_timeout_at`](TimerHandle::with_timeout_at), [`interval_at`](TimerHandle::interval_at) |
//! | cancelling when something is dropped | [`CancelOnDrop`] |
//! | the same task again and again | [`new_periodic`](TimerHandle::new_periodic) and [`Period`] |
//! | all pending timeouts at once | [`cancel_all`](TimerHandle::cancel_all), [`for_each_pending`](TimerHandle::for_each_pending) |
//! | futures, for any executor | [`sleep`](TimerHandle::sleep), [`with_timeout`](TimerHandle::with_timeout), [`interval`](TimerHandle::interval) with [`MissedTicks`] |
//! | back-pressure | [`max_pending_timeouts`](HashedWheelTimerBuilder::max_pending_timeouts); [`Rejected`] gives the task back |
//! | slow tasks | an [`executor`](HashedWheelTimerBuilder::executor) |
//! | tests without waiting | [`ManualClock`] |
//! | no thread: an event loop of your own | [`build_driven`](HashedWheelTimerBuilder::build_driven) and [`TimerDriver`] |
//! | ticks from 50 µs | [`fine_ticks`](HashedWheelTimerBuilder::fine_ticks) |
//! | the end | [`stop`](TimerHandle::stop) returns what has not fired; [`take_task`](Timeout::take_task) gives its task out; [`shutdown_background`](HashedWheelTimer::shutdown_background) does not wait |
//! | what must survive a restart | the crate `hashed-wheel-durable`, on top of this one |
//! | watching it | [`Stats`] and [`Lateness`] |
//!
//! # The rules in short
//!
//! - A timeout fires at the first tick at or after its deadline. **Never early**; late by up to one tick, plus
//!   what the tasks before it take and what the system needs to wake a thread.
//! - Tasks run on the timer's thread, one after the other, those of an earlier tick first. A panicking one is
//!   caught, logged and counted; the others go on.
//! - `cancel` is true for exactly one caller. The task is dropped before it returns.
//! - Dropping a [`Timeout`] does not cancel it. Dropping the owner of a timer stops it, and drops what is left
//!   without running it.
//! - A [`new_timeout`](TimerHandle::new_timeout) that races with [`stop`](TimerHandle::stop) is either among what
//!   that returns, or gets its task back in the error. None is lost.
//! - No lock of the timer is held while your code runs, be it a task, a drop, a waker, an executor or a
//!   thread factory. All of them may call the timer.
//!
//! # The guide
//!
//! Pages of text with programs that are run: [choosing] the settings, the [design] inside, [performance],
//! [limits], coming from [Netty][coming_from_netty] and from [tokio][coming_from_tokio], [testing][testing_time]
//! code that waits, and [questions].
//!
//! [choosing]: docs::choosing
//! [design]: docs::design
//! [performance]: docs::performance
//! [limits]: docs::limits
//! [coming_from_netty]: docs::coming_from_netty
//! [coming_from_tokio]: docs::coming_from_tokio
//! [testing_time]: docs::testing_time
//! [questions]: docs::questions
//!
//! # Features
//!
//! Both are off unless asked for.
//!
//! | feature | |
//! |---|---|
//! | `hyper` | a [`TimerHandle`] is a `hyper::rt::Timer` |
//! | `stream` | an [`Interval`] is a `futures_core::Stream` |
#![cfg_attr(docsrs, feature(doc_cfg))]
// Only in the modules that say why; one that no longer needs it says so too.
#![deny(unsafe_code)]

mod api;
#[forbid(unsafe_code)]
mod catch_panic;
#[cfg(any(doc, doctest))]
pub mod docs;
#[forbid(unsafe_code)]
mod entry;
#[forbid(unsafe_code)]
mod error;
#[cfg(all(test, hashed_wheel_loom))]
#[expect(unsafe_code, reason = "it calls what it checks")]
mod loom_tests;
#[expect(
    unsafe_code,
    reason = "tables that grow without a lock hand out references"
)]
mod memory;
#[forbid(unsafe_code)]
mod metrics;
#[forbid(unsafe_code)]
mod queue;
mod shared;
#[expect(unsafe_code, reason = "threads share slots by rules of their own")]
mod slots;
mod sync;
mod time;
#[cfg(feature = "unstable-wheels")]
#[doc(hidden)]
pub mod unstable;
#[forbid(unsafe_code)]
mod wheel;
#[forbid(unsafe_code)]
mod worker;

pub use api::TimerDriver;
pub use api::{HashedWheelTimer, HierarchicalWheelTimer};
pub use api::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder, TimerBuilder};
pub use api::{Interval, MissedTicks, Sleep, WithTimeout};
pub use error::{ConfigError, RejectReason, Rejected, StartError, StopError, TimeoutError};
pub use metrics::{Lateness, Stats};
pub use shared::{CancelOnDrop, Job, Pending, Task, Timeout, TimerHandle, TimerState};

pub use time::{ManualClock, Period};

/// The programs in the README, compiled and run with the tests of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

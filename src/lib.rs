//! A timer for very many timeouts: scheduling, cancelling and resetting one takes constant time, whether ten are
//! pending or ten million.
//!
//! It follows Netty's `HashedWheelTimer` and adds Kafka's hierarchical wheel behind the same calls. One thread, or
//! your own event loop, runs the tasks, and sleeps while nothing is due. No async runtime is needed.
//!
#![doc = include_str!("docs/wheel.svg")]
//!
//! # Quick start
//!
//! ```
//! use hashed_wheel::HashedWheelTimer;
//! use std::time::Duration;
//!
//! // A tick of 10 ms and 512 buckets. The first timeout starts the timer thread.
//! let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
//!
//! // The answer came in time: the task is dropped and never runs.
//! let deadline = timer.new_timeout(|_| println!("no answer"), Duration::from_secs(3))?;
//! assert!(deadline.cancel());
//!
//! // Traffic on a connection: the same timeout, a new deadline.
//! let idle = timer.new_timeout(|_| println!("silent for a minute"), Duration::from_secs(60))?;
//! assert!(idle.reset(Duration::from_secs(60)));
//!
//! // `stop` returns the timeouts that have not fired, each with its task.
//! for timeout in timer.stop()? {
//!     println!("{:?} were left", timeout.remaining());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # API overview
//!
//! | for | see |
//! |---|---|
//! | a timer | [`HashedWheelTimer`]; for a fine tick with delays from milliseconds to days, [`HierarchicalWheelTimer`] |
//! | settings | [`HashedWheelTimerBuilder`], [`HierarchicalWheelTimerBuilder`] |
//! | one timer for the whole program | [`global`], with [`sleep`], [`sleep_until`], [`timeout`], [`timeout_at`] and [`interval`] |
//! | sharing a timer | [`TimerHandle`], which does not keep the timer running |
//! | one timeout | [`Timeout`]: [`cancel`](Timeout::cancel), [`reset`](Timeout::reset), [`remaining`](Timeout::remaining); [`CancelOnDrop`] |
//! | an `Instant` in place of a delay | [`now`](TimerHandle::now), [`new_timeout_at`](TimerHandle::new_timeout_at), [`reset_at`](Timeout::reset_at), [`deadline`](Timeout::deadline); [`sleep_until`](TimerHandle::sleep_until), [`with_timeout_at`](TimerHandle::with_timeout_at), [`interval_at`](TimerHandle::interval_at) |
//! | periodic tasks | [`new_periodic`](TimerHandle::new_periodic), [`Period`], [`set_period`](Timeout::set_period) |
//! | all pending timeouts | [`cancel_all`](TimerHandle::cancel_all), [`for_each_pending`](TimerHandle::for_each_pending) |
//! | futures on a timer of your own | [`sleep`](TimerHandle::sleep), [`with_timeout`](TimerHandle::with_timeout), [`interval`](TimerHandle::interval), [`MissedTicks`] |
//! | values that come out when they are due | [`DelayQueue`], [`DelayKey`] |
//! | back-pressure | [`max_pending_timeouts`](HashedWheelTimerBuilder::max_pending_timeouts); [`Rejected`] returns the task |
//! | slow tasks | [`executor`](HashedWheelTimerBuilder::executor); [`slow_task`](HashedWheelTimerBuilder::slow_task) finds them |
//! | tests without waiting | [`ManualClock`] |
//! | your own event loop | [`build_driven`](HashedWheelTimerBuilder::build_driven), [`TimerDriver`] |
//! | ticks from 50 µs | [`fine_ticks`](HashedWheelTimerBuilder::fine_ticks) |
//! | shutdown | [`stop`](TimerHandle::stop), [`take_task`](Timeout::take_task), [`shutdown_background`](HashedWheelTimer::shutdown_background) |
//! | monitoring | [`Stats`], [`Lateness`], [`labelled`](TimerHandle::labelled) |
//! | jobs that survive a restart | the crate `hashed-wheel-durable`, built on this one |
//!
//! # Guarantees
//!
//! - A task never runs before its deadline. It runs at the first tick at or after it, and can be late: by up to one tick, plus
//!   the tasks before it, plus the time the system needs to wake a thread.
//! - Tasks run on the timer thread, one after the other, those of an earlier tick first. The timer catches, logs and
//!   counts a panic, and goes on.
//! - [`cancel`](Timeout::cancel) returns `true` to exactly one caller. The task is dropped before it returns; a
//!   periodic one that is running, after its run.
//! - Dropping a [`Timeout`] does not cancel it. Dropping the owner of a timer stops it, and drops the pending tasks
//!   without running them.
//! - A [`new_timeout`](TimerHandle::new_timeout) that races with [`stop`](TimerHandle::stop) is either returned by `stop`,
//!   or gets its task back in the error. None is lost.
//! - The timer holds no lock while your code runs. Tasks, drops, wakers, executors and thread factories may call it.
//!
//! # Guide
//!
//! [`docs`] has the guide and the glossary: [choosing](docs::choosing) the settings, [recipes](docs::recipes),
//! [async and frameworks](docs::async_frameworks), [testing](docs::testing), [shutdown](docs::shutdown), [FAQ](docs::faq),
//! [coming from](docs::coming_from) Netty, tokio, Kafka or Java, the [design](docs::design), [limits](docs::limits)
//! and [performance](docs::performance).
//!
//! # Features
//!
//! All are off by default.
//!
//! | feature | adds |
//! |---|---|
//! | `hyper` | [`TimerHandle`] implements `hyper::rt::Timer` |
//! | `stream` | [`Interval`] implements `futures_core::Stream`, and `DelayQueue::stream` |
//! | `tokio` | `tokio_executor`, which runs tasks on a tokio runtime |
//! | `tower` | `DeadlineLayer`, a time limit for the requests of a tower service |
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
#[forbid(unsafe_code)]
mod tuning;
#[cfg(feature = "unstable-wheels")]
#[doc(hidden)]
pub mod unstable;
#[forbid(unsafe_code)]
mod wheel;
#[forbid(unsafe_code)]
mod worker;

pub use api::builder::{HashedWheelTimerBuilder, HierarchicalWheelTimerBuilder, TimerBuilder};
#[cfg(feature = "stream")]
pub use api::delay_queue::DelayStream;
pub use api::delay_queue::{DelayKey, DelayQueue};
pub use api::driver::TimerDriver;
pub use api::future::{Interval, MissedTicks, Sleep, WithTimeout};
pub use api::global::{global, interval, sleep, sleep_until, timeout, timeout_at};
pub use api::timer::{HashedWheelTimer, HierarchicalWheelTimer};
#[cfg(feature = "tokio")]
pub use api::tokio::tokio_executor;
#[cfg(feature = "tower")]
pub use api::tower::{Deadline, DeadlineFuture, DeadlineLayer};
pub use error::{ConfigError, RejectReason, Rejected, StartError, StopError, TimeoutError};
pub use metrics::{Lateness, Stats};
pub use shared::{CancelOnDrop, Job, Pending, Task, Timeout, TimerHandle, TimerState};

pub use time::{ManualClock, Period};

/// The programs in the README, compiled and run with the tests of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

//! Timers that survive a restart.
//!
//! A job is on disk before the call returns, fires within milliseconds of its time, and is moved or cancelled by key. The store is one file in the process, or a
//! [PostgreSQL](docs::postgres) table that several machines share. The wheel of [`hashed_wheel`] does the firing. There is no server and no polling.
//!
//! ```
//! use hashed_wheel_durable::{DurableTimer, Outcome};
//! use std::time::Duration;
//!
//! # fn close(_: &[u8]) {}
//! # let folder = std::env::temp_dir().join(format!("durable-doc-front-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder).unwrap();
//! # let path = folder.join("timers.redb");
//! let timer = DurableTimer::builder()
//!     .on("close-order", |job| { close(job.payload()); Outcome::Done })
//!     .open(&path)?;
//! timer.job("close-order").key("order:42").payload(b"42").after(Duration::from_secs(1800))?;
//!
//! // The order was changed: another half hour. Then it was paid.
//! assert!(timer.reschedule("order:42", Duration::from_secs(1800))?);
//! assert!(timer.cancel("order:42")?);
//! timer.stop()?;
//! # std::fs::remove_dir_all(&folder).unwrap();
//! # Ok::<(), hashed_wheel_durable::Error>(())
//! ```
//!
//! # Guarantees
//!
//! - **At least once.** A job that was accepted runs until it is done, dead or cancelled, whatever is killed when. It may run again if the process
//!   dies before its outcome is stored: handlers have to be idempotent, and [`Job::token`] helps.
//! - **Never early** by the wall clock, which is read again just before the handler. Late by about a millisecond, when neither store nor handlers are the bottleneck.
//! - A job is claimed, durably, at most 50 ms before it is due. From then on it counts as running: [`cancel`](DurableTimer::cancel) and
//!   [`reschedule`](DurableTimer::reschedule) are false, and its key is free for a new job.
//! - **A job that kills the process becomes a dead letter**, and no other job waits for it: jobs that were claimed when the process died are taken up one at a time, each with its
//!   attempt counted before its handler runs, while everything else goes on.
//! - Jobs that are not due cost disk, not memory: no more are claimed ahead than find a thread within about 50 ms.
//! - After a failed write, calls return an error until the timer has reopened the file.
//!
//! The [design](docs::design) explains how they are kept.
//!
//! # API overview
//!
//! | for | see |
//! |---|---|
//! | opening a store, handlers, settings | [`DurableTimerBuilder`] |
//! | scheduling, by key or without | [`DurableTimer::job`], [`NewJob`] |
//! | moving and cancelling by key | [`reschedule`](DurableTimer::reschedule), [`cancel`](DurableTimer::cancel), [`replace`](NewJob::replace) |
//! | recurring jobs | [`every`](NewJob::every), [`cron`](NewJob::cron), [`CatchUp`] |
//! | running a job | [`Job`], [`Outcome`] |
//! | stored jobs | [`pending`](DurableTimer::pending), [`jobs`](DurableTimer::jobs), [`JobFilter`] |
//! | dead letters | [`dead`](DurableTimer::dead), [`revive`](DurableTimer::revive), [`discard`](DurableTimer::discard) |
//! | tests without waiting | [`open_in_memory`](DurableTimerBuilder::open_in_memory) |
//! | monitoring | [`Stats`] |
//! | async programs | `AsyncDurableTimer`, with the feature `tokio` |
//! | typed payloads | `NewJob::json`, `Job::json`, with the feature `serde` |
//! | several machines | `open_postgres`, with the feature `postgres`: see [the page](docs::postgres) |

mod broken;
mod builder;
#[cfg(any(doc, doctest))]
pub mod docs;
mod engine;
mod error;
mod job;
mod policy;
mod recur;
mod stats;
mod store;
mod time;
mod timer;

pub use builder::{DurableTimerBuilder, KindOptions};
pub use error::{Error, StoreError};
pub use job::{DeadJob, Job, JobFilter, JobInfo, JobState, Outcome, PendingJob, Scheduled};
pub use recur::CatchUp;
pub use stats::Stats;
#[cfg(feature = "tokio")]
pub use timer::{AsyncDurableTimer, AsyncNewJob};
pub use timer::{DurableTimer, NewJob};

#[cfg(feature = "postgres")]
pub use ::postgres;

/// The programs in the README, compiled and run with the tests of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

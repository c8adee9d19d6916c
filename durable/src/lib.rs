//! Timers that survive a restart.
//!
//! A job is on disk before the call returns, fires to the millisecond, and is not lost by a crash. It is moved and cancelled by key. The
//! store is one file in the process, there is no server and no async runtime; the firing is done by the wheel of [`hashed_wheel`]. For several machines on one set of jobs
//! it is a table of [PostgreSQL](docs::postgres).
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
//! # The rules in short
//!
//! - **At least once.** A job that was accepted runs until it is done, dead or cancelled, whatever is killed when. It may run again if the process
//!   dies before its outcome is stored: handlers have to be idempotent, and [`Job::token`] helps.
//! - **Never early** by the wall clock, which is read again just before the handler. Late by about a millisecond, when neither store nor handlers are the bottleneck.
//! - A job is claimed, durably, at most 50 ms before it is due. From then on it counts as running: [`cancel`](DurableTimer::cancel) and
//!   [`reschedule`](DurableTimer::reschedule) are false, and its key is free for a new job.
//! - **A job that kills the process ends among the dead** and takes nobody with it: what was claimed when the process died is taken up
//!   alone, one after the other, its attempt counted before its handler runs.
//! - What is due later costs disk, not memory: at most 256 jobs are claimed ahead.
//! - After a failed write every call fails: nothing pretends to be durable.
//!
//! How each is kept is in the [design](docs::design).
//!
//! # What is what
//!
//! | for | see |
//! |---|---|
//! | opening a store, handlers, settings | [`DurableTimerBuilder`] |
//! | scheduling, by key or without | [`DurableTimer::job`], [`NewJob`] |
//! | moving and cancelling by key | [`reschedule`](DurableTimer::reschedule), [`cancel`](DurableTimer::cancel), [`replace`](NewJob::replace) |
//! | running | [`Job`], [`Outcome`] |
//! | what is pending | [`pending`](DurableTimer::pending), [`pending_jobs`](DurableTimer::pending_jobs) |
//! | what gave up | [`dead`](DurableTimer::dead), [`revive`](DurableTimer::revive), [`discard`](DurableTimer::discard) |
//! | tests without waiting | [`open_in_memory`](DurableTimerBuilder::open_in_memory) |
//! | watching it | [`Stats`] |
//! | several processes on one set of jobs | `open_postgres`, with the feature `postgres`: see [the page](docs::postgres) |

mod broken;
mod builder;
#[cfg(any(doc, doctest))]
pub mod docs;
mod engine;
mod error;
mod job;
mod policy;
mod stats;
mod store;
mod time;
mod timer;

pub use builder::DurableTimerBuilder;
pub use error::{Error, StoreError};
pub use job::{DeadJob, Job, Outcome, PendingJob, Scheduled};
pub use stats::Stats;
pub use timer::{DurableTimer, NewJob};

#[cfg(feature = "postgres")]
pub use ::postgres;

/// The programs in the README, compiled and run with the tests of the docs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

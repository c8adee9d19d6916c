//! The guide: how the timers work, how to choose their settings, and what to expect of them.
//!
//! These pages hold text and examples only; there is nothing to call here. Their programs run with
//! the tests of the docs, so what they assert is what the timers do.
//!
//! - [`choosing`]: tick, slots and wheel, with the lateness, memory and CPU that follow from them.
//! - [`design`]: the life of a timeout, from the caller to its task, and both wheels with numbers.
//! - [`performance`]: what the operations cost, and how that was measured.
//! - [`limits`]: ranges, bounds, and whatever may surprise.
//! - [`coming_from_netty`]: what has which name here, and what is different.
//! - [`coming_from_tokio`]: the same for the timers of tokio.
//! - [`testing_time`]: tests of code that waits, without waiting.
//! - [`questions`]: short answers.

#[doc = include_str!("choosing.md")]
pub mod choosing {}
#[doc = include_str!("design.md")]
pub mod design {}
#[doc = include_str!("performance.md")]
#[doc = include_str!("performance/plots.md")]
#[doc = include_str!("performance/details.md")]
pub mod performance {}
#[doc = include_str!("limits.md")]
pub mod limits {}
#[doc = include_str!("coming_from_netty.md")]
pub mod coming_from_netty {}
#[doc = include_str!("coming_from_tokio.md")]
pub mod coming_from_tokio {}
#[doc = include_str!("testing_time.md")]
pub mod testing_time {}
#[doc = include_str!("questions.md")]
pub mod questions {}

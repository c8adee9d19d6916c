//! A delay queue over HTTP, on durable timers: a job is posted with an address, and at its time the payload is posted there.
//!
//! ```text
//! cargo run -p delay-queue-service             # on 127.0.0.1:8085, with a page
//! cargo run -p delay-queue-service -- --demo   # killed in the middle and started again: ten seconds
//! ```
//!
//! | module | |
//! |---|---|
//! | [`options`] | the command line |
//! | [`api`] | HTTP: jobs, dead letters, the page |
//! | [`queue`] | the durable timer, and what happens when a job is due |
//! | [`pace`] | whose turn it is: calls a second for each host |
//! | [`target`] | which addresses may be called, and the call |
//! | [`harness`] | the service as a child process and a receiver of its calls, for the demo and the tests |

pub mod api;
pub mod demo;
pub mod harness;
pub mod options;
pub mod pace;
pub mod queue;
pub mod target;

//! A delay queue over HTTP, on durable timers: a job is posted with an address, and at its time the payload is posted there.
//!
//! ```text
//! cargo run -p delay-queue-service             # on 127.0.0.1:8085, with a page
//! cargo run -p delay-queue-service -- --demo   # killed in the middle and started again: ten seconds
//! ```
//!
//! | module | |
//! |---|---|
//! | [`options`] | the settings: command line, environment, file |
//! | [`server`] | the process: connections, who may ask, health, the end |
//! | [`api`] | HTTP: jobs, dead letters, the page, what an operator asks |
//! | [`queue`] | the durable timer |
//! | [`deliver`] | what happens when a job is due |
//! | [`hosts`] | whose turn it is: rate, bound and circuit of each host |
//! | [`call`] | which addresses may be called, and the call |
//! | [`secrets`], [`tls`], [`postgres`] | tokens, signing keys, certificates, the database |
//! | [`log`], [`metrics`] | for whoever operates it |
//! | [`harness`], [`demo`] | the service as a child process and a receiver of its calls, for the demo and the tests |

pub mod api;
pub mod call;
pub mod deliver;
pub mod demo;
pub mod harness;
pub mod hosts;
pub mod log;
pub mod metrics;
pub mod options;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod queue;
pub mod secrets;
pub mod server;
pub mod tls;

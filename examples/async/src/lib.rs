//! What the tests and examples of this package share: executors to run futures on, and a hyper
//! server and QUIC connections whose timeouts are on a wheel.

pub mod deadline;
pub mod executor;
pub mod http;
#[path = "../../options/mod.rs"]
pub mod options;
pub mod quic;
pub mod server;

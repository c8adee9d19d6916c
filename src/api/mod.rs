//! The public methods: owners, handle, builders and futures. `lib.rs` exports them.

pub(crate) mod builder;
#[expect(unsafe_code, reason = "a value gets its type back")]
pub(crate) mod delay_queue;
pub(crate) mod driver;
pub(crate) mod future;
pub(crate) mod global;
#[expect(unsafe_code, reason = "a closure that is refused gets its type back")]
mod handle;
#[cfg(feature = "hyper")]
mod hyper;
pub(crate) mod timer;
#[cfg(feature = "tokio")]
pub(crate) mod tokio;
#[cfg(feature = "tower")]
#[expect(unsafe_code, reason = "a pinned field")]
pub(crate) mod tower;

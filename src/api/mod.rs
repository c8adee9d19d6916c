//! The public methods: owners, handle, builders and futures.

pub(crate) mod builder;
pub(crate) mod future;
#[cfg(feature = "hyper")]
mod hyper;
#[expect(unsafe_code, reason = "a closure that is refused gets its type back")]
pub(crate) mod timer;

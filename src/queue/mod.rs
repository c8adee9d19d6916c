//! The pending queue, and how the worker sleeps behind it.

pub(crate) mod pending;
pub(crate) mod ring;
pub(crate) mod sleep;

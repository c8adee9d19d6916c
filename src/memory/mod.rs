//! Memory that grows without a lock and goes back to the system page by page.
//!
//! | type | what it is |
//! |---|---|
//! | `Block` | zeroed memory from the system, on huge pages while a large one is full; pages of it can be discarded |
//! | [`Table`] | values by index, in blocks that double in size: they never move, and none is freed before the table |
//! | [`BoxTable`] | the same for boxed values, made when first asked for |
//! | [`FreeSet`] | a set of free indices: claimed and released by any thread without a lock |
//!
//! A table never unmaps a block while it lives, so an index that was valid once can always be looked at. What
//! is found there may have another owner by then: the protocols above check that themselves.

mod block;
mod boxes;
mod free_set;
mod table;

pub(crate) use boxes::BoxTable;
pub(crate) use free_set::FreeSet;
pub(crate) use table::{Table, Zeroed};

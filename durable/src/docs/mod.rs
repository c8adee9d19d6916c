//! Pages of text; there is nothing to call here.
//!
//! - [`design`]: how the rules are kept, the file, and the experiment behind the design.
//! - [`postgres`]: the same on PostgreSQL, for several machines: the table, leases, and what happens when the network fails.

#[doc = include_str!("design.md")]
pub mod design {}

// Its programs need the feature.
#[cfg_attr(any(not(doctest), feature = "postgres"), doc = include_str!("postgres.md"))]
pub mod postgres {}

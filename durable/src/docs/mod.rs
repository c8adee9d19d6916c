//! Pages of text; there is nothing to call here.
//!
//! - [`design`]: how the rules are kept, the file, and the experiment behind the design.

#[doc = include_str!("design.md")]
pub mod design {}

//! The one file of figures, `benches/figures.csv`, and everything that is made from it.
//!
//! `rivals` and `compare` write it ([`sheet`], [`machine`]); the pages show it between marks ([`pages`], [`blocks`], [`compare`]), and the
//! performance page shows three plots ([`plot`]); [`targets`] says which of its figures are too large. The tests of this
//! package fail if a page says something else than the file.

pub mod blocks;
pub mod compare;
pub mod machine;
pub mod pages;
pub mod plot;
pub mod sheet;
pub mod targets;
pub mod terminal;

use std::path::{Path, PathBuf};

/// A file of the repository.
pub fn in_repository(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

/// The file of figures.
pub const FILE: &str = "benches/figures.csv";

//! Which wheel for my load? Six designs under one front: counted, measured, swept and shown.
//!
//! ```text
//! cargo run --release --example compare              below thirty minutes on two cores
//! cargo run --release --example compare -- --quick   below a minute
//! cargo run --release --example compare -- --help    the options
//! ```

use std::process::ExitCode;

fn main() -> ExitCode {
    comparison::main()
}

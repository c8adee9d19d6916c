//! The original: Netty's `HashedWheelTimer` on the JVM, run by `benches/netty/run.sh`.
//!
//! The Java program takes the same arguments and prints the same line as a Rust child. It warms
//! the JVM up with the same workload before it measures.

use std::path::PathBuf;
use std::process::{Command, Stdio};

pub(crate) const NAME: &str = "netty";

fn script() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../netty/run.sh"))
}

/// Compiles the Java program if all it needs is there; else says what is missing.
pub(crate) fn prepare() -> Result<(), String> {
    let output = Command::new(script())
        .arg("check")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", script().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.lines().rfind(|line| !line.trim().is_empty());
    Err(last.unwrap_or("benches/netty/run.sh failed").to_owned())
}

/// The command that runs one case.
pub(crate) fn command() -> Command {
    let mut command = Command::new(script());
    command.arg("run");
    command
}

//! Netty, run by a script.
//!
//! `netty/run.sh check` compiles the Java program, or fails with one line that says what is missing and how to get it.
//! `netty/run.sh run WORKLOAD key=value…` takes the same arguments and prints the same line as a Rust child.

use std::path::PathBuf;
use std::process::{Command, Stdio};

fn script() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../netty/run.sh"))
}

/// Compiles the program if all it needs is there; else says what is missing.
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
    Err(last.map_or_else(|| "benches/netty/run.sh failed".to_owned(), str::to_owned))
}

/// The versions of Netty and the JVM.
pub(crate) fn versions() -> Option<String> {
    let output = Command::new(script()).arg("versions").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

/// The command that runs one case.
pub(crate) fn command() -> Command {
    let mut command = Command::new(script());
    command.arg("run");
    command
}

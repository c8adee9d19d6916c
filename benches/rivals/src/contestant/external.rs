//! Contestants of other languages, each run by a script of its own.
//!
//! Such a script lies under `benches`. `SCRIPT check NAME` prepares the contestant, or fails with
//! one line that says what is missing and how to get it. `SCRIPT run NAME WORKLOAD key=value…` takes the same
//! arguments and prints the same line as a Rust child.

use std::path::PathBuf;
use std::process::{Command, Stdio};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) file: &'static str,
    pub(crate) name: &'static str,
}

impl Script {
    fn path(self) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(self.file)
    }

    /// Compiles the program if all it needs is there; else says what is missing.
    pub(crate) fn prepare(self) -> Result<(), String> {
        let output = Command::new(self.path())
            .args(["check", self.name])
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", self.path().display()))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr);
        let last = message.lines().rfind(|line| !line.trim().is_empty());
        Err(last.map_or_else(|| format!("benches/{} failed", self.file), str::to_owned))
    }

    /// The command that runs one case.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(self.path());
        command.args(["run", self.name]);
        command
    }
}

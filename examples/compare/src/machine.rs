//! What the figures belong to: processor, cores, kernel, compiler, version, command, and how busy the
//! machine was with other things.

use std::fs;
use std::process::Command;
use std::thread;

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) compiler: String,
    pub(crate) version: &'static str,
    pub(crate) command: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let separator = if arguments.is_empty() { "" } else { " -- " };
        let build = if cfg!(debug_assertions) {
            ""
        } else {
            " --release"
        };
        let kernel = format!("{} {}", read("ostype"), read("osrelease"));
        Machine {
            processor: processor(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            compiler: compiler(),
            version: hashed_wheel::unstable::VERSION,
            command: format!(
                "cargo run{build} --example compare{separator}{}",
                arguments.join(" ")
            ),
        }
    }

    /// One line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, {}, {}, hashed-wheel {}",
            self.processor, self.cores, self.kernel, self.compiler, self.version
        )
    }
}

/// The compiler that `cargo run` has just used: the one it would use now.
fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().ok();
    let version = output.and_then(|output| String::from_utf8(output.stdout).ok());
    version.map_or_else(
        || "an unknown compiler".to_owned(),
        |it| it.trim().to_owned(),
    )
}

/// How many threads wanted to run in the last minute, on average.
pub(crate) fn busy() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/sys/kernel/{name}")).map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |it| it.trim().to_owned(),
    )
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(
        || std::env::consts::ARCH.to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}

//! What the figures belong to: processor, cores, kernel, compiler, version, command, and how busy the
//! machine was with other things.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) kernel: String,
    pub(crate) compiler: String,
    pub(crate) version: String,
    pub(crate) command: String,
    /// The day, as 2026-11-16.
    pub(crate) date: String,
}

impl Machine {
    pub(crate) fn look() -> Machine {
        let arguments = what_is_run(std::env::args().skip(1));
        let separator = if arguments.is_empty() { "" } else { " -- " };
        let build = if cfg!(debug_assertions) {
            ""
        } else {
            " --release"
        };
        let release = read("osrelease");
        // What a distribution adds to the version is left out.
        let release = release.split('-').next().unwrap_or_default();
        let kernel = format!("{} {release}", read("ostype"));
        Machine {
            processor: processor(),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel.trim().to_owned(),
            compiler: compiler(),
            version: hashed_wheel::unstable::VERSION.to_owned(),
            command: format!(
                "cargo run{build} --example compare{separator}{}",
                arguments.join(" ")
            ),
            date: today(),
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

/// The arguments that say what is run, and not where it is written.
fn what_is_run(mut arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" | "--readme" => drop(arguments.next()),
            "--details" => {}
            _ => kept.push(argument),
        }
    }
    kept
}

/// The day in universal time.
fn today() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    date(now.map_or(0, |since| since.as_secs() / 86_400))
}

/// The date so many days after 1 January 1970. Counted in years that begin in March, so that the day which
/// only some years have is their last.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
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

#[cfg(test)]
mod tests {
    use super::{date, what_is_run};

    #[test]
    fn the_command_says_what_was_run_and_not_where_it_was_written() {
        let arguments = "--out /a/b --quick --details --filter churn --readme R.md";
        let kept = what_is_run(arguments.split(' ').map(str::to_owned));
        assert_eq!(kept, ["--quick", "--filter", "churn"]);
    }

    #[test]
    fn days_become_dates() {
        let dates = [0, 59, 11_016, 11_017, 19_722, 20_773].map(date);
        let expected = [
            "1970-01-01",
            "1970-03-01",
            "2000-02-29",
            "2000-03-01",
            "2023-12-31",
            "2026-11-16",
        ];
        assert_eq!(dates, expected);
    }
}

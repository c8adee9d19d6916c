//! What figures belong to, and waiting for a quiet machine.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A load of this much for each core is quiet.
pub const QUIET: f64 = 0.3;
/// How long to wait for that.
pub const PATIENCE: Duration = Duration::from_secs(30 * 60);

pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// How many threads wanted to run in the last minute, on average, for each core.
pub fn load() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(load / cores() as f64)
}

/// Waits until the machine is quiet, but no longer than `limit`. Returns the load for each core at the end of the wait.
pub fn wait_until_quiet(limit: Duration) -> f64 {
    let start = Instant::now();
    let mut told = false;
    loop {
        let load = load().unwrap_or(0.0);
        let waited = start.elapsed();
        if load < QUIET || waited >= limit {
            return load;
        }
        if !told {
            eprintln!(
                "The load is {load:.2} a core; waiting for less than {QUIET}, for {} min at most.",
                limit.as_secs() / 60
            );
            told = true;
        }
        thread::sleep(Duration::from_secs(10).min(limit.saturating_sub(waited)));
    }
}

/// `quiet`, or why it was not.
pub fn quietness(load: f64, others_percent: Option<f64>) -> String {
    match others_percent {
        _ if load >= QUIET => format!("not quiet (load {load:.2} a core at the start)"),
        Some(percent) if percent > 5.0 => {
            format!("not quiet (others used {percent:.0} % of the machine)")
        }
        _ => "quiet".to_owned(),
    }
}

/// Processor, cores and kernel.
pub fn describe() -> String {
    let release = kernel("osrelease");
    // What a distribution adds to the version is left out.
    let release = release.split('-').next().unwrap_or_default();
    format!(
        "{}, {} cores, {} {release}",
        processor(),
        cores(),
        kernel("ostype")
    )
}

fn kernel(name: &str) -> String {
    let read = fs::read_to_string(format!("/proc/sys/kernel/{name}"));
    read.map_or_else(
        |_| std::env::consts::OS.to_owned(),
        |it| it.trim().to_owned(),
    )
}

fn processor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or(std::env::consts::ARCH, |(_, name)| name.trim());
    model.to_owned()
}

/// The compiler that cargo has just used: the one it would use now.
pub fn compiler() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output().ok();
    let version = output.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.unwrap_or_default();
    // Without the commit.
    version
        .split(" (")
        .next()
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// The commit that is checked out.
pub fn commit() -> String {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short=10", "HEAD"]) else {
        return "no commit".to_owned();
    };
    // The figures themselves and what is made of them do not count.
    let changed = git(&[
        "status",
        "--porcelain",
        "--untracked-files=no",
        "--",
        "src",
        "benches/rivals",
        "Cargo.lock",
    ]);
    match changed.as_deref() {
        Some("") => commit,
        _ => format!("{commit} with changes"),
    }
}

/// The day in universal time, as 2026-11-16.
pub fn today() -> String {
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

#[cfg(test)]
mod tests {
    use super::{date, quietness};

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

    #[test]
    fn a_machine_that_was_not_quiet_is_said_to_be_so() {
        assert_eq!(quietness(0.1, Some(1.0)), "quiet");
        assert_eq!(
            quietness(0.1, Some(9.0)),
            "not quiet (others used 9 % of the machine)"
        );
        assert_eq!(
            quietness(0.5, None),
            "not quiet (load 0.50 a core at the start)"
        );
    }
}

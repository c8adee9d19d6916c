//! A run of its own process: so memory and CPU time are that run's alone, and no contestant inherits
//! another's heap.

use crate::cli::child_arguments;
use crate::contestant::Contestant;
use crate::load::Figures;
use crate::plan::{Extent, Plan};
use std::fmt::Write as _;
use std::process::{Command, Stdio};

/// What begins the one line that counts.
const MARK: &str = "RESULT";

/// Runs a case here and prints its figures. Ends the process without tearing the timer down: what that
/// costs is no part of any load.
pub(crate) fn run(extent: Extent, case: &str, contestant: Contestant) -> ! {
    let plan = Plan::new(extent);
    let Some(case) = plan.find(case) else {
        eprintln!("there is no case `{case}`");
        std::process::exit(2)
    };
    println!("{}", format_line(&case.work.run(contestant)));
    std::process::exit(0)
}

/// Starts a process for one run, and returns its figures.
pub(crate) fn start(
    extent: Extent,
    case: &str,
    contestant: Contestant,
) -> Result<Vec<(String, f64)>, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(child_arguments(extent, case, contestant))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    match parse_line(&text) {
        Some(figures) if output.status.success() => Ok(figures),
        _ => Err(format!(
            "{case} with {} ended with {}: {}",
            contestant.name(),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}

fn format_line(figures: &Figures) -> String {
    let mut line = MARK.to_owned();
    for (name, value) in figures {
        let _ = write!(line, " {name}={value}");
    }
    line
}

fn parse_line(output: &str) -> Option<Vec<(String, f64)>> {
    let line = output.lines().find_map(|line| line.strip_prefix(MARK))?;
    let pairs = line.split_whitespace().map(|pair| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::{format_line, parse_line};

    #[test]
    fn figures_survive_the_way() {
        let line = format_line(&vec![("cpu_ns", 12.5), ("wakeups", 0.1 + 0.2)]);
        let output = format!("something else\n{line}\n");
        let parsed = parse_line(&output).unwrap();
        assert_eq!(parsed[0], ("cpu_ns".to_owned(), 12.5));
        assert!((parsed[1].1 - 0.3).abs() < 1e-12);
        assert_eq!(parse_line("no mark"), None);
    }
}

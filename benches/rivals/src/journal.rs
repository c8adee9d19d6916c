//! All runs, as they were made: a file with a line for each, from which an interrupted measurement goes on.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use figures::sheet::Figure;

use crate::contestant::NETTY;
use crate::workload::{Figures, format_line, parse_line};

/// One run of one contestant in one row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Run {
    pub(crate) row: String,
    pub(crate) contestant: String,
    pub(crate) round: usize,
    /// Nothing if it failed.
    pub(crate) figures: Option<Figures>,
}

#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) runs: Vec<Run>,
    /// Where it is written to; nowhere if nothing is to be published.
    file: Option<PathBuf>,
}

/// What others used of the machine meanwhile, noted beside the figures of each run.
pub(crate) const OTHERS: &str = "others_percent";
/// Figures that are compared round by round.
const COMPARED: [&str; 3] = ["wall_ns", "cpu_ns", "worker_cpu_ns"];
const COMPARED_WITH: [&str; 3] = [NETTY, "tokio", "delayqueue"];
const OWN: [&str; 2] = ["hashed", "hierarchical"];

fn path() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| figures::in_repository("target"), PathBuf::from);
    target.join("rivals/runs.txt")
}

impl Journal {
    /// A journal with a file. `head` says what is measured; one with another head is not continued.
    pub(crate) fn open(head: &str, goes_on: bool) -> Result<Self, String> {
        let file = path();
        let say = |error: std::io::Error| format!("{}: {error}", file.display());
        let folder = file.parent().expect("a file in a folder");
        fs::create_dir_all(folder).map_err(say)?;
        let mut journal = Self {
            runs: Vec::new(),
            file: Some(file.clone()),
        };
        if goes_on {
            let text = fs::read_to_string(&file).map_err(say)?;
            let (old, runs) = text.split_once('\n').unwrap_or_default();
            if old != head {
                return Err(format!("{} is of `{old}`, not of `{head}`", file.display()));
            }
            journal.runs = runs.lines().filter_map(parse).collect();
        } else {
            fs::write(&file, format!("{head}\n")).map_err(say)?;
        }
        Ok(journal)
    }

    pub(crate) fn add(&mut self, run: Run) -> Result<(), String> {
        if let Some(file) = &self.file {
            use std::io::Write as _;
            let append = fs::OpenOptions::new().append(true).open(file);
            let written = append.and_then(|mut it| it.write_all(format(&run).as_bytes()));
            written.map_err(|error| format!("{}: {error}", file.display()))?;
        }
        self.runs.push(run);
        Ok(())
    }

    /// How many rounds of a row are complete, with so many contestants.
    pub(crate) fn rounds(&self, row: &str, contestants: usize) -> usize {
        let runs = self.runs.iter().filter(|run| run.row == row).count();
        runs / contestants
    }

    /// The figures of all rows, in the order of the first round.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let mut found = Vec::new();
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for run in &self.runs {
            let who = (run.row.as_str(), run.contestant.as_str());
            if !seen.contains(&who) {
                seen.push(who);
            }
        }
        let mut rows: Vec<&str> = seen.iter().map(|(row, _)| *row).collect();
        rows.dedup();
        for row in rows {
            for (_, contestant) in seen.iter().filter(|(of, _)| *of == row) {
                found.extend(self.figures_of(row, contestant));
            }
        }
        found
    }

    fn figures_of(&self, row: &str, contestant: &str) -> Vec<Figure> {
        let of = |run: &&Run| run.row == row && run.contestant == contestant;
        let runs: Vec<&Run> = self.runs.iter().filter(of).collect();
        let failed = runs.iter().filter(|run| run.figures.is_none()).count();
        let Some(first) = runs.iter().find_map(|run| run.figures.as_ref()) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (metric, _) in first {
            let values: Vec<f64> = runs.iter().filter_map(|run| run.value(metric)).collect();
            found.extend(Figure::of(row, contestant, metric, &values));
        }
        if OWN.contains(&contestant) {
            for metric in COMPARED {
                for other in COMPARED_WITH {
                    let ratios = self.ratios(&runs, other, metric);
                    found.extend(Figure::of(
                        row,
                        contestant,
                        &format!("{metric}:{other}"),
                        &ratios,
                    ));
                }
            }
        }
        for figure in &mut found {
            figure.failed = failed;
        }
        found
    }

    /// Each run's figure over that of another contestant in the same round.
    fn ratios(&self, runs: &[&Run], other: &str, metric: &str) -> Vec<f64> {
        let ratios = runs.iter().filter_map(|run| {
            let beside = self
                .runs
                .iter()
                .find(|it| it.row == run.row && it.contestant == other && it.round == run.round)?;
            Some(run.value(metric)? / beside.value(metric)?)
        });
        ratios.collect()
    }
}

impl Run {
    pub(crate) fn value(&self, metric: &str) -> Option<f64> {
        let found = self
            .figures
            .as_ref()?
            .iter()
            .find(|(name, _)| name == metric)?;
        Some(found.1)
    }
}

fn format(run: &Run) -> String {
    let mut line = format!("{} {} {} ", run.row, run.contestant, run.round);
    match &run.figures {
        Some(figures) => line.push_str(&format_line(figures)),
        None => line.push_str("FAILED"),
    }
    let _ = writeln!(line);
    line
}

/// A line that was cut off counts for nothing.
fn parse(line: &str) -> Option<Run> {
    let mut words = line.splitn(4, ' ');
    let mut next = || words.next();
    let (row, contestant, round, rest) = (next()?, next()?, next()?, next()?);
    let figures = parse_line(rest);
    (figures.is_some() || rest == "FAILED").then_some(())?;
    Some(Run {
        row: row.to_owned(),
        contestant: contestant.to_owned(),
        round: round.parse().ok()?,
        figures,
    })
}

#[cfg(test)]
mod tests {
    use super::{Journal, Run, format, parse};

    fn run(contestant: &str, round: usize, cpu: f64) -> Run {
        Run {
            row: "mixed".to_owned(),
            contestant: contestant.to_owned(),
            round,
            figures: Some(vec![("cpu_ns".to_owned(), cpu)]),
        }
    }

    #[test]
    fn a_run_survives_its_line_and_half_a_line_is_no_run() {
        let one = run("hashed", 2, 1.5);
        assert_eq!(parse(format(&one).trim_end()), Some(one.clone()));
        let failed = Run {
            figures: None,
            ..one
        };
        assert_eq!(parse(format(&failed).trim_end()), Some(failed));
        assert_eq!(parse("mixed hashed 2 RESULT cpu_ns"), None);
        assert_eq!(parse("mixed hash"), None);
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        let mut journal = Journal::default();
        for (round, own, netty) in [(0, 10.0, 20.0), (1, 40.0, 80.0), (2, 30.0, 90.0)] {
            journal.runs.push(run("hashed", round, own));
            journal.runs.push(run("netty", round, netty));
        }
        let figures = journal.figures();
        let ratio = figures
            .iter()
            .find(|it| it.metric == "cpu_ns:netty")
            .unwrap();
        assert_eq!(
            (ratio.median, ratio.min, ratio.max),
            (0.5, 30.0 / 90.0, 0.5)
        );
        assert!(!figures.iter().any(|it| it.metric == "cpu_ns:tokio"));
        assert_eq!(journal.rounds("mixed", 2), 3);
    }
}

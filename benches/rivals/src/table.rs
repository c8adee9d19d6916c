//! Medians, spread and ratios: as tables on the terminal, and as CSV.

use std::fmt;
use std::fmt::Write as _;

use crate::case::Case;
use crate::contestant::{Info, REFERENCE};
use crate::workload::Figures;

/// All runs of one contestant in one row of the comparison.
#[derive(Debug)]
pub(crate) struct Row {
    info: &'static Info,
    runs: Vec<Figures>,
    pub(crate) failed: usize,
}

/// What several runs say about one figure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    pub(crate) median: f64,
    low: f64,
    high: f64,
}

impl Row {
    pub(crate) fn new(info: &'static Info) -> Self {
        Self {
            info,
            runs: Vec::new(),
            failed: 0,
        }
    }

    pub(crate) fn add(&mut self, figures: Figures) {
        self.runs.push(figures);
    }

    pub(crate) fn name(&self) -> &'static str {
        self.info.name
    }

    /// The names of the figures that this contestant has reported.
    fn metrics(&self) -> impl Iterator<Item = &str> {
        let first = self.runs.first().into_iter().flatten();
        first.map(|(name, _)| name.as_str())
    }

    pub(crate) fn summary(&self, metric: &str) -> Option<Summary> {
        let all = self.runs.iter().flatten();
        let mut values: Vec<f64> = all
            .filter(|(name, _)| name == metric)
            .map(|(_, value)| *value)
            .collect();
        values.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Summary { median, low, high })
    }
}

/// One row of the comparison with all who took part.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) case: Case,
    rows: Vec<Row>,
    /// The largest share of the machine that others used during one of the runs.
    neighbours: f64,
}

/// From this share on the table warns.
const NOISY: f64 = 0.05;

impl Table {
    pub(crate) fn new(case: Case, rows: Vec<Row>, neighbours: f64) -> Self {
        Self {
            case,
            rows,
            neighbours,
        }
    }

    /// The median of one contestant's figure.
    pub(crate) fn median(&self, contestant: &str, metric: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name() == contestant)?;
        Some(row.summary(metric)?.median)
    }

    fn metrics(&self) -> Vec<&str> {
        let widest = self.rows.iter().max_by_key(|row| row.metrics().count());
        widest.into_iter().flat_map(Row::metrics).collect()
    }

    /// A contestant's figure over the reference's: 2 means twice as much as this crate needs.
    fn ratio(&self, row: &Row, metric: &str) -> Option<f64> {
        let reference = self.median(REFERENCE, metric)?;
        let own = row.summary(metric)?.median;
        (reference > 0.0).then(|| own / reference)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self
            .rows
            .iter()
            .map(|row| row.runs.len())
            .max()
            .unwrap_or(0);
        writeln!(
            f,
            "{} (median of {runs}, least..most, × {REFERENCE})",
            self.case
        )?;
        write!(f, "  {:14}", "")?;
        for metric in self.metrics() {
            write!(f, " {metric:>34}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:14}", row.name())?;
            for metric in self.metrics() {
                write!(f, " {:>34}", self.cell(row, metric))?;
            }
            if row.failed > 0 {
                write!(f, "  {} failed", row.failed)?;
            }
            writeln!(f)?;
        }
        if self.neighbours > NOISY {
            let percent = 100.0 * self.neighbours;
            writeln!(
                f,
                "  NOISY: others used up to {percent:.0} % of the machine meanwhile"
            )?;
        }
        Ok(())
    }
}

impl Table {
    fn cell(&self, row: &Row, metric: &str) -> String {
        let Some(summary) = row.summary(metric) else {
            return "-".to_owned();
        };
        let spread = format!("{}..{}", number(summary.low), number(summary.high));
        let ratio = self
            .ratio(row, metric)
            .map_or_else(String::new, |ratio| format!("× {}", number(ratio)));
        format!("{} {spread:>16} {ratio:>8}", number(summary.median))
    }
}

/// Three digits that matter, no more decimals than that takes.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.01 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// All tables, one line for each figure of each contestant.
pub(crate) fn csv(tables: &[Table]) -> String {
    let mut text = String::from("row,contestant,metric,runs,failed,median,min,max,ratio\n");
    for table in tables {
        for row in &table.rows {
            for metric in row.metrics() {
                let Some(summary) = row.summary(metric) else {
                    continue;
                };
                let ratio = table.ratio(row, metric);
                let _ = writeln!(
                    text,
                    "{},{},{metric},{},{},{},{},{},{}",
                    table.case,
                    row.name(),
                    row.runs.len(),
                    row.failed,
                    summary.median,
                    summary.low,
                    summary.high,
                    ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}")),
                );
            }
        }
    }
    text
}

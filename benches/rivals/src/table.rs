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
    /// The number of the round, and what it has brought.
    runs: Vec<(usize, Figures)>,
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

    pub(crate) fn add(&mut self, round: usize, figures: Figures) {
        self.runs.push((round, figures));
    }

    pub(crate) fn name(&self) -> &'static str {
        self.info.name
    }

    /// The names of the figures that this contestant has reported.
    fn metrics(&self) -> impl Iterator<Item = &str> {
        let first = self
            .runs
            .first()
            .into_iter()
            .flat_map(|(_, figures)| figures);
        first.map(|(name, _)| name.as_str())
    }

    /// The figure of each round that has one.
    fn values(&self, metric: &str) -> impl Iterator<Item = (usize, f64)> {
        self.runs.iter().filter_map(move |(round, figures)| {
            let (_, value) = figures.iter().find(|(name, _)| name == metric)?;
            Some((*round, *value))
        })
    }

    pub(crate) fn summary(&self, metric: &str) -> Option<Summary> {
        let mut values: Vec<f64> = self.values(metric).map(|(_, value)| value).collect();
        values.sort_unstable_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let median = middle(&values);
        Some(Summary { median, low, high })
    }
}

/// The median of sorted values.
fn middle(values: &[f64]) -> f64 {
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// One row of the comparison with all who took part.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) case: Case,
    rows: Vec<Row>,
    /// The largest share of the machine that others used during one of the runs.
    neighbours: f64,
}

/// The cell of a contestant without that figure.
const NONE: &str = "-";

/// The group of a figure and its name in the group.
fn split(metric: &str) -> (&str, &str) {
    metric.split_once('/').unwrap_or(("", metric))
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

    /// The median over the rounds of `f(own, mark)`: one contestant's figure and another's, or
    /// another figure of the same one, taken in the same round.
    pub(crate) fn paired(
        &self,
        (contestant, metric): (&str, &str),
        (other, mark): (&str, &str),
        f: impl Fn(f64, f64) -> f64,
    ) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.name() == contestant)?;
        let other = self.rows.iter().find(|row| row.name() == other)?;
        let of_round = |round| other.values(mark).find(|(of, _)| *of == round);
        let pairs = row
            .values(metric)
            .filter_map(|(round, own)| Some(f(own, of_round(round)?.1)));
        let mut values: Vec<f64> = pairs.collect();
        values.sort_unstable_by(f64::total_cmp);
        (!values.is_empty()).then(|| middle(&values))
    }

    fn metrics(&self) -> Vec<&str> {
        let widest = self.rows.iter().max_by_key(|row| row.metrics().count());
        widest.into_iter().flat_map(Row::metrics).collect()
    }

    /// The figures by what stands before the slash in their name, each group a block of its own:
    /// `cancel/p99_ns` belongs to `cancel`.
    fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for metric in self.metrics() {
            let (group, _) = split(metric);
            match groups.iter_mut().find(|(name, _)| *name == group) {
                Some((_, metrics)) => metrics.push(metric),
                None => groups.push((group, vec![metric])),
            }
        }
        groups
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
        for (group, metrics) in self.groups() {
            self.write_block(f, group, &metrics)?;
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
    fn write_block(
        &self,
        f: &mut fmt::Formatter<'_>,
        group: &str,
        metrics: &[&str],
    ) -> fmt::Result {
        let cells: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| metrics.iter().map(|name| self.cell(row, name)).collect())
            .collect();
        let width = |column: usize| {
            let longest = cells.iter().map(|row| row[column].chars().count()).max();
            longest.unwrap_or(0).max(split(metrics[column]).1.len()) + 2
        };
        let widths: Vec<usize> = (0..metrics.len()).map(width).collect();
        write!(f, "  {group:14}")?;
        for (metric, width) in metrics.iter().zip(&widths) {
            write!(f, "{:>width$}", split(metric).1)?;
        }
        writeln!(f)?;
        for (row, cells) in self.rows.iter().zip(&cells) {
            if cells.iter().all(|cell| cell == NONE) && row.failed == 0 {
                continue;
            }
            write!(f, "  {:14}", row.name())?;
            for (cell, width) in cells.iter().zip(&widths) {
                write!(f, "{cell:>width$}")?;
            }
            if row.failed > 0 {
                write!(f, "  {} failed", row.failed)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn cell(&self, row: &Row, metric: &str) -> String {
        let Some(summary) = row.summary(metric) else {
            return NONE.to_owned();
        };
        let spread = format!("{}..{}", number(summary.low), number(summary.high));
        let ratio = self
            .ratio(row, metric)
            .map_or_else(String::new, |ratio| format!("× {}", number(ratio)));
        format!("{} {spread:>14} {ratio:>8}", number(summary.median))
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

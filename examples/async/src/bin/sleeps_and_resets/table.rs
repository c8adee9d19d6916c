//! Rows of figures, each measured several times and printed as its median.

use std::fmt::Write;

/// A table: a header, and rows whose cells collect measurements.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<String>,
    rows: Vec<(String, Vec<Cell>)>,
}

/// What was measured for one cell, each time one or two figures.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cell {
    measured: Vec<Vec<f64>>,
    /// Digits after the point, for each figure.
    digits: Vec<usize>,
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = String>, rows: &[&str]) -> Table {
        let columns: Vec<_> = columns.into_iter().collect();
        let empty = vec![Cell::default(); columns.len()];
        let rows = rows.iter().map(|name| ((*name).to_owned(), empty.clone()));
        Table {
            rows: rows.collect(),
            columns,
        }
    }

    /// Adds one measurement: its figures, and how many digits of each are worth printing.
    pub(crate) fn add(&mut self, row: usize, column: usize, figures: &[f64], digits: &[usize]) {
        let cell = &mut self.rows[row].1[column];
        cell.measured.push(figures.to_vec());
        cell.digits = digits.to_vec();
    }

    pub(crate) fn print(&self) {
        let first = self.rows.iter().map(|(name, _)| name.len()).max();
        let first = first.unwrap_or_default();
        let mut head = format!("| {:first$} |", "");
        let mut rule = format!("|{}|", "-".repeat(first + 2));
        let widths: Vec<_> = self.columns.iter().map(|name| name.len().max(14)).collect();
        // Writing to a `String` cannot fail.
        for (name, width) in self.columns.iter().zip(&widths) {
            let _ = write!(head, " {name:>width$} |");
            let _ = write!(rule, "{}:|", "-".repeat(width + 1));
        }
        println!("{head}\n{rule}");
        for (name, cells) in &self.rows {
            let mut line = format!("| {name:first$} |");
            for (cell, width) in cells.iter().zip(&widths) {
                let _ = write!(line, " {:>width$} |", cell.medians());
            }
            println!("{line}");
        }
    }
}

impl Cell {
    fn medians(&self) -> String {
        let figures = self.digits.iter().enumerate().map(|(place, digits)| {
            let mut values: Vec<f64> = self.measured.iter().map(|run| run[place]).collect();
            values.sort_by(f64::total_cmp);
            format!("{:.digits$}", values[values.len() / 2])
        });
        figures.collect::<Vec<_>>().join(" / ")
    }
}

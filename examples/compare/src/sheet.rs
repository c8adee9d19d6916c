//! Tables: one row a case, one column a contestant.

use crate::contestant::Contestant;
use crate::group::{Axis, Group};
use crate::load::{WAKEUPS, WORK};
use crate::plan::Plan;
use crate::results::{Results, Summary};
use crate::words::significant;
use std::fmt::Write as _;

/// What is counted on a manual clock, with its label.
pub(crate) const COUNTED: [(&str, &str); 7] = [
    (WORK, "entries passed over or moved, or keys compared"),
    ("passed_over", "entries passed over"),
    ("moved", "entries moved to a lower level"),
    ("compared", "keys compared (heap and btree)"),
    ("bucket_visits", "buckets visited"),
    (WAKEUPS, "wake-ups"),
    ("swept", "cancelled entries removed by sweeps"),
];

#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) caption: String,
    /// What the rows are.
    pub(crate) head: &'static str,
    pub(crate) columns: Vec<Contestant>,
    pub(crate) rows: Vec<(String, Vec<Option<Summary>>)>,
}

impl Sheet {
    /// One figure of a group. Empty columns are left out.
    pub(crate) fn new(
        plan: &Plan,
        results: &Results,
        group: &Group,
        figure: &str,
        caption: String,
    ) -> Option<Sheet> {
        let took_part = |contestant: &Contestant| {
            plan.of(group.name)
                .any(|(number, _)| results.get(number, *contestant, figure).is_some())
        };
        let columns: Vec<Contestant> = Contestant::ALL.into_iter().filter(took_part).collect();
        let rows = plan.of(group.name).map(|(number, case)| {
            let label = group
                .axis()
                .map_or_else(|| case.label.clone(), |axis| axis.place(case.x));
            let of = |contestant: &Contestant| results.get(number, *contestant, figure);
            (label, columns.iter().map(of).collect())
        });
        let sheet = Sheet {
            caption,
            head: group.axis().map_or("", short),
            rows: rows.collect(),
            columns,
        };
        (!sheet.columns.is_empty()).then_some(sheet)
    }

    /// Without the contestants that have nothing to show but zeros; `None` if that is all of them.
    pub(crate) fn without_zeros(mut self) -> Option<Sheet> {
        for column in (0..self.columns.len()).rev() {
            let cells = self.rows.iter().filter_map(|(_, row)| row[column]);
            if cells.into_iter().all(|y| y.most == 0.0) {
                self.columns.remove(column);
                for (_, row) in &mut self.rows {
                    row.remove(column);
                }
            }
        }
        (!self.columns.is_empty()).then_some(self)
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let mut cells = vec![vec![self.head.to_owned()]];
        cells[0].extend(self.columns.iter().map(|it| it.name().to_owned()));
        for (label, row) in &self.rows {
            let mut line = vec![label.clone()];
            line.extend(
                row.iter()
                    .map(|cell| cell.map_or("–".to_owned(), |y| short_text(&y))),
            );
            cells.push(line);
        }
        let width = |column: usize| {
            let lengths = cells.iter().map(|line| line[column].chars().count());
            lengths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..=self.columns.len()).map(width).collect();
        let mut text = format!("{}\n", self.caption);
        for line in &cells {
            let _ = write!(text, "  {:<width$}", line[0], width = widths[0]);
            for (cell, width) in line.iter().zip(&widths).skip(1) {
                let _ = write!(text, "  {cell:>width$}");
            }
            text.push('\n');
        }
        text
    }
}

fn short(axis: Axis) -> &'static str {
    match axis {
        Axis::Turns => "turns",
        Axis::Pending => "pending",
        Axis::OneFires => "cancelled",
        Axis::AtOnce => "at once",
        Axis::Size => "size",
    }
}

/// The median, and how far the runs lie from it at most, if that is worth saying.
fn short_text(y: &Summary) -> String {
    let median = significant(y.median);
    match spread(y) {
        Some(percent) => format!("{median} ±{percent}%"),
        None => median,
    }
}

/// How far runs lie from the median at most, in percent; `None` when all are the same.
pub(crate) fn spread(y: &Summary) -> Option<String> {
    if y.runs < 2 || y.median == 0.0 || y.most <= y.least {
        return None;
    }
    let far = (y.most - y.median).max(y.median - y.least) / y.median;
    Some(format!("{:.0}", 100.0 * far))
}

//! Tables: one row a case, one column a contestant.

use crate::contestant::Contestant;
use crate::group::{Axis, Group};
use crate::load::{CPU_NS, LATE, LATE_PERCENT, WAKEUPS, WORK};
use crate::plan::Plan;
use crate::results::{Results, Summary};
use crate::words::{percent_range, significant};
use std::fmt::Write as _;

/// What is counted on a manual clock, with its label.
pub(crate) const COUNTED: [(&str, &str); 9] = [
    (WORK, "entries passed over or moved, or keys compared"),
    ("passed_over", "entries passed over"),
    ("moved", "entries moved to a lower level"),
    ("compared", "keys compared (heap and btree)"),
    ("bucket_visits", "buckets visited"),
    (WAKEUPS, "wake-ups"),
    ("swept", "cancelled entries removed by sweeps"),
    (
        LATE[0],
        "lateness beyond the rounding to a tick, in ticks, median",
    ),
    (
        LATE[1],
        "lateness beyond the rounding to a tick, in ticks, at most",
    ),
];

#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) caption: String,
    /// What the rows are.
    pub(crate) head: &'static str,
    pub(crate) columns: Vec<Contestant>,
    pub(crate) rows: Vec<(String, Vec<Option<Value>>)>,
}

/// A cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value {
    pub(crate) y: Summary,
    /// Beside the cost of a design that is late: its median lateness in percent of the delay.
    pub(crate) late: Option<f64>,
}

impl Value {
    /// "3 % late", where that has to be said.
    pub(crate) fn late_text(&self) -> Option<String> {
        self.late
            .map(|percent| format!("{} late", percent_range(percent, percent)))
    }
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
            let of = |contestant: &Contestant| {
                let late = results.get(number, *contestant, LATE_PERCENT);
                let late = late.filter(|_| contestant.is_late() && figure == CPU_NS);
                Some(Value {
                    y: results.get(number, *contestant, figure)?,
                    late: late.map(|y| y.median),
                })
            };
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
            if cells.into_iter().all(|cell| cell.y.most == 0.0) {
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
                    .map(|cell| cell.map_or("–".to_owned(), |it| short_text(&it))),
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
        Axis::Turns => "revolutions",
        Axis::Pending => "pending",
        Axis::OneFires => "cancelled",
        Axis::AtOnce => "at once",
        Axis::Size => "size",
    }
}

/// The median, and how far the runs lie from it at most, if that is worth saying.
pub(crate) fn short_text(value: &Value) -> String {
    let median = significant(value.y.median);
    let late = value.late_text();
    let late = late.map_or(String::new(), |late| format!(", {late}"));
    match spread(&value.y) {
        Some(percent) => format!("{median} ±{percent}%{late}"),
        None => format!("{median}{late}"),
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

//! What belongs together: the rows of one workload, or the points of one sweep.

use crate::words;

/// Where a group stands in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A line over an axis.
    Swept(Axis),
    /// Rows of a table.
    Measured,
}

/// The horizontal axis of a sweep. All are logarithmic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// The mean delay in turns of the hashed wheel.
    Turns,
    /// Timeouts pending.
    Pending,
    /// One in so many fires; the others are cancelled.
    OneFires,
    /// Timeouts due at one boundary.
    AtOnce,
    /// Slots, or buckets a level.
    Size,
}

impl Axis {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Axis::Turns => "mean delay ÷ (tick × slots of the hashed wheel)",
            Axis::Pending => "timeouts pending",
            Axis::OneFires => "share of timeouts cancelled before they are due",
            Axis::AtOnce => "timeouts due at one boundary",
            Axis::Size => "slots (hashed, classic); buckets a level (hierarchical)",
        }
    }

    /// A place on the axis.
    pub(crate) fn place(self, x: f64) -> String {
        match self {
            Axis::Turns => words::turns(x),
            Axis::OneFires => words::cancelled_share(x),
            Axis::Pending => words::count(x),
            Axis::AtOnce | Axis::Size => words::size(x),
        }
    }
}

/// A figure that a group reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// As the runs call it.
    pub(crate) name: &'static str,
    /// With its unit.
    pub(crate) label: &'static str,
}

/// The rows of one workload, or the points of one sweep.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What the load is.
    pub(crate) about: String,
    pub(crate) part: Part,
    /// What is shown; of a sweep, what is plotted.
    pub(crate) figures: &'static [Figure],
}

impl Group {
    pub(crate) fn axis(&self) -> Option<Axis> {
        match self.part {
            Part::Swept(axis) => Some(axis),
            Part::Measured => None,
        }
    }
}

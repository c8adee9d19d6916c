//! The lines of a sweep.

use crate::contestant::Contestant;
use crate::group::Group;
use crate::plan::Plan;
use crate::results::{Results, Summary};

/// One contestant over the axis, from left to right.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) contestant: Contestant,
    pub(crate) points: Vec<Point>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: Summary,
}

/// The lines of a sweep, one for each contestant that has taken part.
pub(crate) fn lines(plan: &Plan, results: &Results, group: &Group, figure: &str) -> Vec<Line> {
    let of = |contestant| {
        let points = plan.of(group.name).filter_map(|(number, case)| {
            let y = results.get(number, contestant, figure)?;
            Some(Point { x: case.x, y })
        });
        Line {
            contestant,
            points: points.collect(),
        }
    };
    let all = Contestant::ALL.into_iter().map(of);
    all.filter(|line| !line.points.is_empty()).collect()
}

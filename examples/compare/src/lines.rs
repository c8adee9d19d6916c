//! The lines of a sweep: who is below whom, and where they cross.

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

/// Where one line begins to lie below another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Crossing {
    /// Interpolated between the medians.
    pub(crate) at: f64,
    /// The points nearest to it at which there is no doubt about the order.
    pub(crate) between: (f64, f64),
    /// Who is below on the left.
    pub(crate) before: Contestant,
    /// Who is below on the right.
    pub(crate) after: Contestant,
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

impl Line {
    pub(crate) fn first(&self) -> Point {
        self.points[0]
    }

    pub(crate) fn last(&self) -> Point {
        self.points[self.points.len() - 1]
    }

    pub(crate) fn at(&self, x: f64) -> Option<Summary> {
        let near = |point: &&Point| (point.x / x - 1.0).abs() < 1e-6;
        self.points.iter().find(near).map(|point| point.y)
    }
}

/// All places where the two change sides. A change counts when it is beyond doubt on both sides; in
/// between they may touch as often as they like.
pub(crate) fn crossings(one: &Line, other: &Line) -> Vec<Crossing> {
    let mut found = Vec::new();
    // The last point at which one of them was clearly below: its place, and who.
    let mut clear: Option<(usize, Contestant)> = None;
    for (place, (a, b)) in one.points.iter().zip(&other.points).enumerate() {
        let below = if a.y.is_clearly_below(&b.y) {
            one.contestant
        } else if b.y.is_clearly_below(&a.y) {
            other.contestant
        } else {
            continue;
        };
        if let Some((from, before)) = clear.filter(|(_, before)| *before != below) {
            found.push(Crossing {
                at: meeting(&one.points[from..=place], &other.points[from..=place]),
                between: (one.points[from].x, a.x),
                before,
                after: below,
            });
        }
        clear = Some((place, below));
    }
    found
}

/// The last place in a stretch where the medians meet, on logarithmic axes.
fn meeting(one: &[Point], other: &[Point]) -> f64 {
    // What is counted may be zero.
    let least = |points: &[Point], place: usize| points[place].y.median.max(1e-6);
    let lead = |place: usize| (least(one, place) / least(other, place)).ln();
    let mut at = one[0].x;
    for right in 1..one.len() {
        let (left_lead, right_lead) = (lead(right - 1), lead(right));
        if left_lead.signum() != right_lead.signum() {
            let share = left_lead / (left_lead - right_lead);
            let (left_x, right_x) = (one[right - 1].x.ln(), one[right].x.ln());
            at = (left_x + share * (right_x - left_x)).exp();
        }
    }
    at
}

/// A stretch of the axis and who costs least there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lead {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) who: Contestant,
}

/// Who of those that are on time costs least where. A lead lasts until another is clearly below, and where several could lead, the
/// one does that can do so longest: so what is in doubt does not look like a change.
pub(crate) fn leads(lines: &[Line]) -> Vec<Lead> {
    let timers: Vec<&Line> = lines
        .iter()
        .filter(|line| line.contestant != Contestant::Array && !line.contestant.is_late())
        .collect();
    let places = timers.iter().map(|line| line.points.len()).min();
    let places = places.unwrap_or(0);
    // How far a contestant can lead from a place on: behind its last place.
    let reach = |line: &Line, from: usize| {
        let is_beaten = |place: &usize| {
            let y = line.points[*place].y;
            timers
                .iter()
                .any(|other| other.points[*place].y.is_clearly_below(&y))
        };
        (from..places).find(is_beaten).unwrap_or(places)
    };
    let mut found = Vec::new();
    let mut from = 0;
    while from < places {
        let sum = |line: &Line| -> f64 {
            let points = &line.points[from..reach(line, from)];
            points
                .iter()
                .map(|point| point.y.median.max(1e-6).ln())
                .sum()
        };
        let Some(leader) = timers.iter().max_by(|a, b| {
            let by_reach = reach(a, from).cmp(&reach(b, from));
            by_reach.then_with(|| sum(b).total_cmp(&sum(a)))
        }) else {
            break;
        };
        // The cheapest of all is beaten by nobody.
        let to = reach(leader, from).max(from + 1);
        found.push(Lead {
            from: leader.points[from].x,
            to: leader.points[to - 1].x,
            who: leader.contestant,
        });
        from = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Contestant, Line, Point, Summary, crossings, leads};

    fn line(contestant: Contestant, medians: &[f64]) -> Line {
        let points = medians.iter().enumerate().map(|(place, &median)| Point {
            x: 10_f64.powi(place as i32),
            y: Summary::of(&[median * 0.99, median, median * 1.01]).unwrap(),
        });
        Line {
            contestant,
            points: points.collect(),
        }
    }

    #[test]
    fn lines_cross_where_their_medians_meet() {
        let rising = line(Contestant::Hashed, &[1.0, 10.0, 100.0, 1000.0]);
        let flat = line(Contestant::Heap, &[31.62, 31.62, 31.62, 31.62]);
        let found = crossings(&rising, &flat);
        assert_eq!(found.len(), 1);
        assert!((found[0].at / 31.62 - 1.0).abs() < 0.01, "{found:?}");
        assert_eq!(found[0].between, (10.0, 100.0));
        assert_eq!(found[0].before, Contestant::Hashed);
        assert_eq!(found[0].after, Contestant::Heap);
    }

    #[test]
    fn what_is_in_doubt_is_no_crossing() {
        let one = line(Contestant::Hashed, &[1.0, 1.005, 1.0, 1.005]);
        let other = line(Contestant::Heap, &[1.005, 1.0, 1.005, 1.0]);
        assert!(crossings(&one, &other).is_empty());
        // Touching on the way is not crossing either.
        let bent = line(Contestant::Heap, &[2.0, 1.0, 1.0, 2.0]);
        assert!(crossings(&one, &bent).is_empty());
    }

    #[test]
    fn the_lead_changes_when_another_is_clearly_below() {
        let rising = line(Contestant::Hashed, &[1.0, 10.0, 100.0]);
        let flat = line(Contestant::Heap, &[20.0, 20.0, 20.0]);
        let found = leads(&[rising, flat]);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].who, found[0].to), (Contestant::Hashed, 10.0));
        assert_eq!((found[1].who, found[1].from), (Contestant::Heap, 100.0));
    }

    #[test]
    fn who_leads_longest_leads_where_it_is_in_doubt() {
        let steady = line(Contestant::Hashed, &[1.0, 1.0, 1.0]);
        let lucky = line(Contestant::Heap, &[0.99, 2.0, 2.0]);
        let found = leads(&[lucky, steady]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].who, Contestant::Hashed);
    }
}

//! How lines stand to each other, as parts of sentences.

use crate::contestant::Contestant;
use crate::group::Axis;
use crate::lines::{Crossing, Lead, Line, crossings, leads};
use crate::words::{factor, list};

/// A contestant, marked as a name, and as late if it is that by design.
pub(crate) fn code(contestant: Contestant) -> String {
    let late = if contestant.is_late() { " (late)" } else { "" };
    format!("`{}`{late}", contestant.name())
}

pub(crate) fn of(lines: &[Line], contestant: Contestant) -> Option<&Line> {
    lines.iter().find(|line| line.contestant == contestant)
}

/// "`hashed` costs least up to about 30 turns, `heap` beyond".
pub(crate) fn who_leads(lines: &[Line], axis: Axis) -> String {
    let leads = leads(lines);
    let (Some(first), Some(last)) = (leads.first(), leads.last()) else {
        return String::new();
    };
    if leads.len() == 1 {
        return format!(
            "{} costs least, or as little as any, from {} to {}",
            code(first.who),
            axis.place(first.from),
            axis.in_words(last.to)
        );
    }
    let mut parts: Vec<String> = Vec::new();
    for pair in leads.windows(2) {
        let verb = if parts.is_empty() { " costs least" } else { "" };
        let end = axis.in_words(change(lines, &pair[0], &pair[1]));
        parts.push(format!("{}{verb} up to about {end}", code(pair[0].who)));
    }
    parts.push(format!("{} beyond", code(last.who)));
    list(&parts)
}

/// Where the lead changes.
fn change(lines: &[Line], left: &Lead, right: &Lead) -> f64 {
    let between = (left.to * right.from).sqrt();
    let (Some(one), Some(other)) = (of(lines, left.who), of(lines, right.who)) else {
        return between;
    };
    let inside = |it: &&Crossing| it.after == right.who && it.between.1 >= right.from;
    let crossings = crossings(one, other);
    let crossing = crossings.iter().find(inside);
    crossing.map_or(between, |it| it.at.clamp(left.to, right.from))
}

/// How two lines stand to each other.
pub(crate) fn pair(one: &Line, other: &Line, axis: Axis) -> String {
    let found = crossings(one, other);
    if found.is_empty() {
        return format!(
            "{} costs {}",
            code(other.contestant),
            range(other, one, axis)
        );
    }
    let told: Vec<String> = found.iter().map(|it| crossing(it, axis)).collect();
    list(&told)
}

pub(crate) fn crossing(it: &Crossing, axis: Axis) -> String {
    format!(
        "{} falls below {} at about {} (in doubt between {} and {})",
        code(it.after),
        code(it.before),
        axis.in_words(it.at),
        axis.place(it.between.0),
        axis.place(it.between.1)
    )
}

/// One line as a multiple of another.
pub(crate) fn range(line: &Line, base: &Line, axis: Axis) -> String {
    let both = line.points.iter().zip(&base.points);
    let ratios: Vec<(f64, f64)> = both.map(|(a, b)| (a.y.median / b.y.median, a.x)).collect();
    let order = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
    let (Some(least), Some(most)) = (ratios.iter().min_by(order), ratios.iter().max_by(order))
    else {
        return String::new();
    };
    format!(
        "{} of {} (at {}) to {} (at {})",
        factor(least.0),
        code(base.contestant),
        axis.in_words(least.1),
        factor(most.0),
        axis.in_words(most.1)
    )
}

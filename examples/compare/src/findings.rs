//! What the run has found, in words. Every sentence is computed from the run's figures: which it is, who
//! is named and how much is said.

use crate::contestant::Contestant::{self, Array, Classic, Hashed, Hierarchical};
use crate::group::{Axis, Group};
use crate::lines::{Crossing, Lead, Line, crossings, leads, lines};
use crate::load::{CPU_NS, WORK};
use crate::plan::Plan;
use crate::results::{Results, Summary};
use crate::words::{factor, list, significant};

/// What the findings are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Findings<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) results: &'a Results,
}

/// A contestant, marked as a name.
pub(crate) fn code(contestant: Contestant) -> String {
    format!("`{}`", contestant.name())
}

impl Findings<'_> {
    /// The paragraph at the top.
    pub(crate) fn summary(&self) -> String {
        let sentences = [
            self.sweep("delay-fired"),
            self.of_counts("delay-fired"),
            self.growth("pending-fired"),
            self.sweep("pending-fired"),
            self.ends("share"),
            self.sweep("burst"),
            self.best_sizes("size"),
            self.rows("churn", "wall_ns", "ns an op"),
            self.rows("fire", CPU_NS, "ns of the timer's thread a timeout"),
            self.at_rest(&["hold", "idle"]),
            self.rows("memory", "bytes", "bytes a pending timeout"),
            self.repeated(),
        ];
        let text: Vec<String> = sentences.into_iter().flatten().collect();
        text.join(" ")
    }

    /// What stands under one group.
    pub(crate) fn of_group(&self, name: &str) -> String {
        let sentences = match name {
            "pending-fired" | "pending-cancelled" => [self.growth(name), self.sweep(name)],
            "share" => [self.ends(name), self.sweep(name)],
            "size" => [self.best_sizes(name), self.sweep(name)],
            "churn" => [self.rows(name, "wall_ns", "ns an op"), None],
            "fire" => [self.rows(name, CPU_NS, "ns a timeout"), None],
            "memory" => [self.rows(name, "bytes", "bytes a timeout"), None],
            "leftover" => [self.rows(name, "growth", "times the memory"), None],
            "hold" | "idle" => [self.at_rest(&[name]), None],
            _ => [self.sweep(name), None],
        };
        let text: Vec<String> = sentences.into_iter().flatten().collect();
        text.join(" ")
    }

    fn group(&self, name: &str) -> Option<(&Group, Axis)> {
        let group = self.plan.groups.iter().find(|group| group.name == name)?;
        Some((group, group.axis().unwrap_or(Axis::Pending)))
    }

    fn lines(&self, name: &str, figure: &str) -> Option<(Vec<Line>, Axis)> {
        let (group, axis) = self.group(name)?;
        let lines = lines(self.plan, self.results, group, figure);
        lines.iter().any(|line| line.points.len() > 1).then_some((lines, axis))
    }

    /// Who costs least where, and how the two wheels of the crate stand to each other and to the literal one.
    fn sweep(&self, name: &str) -> Option<String> {
        let (group, _) = self.group(name)?;
        let (lines, axis) = self.lines(name, CPU_NS)?;
        let timers = lines.iter().filter(|line| line.contestant != Array).count();
        let mut text = if timers > 1 {
            format!("{}: {}", group.title, who_leads(&lines, axis))
        } else {
            return None;
        };
        if let (Some(hashed), Some(hierarchical)) = (of(&lines, Hashed), of(&lines, Hierarchical)) {
            text += &format!("; {}", pair(hashed, hierarchical, axis));
        }
        if let (Some(hashed), Some(classic)) = (of(&lines, Hashed), of(&lines, Classic)) {
            text += &format!("; {} costs {}", code(Classic), range(classic, hashed, axis));
        }
        Some(text + ".")
    }

    /// Where passing over becomes more than moving down.
    fn of_counts(&self, name: &str) -> Option<String> {
        let (lines, axis) = self.lines(name, WORK)?;
        let (hashed, hierarchical) = (of(&lines, Hashed)?, of(&lines, Hierarchical)?);
        let last = hashed.last();
        let told = format!(
            "at {} it passes over {} for each timeout, and {} moves {}",
            axis.in_words(last.x),
            significant(last.y.median),
            code(Hierarchical),
            significant(hierarchical.last().y.median),
        );
        let turn = crossings(hashed, hierarchical);
        let crossing = turn.iter().find(|it| it.after == Hierarchical);
        let where_to = crossing.map_or_else(
            || format!("never passes over clearly more entries than {} moves", code(Hierarchical)),
            |it| {
                format!(
                    "passes over more entries than {} moves from about {} on",
                    code(Hierarchical),
                    axis.in_words(it.at)
                )
            },
        );
        Some(format!("Counted, {} {where_to}; {told}.", code(Hashed)))
    }

    /// How the cost grows from the left to the right.
    fn growth(&self, name: &str) -> Option<String> {
        let (lines, axis) = self.lines(name, CPU_NS)?;
        // Below that, most of the time goes to boundaries, not to timeouts.
        let grown = lines.iter().filter_map(|line| {
            let (from, to) = (line.at(1000.0)?.median, line.last().y.median);
            Some(format!(
                "{} from {} to {} ns ({})",
                code(line.contestant),
                significant(from),
                significant(to),
                factor(to / from)
            ))
        });
        let grown: Vec<String> = grown.collect();
        let last = lines.first()?.last().x;
        (!grown.is_empty() && last > 1000.0).then(|| {
            format!(
                "From {} to {} a timeout goes: {}.",
                axis.place(1000.0),
                axis.in_words(last),
                list(&grown)
            )
        })
    }

    /// The cheapest and the dearest at both ends.
    fn ends(&self, name: &str) -> Option<String> {
        let (lines, axis) = self.lines(name, CPU_NS)?;
        let told = |point: fn(&Line) -> crate::lines::Point| {
            let order = |a: &&Line, b: &&Line| point(a).y.median.total_cmp(&point(b).y.median);
            let least = lines.iter().min_by(order)?;
            let most = lines.iter().max_by(order)?;
            Some(format!(
                "With {} the cheapest is {} at {} ns and the dearest {} at {} ns",
                axis.in_words(point(least).x),
                code(least.contestant),
                significant(point(least).y.median),
                code(most.contestant),
                significant(point(most).y.median)
            ))
        };
        let (left, right) = (told(Line::first)?, told(Line::last)?);
        Some(format!("{left}. {right}."))
    }

    /// The size that suits each wheel, and from where on it hardly matters.
    fn best_sizes(&self, name: &str) -> Option<String> {
        let (lines, axis) = self.lines(name, CPU_NS)?;
        let best = |contestant| {
            let line = of(&lines, contestant)?;
            let order = |a: &&crate::lines::Point, b: &&crate::lines::Point| {
                a.y.median.total_cmp(&b.y.median)
            };
            let least = line.points.iter().min_by(order)?;
            let near = |point: &&crate::lines::Point| point.y.median <= 1.1 * least.y.median;
            let good: Vec<_> = line.points.iter().filter(near).collect();
            Some(format!(
                "{} does best with {} ({} ns), and is within a tenth of that from {} to {}",
                code(contestant),
                axis.in_words(least.x),
                significant(least.y.median),
                axis.place(good.first()?.x),
                axis.place(good.last()?.x)
            ))
        };
        let told: Vec<String> = [Hashed, Hierarchical].into_iter().filter_map(best).collect();
        (!told.is_empty()).then(|| format!("With a mean delay of 8192 ticks, {}.", told.join("; ")))
    }

    /// All contestants in each row, cheapest first.
    fn rows(&self, name: &str, figure: &str, unit: &str) -> Option<String> {
        let (group, _) = self.group(name)?;
        let rows = self.plan.of(name).filter_map(|(number, case)| {
            let mut all: Vec<(Contestant, Summary)> = Contestant::TIMERS
                .into_iter()
                .filter_map(|it| Some((it, self.results.get(number, it, figure)?)))
                .collect();
            all.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
            let told: Vec<String> = all
                .iter()
                .map(|(it, y)| format!("{} {}", code(*it), significant(y.median)))
                .collect();
            (!told.is_empty()).then(|| format!("{}: {}", case.label, list(&told)))
        });
        let rows: Vec<String> = rows.collect();
        (!rows.is_empty()).then(|| format!("{}, {unit}: {}.", group.title, rows.join("; ")))
    }

    /// Who wakes while nothing is due.
    fn at_rest(&self, names: &[&str]) -> Option<String> {
        let mut quiet = Vec::new();
        let mut waking = Vec::new();
        for contestant in Contestant::TIMERS {
            let of = |figure: &str| {
                let cases = names.iter().flat_map(|name| self.plan.of(name));
                let found = cases.filter_map(|(number, _)| self.results.get(number, contestant, figure));
                found.map(|y| y.median).max_by(f64::total_cmp)
            };
            let (Some(wakeups), Some(percent)) = (of("wakeups_per_s"), of("cpu_percent")) else {
                continue;
            };
            if wakeups == 0.0 {
                quiet.push(code(contestant));
            } else {
                waking.push(format!(
                    "{} up to {} times a second, for {} % of a core",
                    code(contestant),
                    significant(wakeups),
                    significant(percent)
                ));
            }
        }
        let verb = if quiet.len() == 1 { "sleeps" } else { "sleep" };
        let text = match (quiet.is_empty(), waking.is_empty()) {
            (true, true) => return None,
            (false, true) => format!("{} {verb} throughout", list(&quiet)),
            (true, false) => format!("awake: {}", waking.join("; ")),
            (false, false) => format!("{} {verb} throughout; awake: {}", list(&quiet), waking.join("; ")),
        };
        Some(format!("While nothing is due, {text}."))
    }

    fn repeated(&self) -> Option<String> {
        match self.results.repeated() {
            (_, 0) => None,
            (true, counts) => Some(format!(
                "All {} counts that were made more than once came out the same every time.",
                significant(counts as f64)
            )),
            (false, _) => Some("COUNTS DIFFERED between runs: they should not.".to_owned()),
        }
    }
}

fn of(lines: &[Line], contestant: Contestant) -> Option<&Line> {
    lines.iter().find(|line| line.contestant == contestant)
}

/// "`hashed` costs least up to about 30 turns, `heap` beyond".
fn who_leads(lines: &[Line], axis: Axis) -> String {
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
fn pair(one: &Line, other: &Line, axis: Axis) -> String {
    let found = crossings(one, other);
    if found.is_empty() {
        return format!("{} costs {}", code(other.contestant), range(other, one, axis));
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
    let (Some(least), Some(most)) = (ratios.iter().min_by(order), ratios.iter().max_by(order)) else {
        return String::new();
    };
    format!(
        "{} ({}) to {} ({}) of {}",
        factor(least.0),
        axis.in_words(least.1),
        factor(most.0),
        axis.in_words(most.1),
        code(base.contestant)
    )
}

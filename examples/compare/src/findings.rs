//! What the run has found, in words. Every sentence is computed from the run's figures: which it is, who
//! is named and how much is said.

#[cfg(test)]
pub(crate) mod tests;

use crate::contestant::Contestant::{self, Array, Classic, Hashed, Hierarchical, Kernel};
use crate::group::{Axis, Group};
use crate::lines::{Line, Point, crossings, lines};
use crate::load::{CPU_NS, LATE_PERCENT, WORK};
use crate::plan::Plan;
use crate::results::{Results, Summary};
use crate::telling::{code, of, pair, range, who_leads};
use crate::words::{factor, list, percent_range, significant};
use std::fmt::Write as _;

/// What the findings are drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Findings<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) results: &'a Results,
}

impl Findings<'_> {
    /// The paragraph at the top.
    pub(crate) fn summary(&self) -> String {
        let sentences = [
            self.sweep("delay-fired"),
            self.brief("delay-cancelled"),
            self.brief("pending-fired"),
            self.growth("pending-fired", &[Hashed, Hierarchical, Array]),
            self.brief("share"),
            self.brief("burst"),
            self.extremes(
                "churn",
                CPU_NS,
                "an op takes all threads together",
                "ns of CPU time",
            ),
            self.extremes(
                "fire",
                CPU_NS,
                "a timeout takes the timer's thread",
                "ns of CPU time",
            ),
            self.at_rest(&["hold", "idle"]),
            self.extremes("memory", "bytes", "a pending timeout takes", "bytes"),
        ];
        let mut text: Vec<String> = sentences.into_iter().flatten().collect();
        if self.group("delay-fired").is_some() {
            text.insert(
                0,
                "A turn is the time in which a hashed wheel comes round: tick × slots.".to_owned(),
            );
        }
        text.join(" ")
    }

    /// What stands under the counts of one group.
    pub(crate) fn of_counted(&self, name: &str) -> String {
        let sentences = [self.of_counts(name), self.repeated()];
        sentences
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// What stands under one group.
    pub(crate) fn of_group(&self, name: &str) -> String {
        let sentences = match name {
            "pending-fired" | "pending-cancelled" => {
                [self.growth(name, &Contestant::ALL), self.sweep(name)]
            }
            "share" => [self.ends(name), self.sweep(name)],
            "size" => [self.best_sizes(name), self.sweep(name)],
            "churn" => [self.rows(name, "wall_ns", "ns an op"), None],
            "fire" => [self.rows(name, CPU_NS, "ns a timeout"), None],
            "memory" => [self.rows(name, "bytes", "bytes a timeout"), None],
            "leftover" => [self.after_churn(name), None],
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

    pub(crate) fn lines(&self, name: &str, figure: &str) -> Option<(Vec<Line>, Axis)> {
        let (group, axis) = self.group(name)?;
        let lines = lines(self.plan, self.results, group, figure);
        lines
            .iter()
            .any(|line| line.points.len() > 1)
            .then_some((lines, axis))
    }

    /// Who costs least where.
    fn brief(&self, name: &str) -> Option<String> {
        let (group, _) = self.group(name)?;
        let (mut lines, axis) = self.lines(name, CPU_NS)?;
        lines.retain(|line| line.contestant != Array);
        (lines.len() > 1).then(|| format!("{}, {}.", group.when, who_leads(&lines, axis)))
    }

    /// Who costs least where, and how the two wheels of the crate stand to each other and to the literal one.
    fn sweep(&self, name: &str) -> Option<String> {
        let mut text = self.brief(name)?;
        text.truncate(text.len() - 1);
        let (lines, axis) = self.lines(name, CPU_NS)?;
        if let (Some(hashed), Some(hierarchical)) = (of(&lines, Hashed), of(&lines, Hierarchical)) {
            let _ = write!(text, "; {}", pair(hashed, hierarchical, axis));
        }
        if let (Some(hashed), Some(classic)) = (of(&lines, Hashed), of(&lines, Classic)) {
            let told = range(classic, hashed, axis);
            let _ = write!(text, "; {} costs {told}", code(Classic));
        }
        if let (Some(hashed), Some(kernel)) = (of(&lines, Hashed), of(&lines, Kernel)) {
            let told = range(kernel, hashed, axis);
            let _ = write!(text, "; {} costs {told}", code(Kernel));
            if let Some(late) = self.late_in(name, Kernel) {
                let _ = write!(text, ", late by {late} of the delay");
            }
        }
        Some(text + ".")
    }

    /// The median lateness of a group's cases in percent of the delay, from the least to the most.
    pub(crate) fn late_in(&self, name: &str, who: Contestant) -> Option<String> {
        let cases: Vec<usize> = self.plan.of(name).map(|(number, _)| number).collect();
        self.late(&cases, who)
    }

    /// The same of any cases.
    pub(crate) fn late(&self, cases: &[usize], who: Contestant) -> Option<String> {
        let of = |case: &usize| self.results.get(*case, who, LATE_PERCENT);
        let mut percents: Vec<f64> = cases.iter().filter_map(of).map(|y| y.median).collect();
        percents.sort_by(f64::total_cmp);
        let (least, most) = (percents.first()?, percents.last()?);
        Some(percent_range(*least, *most))
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
            || {
                format!(
                    "never passes over clearly more entries than {} moves",
                    code(Hierarchical)
                )
            },
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
    fn growth(&self, name: &str, of: &[Contestant]) -> Option<String> {
        let (mut lines, axis) = self.lines(name, CPU_NS)?;
        lines.retain(|line| of.contains(&line.contestant));
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
        let told = |point: fn(&Line) -> Point| {
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
            let order = |a: &&Point, b: &&Point| a.y.median.total_cmp(&b.y.median);
            let least = line.points.iter().min_by(order)?;
            let near = |point: &&Point| point.y.median <= 1.1 * least.y.median;
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
        let told: Vec<String> = [Hashed, Hierarchical]
            .into_iter()
            .filter_map(best)
            .collect();
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

    /// The cheapest and the dearest in each row.
    fn extremes(&self, name: &str, figure: &str, what: &str, unit: &str) -> Option<String> {
        let (group, _) = self.group(name)?;
        let rows = self.plan.of(name).filter_map(|(number, case)| {
            let all = Contestant::TIMERS.into_iter();
            let all = all.filter_map(|it| Some((it, self.results.get(number, it, figure)?.median)));
            let order = |a: &(Contestant, f64), b: &(Contestant, f64)| a.1.total_cmp(&b.1);
            let (least, most) = (all.clone().min_by(order)?, all.max_by(order)?);
            Some(format!(
                "{} ({}) to {} {unit} ({}) with {}",
                significant(least.1),
                code(least.0),
                significant(most.1),
                code(most.0),
                case.label
            ))
        });
        let rows: Vec<String> = rows.collect();
        (!rows.is_empty()).then(|| format!("{}: {what} {}.", group.when, list(&rows)))
    }

    fn after_churn(&self, name: &str) -> Option<String> {
        let what = "after ten times the churn resident memory is";
        self.extremes(name, "growth", what, "times what it was after once")
    }

    /// Who wakes while nothing is due.
    fn at_rest(&self, names: &[&str]) -> Option<String> {
        let mut quiet = Vec::new();
        let mut waking = Vec::new();
        for contestant in Contestant::TIMERS {
            let of = |figure: &str| {
                let cases = names.iter().flat_map(|name| self.plan.of(name));
                let found =
                    cases.filter_map(|(number, _)| self.results.get(number, contestant, figure));
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
            (false, false) => format!(
                "{} {verb} throughout; awake: {}",
                list(&quiet),
                waking.join("; ")
            ),
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

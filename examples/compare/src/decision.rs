//! Which wheel for my load? At most eight rows, computed from the run: the load, which of the crate's two timers
//! to take, why, and by how much.
//!
//! A row stands on a number of cases. One timer is taken if it is clearly cheaper in at least half of them, the
//! other in hardly any; otherwise they cost the same within the noise, and the row says so.

#[cfg(test)]
mod tests;

use crate::case::Work;
use crate::contestant::Contestant::{self, Hashed, Hierarchical};
use crate::findings::Findings;
use crate::group::Axis;
use crate::load::{CPU_NS, WAKEUPS, WORK};
use crate::map::{Form, Place};
use crate::telling::{code, of};
use crate::words::{count, factor, significant, size, time};
use std::ops::RangeInclusive;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) load: String,
    pub(crate) take: Take,
    /// Counted.
    pub(crate) because: String,
    pub(crate) by: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    One(Contestant),
    Either,
}

impl Take {
    pub(crate) fn in_words(self) -> String {
        match self {
            Take::One(who) => code(who),
            Take::Either => "either".to_owned(),
        }
    }
}

/// How the two timers of the crate compare over some cases.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    take: Take,
    /// What the other costs, as a multiple: in the mean, and from the least to the most.
    typical: f64,
    least: f64,
    most: f64,
}

/// A turn of the default hashed timer, in seconds: 512 slots of 100 ms.
const DEFAULT_TURN: f64 = 51.2;
/// Up to so many timeouts are few.
const FEW: f64 = 1_000.0;
/// From so many at one boundary on they are a crowd.
const CROWD: f64 = 1_000.0;

impl Findings<'_> {
    /// The rows.
    pub(crate) fn choices(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for form in Form::ALL {
            choices.extend(self.by_delay(form));
        }
        choices.extend(Form::ALL.iter().filter_map(|&form| self.few(form)));
        choices.extend(self.crowd());
        choices.extend(self.free_size());
        choices
    }

    /// Where more than a few are pending: one row, or two where one timer is to be taken up to some delay and the
    /// other from the next longer one on.
    fn by_delay(&self, form: Form) -> Vec<Choice> {
        let mut places = self.places(form);
        places.retain(|place| place.pending > FEW);
        let row = |load: String, range: RangeInclusive<f64>| {
            let cases = cases_in(&places, range);
            self.choice(load, &cases, self.entries(&cases))
        };
        let what = in_words(form);
        let Some((short, long)) = self.split(&places) else {
            let load = format!("{what}, after delays of any length");
            return row(load, 0.0..=f64::INFINITY).into_iter().collect();
        };
        let by_default = time(short * DEFAULT_TURN);
        let [up_to, from] = [short, long].map(|turns| Axis::Turns.in_words(turns));
        let rows = [
            row(
                format!("{what}; delays up to {up_to} ({by_default} on the default wheel)"),
                0.0..=short,
            ),
            row(
                format!("{what}; delays of {from} and more"),
                long..=f64::INFINITY,
            ),
        ];
        rows.into_iter().flatten().collect()
    }

    /// The two delays next to each other between which the verdict changes, if it does. Of several such pairs the one
    /// that divides the costs best. What has one verdict as a whole is divided only if the other timer is to be taken on
    /// one side.
    fn split(&self, places: &[Place]) -> Option<(f64, f64)> {
        let mut turns: Vec<f64> = places.iter().map(|place| place.turns).collect();
        turns.sort_by(f64::total_cmp);
        turns.dedup();
        let take = |cases: &[usize]| self.verdict(cases).map(|it| it.take);
        let whole = take(&cases_in(places, 0.0..=f64::INFINITY))?;
        let mut best: Option<(f64, (f64, f64))> = None;
        for pair in turns.windows(2) {
            let left = cases_in(places, 0.0..=pair[0]);
            let right = cases_in(places, pair[1]..=f64::INFINITY);
            let (Some(short), Some(long)) = (take(&left), take(&right)) else {
                continue;
            };
            let is_told = whole == Take::Either || ![short, long].contains(&Take::Either);
            let score = (self.lead(&left) - self.lead(&right)).abs();
            let is_best = best.is_none_or(|(highest, _)| score > highest);
            if short != long && is_told && is_best {
                best = Some((score, (pair[0], pair[1])));
            }
        }
        best.map(|(_, pair)| pair)
    }

    /// How much cheaper the hashed wheel is, summed up over some cases.
    fn lead(&self, cases: &[usize]) -> f64 {
        let cost = |case: usize, who| Some(self.results.get(case, who, CPU_NS)?.median.ln());
        let lead = |&case: &usize| Some(cost(case, Hierarchical)? - cost(case, Hashed)?);
        cases.iter().filter_map(lead).sum()
    }

    fn few(&self, form: Form) -> Option<Choice> {
        let places = self.places(form).into_iter();
        let cases: Vec<usize> = places
            .filter(|place| place.pending <= FEW)
            .map(|place| place.case)
            .collect();
        let what = in_words(form).to_lowercase();
        let load = format!("At most {} pending, and {what}", count(FEW));
        self.choice(load, &cases, self.wakes(&cases))
    }

    fn crowd(&self) -> Option<Choice> {
        let cases = self.plan.of("burst");
        let cases = cases.filter_map(|(number, case)| match case.work {
            Work::Burst(load) if load.at_once as f64 >= CROWD => Some(number),
            _ => None,
        });
        let cases: Vec<usize> = cases.collect();
        let load = "Thousands due at the same tick".to_owned();
        self.choice(load, &cases, self.entries(&cases))
    }

    /// Both at the size that suits them best.
    fn free_size(&self) -> Option<Choice> {
        let (lines, _) = self.lines("size", CPU_NS)?;
        let best = |who| {
            let points = of(&lines, who)?.points.iter();
            points
                .copied()
                .min_by(|a, b| a.y.median.total_cmp(&b.y.median))
        };
        let (hashed, hierarchical) = (best(Hashed)?, best(Hierarchical)?);
        let ratio = hierarchical.y.median / hashed.y.median;
        let (take, typical) = if hashed.y.is_clearly_below(&hierarchical.y) {
            (Take::One(Hashed), ratio)
        } else if hierarchical.y.is_clearly_below(&hashed.y) {
            (Take::One(Hierarchical), 1.0 / ratio)
        } else {
            (Take::Either, ratio)
        };
        let verdict = Verdict {
            take,
            typical,
            least: typical,
            most: typical,
        };
        Some(Choice {
            load: "You are free to set the size of the wheel".to_owned(),
            take,
            because: format!(
                "for delays of 8192 ticks, {} does best with {} slots, {} with {} buckets a level",
                code(Hashed),
                size(hashed.x),
                code(Hierarchical),
                size(hierarchical.x)
            ),
            by: verdict.in_words(),
        })
    }

    fn choice(&self, load: String, cases: &[usize], because: Option<String>) -> Option<Choice> {
        let verdict = self.verdict(cases)?;
        let mut by = verdict.in_words();
        for other in self.cheaper_still(cases, verdict.take) {
            by = format!("{by}; {other}");
        }
        Some(Choice {
            load,
            take: verdict.take,
            because: because.unwrap_or_default(),
            by,
        })
    }

    fn verdict(&self, cases: &[usize]) -> Option<Verdict> {
        let (mut ratios, mut clear) = (Vec::new(), [0, 0]);
        for &case in cases {
            let get = |who| self.results.get(case, who, CPU_NS);
            let (Some(hashed), Some(hierarchical)) = (get(Hashed), get(Hierarchical)) else {
                continue;
            };
            clear[0] += usize::from(hashed.is_clearly_below(&hierarchical));
            clear[1] += usize::from(hierarchical.is_clearly_below(&hashed));
            ratios.push(hierarchical.median / hashed.median);
        }
        let leads = |one: usize, other: usize| 2 * one >= ratios.len() && one >= 4 * other;
        let take = match typical(&ratios)? {
            ratio if ratio > 1.05 && leads(clear[0], clear[1]) => Take::One(Hashed),
            ratio if ratio < 0.95 && leads(clear[1], clear[0]) => Take::One(Hierarchical),
            _ => Take::Either,
        };
        if take == Take::One(Hierarchical) {
            for ratio in &mut ratios {
                *ratio = 1.0 / *ratio;
            }
        }
        ratios.sort_by(f64::total_cmp);
        Some(Verdict {
            take,
            typical: typical(&ratios)?,
            least: *ratios.first()?,
            most: *ratios.last()?,
        })
    }

    /// Designs that are clearly cheaper than what the row says to take.
    fn cheaper_still(&self, cases: &[usize], take: Take) -> Vec<String> {
        let taken = match take {
            Take::One(who) => who,
            Take::Either => Hashed,
        };
        let others = Contestant::TIMERS.into_iter();
        let others = others.filter(|who| ![Hashed, Hierarchical].contains(who));
        let told = others.filter_map(|who| {
            let both = |case: &usize| {
                let get = |who| self.results.get(*case, who, CPU_NS);
                Some((get(who)?, get(taken)?))
            };
            let pairs: Vec<_> = cases.iter().filter_map(both).collect();
            let clear = pairs.iter().filter(|(it, base)| it.is_clearly_below(base));
            let ratios: Vec<f64> = pairs
                .iter()
                .map(|(it, base)| it.median / base.median)
                .collect();
            let ratio = typical(&ratios)?;
            if ratio > 0.95 || 2 * clear.count() < pairs.len() {
                return None;
            }
            let late = who.is_late().then(|| match self.late(cases, who) {
                Some(late) => format!(" and is {late} late"),
                None => " and is late where it fires".to_owned(),
            });
            let late = late.unwrap_or_default();
            Some(format!("`{}` costs {}{late}", who.name(), factor(ratio)))
        });
        told.collect()
    }

    /// What the two do for each timeout on its way.
    fn entries(&self, cases: &[usize]) -> Option<String> {
        Some(format!(
            "for each timeout, {} passes over {} entries, {} moves {}",
            code(Hashed),
            self.span(cases, Hashed, WORK)?,
            code(Hierarchical),
            self.span(cases, Hierarchical, WORK)?
        ))
    }

    fn wakes(&self, cases: &[usize]) -> Option<String> {
        Some(format!(
            "wake-ups for each timeout: {} on {}, {} on {}",
            self.span(cases, Hashed, WAKEUPS)?,
            code(Hashed),
            self.span(cases, Hierarchical, WAKEUPS)?,
            code(Hierarchical)
        ))
    }

    /// A figure from the least to the most.
    fn span(&self, cases: &[usize], who: Contestant, figure: &str) -> Option<String> {
        let of = |case: &usize| self.results.get(*case, who, figure);
        let mut values: Vec<f64> = cases.iter().filter_map(of).map(|y| y.median).collect();
        values.sort_by(f64::total_cmp);
        let [least, most] = [values.first()?, values.last()?].map(|it| brief(*it));
        if least == most {
            return Some(least);
        }
        Some(format!("{least} to {most}"))
    }
}

impl Verdict {
    fn in_words(&self) -> String {
        let span = |least: f64, most: f64| {
            let [least, most] = [least, most].map(factor);
            if least == most {
                String::new()
            } else {
                format!(" ({least} to {most})")
            }
        };
        let span = span(self.least, self.most);
        match self.take {
            Take::One(taken) => {
                let other = if taken == Hashed {
                    Hierarchical
                } else {
                    Hashed
                };
                format!("{} costs {}{span}", code(other), factor(self.typical))
            }
            Take::Either => format!(
                "no clear difference: {} costs {}{span} of {}",
                code(Hierarchical),
                factor(self.typical),
                code(Hashed)
            ),
        }
    }
}

fn in_words(form: Form) -> &'static str {
    match form {
        Form::Fired => "Most timeouts fire",
        Form::Cancelled => "Most are cancelled before they are due",
    }
}

/// The cases with delays in this range of turns.
fn cases_in(places: &[Place], range: RangeInclusive<f64>) -> Vec<usize> {
    let inside = places.iter().filter(|place| range.contains(&place.turns));
    inside.map(|place| place.case).collect()
}

/// The geometric mean.
fn typical(ratios: &[f64]) -> Option<f64> {
    let sum: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| (sum / ratios.len() as f64).exp())
}

/// Two digits are enough here.
fn brief(value: f64) -> String {
    if value < 0.005 {
        return "0".to_owned();
    }
    let digits = value.log10().floor() as i32;
    let step = 10_f64.powi(digits - 1);
    significant((value / step).round() * step)
}

//! The map: the delay against the number pending, and who costs least at each place. Every steady load of
//! the run that is fired or cancelled as a whole is a cell, whichever group it belongs to.

use crate::case::Work;
use crate::contestant::{Contestant, Sizes};
use crate::findings::Findings;
use crate::load::{CPU_NS, LATE_PERCENT};
use crate::results::Summary;
use crate::words::percent_range;
use std::cmp::Ordering;
use std::fmt::Write as _;

/// What becomes of the timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Fired,
    Cancelled,
}

impl Form {
    pub(crate) const ALL: [Form; 2] = [Form::Fired, Form::Cancelled];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Fired => "fired",
            Form::Cancelled => "cancelled",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Form::Fired => "Timeouts that fire",
            Form::Cancelled => "Timeouts that are cancelled",
        }
    }

    fn share_cancelled(self) -> f64 {
        match self {
            Form::Fired => 0.0,
            Form::Cancelled => 1.0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) form: Form,
    /// Mean delays in turns of the hashed wheel, rising.
    pub(crate) columns: Vec<f64>,
    /// Numbers pending, falling; for each column a cell.
    pub(crate) rows: Vec<(f64, Vec<Cell>)>,
}

/// One place of the map.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// Who costs least of those that are on time. Within the noise, the one of them that costs least over
    /// the whole map, so that noise does not look like a border.
    pub(crate) best: Contestant,
    /// Its nanoseconds.
    pub(crate) cost: f64,
    /// Who else is on time, and not clearly dearer.
    pub(crate) ties: Vec<Contestant>,
    /// Who is late by design and clearly cheaper still.
    pub(crate) late: Option<Late>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Late {
    pub(crate) who: Contestant,
    /// Its cost as a part of the best's.
    pub(crate) factor: f64,
    /// In percent of the delay; `None` where nothing has fired.
    pub(crate) percent: Option<f64>,
}

/// A case of the run as a place on the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) case: usize,
    pub(crate) turns: f64,
    pub(crate) pending: f64,
}

impl Findings<'_> {
    /// All places of one form.
    pub(crate) fn places(&self, form: Form) -> Vec<Place> {
        let cases = self.plan.cases.iter().enumerate();
        let places = cases.filter_map(|(case, it)| match it.work {
            Work::Steady(load) if load.sizes == Sizes::DEFAULT => {
                let is_form = (load.cancelled - form.share_cancelled()).abs() < 1e-9;
                is_form.then_some(Place {
                    case,
                    turns: load.delay / load.sizes.slots as f64,
                    pending: load.pending as f64,
                })
            }
            _ => None,
        });
        places.collect()
    }

    /// The largest map that has a figure in each cell: all rows that have several, and the columns that all
    /// those rows have.
    pub(crate) fn map(&self, form: Form) -> Option<Map> {
        let places = self.places(form);
        let mut pendings: Vec<f64> = places.iter().map(|it| it.pending).collect();
        sort(&mut pendings);
        let of = |pending: f64| places.iter().filter(move |it| is_same(it.pending, pending));
        pendings.retain(|&it| of(it).count() > 1);
        let mut columns: Vec<f64> = places.iter().map(|it| it.turns).collect();
        sort(&mut columns);
        let find = |pending: f64, turns: f64| of(pending).find(|it| is_same(it.turns, turns));
        columns.retain(|&turns| pendings.iter().all(|&it| find(it, turns).is_some()));
        let mut grid: Vec<Vec<Place>> = Vec::new();
        for &pending in pendings.iter().rev() {
            grid.push(
                columns
                    .iter()
                    .filter_map(|&it| find(pending, it).copied())
                    .collect(),
            );
        }
        let favourites = self.favourites(&grid.concat());
        let mut rows = Vec::new();
        for row in &grid {
            let cells = row.iter().map(|place| self.cell(place.case, &favourites));
            rows.push((row.first()?.pending, cells.collect::<Option<Vec<Cell>>>()?));
        }
        (rows.len() > 1 && columns.len() > 1).then_some(Map {
            form,
            columns,
            rows,
        })
    }

    /// Everybody who is on time, the cheapest over all these places first.
    fn favourites(&self, places: &[Place]) -> Vec<Contestant> {
        let on_time = Contestant::TIMERS.into_iter().filter(|it| !it.is_late());
        let mut sums: Vec<(f64, Contestant)> = on_time
            .map(|who| {
                let costs = places
                    .iter()
                    .filter_map(|it| self.results.get(it.case, who, CPU_NS));
                (costs.map(|y| y.median.ln()).sum(), who)
            })
            .collect();
        sums.sort_by(|a, b| a.0.total_cmp(&b.0));
        sums.into_iter().map(|(_, who)| who).collect()
    }

    fn cell(&self, case: usize, favourites: &[Contestant]) -> Option<Cell> {
        let get = |who: Contestant| self.results.get(case, who, CPU_NS);
        let all: Vec<(Contestant, Summary)> = favourites
            .iter()
            .filter_map(|&who| Some((who, get(who)?)))
            .collect();
        let is_beaten = |y: &Summary| all.iter().any(|(_, other)| other.is_clearly_below(y));
        let leading: Vec<_> = all.iter().filter(|(_, y)| !is_beaten(y)).collect();
        let &&(best, cost) = leading.first()?;
        let late = Contestant::TIMERS.into_iter().filter(|it| it.is_late());
        let late = late.filter_map(|who| {
            let y = get(who).filter(|y| y.is_clearly_below(&cost))?;
            let percent = self.results.get(case, who, LATE_PERCENT);
            Some(Late {
                who,
                factor: y.median / cost.median,
                percent: percent.map(|y| y.median),
            })
        });
        Some(Cell {
            best,
            cost: cost.median,
            ties: leading[1..].iter().map(|(who, _)| *who).collect(),
            late: late.min_by(|a, b| a.factor.total_cmp(&b.factor)),
        })
    }
}

impl Map {
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.iter().flat_map(|(_, cells)| cells)
    }

    /// Who is on the map.
    pub(crate) fn shown(&self) -> Vec<Contestant> {
        let is_shown = |who: &Contestant| self.cells().any(|cell| cell.best == *who);
        Contestant::TIMERS.into_iter().filter(is_shown).collect()
    }

    pub(crate) fn has_ties(&self) -> bool {
        self.cells().any(|cell| !cell.ties.is_empty())
    }

    pub(crate) fn has_late(&self) -> bool {
        self.cells().any(|cell| cell.late.is_some())
    }

    /// What stands for the late one's mark in a legend.
    pub(crate) fn late_in_words(&self) -> String {
        let cells = self.cells().filter_map(|cell| cell.late?.percent);
        let mut percents: Vec<f64> = cells.collect();
        percents.sort_by(f64::total_cmp);
        let late = match (percents.first(), percents.last()) {
            (Some(least), Some(most)) => format!("{} late", percent_range(*least, *most)),
            _ => "late where it fires".to_owned(),
        };
        format!("×…: the cost of kernel, which is {late}")
    }

    /// What the map shows, for those who cannot see it.
    pub(crate) fn in_words(&self) -> String {
        let mut shares: Vec<(usize, Contestant)> = self
            .shown()
            .into_iter()
            .map(|who| (self.cells().filter(|cell| cell.best == who).count(), who))
            .collect();
        shares.sort_by_key(|&(cells, _)| std::cmp::Reverse(cells));
        let all = self.cells().count();
        let mut text = format!("{}: of {all} places, ", self.form.title());
        for (place, (cells, who)) in shares.iter().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            let _ = write!(text, "{comma}{} costs least at {cells}", who.name());
        }
        text
    }
}

fn is_same(one: f64, other: f64) -> bool {
    (one / other - 1.0).abs() < 1e-6
}

fn sort(values: &mut Vec<f64>) {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    values.dedup_by(|a, b| is_same(*a, *b));
}

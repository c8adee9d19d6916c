//! The three figures that people ask for: the cost of an operation, the wake-ups while nothing is due, and
//! the memory.

use crate::contestant::Contestant;
use crate::findings::Findings;
use crate::load::{CPU_NS, LATE_PERCENT};
use crate::telling::code;
use crate::words::{list, significant};

/// One of the three.
#[derive(Clone, Debug)]
pub(crate) struct Headline {
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// The load it was taken with.
    pub(crate) load: String,
    /// Medians.
    pub(crate) values: Vec<(Contestant, f64)>,
    /// What belongs to it, in a sentence.
    pub(crate) note: String,
}

impl Findings<'_> {
    pub(crate) fn headlines(&self) -> Vec<Headline> {
        let all = [
            self.headline(
                "churn",
                CPU_NS,
                "Cost of an operation",
                "ns of CPU to schedule one and cancel one",
            ),
            self.headline(
                "idle",
                "wakeups_per_s",
                "Wake-ups while nothing is due",
                "a second",
            ),
            self.headline("memory", "bytes", "Memory", "bytes a pending timeout"),
        ];
        let notes = [
            self.firing().unwrap_or_default(),
            self.awake(),
            "Resident memory, the 24 bytes that its task captures included.".to_owned(),
        ];
        let with_notes = all.into_iter().zip(notes);
        let told = with_notes.filter_map(|(headline, note)| {
            let mut headline = headline?;
            headline.note = note;
            Some(headline)
        });
        told.collect()
    }

    /// The first case of a group.
    fn headline(
        &self,
        group: &str,
        figure: &str,
        title: &'static str,
        unit: &'static str,
    ) -> Option<Headline> {
        let (_, case) = self.plan.of(group).next()?;
        let values = self.first_row(group, figure);
        let what = if group == "idle" { "tick 1 ms, " } else { "" };
        (!values.is_empty()).then(|| Headline {
            title,
            unit,
            load: format!("{what}{}", case.label),
            values,
            note: String::new(),
        })
    }

    fn first_row(&self, group: &str, figure: &str) -> Vec<(Contestant, f64)> {
        let Some((number, _)) = self.plan.of(group).next() else {
            return Vec::new();
        };
        let all = Contestant::TIMERS.into_iter();
        let all = all.filter_map(|who| Some((who, self.results.get(number, who, figure)?.median)));
        all.collect()
    }

    /// What firing costs, and how late the late one is.
    fn firing(&self) -> Option<String> {
        let row = self.first_row("fire", CPU_NS);
        let (number, case) = self.plan.of("fire").next()?;
        let told: Vec<String> = row
            .into_iter()
            .map(|(who, ns)| {
                let late = self.results.get(number, who, LATE_PERCENT);
                let late = late.filter(|_| who.is_late());
                let late = late.map_or(String::new(), |y| format!(" ({:.0} % late)", y.median));
                format!("`{}` {}{late}", who.name(), significant(ns))
            })
            .collect();
        (!told.is_empty()).then(|| format!("To fire one ({}): {} ns.", case.label, list(&told)))
    }

    /// What a timer takes that has many timeouts, none of them due.
    fn awake(&self) -> String {
        let row = self.first_row("hold", "cpu_percent");
        let Some(about) = self.plan.groups.iter().find(|it| it.name == "hold") else {
            return String::new();
        };
        let load = about.about.split(',').next().unwrap_or_default();
        let awake: Vec<String> = row
            .into_iter()
            .filter(|(_, percent)| *percent >= 0.05)
            .map(|(who, percent)| {
                format!("{} takes {} % of a core", code(who), significant(percent))
            })
            .collect();
        if awake.is_empty() {
            return format!("With {load}, nobody takes a measurable part of a core.");
        }
        format!("With {load}, {}; the others nothing.", list(&awake))
    }
}

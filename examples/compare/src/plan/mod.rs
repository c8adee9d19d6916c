//! All that is run, in its quick and its full form.

mod measured;
mod swept;

use crate::case::{Case, Work};
use crate::contestant::Contestant;
use crate::group::Group;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Below a minute.
    Quick,
    /// Below thirty minutes, on two cores.
    Full,
}

impl Extent {
    pub(crate) fn name(self) -> &'static str {
        self.pick("quick", "full")
    }

    pub(crate) fn from_name(name: &str) -> Option<Extent> {
        [Extent::Quick, Extent::Full]
            .into_iter()
            .find(|it| it.name() == name)
    }

    /// The first in the quick form, the second in the full one.
    fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Extent::Quick => quick,
            Extent::Full => full,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) groups: Vec<Group>,
    pub(crate) cases: Vec<Case>,
}

impl Plan {
    pub(crate) fn new(extent: Extent) -> Plan {
        let mut plan = Plan::default();
        swept::add_to(&mut plan, extent);
        measured::add_to(&mut plan, extent);
        plan
    }

    /// Runs everything at most so often.
    pub(crate) fn limit_runs(&mut self, rounds: usize) {
        for case in &mut self.cases {
            case.runs = case.runs.min(rounds);
        }
    }

    /// Leaves only what is wanted.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&str, Contestant) -> bool) {
        for case in &mut self.cases {
            let name = case.name();
            case.contestants.retain(|&it| wanted(&name, it));
        }
        self.cases.retain(|case| !case.contestants.is_empty());
        let cases = &self.cases;
        self.groups
            .retain(|group| cases.iter().any(|case| case.group == group.name));
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name() == name)
    }

    /// The cases of a group, with their numbers.
    pub(crate) fn of<'a>(&'a self, group: &'a str) -> impl Iterator<Item = (usize, &'a Case)> {
        let numbered = self.cases.iter().enumerate();
        numbered.filter(move |(_, case)| case.group == group)
    }

    /// Adds a case that all timers run.
    fn add(&mut self, group: &'static str, x: f64, label: String, runs: usize, work: Work) {
        self.cases.push(Case {
            group,
            x,
            label,
            work,
            runs,
            contestants: Contestant::TIMERS.to_vec(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Plan};
    use std::collections::HashSet;

    #[test]
    fn every_case_has_a_name_of_its_own_and_a_group() {
        for extent in [Extent::Quick, Extent::Full] {
            let plan = Plan::new(extent);
            let names: HashSet<_> = plan.cases.iter().map(super::Case::name).collect();
            assert_eq!(names.len(), plan.cases.len());
            for case in &plan.cases {
                assert!(plan.groups.iter().any(|group| group.name == case.group));
                assert!(case.runs > 0);
            }
        }
    }

    #[test]
    fn a_filter_leaves_no_empty_groups() {
        let mut plan = Plan::new(Extent::Quick);
        plan.retain(|name, contestant| name.starts_with("churn") && contestant.name() == "heap");
        assert_eq!(plan.groups.len(), 1);
        assert!(plan.cases.iter().all(|case| case.contestants.len() == 1));
    }
}

//! Which of the crate's two wheels: the published loads of this run.

use crate::contestant::Contestant::{Hashed, Hierarchical};
use crate::load::CPU_NS;
use crate::plan::Plan;
use crate::results::Results;
use figures::compare::{CONTESTANT, LOADS, Load, METRIC};
use figures::sheet::{Figure, Sheet};

/// The number of a load's case in the plan.
fn find(plan: &Plan, load: &Load) -> Option<usize> {
    let (group, x) = load.case;
    let mut cases = plan.of(group);
    let found = cases.find(|(_, case)| (case.x - x).abs() <= 1e-6 * x)?;
    Some(found.0)
}

/// Leaves the published loads, each to be run by the two wheels, so often.
pub(crate) fn retain_published(plan: &mut Plan, rounds: usize) {
    let published: Vec<String> = LOADS
        .iter()
        .filter_map(|load| Some(plan.cases[find(plan, load)?].name()))
        .collect();
    plan.retain(|case, who| {
        [Hashed, Hierarchical].contains(&who) && published.iter().any(|it| it == case)
    });
    for case in &mut plan.cases {
        case.runs = rounds;
    }
}

/// The figures of all published loads that were run.
pub(crate) fn sheet(plan: &Plan, results: &Results) -> Sheet {
    let mut figures = Vec::new();
    for load in LOADS {
        let Some(case) = find(plan, load) else {
            continue;
        };
        let [hashed, hierarchical] =
            [Hashed, Hierarchical].map(|who| results.values(case, who, CPU_NS));
        figures.extend(Figure::of(load.row, "hashed", CPU_NS, hashed));
        figures.extend(Figure::of(load.row, CONTESTANT, CPU_NS, hierarchical));
        // A run that failed is missing, and then the others do not belong together.
        if hashed.len() == hierarchical.len() {
            let pairs = hierarchical.iter().zip(hashed);
            let ratios: Vec<f64> = pairs.map(|(one, other)| one / other).collect();
            figures.extend(Figure::of(load.row, CONTESTANT, METRIC, &ratios));
        }
    }
    let mut sheet = Sheet::default();
    sheet.replace(|_| true, figures);
    sheet
}

#[cfg(test)]
mod tests {
    use super::{find, retain_published, sheet};
    use crate::contestant::Contestant::{Hashed, Hierarchical};
    use crate::plan::{Extent, Plan};
    use crate::results::Results;
    use figures::compare::LOADS;

    #[test]
    fn every_published_load_is_in_both_forms_of_the_plan() {
        for extent in [Extent::Quick, Extent::Full] {
            let plan = Plan::new(extent);
            for load in LOADS {
                assert!(find(&plan, load).is_some(), "{load:?} in {extent:?}");
            }
        }
        let mut plan = Plan::new(Extent::Full);
        retain_published(&mut plan, 7);
        assert_eq!(plan.cases.len(), LOADS.len());
        assert!(
            plan.cases
                .iter()
                .all(|case| case.runs == 7 && case.contestants.len() == 2)
        );
    }

    #[test]
    fn ratios_are_those_of_single_rounds() {
        let plan = Plan::new(Extent::Quick);
        let mut results = Results::default();
        let case = find(&plan, &LOADS[0]).unwrap();
        for (hashed, hierarchical) in [(10.0, 20.0), (100.0, 50.0), (10.0, 30.0)] {
            for (who, cost) in [(Hashed, hashed), (Hierarchical, hierarchical)] {
                results.add(case, who, vec![("cpu_ns".to_owned(), cost)]);
            }
        }
        let found = sheet(&plan, &results);
        let ratio = found
            .get(LOADS[0].row, "hierarchical", "cpu_ns:hashed")
            .unwrap();
        assert_eq!((ratio.median, ratio.min, ratio.max), (2.0, 0.5, 3.0));
    }
}

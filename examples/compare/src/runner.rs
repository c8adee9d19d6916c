//! Runs a plan in rounds: every case once, by every contestant in turn, and then all over again. So a
//! slow minute of the machine spoils one run of each, which the median forgives, and not all runs of one.

use crate::child;
use crate::plan::{Extent, Plan};
use crate::progress::Progress;
use crate::results::Results;

/// Runs everything. What failed is in the results.
pub(crate) fn run(plan: &Plan, extent: Extent) -> Results {
    let mut results = Results::default();
    let rounds = plan.cases.iter().map(|case| case.runs).max().unwrap_or(0);
    let mut progress = Progress::new(plan, rounds);
    for round in 0..rounds {
        for (number, case) in plan.cases.iter().enumerate() {
            if round >= case.runs {
                continue;
            }
            progress.begin(round, number, case);
            let first = round + number;
            for turn in 0..case.contestants.len() {
                let contestant = case.contestants[(first + turn) % case.contestants.len()];
                progress.turn(contestant);
                match child::start(extent, &case.name(), contestant) {
                    Ok(figures) => results.add(number, contestant, figures),
                    Err(failure) => results.failures.push(failure),
                }
            }
            progress.end(number);
        }
    }
    progress.finish();
    results
}

//! The raw numbers: every run of everything, and a summary.

use crate::case::Case;
use crate::plan::Plan;
use crate::results::{Results, Summary};
use std::fmt::Write as _;

/// Every value of every run.
pub(crate) fn runs(plan: &Plan, results: &Results) -> String {
    let mut text = "group,case,x,contestant,figure,run,value\n".to_owned();
    for (number, contestant, figure, values) in results.all() {
        for (run, value) in values.iter().enumerate() {
            let place = place(&plan.cases[number]);
            let name = contestant.name();
            let _ = writeln!(text, "{place},{name},{figure},{},{value}", run + 1);
        }
    }
    text
}

/// The median and the spread of everything.
pub(crate) fn medians(plan: &Plan, results: &Results) -> String {
    let head = "group,case,x,contestant,figure,runs,median,least,quarter,three_quarters,most\n";
    let mut text = head.to_owned();
    for (number, contestant, figure, values) in results.all() {
        let Some(y) = Summary::of(values) else {
            continue;
        };
        let _ = writeln!(
            text,
            "{},{},{figure},{},{},{},{},{},{}",
            place(&plan.cases[number]),
            contestant.name(),
            y.runs,
            y.median,
            y.least,
            y.low,
            y.high,
            y.most
        );
    }
    text
}

fn place(case: &Case) -> String {
    format!("{},\"{}\",{}", case.group, case.label, case.x)
}

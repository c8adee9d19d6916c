//! The words follow the figures: other figures, other words.

use super::Findings;
use crate::answer::Answer;
use crate::case::Work;
use crate::contestant::Contestant;
use crate::figures::{all_crossings, sections};
use crate::load::{COUNTS, CPU_NS, LATE_PERCENT};
use crate::machine::Machine;
use crate::plan::{Extent, Plan};
use crate::report::Report;
use crate::results::Results;

/// Results in which every figure of a case is what `value` says, in three runs that hardly differ.
pub(crate) fn results(plan: &Plan, value: impl Fn(Contestant, &str, f64) -> f64) -> Results {
    let mut results = Results::default();
    for (number, case) in plan.cases.iter().enumerate() {
        let group = plan.groups.iter().find(|group| group.name == case.group);
        let mut names: Vec<&str> = group.unwrap().figures.iter().map(|it| it.name).collect();
        if matches!(case.work, Work::Steady(_) | Work::Burst(_)) {
            names.extend(COUNTS);
            names.push(LATE_PERCENT);
        }
        for &contestant in &case.contestants {
            for noise in [0.999, 1.0, 1.001] {
                let figure = |name: &&str| {
                    let is_count = COUNTS.contains(name);
                    let noise = if is_count { 1.0 } else { noise };
                    ((*name).to_owned(), noise * value(contestant, name, case.x))
                };
                results.add(number, contestant, names.iter().map(figure).collect());
            }
        }
    }
    results
}

fn summary(value: impl Fn(Contestant, &str, f64) -> f64) -> String {
    let plan = Plan::new(Extent::Quick);
    let results = results(&plan, value);
    let from = Findings {
        plan: &plan,
        results: &results,
    };
    from.summary()
}

/// Everybody costs 100, but for one, that costs `other`.
fn but_for(who: Contestant, other: f64) -> impl Fn(Contestant, &str, f64) -> f64 {
    move |contestant, _, _| if contestant == who { other } else { 100.0 }
}

#[test]
fn the_cheapest_is_named_whoever_it_is() {
    for who in Contestant::TIMERS.into_iter().filter(|it| !it.is_late()) {
        let said = summary(but_for(who, 50.0));
        let expected = format!(
            "Where all fire, `{}` costs least, or as little as any, from 1/100 to 1\u{a0}000 turns",
            who.name()
        );
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_crossing_is_said_and_where_it_is() {
    let said = summary(|contestant, name, x| match (contestant, name) {
        (Contestant::Hashed, CPU_NS) => 100.0 * x.max(1.0).sqrt(),
        _ => 316.2,
    });
    let expected = "`hashed` costs least up to about 10 turns";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn who_wakes_is_said_and_who_sleeps() {
    let said = summary(|contestant, name, _| match (contestant, name) {
        (Contestant::Heap, "wakeups_per_s") => 7.0,
        (_, "wakeups_per_s") => 0.0,
        _ => 100.0,
    });
    let expected = "`hashed`, `hierarchical`, `kernel` (late), `classic` and `btree` sleep throughout; awake: `heap` up to 7 times a second";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn nothing_is_said_about_what_was_not_run() {
    let mut plan = Plan::new(Extent::Quick);
    plan.retain(|name, contestant| name.starts_with("churn") && contestant == Contestant::Heap);
    let results = results(&plan, |_, _, _| 100.0);
    let from = Findings {
        plan: &plan,
        results: &results,
    };
    let said = from.summary();
    assert!(said.starts_with("Churn: "), "{said}");
    assert!(!said.contains("hashed"), "{said}");
    assert!(all_crossings(from).is_empty());
}

#[test]
fn the_page_has_every_plot_inside_and_needs_nothing_else() {
    let plan = Plan::new(Extent::Full);
    let value = |contestant: Contestant, _: &str, x: f64| match contestant {
        Contestant::Classic => 10.0 + x,
        Contestant::Array => 1.0,
        _ => 10.0,
    };
    let results = results(&plan, value);
    let from = Findings {
        plan: &plan,
        results: &results,
    };
    let sections = sections(from).unwrap();
    let answer = Answer::new(from);
    let plots: usize = sections.iter().map(|section| section.pictures.len()).sum();
    let plots = plots + answer.maps.len();
    let html = Report {
        answer,
        summary: from.summary(),
        machine: &Machine::look(),
        remarks: Vec::new(),
        crossings: all_crossings(from),
        sections,
    }
    .html();
    assert!(plots >= 15, "{plots}");
    assert_eq!(html.matches("<svg ").count(), plots);
    for loaded in ["<script", "<link", "src=", "url("] {
        assert!(!html.contains(loaded), "{loaded}");
    }
    assert!(!html.contains("NaN") && !html.contains(">inf"));
}

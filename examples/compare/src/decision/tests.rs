//! The rows follow the figures: other figures, other rows; and never more than eight.

use super::Take;
use crate::answer::Answer;
use crate::contestant::Contestant;
use crate::findings::Findings;
use crate::findings::tests::results;
use crate::load::{CPU_NS, LATE_PERCENT};
use crate::map::Form;
use crate::plan::{Extent, Plan};

/// The answer to a run in which `value` is the cost of a contestant in a case of that many turns (or whatever
/// the group's axis is).
fn answer(extent: Extent, value: impl Fn(Contestant, f64) -> f64) -> Answer {
    answer_to(&Plan::new(extent), value)
}

fn answer_to(plan: &Plan, value: impl Fn(Contestant, f64) -> f64) -> Answer {
    let results = results(plan, |who, figure, x| match figure {
        CPU_NS => value(who, x),
        LATE_PERCENT if who.is_late() => 3.0,
        LATE_PERCENT => 0.0,
        _ => 1.0,
    });
    Answer::new(Findings {
        plan,
        results: &results,
    })
}

/// All cost 300, but for one.
fn but_for(who: Contestant, cost: f64) -> impl Fn(Contestant, f64) -> f64 {
    move |it, _| if it == who { cost } else { 300.0 }
}

#[test]
fn the_cheaper_of_the_two_is_taken_whichever_it_is() {
    for who in [Contestant::Hashed, Contestant::Hierarchical] {
        let answer = answer(Extent::Full, but_for(who, 200.0));
        assert!(!answer.choices.is_empty() && answer.choices.len() <= 8);
        for choice in &answer.choices {
            assert_eq!(choice.take, Take::One(who), "{choice:?}");
            assert!(choice.by.contains("costs ×1.50"), "{choice:?}");
        }
    }
}

#[test]
fn what_is_within_the_noise_is_not_told() {
    let answer = answer(Extent::Full, but_for(Contestant::Hashed, 297.0));
    for choice in &answer.choices {
        assert_eq!(choice.take, Take::Either, "{choice:?}");
        assert!(choice.by.starts_with("no clear difference"), "{choice:?}");
    }
    for map in &answer.maps {
        assert!(map.cells().all(|cell| cell.ties.len() == 4));
        // One favourite for all of it.
        assert_eq!(map.shown(), [Contestant::Hashed]);
    }
}

#[test]
fn a_crossing_divides_the_delays_and_its_place_is_said() {
    let mut plan = Plan::new(Extent::Full);
    // In these groups x is the delay in turns.
    plan.retain(|name, _| name.starts_with("delay") || name.starts_with("map"));
    let answer = answer_to(&plan, |who, turns| match who {
        Contestant::Hashed => 100.0 * turns.max(1.0).sqrt(),
        _ => 316.2,
    });
    let rows = &answer.choices;
    assert!(rows.len() <= 8, "{rows:?}");
    let load = "Most timeouts fire; delays up to 3.16 turns (2.7 min on the default wheel)";
    assert_eq!(rows[0].load, load);
    assert_eq!(rows[0].take, Take::One(Contestant::Hashed));
    assert_eq!(
        rows[1].load,
        "Most timeouts fire; delays of 10 turns and more"
    );
    assert_eq!(rows[1].take, Take::One(Contestant::Hierarchical));
}

#[test]
fn a_late_design_is_never_taken_and_its_lateness_stands_beside_its_cost() {
    let answer = answer(Extent::Full, but_for(Contestant::Kernel, 150.0));
    for choice in answer.choices.iter().filter(|it| !it.load.contains("size")) {
        assert_eq!(choice.take, Take::Either);
        assert!(
            choice.by.ends_with("`kernel` costs ×0.50 and is 3 % late"),
            "{choice:?}"
        );
    }
    for map in &answer.maps {
        for cell in map.cells() {
            assert_ne!(cell.best, Contestant::Kernel);
            let late = cell.late.unwrap();
            assert!((late.factor - 0.5).abs() < 0.01 && late.percent == Some(3.0));
        }
        assert!(map.late_in_words().contains("3 % late"));
    }
}

#[test]
fn another_design_that_is_cheaper_is_named() {
    let answer = answer(Extent::Full, but_for(Contestant::Heap, 150.0));
    for choice in answer.choices.iter().filter(|it| !it.load.contains("size")) {
        assert!(choice.by.ends_with("`heap` costs ×0.50"), "{choice:?}");
    }
    assert_eq!(answer.maps[0].shown(), [Contestant::Heap]);
}

#[test]
fn the_maps_have_no_holes() {
    for (extent, rows, columns) in [(Extent::Quick, 3, 5), (Extent::Full, 5, 6)] {
        let answer = answer(extent, |_, _| 100.0);
        let forms: Vec<Form> = answer.maps.iter().map(|map| map.form).collect();
        assert_eq!(forms, Form::ALL);
        for map in &answer.maps {
            assert_eq!((map.rows.len(), map.columns.len()), (rows, columns));
            assert!(map.rows.iter().all(|(_, cells)| cells.len() == columns));
            assert!(map.columns.is_sorted());
        }
    }
}

#[test]
fn nothing_is_answered_about_what_was_not_run() {
    let mut plan = Plan::new(Extent::Quick);
    plan.retain(|name, _| name.starts_with("churn"));
    let results = results(&plan, |_, _, _| 100.0);
    let answer = Answer::new(Findings {
        plan: &plan,
        results: &results,
    });
    assert!(answer.choices.is_empty() && answer.maps.is_empty());
    assert_eq!(answer.headlines.len(), 1);
}

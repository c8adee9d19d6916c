//! Random things done to real timers on the manual clock, and to a naive model beside them: after each
//! step, everything that can be seen of a timer is what the model says.
//!
//! | file | what it is |
//! |---|---|
//! | `action` | what can be done to a timer, and what is noted of it |
//! | `model` | the rules, in the simplest way they can be written down |
//! | `world` | a real timer with its model, and the comparison |
//! | `case` | cases at random, and how one is made smaller |
//!
//! A case that fails is made smaller before it is shown. To repeat one, or to run for longer:
//!
//! ```sh
//! HASHED_WHEEL_SEED=17 cargo test --test models
//! HASHED_WHEEL_CASES=100000 cargo test --release --test models
//! ```
//!
//! A seed means another case when the generator changes. So what has once found something is kept
//! below in its smallest form, as a test of its own, and its seed in [`KEPT`].

#[path = "../common/mod.rs"]
mod common;

mod action;
mod case;
mod model;
mod world;

use action::{Action, Which};
use case::{Case, TimerSettings};
use common::{Kind, shrink};
use world::Reached;

/// Seeds that have found something, in the library or in one that was broken on purpose.
const KEPT: &[u64] = &[75, 435, 616, 1_000_933, 2_007_611];

/// How many others are run if nothing else is asked for: a few seconds.
const CASES: u64 = 1_200;

#[test]
fn both_timers_do_what_the_model_says() {
    shrink::check::<Case>(KEPT, CASES);
    if shrink::is_usual() {
        let reached = Reached::so_far();
        // A generator that no longer comes by these places proves nothing about them.
        assert!(reached.is_everything(), "{reached:#?}");
    }
}

fn timer(kind: Kind, tick: u64) -> TimerSettings {
    TimerSettings {
        kind,
        tick,
        slots: 2,
        max_pending: None,
        max_transfers: None,
        executor: false,
    }
}

/// The next run was counted from the timer's start, where time does not saturate as early as on the
/// clock: `remaining` was finite for a run that can never come.
#[test]
fn a_periodic_task_whose_next_run_is_beyond_the_end_of_the_clock_never_runs_again() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        for fixed_rate in [true, false] {
            shrink::check_one(&Case {
                made_at: u64::MAX - 1_500_000,
                timers: vec![timer(kind, 1_000_000)],
                actions: vec![
                    Action::Periodic {
                        first: 0,
                        period: 1_000_000,
                        fixed_rate,
                        script: vec![],
                    },
                    Action::Advance(1_000_000),
                    Action::Advance(u64::MAX),
                    Action::Stop,
                ],
                end: 0,
            });
        }
    }
}

/// The entry of its next run was in the queue already, with the number that the next tenant of its
/// place was given: that one had two entries, and the first was not its own.
#[test]
fn a_periodic_task_that_cancels_itself_on_an_executor_leaves_nothing_to_its_successor() {
    for kind in [Kind::Hashed, Kind::Hierarchical] {
        shrink::check_one(&Case {
            made_at: 0,
            timers: vec![TimerSettings {
                executor: true,
                ..timer(kind, 1_000_000)
            }],
            actions: vec![
                Action::Periodic {
                    first: 0,
                    period: 0,
                    fixed_rate: false,
                    script: vec![Action::Cancel(Which::This)],
                },
                Action::Advance(1_000_000),
                // Scheduled while the place is still held, and so in front of who gets it.
                Action::Once {
                    delay: 1_000_000,
                    script: vec![],
                },
                Action::Forget(Which::Back(1)),
                Action::Once {
                    delay: 1_000_000,
                    script: vec![],
                },
                Action::Advance(1_000_000),
            ],
            end: 0,
        });
    }
}

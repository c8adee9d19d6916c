//! One slot: user, worker, `stop` and `cancel_all` at the same time.

use super::{Probe, Slot, StoredTask, arm, explore, free_slot};
use crate::entry::SlotId;
use crate::slots::{ClaimResult, ReleaseResult, StopOutcome, Unowned};
use crate::slots::{Handle, Phase};
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

const ID: SlotId = SlotId::from_number(0);

/// Claims the timeout with that stamp at `now` and runs it, as `Engine::fire` and `run::run_once` do.
fn fire(slot: &Slot, stamp: u64, now: u64) -> Option<ReleaseResult> {
    match slot.claim(ID, stamp, Tick(now)) {
        ClaimResult::Dead => None,
        ClaimResult::Later => panic!("moved"),
        ClaimResult::Due(running, task) => {
            drop(task);
            Some(slot.finish_run(running))
        }
    }
}

/// Frees a slot if the caller was the last; whether it was.
fn free_if(slot: &Slot, left: ReleaseResult) -> bool {
    if left == ReleaseResult::Abandoned {
        slot.free_here();
    }
    left == ReleaseResult::Abandoned
}

#[test]
fn a_cancel_and_a_claim_end_the_task_exactly_once_and_reuse_is_clean() {
    let ends = [
        "cancelled",
        "fired, freed by the worker",
        "fired, freed by the handle",
    ];
    explore(ends, || {
        let (slot, first, second) = (Arc::new(free_slot()), Probe::default(), Probe::default());
        let entry = arm(&slot, first.task(), 1);
        let worker = thread::spawn({
            let slot = Arc::clone(&slot);
            move || fire(&slot, entry, 1).map(|left| free_if(&slot, left))
        });

        let cancelled = slot.cancel(|| ());
        let freed = free_if(&slot, slot.release_here(Handle::User));
        // The next tenant may move in while the worker still looks at the old entry.
        let mut next = freed.then(|| arm(&slot, second.task(), 9));
        let worker_freed = worker.join().unwrap();

        assert!(first.is_gone());
        assert_eq!(cancelled, worker_freed.is_none(), "one of the two has won");
        assert!(freed ^ (worker_freed == Some(true)), "freed once");
        let next = next.get_or_insert_with(|| arm(&slot, second.task(), 9));
        assert!(!second.is_gone());
        assert!(fire(&slot, entry, 9).is_none());
        assert_eq!(fire(&slot, *next, 9), Some(ReleaseResult::InUse));
        assert!(second.is_gone());
        match (cancelled, freed) {
            (true, _) => "cancelled",
            (false, true) => "fired, freed by the handle",
            (false, false) => "fired, freed by the worker",
        }
    });
}

#[test]
fn a_handle_dropped_while_its_task_runs_frees_the_slot_once() {
    let ends = [
        "the handle went last",
        "the run ended last",
        "the handle was gone before",
    ];
    explore(ends, || {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        let entry = arm(&slot, probe.task(), 1);
        let handle = thread::spawn({
            let slot = Arc::clone(&slot);
            move || free_if(&slot, slot.release_here(Handle::User))
        });
        let left = fire(&slot, entry, 1).expect("nobody cancels it");
        // A run that knew itself alone has not even said that it is over.
        let unobserved = left == ReleaseResult::Abandoned && slot.status().phase == Phase::Running;
        let freed = free_if(&slot, left);
        let handle_freed = handle.join().unwrap();

        assert!(freed ^ handle_freed, "freed once");
        assert!(slot.is_free() && probe.is_gone());
        match (handle_freed, unobserved) {
            (true, _) => "the handle went last",
            (false, false) => "the run ended last",
            (false, true) => "the handle was gone before",
        }
    });
}

#[test]
fn a_stamp_of_before_never_fires_the_next_tenant() {
    explore(
        ["the first tenant fired", "the first tenant was cancelled"],
        || {
            let slot = Arc::new(free_slot());
            let (first, second) = (Probe::default(), Probe::default());
            let before = arm(&slot, first.task(), 1);
            let worker = thread::spawn({
                let slot = Arc::clone(&slot);
                move || {
                    let left = fire(&slot, before, 1);
                    assert!(fire(&slot, before, 1).is_none());
                    left
                }
            });

            let cancelled = slot.cancel(|| ());
            let mut left = slot.release_here(Handle::User);
            if left == ReleaseResult::InUse {
                left = worker.join().unwrap().expect("it runs");
                assert!(free_if(&slot, left));
                arm(&slot, second.task(), 1);
            } else {
                slot.free_here();
                // Due as well.
                arm(&slot, second.task(), 1);
                assert_eq!(worker.join().unwrap().is_some(), !cancelled);
            }
            assert!(first.is_gone() && !second.is_gone());
            assert!(slot.disarm().is_some());
            if cancelled {
                "the first tenant was cancelled"
            } else {
                "the first tenant fired"
            }
        },
    );
}

#[test]
fn a_reset_that_returned_true_never_fires_at_the_old_tick() {
    explore(["moved", "fired"], || {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        let stamp = arm(&slot, probe.task(), 1);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || slot.reset(Tick(5))
        });
        let met = slot.claim(ID, stamp, Tick(1));
        match (user.join().unwrap(), met) {
            (true, ClaimResult::Later) => {
                assert_eq!(slot.status().due, Tick(5));
                assert!(!probe.is_gone() && slot.disarm().is_some());
                "moved"
            }
            (false, ClaimResult::Due(running, task)) => {
                drop(task);
                assert_eq!(slot.finish_run(running), ReleaseResult::InUse);
                "fired"
            }
            (reset, met) => panic!("{reset:?} and {met:?}"),
        }
    });
}

/// Transition 2a: a reset that stays in its tick writes to no word that others write to.
#[test]
fn a_reset_to_the_same_tick_and_a_claim_run_the_task_once() {
    explore(["moved, and fired at that tick", "too late"], || {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        let stamp = arm(&slot, probe.task(), 1);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || slot.reset(Tick(1))
        });
        let ClaimResult::Due(running, task) = slot.claim(ID, stamp, Tick(1)) else {
            panic!("its tick has come, and stays the same");
        };
        drop(task);
        assert_eq!(slot.finish_run(running), ReleaseResult::InUse);
        let reset = user.join().unwrap();
        assert_eq!(slot.status().phase, Phase::Expired);
        assert!(probe.is_gone() && fire(&slot, stamp, 1).is_none());
        if reset {
            "moved, and fired at that tick"
        } else {
            "too late"
        }
    });
}

#[test]
fn of_two_resets_one_takes_effect() {
    /// Resets from 5 to 3 and to `rival` at once. The end is when it is due.
    fn two_resets(rival: u64) -> u64 {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        arm(&slot, probe.task(), 5);
        let other = thread::spawn({
            let slot = Arc::clone(&slot);
            move || slot.reset(Tick(rival))
        });
        assert!(slot.reset(Tick(3)) && other.join().unwrap());
        let due = slot.status().due;
        assert!(slot.disarm().is_some() && probe.is_gone());
        due.0
    }
    explore([3, 4], || two_resets(4));
    explore([3, 5], || two_resets(5));
    explore([3, 7], || two_resets(7));
}

#[test]
fn the_users_and_the_returned_handle_free_the_slot_once_in_any_order() {
    explore(
        ["the user's went last", "the returned one went last"],
        || {
            let (slot, probe) = (Arc::new(free_slot()), Probe::default());
            arm(&slot, probe.task(), 1);
            assert_eq!(slot.stop(), StopOutcome::Returned);
            let user = thread::spawn({
                let slot = Arc::clone(&slot);
                move || {
                    assert!(!slot.cancel(|| ()), "it is stopped");
                    free_if(&slot, slot.release_here(Handle::User))
                }
            });
            drop(slot.take_stopped().expect("its task is inside"));
            let freed = free_if(&slot, slot.release_here(Handle::Returned));
            let user_freed = user.join().unwrap();

            assert!(freed ^ user_freed, "freed once");
            assert!(slot.is_free() && probe.is_gone());
            if freed {
                "the returned one went last"
            } else {
                "the user's went last"
            }
        },
    );
}

/// As `Shared::cancel_all` does with one slot. `Some` if that has ended the timeout, and whether it was the last to go.
fn cancel_as_one_of_all(slot: &Slot) -> Option<bool> {
    let cancelled = slot.cancel_unowned();
    if matches!(cancelled, Unowned::Left) {
        return None;
    }
    drop(cancelled);
    Some(free_if(slot, slot.release_here(Handle::Returned)))
}

#[test]
fn cancel_all_a_cancel_and_a_claim_end_the_task_once_and_free_the_slot_once() {
    let ends = [
        "cancelled by its handle",
        "cancelled with all, freed by the handle",
        "cancelled with all, freed there",
        "fired, freed by the handle",
        "fired, freed by the worker",
    ];
    explore(ends, move || {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        let entry = arm(&slot, probe.task(), 1);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let cancelled = slot.cancel(|| ());
                (cancelled, free_if(&slot, slot.release_here(Handle::User)))
            }
        });
        let worker = thread::spawn({
            let slot = Arc::clone(&slot);
            move || fire(&slot, entry, 1).map(|left| free_if(&slot, left))
        });
        let all = cancel_as_one_of_all(&slot);
        let (cancelled, user_freed) = user.join().unwrap();
        let fired = worker.join().unwrap();

        let winners = [cancelled, all.is_some(), fired.is_some()];
        assert_eq!(winners.into_iter().filter(|won| *won).count(), 1);
        let freed = [user_freed, all == Some(true), fired == Some(true)];
        assert_eq!(freed.into_iter().filter(|freed| *freed).count(), 1);
        assert!(slot.is_free() && probe.is_gone());
        match (all, fired) {
            (None, None) => ends[0],
            (Some(false), _) => ends[1],
            (Some(true), _) => ends[2],
            (None, Some(false)) => ends[3],
            (None, Some(true)) => ends[4],
        }
    });
}

#[test]
fn cancel_all_and_stop_do_not_both_end_a_timeout() {
    let ends = [
        "cancelled, freed by the handle",
        "cancelled, freed there",
        "stopped, freed by the handle",
        "stopped, freed by the returned handle",
    ];
    explore(ends, move || {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        arm(&slot, probe.task(), 1);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || free_if(&slot, slot.release_here(Handle::User))
        });
        let stop = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let returned = slot.stop() == StopOutcome::Returned;
                returned.then(|| {
                    drop(slot.take_stopped().expect("its task is inside"));
                    free_if(&slot, slot.release_here(Handle::Returned))
                })
            }
        });
        let all = cancel_as_one_of_all(&slot);
        let (user_freed, stopped) = (user.join().unwrap(), stop.join().unwrap());

        let freed = [user_freed, all == Some(true), stopped == Some(true)];
        assert_eq!(freed.into_iter().filter(|freed| *freed).count(), 1);
        assert!(slot.is_free() && probe.is_gone());
        match (all, stopped) {
            (Some(false), None) => ends[0],
            (Some(true), None) => ends[1],
            (None, Some(false)) => ends[2],
            (None, Some(true)) => ends[3],
            both => panic!("one of the two: {both:?}"),
        }
    });
}

/// `cancel_all` looks at a slot twice before its exchange. If another tenant moves in meanwhile, it must not take that
/// for what it has looked at.
#[test]
fn cancel_all_leaves_a_future_alone_that_moves_into_the_slot() {
    explore(["cancelled with all", "nothing was left"], || {
        let (slot, first, second) = (Arc::new(free_slot()), Probe::default(), Probe::default());
        arm(&slot, first.task(), 1);
        let all = thread::spawn({
            let slot = Arc::clone(&slot);
            move || cancel_as_one_of_all(&slot)
        });
        let cancelled = slot.cancel(|| ());
        let mut freed = free_if(&slot, slot.release_here(Handle::User));
        let future = || {
            let held = second.hold();
            arm(&slot, StoredTask::future(move |()| held()), 1);
        };
        if freed {
            future();
        }
        let all = all.join().unwrap();
        assert_eq!(cancelled, all.is_none(), "one of the two has won");
        assert!(first.is_gone());
        if !freed {
            freed = all == Some(true);
            future();
        }
        assert!(freed && !second.is_gone());
        assert_eq!(slot.status().phase, Phase::Pending);
        assert!(slot.disarm().is_some());
        if cancelled {
            "nothing was left"
        } else {
            "cancelled with all"
        }
    });
}

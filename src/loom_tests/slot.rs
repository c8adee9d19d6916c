//! One slot and one entry: user, worker and `stop` at the same time.

use super::Slot;
use super::{Probe, arm, explore, free_slot};
use crate::entry::Entry;
use crate::slots::{ClaimResult, ReleaseResult, Reset, StopOutcome};
use crate::slots::{Handle, Phase};
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

/// Claims `entry` at `now` and runs what it finds, as `Engine::fire` and `run::run_once` do.
fn fire(slot: &Slot, entry: Entry, now: u64) -> Option<ReleaseResult> {
    match slot.claim(entry, Tick(now)) {
        ClaimResult::Dead => None,
        ClaimResult::Later(tick) => panic!("moved to {tick:?}"),
        ClaimResult::Due(running, task) => {
            drop(task);
            Some(slot.finish_run(running))
        }
    }
}

/// Frees a slot if the caller was the last; whether it was.
fn free_if(slot: &Slot, left: ReleaseResult) -> bool {
    if left == ReleaseResult::Abandoned {
        slot.free_here(0);
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
        assert!(slot.is_dead(entry) && fire(&slot, *next, 9) == Some(ReleaseResult::InUse));
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
fn a_stale_entry_never_fires_the_next_tenant_early() {
    explore(
        ["the first tenant fired", "the first tenant was cancelled"],
        || {
            // `seq` goes round between the two tenants, so that the second has an entry of long ago
            // with its own `seq`, told apart by `epoch` alone.
            let slot = Arc::new(Slot::new(0x1ffe));
            let (first, second) = (Probe::default(), Probe::default());
            let stale = arm(&slot, first.task(), 1);
            let ancient = Entry::new(Tick(1), 0, 0, 0);
            let worker = thread::spawn({
                let slot = Arc::clone(&slot);
                move || {
                    let left = fire(&slot, stale, 1);
                    assert!(fire(&slot, stale, 1).is_none() && slot.is_dead(ancient));
                    assert!(fire(&slot, ancient, 1).is_none());
                    left
                }
            });

            let cancelled = slot.cancel(|| ());
            let mut left = slot.release_here(Handle::User);
            if left == ReleaseResult::InUse {
                left = worker.join().unwrap().expect("it runs");
                assert!(free_if(&slot, left));
                arm(&slot, second.task(), 9);
            } else {
                slot.free_here(0);
                arm(&slot, second.task(), 9);
                assert_eq!(worker.join().unwrap().is_some(), !cancelled);
            }
            assert!(first.is_gone() && !second.is_gone());
            assert_eq!((slot.seq(), slot.status().due), (0, Tick(9)));
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
        let entry = arm(&slot, probe.task(), 1);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || slot.reset(0, Tick(5), 5)
        });
        let met = slot.claim(entry, Tick(1));
        match (user.join().unwrap(), met) {
            (Reset::Moved, ClaimResult::Later(tick)) => {
                assert_eq!(tick, Tick(5));
                assert!(!probe.is_gone() && slot.disarm().is_some());
                "moved"
            }
            (Reset::TooLate, ClaimResult::Due(running, task)) => {
                drop(task);
                assert_eq!(slot.finish_run(running), ReleaseResult::InUse);
                "fired"
            }
            (reset, met) => panic!("{reset:?} and {met:?}"),
        }
    });
}

#[test]
fn two_resets_leave_one_live_entry_not_later_than_the_deadline() {
    /// The entries that there are after a reset to `due`.
    fn reset(slot: &Slot, due: u64) -> Option<Entry> {
        match slot.reset(0, Tick(due), due) {
            Reset::Moved => None,
            Reset::MovedEarlier(entry) => Some(entry),
            Reset::TooLate => panic!("it is pending"),
        }
    }
    /// Resets from 5 to 3 and to `rival` at once. The end is when it is due.
    fn two_resets(rival: u64) -> u64 {
        let (slot, probe) = (Arc::new(free_slot()), Probe::default());
        let first = arm(&slot, probe.task(), 5);
        let other = thread::spawn({
            let slot = Arc::clone(&slot);
            move || reset(&slot, rival)
        });
        let entries = [Some(first), reset(&slot, 3), other.join().unwrap()];

        let due = slot.status().due;
        let mut live = entries
            .into_iter()
            .flatten()
            .filter(|&entry| !slot.is_dead(entry));
        let filed = live.next().expect("one is live");
        assert!(live.next().is_none(), "one is live");
        assert!(filed.due() <= due && slot.live_due(filed) == Some(due));
        assert!(slot.disarm().is_some() && probe.is_gone());
        due.0
    }
    explore([3, 4], || two_resets(4));
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

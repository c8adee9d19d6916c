//! One slot with a periodic task: its run, its cancel and `stop` at the same time.

use super::Slot;
use super::StoredTask;
use super::{Probe, arm, explore, free_slot};
use crate::entry::SlotId;
use crate::slots::Handle;
use crate::slots::{ClaimResult, ReleaseResult, Running, StopOutcome, Unowned};
use crate::time::Tick;
use loom::thread;
use std::sync::Arc;

/// A periodic task that the worker has just claimed.
fn running(probe: &Probe) -> (Arc<Slot>, Running, StoredTask) {
    let slot = Arc::new(free_slot());
    let stamp = arm(&slot, probe.periodic(), 1);
    match slot.claim(SlotId::from_number(0), stamp, Tick(1)) {
        ClaimResult::Due(running, task) => (slot, running, task),
        met => panic!("{met:?}"),
    }
}

/// The end of a run, as in `run::rearm_periodic`: whether the slot was left to the runner to free, if
/// the task does not come again.
fn end_run(slot: &Slot, running: Running, task: StoredTask) -> Option<ReleaseResult> {
    match slot.rearm(running, task, 7, Tick(2), 2) {
        Ok(()) => None,
        Err((running, task)) => {
            drop(task);
            Some(slot.finish_run(running))
        }
    }
}

#[test]
fn a_periodic_run_its_cancel_and_stop_end_it_once() {
    let ends = [
        "cancelled during its run",
        "cancelled after it",
        "stopped during its run",
        "stopped after it",
    ];
    explore(ends, || {
        let probe = Probe::default();
        let (slot, running, task) = running(&probe);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || (slot.cancel(|| ()), slot.release_here(Handle::User))
        });
        let stop = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                let returned = slot.stop() == StopOutcome::Returned;
                returned.then(|| {
                    let task = slot.take_stopped();
                    (task.is_some(), slot.release_here(Handle::Returned))
                })
            }
        });
        let ended = end_run(&slot, running, task);
        let ((cancelled, user), stopped) = (user.join().unwrap(), stop.join().unwrap());

        assert!(cancelled ^ stopped.is_some(), "one of the two has ended it");
        assert!(probe.is_gone());
        let last = [Some(user), stopped.map(|(_, left)| left), ended];
        let last = last
            .into_iter()
            .flatten()
            .filter(|left| *left == ReleaseResult::Abandoned);
        assert_eq!(last.count(), 1, "one of the three frees the slot");
        match (stopped, ended) {
            (None, Some(_)) => "cancelled during its run",
            (None, None) => "cancelled after it",
            (Some((false, _)), Some(_)) => "stopped during its run",
            (Some((true, _)), None) => "stopped after it",
            odd => panic!("{odd:?}"),
        }
    });
}

#[test]
fn cancel_all_during_a_periodic_run_ends_it_once() {
    let ends = [
        "cancelled during its run",
        "armed again, then cancelled with all",
    ];
    explore(ends, move || {
        let probe = Probe::default();
        let (slot, running, task) = running(&probe);
        let user = thread::spawn({
            let slot = Arc::clone(&slot);
            move || slot.release_here(Handle::User)
        });
        let all = thread::spawn({
            let slot = Arc::clone(&slot);
            move || {
                // As `Shared::cancel_all`.
                let cancelled = slot.cancel_unowned();
                assert!(!matches!(cancelled, Unowned::Left), "nobody else ends it");
                let armed = matches!(cancelled, Unowned::Cancelled(_));
                drop(cancelled);
                (armed, slot.release_here(Handle::Returned))
            }
        });
        let ended = end_run(&slot, running, task);
        let user = user.join().unwrap();
        let (armed, all) = all.join().unwrap();

        assert!(probe.is_gone());
        assert_eq!(armed, ended.is_none(), "one of the two has the task");
        let last = [Some(user), Some(all), ended];
        let last = last
            .into_iter()
            .flatten()
            .filter(|left| *left == ReleaseResult::Abandoned);
        assert_eq!(last.count(), 1, "one of the three frees the slot");
        if armed { ends[1] } else { ends[0] }
    });
}

#[test]
fn the_runner_and_both_handles_free_the_slot_once_in_any_order() {
    let ends = ["the user's handle", "the returned handle", "the runner"];
    explore(ends, move || {
        let probe = Probe::default();
        let (slot, running, task) = running(&probe);
        assert_eq!(slot.stop(), StopOutcome::Returned);
        let leave = |handle| {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.release_here(handle))
        };
        let (user, returned) = (leave(Handle::User), leave(Handle::Returned));
        let runner = end_run(&slot, running, task).expect("it was stopped");
        let all = [user.join().unwrap(), returned.join().unwrap(), runner];

        assert_eq!(
            all.iter()
                .filter(|left| **left == ReleaseResult::Abandoned)
                .count(),
            1
        );
        slot.free_here();
        assert!(probe.is_gone());
        let last = all
            .iter()
            .position(|left| *left == ReleaseResult::Abandoned);
        ends[last.expect("as counted")]
    });
}

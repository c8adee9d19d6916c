//! The transitions of a slot, one after the other on one thread: from which states each may go, what it leaves, and
//! what becomes of the task. What several threads make of it is explored in `crate::loom_tests`.

use super::*;
use crate::entry::{Entry, SlotId};
use crate::slots::{Kind, Phase, Slots};
use crate::time::{Period, Tick};
use std::sync::Arc;
use std::time::Duration;

const ID: SlotId = SlotId::from_number(0);
const DUE: Tick = Tick(10);

/// A slot, and a task that tells whether it still exists.
struct Bench {
    slots: Slots<()>,
    alive: Arc<()>,
}

impl Bench {
    fn new() -> Bench {
        let slots = Slots::<()>::new();
        slots.ensure_group(0);
        Bench {
            slots,
            alive: Arc::new(()),
        }
    }

    fn slot(&self) -> &Slot<()> {
        self.slots.get(ID)
    }

    fn state(&self) -> State {
        self.slot().word().state()
    }

    /// The number of tasks of this bench that exist.
    fn tasks(&self) -> usize {
        Arc::strong_count(&self.alive) - 1
    }

    fn once(&self) -> StoredTask<()> {
        let alive = Arc::clone(&self.alive);
        StoredTask::once(move |()| drop(alive))
    }

    fn periodic(&self) -> StoredTask<()> {
        let alive = Arc::clone(&self.alive);
        let period = Period::FixedRate(Duration::from_secs(1));
        StoredTask::periodic(move |()| assert_ne!(Arc::strong_count(&alive), 0), period)
    }

    fn arm_task(&self, task: StoredTask<()>, periodic: bool) -> Entry {
        // SAFETY: each test arms its slot only while it is free.
        let vacant = unsafe { Vacant::new(ID) };
        assert_eq!(vacant.slot(), ID);
        let kind = task.kind();
        assert_eq!(periodic, kind == Kind::Periodic);
        self.slot().arm(vacant, task, kind, DUE, 1234)
    }

    fn arm(&self) -> Entry {
        self.arm_task(self.once(), false)
    }

    fn arm_periodic(&self) -> Entry {
        self.arm_task(self.periodic(), true)
    }

    fn claim(&self, entry: Entry) -> (Running, StoredTask<()>) {
        match self.slot().claim(entry, entry.due()) {
            ClaimResult::Due(running, task) => (running, task),
            other => panic!("{other:?}"),
        }
    }

    /// Fires a one-shot timeout.
    fn fire(&self, entry: Entry) -> ReleaseResult {
        let (running, task) = self.claim(entry);
        drop(task);
        self.slot().finish_run(running)
    }

    /// A slot in each state that can be reached with its user's handle, and the state.
    fn in_each_state() -> impl Iterator<Item = (Bench, State)> {
        type Reach = fn(&Bench);
        let reach: [(State, Reach); 6] = [
            (State::Armed, |bench| {
                bench.arm();
            }),
            (State::Expired, |bench| {
                let entry = bench.arm();
                assert_eq!(bench.fire(entry), ReleaseResult::InUse);
            }),
            (State::Cancelled, |bench| {
                bench.arm();
                assert!(bench.slot().cancel(|| ()));
            }),
            (State::Stopped, |bench| {
                bench.arm();
                assert_eq!(bench.slot().stop(), StopOutcome::Returned);
            }),
            (State::TaskTaken, |bench| {
                bench.arm();
                assert_eq!(bench.slot().stop(), StopOutcome::Returned);
                drop(bench.slot().take_stopped().unwrap());
            }),
            (State::Free, |_| {}),
        ];
        reach.into_iter().map(|(state, reach)| {
            let bench = Bench::new();
            reach(&bench);
            assert_eq!(bench.state(), state);
            (bench, state)
        })
    }
}

#[test]
fn an_armed_slot_has_its_entry_its_deadline_and_its_task() {
    let bench = Bench::new();
    assert!(bench.slot().is_free());
    let entry = bench.arm();
    assert_eq!(entry, Entry::new(DUE, 1, ID, 0));
    assert_eq!(bench.slot().word(), Word::armed(DUE, 1, false));
    assert_eq!(bench.slot().deadline(), 1234);
    assert!(!bench.slot().is_free() && !bench.slot().is_dead(entry));
    assert_eq!(
        (bench.slot().live_due(entry), bench.tasks()),
        (Some(DUE), 1)
    );
    bench.slot().cancel(|| ());
}

#[test]
fn a_slot_is_cancelled_once_and_only_while_it_is_pending() {
    for (bench, state) in Bench::in_each_state() {
        let mut settled = 0;
        let cancelled = bench.slot().cancel(|| settled += 1);
        assert_eq!(
            (cancelled, settled),
            (state == State::Armed, u32::from(cancelled))
        );
        if cancelled {
            assert_eq!((bench.state(), bench.tasks()), (State::Cancelled, 0));
            assert!(!bench.slot().cancel(|| panic!("settled twice")));
        } else {
            assert_eq!(bench.state(), state);
            drop(bench.slot().take_stopped());
        }
    }
}

#[test]
fn a_cancelled_task_is_dropped_after_the_counting() {
    let bench = Bench::new();
    bench.arm();
    assert!(bench.slot().cancel(|| assert_eq!(bench.tasks(), 1)));
    assert_eq!(bench.tasks(), 0);
}

#[test]
fn what_was_just_armed_can_be_taken_back() {
    for (bench, state) in Bench::in_each_state() {
        let task = bench.slot().disarm();
        assert_eq!(task.is_some(), state == State::Armed);
        if let Some(task) = task {
            assert_eq!((bench.state(), bench.tasks()), (State::Cancelled, 1));
            drop(task);
        }
        drop(bench.slot().take_stopped());
        assert_eq!(bench.tasks(), 0);
    }
}

#[test]
fn an_entry_is_claimed_when_it_is_due_and_not_before() {
    let bench = Bench::new();
    let entry = bench.arm();
    let early = bench.slot().claim(entry, DUE.previous());
    assert!(matches!(early, ClaimResult::Later(DUE)), "{early:?}");
    assert_eq!(
        bench.fire(entry),
        ReleaseResult::InUse,
        "the user's handle is there"
    );
    assert_eq!((bench.state(), bench.tasks()), (State::Expired, 0));
    assert!(matches!(bench.slot().claim(entry, DUE), ClaimResult::Dead));
    assert_eq!(
        bench.slot().release_here(Handle::User),
        ReleaseResult::Abandoned
    );
}

#[test]
fn a_run_without_a_handle_frees_its_slot() {
    let bench = Bench::new();
    let entry = bench.arm();
    assert_eq!(
        bench.slot().release_here(Handle::User),
        ReleaseResult::InUse
    );
    assert_eq!(bench.fire(entry), ReleaseResult::Abandoned);
    bench.slot().free_here();
    assert!(bench.slot().is_free() && bench.slot().is_dead(entry));
}

#[test]
fn a_handle_that_goes_during_the_run_leaves_the_slot_to_the_runner() {
    let bench = Bench::new();
    let entry = bench.arm();
    let (running, task) = bench.claim(entry);
    assert_eq!(running.slot(), ID);
    assert_eq!(
        bench.slot().release_here(Handle::User),
        ReleaseResult::InUse
    );
    drop(task);
    assert_eq!(bench.slot().finish_run(running), ReleaseResult::Abandoned);
    assert_eq!(bench.state(), State::Expired);
}

#[test]
fn the_next_tenant_is_not_taken_for_the_one_before() {
    let bench = Bench::new();
    let before = bench.arm();
    assert!(bench.slot().cancel(|| ()));
    assert!(bench.slot().is_dead(before));
    assert_eq!(
        bench.slot().release_here(Handle::User),
        ReleaseResult::Abandoned
    );
    bench.slot().free_here();
    let after = bench.arm();
    assert!(bench.slot().is_dead(before));
    assert!(matches!(bench.slot().claim(before, DUE), ClaimResult::Dead));
    assert_eq!(bench.fire(after), ReleaseResult::InUse);
}

#[test]
fn the_epoch_goes_up_whenever_seq_has_gone_round() {
    let bench = Bench::new();
    for life in 1..=3_u32 << 13 {
        let entry = bench.arm();
        let (seq, epoch) = ((life & 0x1fff) as u16, life >> 13);
        assert_eq!((entry.seq(), entry.epoch()), (seq, epoch));
        // The entry with the same seq and another epoch is of another life.
        assert!(bench.slot().is_dead(Entry::new(DUE, seq, ID, epoch + 1)));
        assert!(bench.slot().cancel(|| ()));
        assert_eq!(
            bench.slot().release_here(Handle::User),
            ReleaseResult::Abandoned
        );
        bench.slot().free_here();
    }
}

#[test]
fn a_reset_to_later_keeps_the_entry_and_one_to_earlier_replaces_it() {
    let bench = Bench::new();
    let first = bench.arm();
    let slot = bench.slot();
    assert_eq!(slot.reset(ID, DUE, 1300), Reset::Moved, "within its tick");
    assert_eq!(slot.reset(ID, Tick(20), 2000), Reset::Moved);
    assert_eq!(
        (slot.live_due(first), slot.deadline()),
        (Some(Tick(20)), 2000)
    );
    let met = slot.claim(first, DUE);
    assert!(matches!(met, ClaimResult::Later(Tick(20))), "{met:?}");

    let second = Entry::new(Tick(5), 2, ID, 0);
    assert_eq!(slot.reset(ID, Tick(5), 500), Reset::MovedEarlier(second));
    assert!(slot.is_dead(first));
    assert_eq!(
        (slot.live_due(second), slot.deadline()),
        (Some(Tick(5)), 500)
    );
    assert_eq!(bench.fire(second), ReleaseResult::InUse);
}

#[test]
fn only_a_pending_one_shot_timeout_is_reset() {
    for (bench, state) in Bench::in_each_state() {
        let before = bench.slot().word();
        let reset = bench.slot().reset(ID, Tick(11), 1100);
        assert_eq!(reset == Reset::Moved, state == State::Armed);
        if reset == Reset::TooLate {
            assert_eq!(bench.slot().word(), before);
        }
        bench.slot().cancel(|| ());
        drop(bench.slot().take_stopped());
    }
    let bench = Bench::new();
    bench.arm_periodic();
    assert_eq!(bench.slot().reset(ID, Tick(11), 1100), Reset::TooLate);
    bench.slot().cancel(|| ());
}

#[test]
fn stop_returns_what_is_pending_and_its_task_is_taken_once() {
    for (bench, state) in Bench::in_each_state() {
        if state == State::Stopped {
            drop(bench.slot().take_stopped());
            continue;
        }
        let pending = state == State::Armed;
        let outcome = bench.slot().stop();
        assert_eq!(outcome == StopOutcome::Returned, pending);
        if !pending {
            assert_eq!((bench.state(), bench.tasks()), (state, 0));
            continue;
        }
        assert_eq!((bench.state(), bench.tasks()), (State::Stopped, 1));
        let word = bench.slot().word();
        assert!(word.has_user() && word.has_returned());
        // SAFETY: `stop` has returned it, and the handle is not dropped before the end.
        let kind = || unsafe { bench.slot().stopped_kind() };
        assert_eq!(kind(), Some(crate::slots::Kind::Once));
        drop(bench.slot().take_stopped().expect("its task"));
        assert_eq!((bench.state(), bench.tasks()), (State::TaskTaken, 0));
        assert!(bench.slot().take_stopped().is_none());
        assert_eq!(kind(), None);
        // Two handles: the last to go frees the slot.
        assert_eq!(
            bench.slot().release_here(Handle::User),
            ReleaseResult::InUse
        );
        assert_eq!(
            bench.slot().release_here(Handle::Returned),
            ReleaseResult::Abandoned
        );
    }
}

#[test]
fn a_periodic_task_goes_back_to_its_slot_under_a_new_entry() {
    let bench = Bench::new();
    let first = bench.arm_periodic();
    let (running, task) = bench.claim(first);
    assert!(bench.slot().is_dead(first));
    let second = bench.slot().next_entry(&running, Tick(20));
    assert_eq!(second, Entry::new(Tick(20), 2, ID, 0));
    // Met before the word is given back: it is to be looked at again.
    assert_eq!(bench.slot().live_due(second), Some(Tick(20)));
    let met = bench.slot().claim(second, Tick(20));
    assert!(matches!(met, ClaimResult::Later(Tick(21))), "{met:?}");

    bench.slot().rearm(running, task, Tick(20), 2000).unwrap();
    assert_eq!(bench.slot().word(), Word::armed(Tick(20), 2, true));
    assert_eq!(bench.slot().deadline(), 2000);
    assert!(bench.slot().is_dead(first));
    let (running, task) = bench.claim(second);
    drop(task);
    assert_eq!(bench.slot().finish_run(running), ReleaseResult::InUse);
    assert_eq!((bench.state(), bench.tasks()), (State::Expired, 0));
}

#[test]
fn the_next_entry_of_a_one_shot_run_is_dead() {
    let bench = Bench::new();
    let entry = bench.arm();
    let (running, task) = bench.claim(entry);
    let next = bench.slot().next_entry(&running, Tick(20));
    assert!(bench.slot().is_dead(next));
    drop(task);
    assert_eq!(bench.slot().finish_run(running), ReleaseResult::InUse);
}

#[test]
fn a_periodic_task_that_was_ended_during_its_run_comes_back_to_the_runner() {
    for stopped in [false, true] {
        let bench = Bench::new();
        let first = bench.arm_periodic();
        let (running, task) = bench.claim(first);
        let second = bench.slot().next_entry(&running, Tick(20));
        if stopped {
            assert_eq!(bench.slot().stop(), StopOutcome::Returned);
            assert_eq!(bench.slot().stop(), StopOutcome::Nothing);
        } else {
            let mut settled = false;
            assert!(bench.slot().cancel(|| settled = true) && settled);
            assert!(!bench.slot().cancel(|| panic!("settled twice")));
        }
        assert_eq!((bench.state(), bench.tasks()), (State::CancelRequested, 1));
        assert_eq!(bench.slot().word().has_returned(), stopped);

        let (running, task) = bench
            .slot()
            .rearm(running, task, Tick(20), 2000)
            .expect_err("it was ended");
        assert_eq!(bench.tasks(), 1);
        drop(task);
        assert_eq!(bench.slot().finish_run(running), ReleaseResult::InUse);
        assert_eq!((bench.state(), bench.tasks()), (State::Cancelled, 0));
        // The entry that was meant for the next run must not be taken for the next tenant's.
        if stopped {
            assert_eq!(
                bench.slot().release_here(Handle::Returned),
                ReleaseResult::InUse
            );
        }
        assert_eq!(
            bench.slot().release_here(Handle::User),
            ReleaseResult::Abandoned
        );
        bench.slot().free_here();
        let tenant = bench.arm();
        assert_ne!(tenant.seq(), second.seq());
        assert!(bench.slot().is_dead(second));
        bench.slot().cancel(|| ());
    }
}

#[test]
fn a_future_takes_its_task_out_and_puts_another_in() {
    for (bench, state) in Bench::in_each_state() {
        let Some((running, task)) = bench.slot().begin_replace(ID) else {
            assert_ne!(state, State::Armed);
            drop(bench.slot().take_stopped());
            continue;
        };
        assert_eq!(state, State::Armed);
        assert!(bench.slot().word().is_replacing());
        // In its owner's hands it is nobody else's, and pending as before.
        let status = bench.slot().pending_status().expect("it is pending");
        assert_eq!(status, bench.slot().status());
        assert_eq!(status.phase, Phase::Pending);
        assert_eq!(bench.slot().stop(), StopOutcome::Nothing);
        assert!(!bench.slot().cancel(|| ()));
        drop(task);
        let another = bench.once();
        bench
            .slot()
            .rearm(running, another, Tick(30), 3000)
            .unwrap();
        assert_eq!(bench.slot().word(), Word::armed(Tick(30), 2, false));
        assert_eq!(bench.tasks(), 1);
        assert!(bench.slot().cancel(|| ()));
        assert_eq!(bench.tasks(), 0);
    }
}

#[test]
fn a_periodic_run_whose_handle_is_gone_frees_its_slot_unless_stop_has_returned_it() {
    for stopped in [false, true] {
        let bench = Bench::new();
        let entry = bench.arm_periodic();
        if stopped {
            assert_eq!(
                bench.slot().release_here(Handle::User),
                ReleaseResult::InUse
            );
        }
        let (running, task) = bench.claim(entry);
        if stopped {
            assert_eq!(bench.slot().stop(), StopOutcome::Returned);
        } else {
            assert!(bench.slot().cancel(|| ()));
            assert_eq!(
                bench.slot().release_here(Handle::User),
                ReleaseResult::InUse
            );
        }
        let (running, task) = bench
            .slot()
            .rearm(running, task, Tick(20), 2000)
            .expect_err("it was ended");
        drop(task);
        let left = if stopped {
            ReleaseResult::InUse
        } else {
            ReleaseResult::Abandoned
        };
        assert_eq!(bench.slot().finish_run(running), left);
        assert_eq!(bench.state(), State::Cancelled);
    }
}

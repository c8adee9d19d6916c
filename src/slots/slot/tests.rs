//! The transitions of a slot, one after the other on one thread: from which states each may go, what it leaves, and
//! what becomes of the task. What several threads make of it is explored in `crate::loom_tests`.

use super::*;
use crate::entry::{Lane, SlotId};
use crate::slots::{Kind, Phase, Slots};
use crate::time::{Period, Tick};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

const ID: SlotId = SlotId::from_number(0);
const DUE: Tick = Tick(10);

fn arming(kind: Kind, stamp: u64, due: Tick) -> Arming {
    Arming {
        kind,
        label: Label(7),
        stamp,
        due,
        lane: Lane::Soon,
        early: 1234,
    }
}

/// A slot, and a task that tells whether it still exists.
struct Bench {
    slots: Slots<()>,
    alive: Arc<()>,
    /// The stamp of the last arming.
    stamp: Cell<u64>,
}

impl Bench {
    fn new() -> Bench {
        let slots = Slots::<()>::new();
        slots.ensure_group(0);
        Bench {
            slots,
            alive: Arc::new(()),
            stamp: Cell::new(0),
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

    /// Returns the stamp.
    fn arm_task(&self, task: StoredTask<()>) -> u64 {
        // SAFETY: each test arms its slot only while it is free.
        let vacant = unsafe { Vacant::new(ID) };
        assert_eq!(vacant.slot(), ID);
        let (kind, stamp) = (task.kind(), self.next_stamp());
        let _ = self.slot().arm(vacant, task, arming(kind, stamp, DUE));
        stamp
    }

    fn next_stamp(&self) -> u64 {
        self.stamp.set(self.stamp.get() + 1);
        self.stamp.get()
    }

    fn arm(&self) -> u64 {
        self.arm_task(self.once())
    }

    fn arm_periodic(&self) -> u64 {
        self.arm_task(self.periodic())
    }

    fn claim(&self, stamp: u64) -> (Running, StoredTask<()>) {
        match self.slot().claim(ID, stamp, self.slot().status().due) {
            ClaimResult::Due(running, task) => (running, task),
            other => panic!("{other:?}"),
        }
    }

    /// Frees a slot whose timeout is over.
    fn free(&self) {
        let left = self.slot().release_here(Handle::User);
        assert_eq!(left, ReleaseResult::Abandoned);
        self.slot().free_here();
    }

    /// Fires a one-shot timeout.
    fn fire(&self, stamp: u64) -> ReleaseResult {
        let (running, task) = self.claim(stamp);
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
fn an_armed_slot_has_its_stamp_its_label_its_deadline_and_its_task() {
    let bench = Bench::new();
    let slot = bench.slot();
    assert!(slot.is_free() && slot.find().is_none());
    for stamp in [1, 0xfff, 0x1000, 0x7_edcb_a987_6543] {
        bench.stamp.set(stamp - 1);
        assert_eq!(bench.arm(), stamp);
        assert_eq!(slot.word(), Word::armed(DUE, stamp, Kind::Once));
        assert_eq!((slot.early(), slot.label()), (1234, Label(7)));
        assert!(!slot.is_free());
        let found = slot.find().unwrap();
        assert_eq!((found.due, found.stamp, bench.tasks()), (DUE, stamp, 1));
        slot.cancel(|| ());
        assert_eq!(slot.find().map(|found| found.due), None);
        bench.free();
    }
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
fn a_timeout_is_claimed_when_it_is_due_and_not_before() {
    let bench = Bench::new();
    let entry = bench.arm();
    let early = bench.slot().claim(ID, entry, DUE.previous());
    assert!(matches!(early, ClaimResult::Later), "{early:?}");
    assert_eq!(
        bench.fire(entry),
        ReleaseResult::InUse,
        "the user's handle is there"
    );
    assert_eq!((bench.state(), bench.tasks()), (State::Expired, 0));
    assert!(matches!(
        bench.slot().claim(ID, entry, DUE),
        ClaimResult::Dead
    ));
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
    assert!(bench.slot().is_free());
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
    bench.free();
    // As many armings later as `seq` has values, and more.
    for next in [before + 1, before + (1 << 12), before + (1 << 45)] {
        bench.stamp.set(next - 1);
        let after = bench.arm();
        let met = bench.slot().claim(ID, before, DUE);
        assert!(matches!(met, ClaimResult::Dead), "{met:?}");
        assert_eq!(bench.fire(after), ReleaseResult::InUse);
        bench.free();
    }
}

#[test]
fn a_reset_moves_a_timeout_to_earlier_and_to_later() {
    let bench = Bench::new();
    let stamp = bench.arm();
    let slot = bench.slot();
    for due in [DUE, Tick(20), Tick(5)] {
        assert!(slot.reset(due));
        assert_eq!(slot.word(), Word::armed(due, stamp, Kind::Once));
    }
    slot.set_early(77);
    assert_eq!(slot.early(), 77);
    assert_eq!(bench.fire(stamp), ReleaseResult::InUse);
}

#[test]
fn only_a_pending_one_shot_timeout_is_reset() {
    for (bench, state) in Bench::in_each_state() {
        let before = bench.slot().word();
        let reset = bench.slot().reset(Tick(11));
        assert_eq!(reset, state == State::Armed);
        if !reset {
            assert_eq!(bench.slot().word(), before);
        }
        bench.slot().cancel(|| ());
        drop(bench.slot().take_stopped());
    }
    let bench = Bench::new();
    bench.arm_periodic();
    assert!(!bench.slot().reset(Tick(11)));
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
        assert!(bench.slot().holds(Kind::Once));
        drop(bench.slot().take_stopped().expect("its task"));
        assert_eq!((bench.state(), bench.tasks()), (State::TaskTaken, 0));
        assert!(bench.slot().take_stopped().is_none());
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
fn a_periodic_task_goes_back_to_its_slot_with_a_new_stamp() {
    let bench = Bench::new();
    let first = bench.arm_periodic();
    let (running, task) = bench.claim(first);
    assert!(bench.slot().find().is_none(), "it runs");
    let second = bench.next_stamp();
    bench
        .slot()
        .rearm(running, task, second, Tick(20), 2000)
        .unwrap();
    let armed = Word::armed(Tick(20), second, Kind::Periodic);
    assert_eq!((bench.slot().word(), bench.slot().early()), (armed, 2000));
    let met = bench.slot().claim(ID, first, Tick(20));
    assert!(matches!(met, ClaimResult::Dead), "{met:?}");
    let (running, task) = bench.claim(second);
    drop(task);
    assert_eq!(bench.slot().finish_run(running), ReleaseResult::InUse);
    assert_eq!((bench.state(), bench.tasks()), (State::Expired, 0));
}

#[test]
fn a_periodic_task_that_was_ended_during_its_run_comes_back_to_the_runner() {
    for stopped in [false, true] {
        let bench = Bench::new();
        let first = bench.arm_periodic();
        let (running, task) = bench.claim(first);
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
            .rearm(running, task, 9, Tick(20), 2000)
            .expect_err("it was ended");
        assert_eq!(bench.tasks(), 1);
        drop(task);
        assert_eq!(bench.slot().finish_run(running), ReleaseResult::InUse);
        assert_eq!((bench.state(), bench.tasks()), (State::Cancelled, 0));
        if stopped {
            assert_eq!(
                bench.slot().release_here(Handle::Returned),
                ReleaseResult::InUse
            );
        }
        bench.free();
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
            .rearm(running, another, 9, Tick(30), 3000)
            .unwrap();
        assert_eq!(bench.slot().word(), Word::armed(Tick(30), 9, Kind::Once));
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
            .rearm(running, task, 9, Tick(20), 2000)
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

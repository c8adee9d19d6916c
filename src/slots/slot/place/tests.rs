//! One slot, one thread: what is pushed, what is filed, and which entry counts.

use super::*;
use crate::slots::{Arming, Handle, Kind, Label, StoredTask, Vacant};

const ID: SlotId = SlotId::from_number(0);

struct Bench {
    slots: Slots<()>,
    now: Tick,
}

impl Bench {
    fn new(now: u64) -> Bench {
        let slots = Slots::new();
        slots.ensure_group(0);
        Bench {
            slots,
            now: Tick(now),
        }
    }

    fn slot(&self) -> &Slot<()> {
        self.slots.get(ID)
    }

    fn arm(&self, due: u64) -> Place {
        let arming = Arming {
            kind: Kind::Once,
            label: Label::NONE,
            stamp: due,
            due: Tick(due),
            lane: Lane::Soon,
            early: 0,
        };
        // SAFETY: each test arms its slot only while it is free.
        let vacant = unsafe { Vacant::new(ID) };
        self.slot().arm(vacant, StoredTask::once(|()| {}), arming)
    }

    fn end(&self) {
        assert!(self.slot().cancel(|| ()));
        let _ = self.slot().release_here(Handle::User);
        self.slot().free_here();
    }

    /// Cancels what is there and arms it anew.
    fn arm_anew(&self, due: u64) -> Place {
        self.end();
        self.arm(due)
    }

    /// T1 to T3 for a number. The tick of the entry, if there is one.
    fn pop(&self) -> Option<u64> {
        self.slots.clear_queued(&[ID], Lane::Soon);
        self.file()
    }

    fn file(&self) -> Option<u64> {
        Some(self.slots.file(ID, self.now)?.due().0)
    }

    fn counts(&self, tick: u64) -> bool {
        is_filed_at(self.slot().filed.load(Ordering::Relaxed), Tick(tick))
    }

    fn far(&self) -> u64 {
        self.slots.far(ID).load(Ordering::Relaxed)
    }
}

#[test]
fn a_slot_waits_once_however_often_it_is_armed() {
    let bench = Bench::new(0);
    assert_eq!(bench.arm(9), Place::Nowhere);
    for due in [9, 20, 5] {
        assert_eq!(bench.arm_anew(due), Place::Queued);
    }
    assert_eq!(bench.pop(), Some(5));
    assert_eq!(bench.arm_anew(4), Place::Nowhere, "earlier than the wheel");
    assert_eq!(bench.arm_anew(6), Place::Filed);
    assert_eq!(bench.arm_anew(4), Place::Queued);
    assert_eq!(bench.pop(), Some(4), "lower");
    assert!(bench.counts(4) && !bench.counts(5));
    assert_eq!(bench.pop(), None, "a second number");
    bench.end();
    assert_eq!(bench.pop(), None, "it is free");
}

#[test]
fn a_slot_that_the_wheel_looks_at_in_time_is_filed_anew_when_it_is_met() {
    let bench = Bench::new(0);
    assert_eq!(bench.arm(9), Place::Nowhere);
    assert_eq!(bench.pop(), Some(9));
    assert_eq!(bench.arm_anew(30), Place::Filed);
    assert!(!bench.slot().clear_filed(Entry::new(Tick(8), ID)), "dead");
    assert!(bench.slot().clear_filed(Entry::new(Tick(9), ID)));
    assert!(!bench.slot().clear_filed(Entry::new(Tick(9), ID)), "once");
    assert_eq!(bench.file(), Some(30));
    assert_eq!(bench.slot().place(Tick(30), Lane::Soon), Place::Filed);
    assert_eq!(bench.slot().place(Tick(29), Lane::Soon), Place::Nowhere);
    bench.end();
}

#[test]
fn of_two_entries_at_one_tick_a_sweep_drops_the_second() {
    for due in [9, NEAR + 9] {
        let bench = Bench::new(0);
        assert_eq!(bench.arm(due), Place::Nowhere);
        assert_eq!(bench.pop(), Some(due));
        let is_dead = |tick| {
            let entry = Entry::new(Tick(tick), ID);
            bench.slots.is_dead(entry, bench.now) || bench.slots.see(entry, bench.now)
        };
        let other = due + (1 << 29);
        for _ in 0..2 {
            assert!(is_dead(other), "the same low bits");
            assert!(!is_dead(due) && is_dead(due));
            assert_ne!(
                bench.slot().place(Tick(due + 1), Lane::Soon),
                Place::Nowhere
            );
            assert_eq!(bench.pop(), None, "it is filed");
            bench.slot().forget_seen();
        }
        assert!(!is_dead(due) && bench.slot().clear_filed(Entry::new(Tick(due), ID)));
        assert_eq!(bench.pop(), Some(due));
        assert!(!is_dead(due), "filed anew");
        bench.end();
        assert!(is_dead(due) && is_dead(other));
    }
}

#[test]
fn a_dead_entry_is_not_counted_on_and_a_live_one_is() {
    let bench = Bench::new(0);
    assert_eq!(bench.arm(9), Place::Nowhere);
    assert_eq!(bench.pop(), Some(9));
    let (entry, other) = (Entry::new(Tick(9), ID), Entry::new(Tick(10), ID));
    assert!(!bench.slots.is_dead(entry, bench.now) && bench.slots.is_dead(other, bench.now));
    bench.end();
    assert!(bench.slots.is_dead(entry, bench.now) && bench.slots.is_dead(entry, bench.now));
    assert_eq!(bench.arm(12), Place::Nowhere, "the entry is gone");
    bench.end();
    assert_eq!(bench.pop(), None);
    assert_eq!(bench.arm(NEVER), Place::Filed, "nothing has to be done");
    assert_eq!(bench.pop(), None);
    assert_eq!(bench.slot().place(Tick(20), Lane::Soon), Place::Nowhere);
    bench.end();
}

const NEVER: u64 = Tick::NEVER.0;

#[test]
fn ticks_are_compared_across_the_wraps_of_their_low_bits() {
    for now in [0, (1 << 30) - 5, (1 << 30) + 7, (1 << 44) - 3] {
        for ahead in [0, 1, 2, 1000, NEAR - 1] {
            let bench = Bench::new(now);
            let due = now + ahead;
            assert_eq!(bench.arm(due), Place::Nowhere);
            assert_eq!(bench.pop(), Some(due), "{ahead} after {now}");
            assert!(bench.counts(due) && !bench.counts(due + 1));
            let slot = bench.slot();
            for later in [0, 1, 2, 1 << 20, u64::from(LATER) - 1] {
                assert_eq!(slot.place(Tick(due + later), Lane::Soon), Place::Filed);
            }
            for earlier in [1, 2, 1 << 20, 1 << 28] {
                let due = Tick(due.saturating_sub(earlier));
                if due.0 > 0 && due.0 + 4 > now {
                    assert_eq!(
                        slot.place(due, Lane::Soon),
                        Place::Nowhere,
                        "{earlier} before"
                    );
                }
            }
            // So far later that the low bits do not say so: it is pushed in vain.
            let after = Tick(due + u64::from(LATER));
            assert_eq!(slot.place(after, Lane::Soon), Place::Nowhere);
            assert!(slot.reset(after));
            assert_eq!(bench.pop(), None, "it stays where it is");
            assert!(bench.counts(due));
            bench.end();
        }
    }
}

#[test]
fn a_late_entry_that_was_not_met_is_still_there() {
    let mut bench = Bench::new(100);
    assert_eq!(bench.arm(90), Place::Nowhere);
    assert_eq!(bench.pop(), Some(90));
    bench.now = Tick(101);
    assert_eq!(bench.arm_anew(200), Place::Filed);
    assert_eq!(bench.pop(), None);
    bench.end();
}

#[test]
fn what_is_far_away_is_written_down() {
    let mut bench = Bench::new(7);
    let due = 7 + NEAR;
    assert_eq!(bench.arm(due), Place::Nowhere);
    assert_eq!(bench.pop(), Some(due));
    assert!(bench.counts(due));
    assert_eq!(
        (bench.far(), bench.slot().place(Tick(due), Lane::Soon)),
        (due, Place::Far)
    );
    assert_eq!(bench.pop(), None, "it is filed");
    assert!(bench.slot().reset(Tick(due + 5)));
    assert_eq!(bench.pop(), None, "it is looked at in time");
    assert!(bench.slot().reset(Tick(due - 1)));
    bench.now = Tick(8);
    assert_eq!(bench.pop(), Some(due - 1));
    assert_eq!(
        bench.slot().place(Tick(due - 1), Lane::Soon),
        Place::Filed,
        "near now"
    );
    bench.end();
}

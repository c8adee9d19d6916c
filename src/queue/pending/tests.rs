use super::*;
use crate::time::Tick;
use std::cell::Cell;

/// A timer on which the entries of the slots that `dead` names are dead.
struct Slots<F> {
    dead: F,
    asked: Cell<usize>,
}

impl<F: Fn(u32) -> bool> Liveness for Slots<F> {
    fn now(&self) -> u64 {
        0
    }

    fn prefetch(&self, _: Entry) {}

    fn is_dead(&self, entry: Entry) -> bool {
        self.asked.set(self.asked.get() + 1);
        (self.dead)(entry.slot())
    }
}

fn entries(slots: u32) -> Vec<Entry> {
    let entry = |slot| Entry::new(Tick(9), 1, slot, 0);
    (0..slots).map(entry).collect()
}

/// What is left of `slots` entries, whether all were seen, and how many were asked about.
fn compact(slots: u32, dead: impl Fn(u32) -> bool) -> (Vec<u32>, bool, usize) {
    let mut left = entries(slots);
    let asked = Cell::new(0);
    let timer = Slots { dead, asked };
    let all = drop_dead(&mut left, &timer);
    let left = left.iter().map(|entry| entry.slot()).collect();
    (left, all, timer.asked.get())
}

#[test]
fn what_is_alive_is_kept_in_order() {
    let (left, all, asked) = compact(50_000, |slot| slot % 2 == 0);
    assert!(
        left.iter()
            .copied()
            .eq((0..50_000).filter(|slot| slot % 2 == 1))
    );
    assert!(all && asked == 50_000);
    assert_eq!(compact(3, |_| false), (vec![0, 1, 2], true, 3));
    assert_eq!(compact(3, |_| true), (vec![], true, 3));
}

#[test]
fn when_the_dead_come_first_the_living_are_not_asked_one_by_one() {
    let (left, all, asked) = compact(100_000, |slot| slot < 50_000);
    assert!(left.iter().copied().eq(50_000..100_000));
    assert!(!all);
    assert_eq!(asked, 50_000 + RING);
}

#[test]
fn it_does_not_stop_before_three_eighths_are_gone() {
    let (left, all, asked) = compact(80_000, |slot| slot < 29_999);
    assert!(left.iter().copied().eq(29_999..80_000));
    assert!(all && asked == 80_000);
}

#[test]
fn a_lane_stays_below_a_constant_plus_twice_the_living_under_churn() {
    let lane = Lane::new(1);
    let newest = Cell::new(0);
    for flight in [10, 30_000, 100_000, 1000] {
        // The oldest of `flight` timeouts ends with each new one.
        let timer = Slots {
            dead: |slot| slot + flight <= newest.get(),
            asked: Cell::new(0),
        };
        for slot in newest.get() + 1..newest.get() + 300_000 {
            newest.set(slot);
            let _ = lane.push(Entry::new(Tick(9), 1, slot, 0), &timer);
            let most = (2 * 100_000).max(COMPACT_FROM) + 2 * RING;
            assert!(lane.len() <= most, "{} entries", lane.len());
        }
        // Beyond the count at which it is compacted, there may be a ring in the heap, and the ring.
        let bound = (2 * flight as usize).max(COMPACT_FROM) + 2 * RING;
        assert!(lane.len() <= bound, "{} of {flight}", lane.len());
    }
}

//! The contract of a wheel, once for both: everything here is held against the model.

use super::hashed::HashedWheel;
use super::hierarchical::HierarchicalWheel;
use super::model::{Checked, LAST, Pair, Rng, Seed, entry, sweep};
use crate::entry::Entry;
use crate::time::Tick;
use std::cell::RefCell;

/// The number of schedules that each wheel is tried with: every size with every scale, several times.
const SCHEDULES: u64 = 1500;

macro_rules! for_both_wheels {
    ($($test:ident)*) => {
        mod hashed {
            $(#[test] fn $test() { super::$test::<super::HashedWheel>(); })*
        }
        mod hierarchical {
            $(#[test] fn $test() { super::$test::<super::HierarchicalWheel>(); })*
        }
    };
}

for_both_wheels! {
    any_schedule_is_kept_to_the_boundary
    what_is_late_comes_at_the_next_boundary
    time_zero_counts_as_processed
    boundaries_without_work_cost_nothing_and_lose_nothing
    the_last_tick_of_all_is_reached
    a_sweep_looks_at_every_entry_once_a_round
    a_bucket_may_expire_in_the_midst_of_a_round
    entries_filed_during_a_sweep_are_swept_as_well
    a_wheel_swept_empty_has_no_work
    memory_follows_the_number_of_entries
    a_bucket_starts_with_room_for_as_many_as_the_last_one_handed_out
    nothing_is_handed_out_into_a_full_buffer_but_behind_it
}

/// Does anything at random to a wheel and the model, then runs them out.
fn any_schedule_is_kept_to_the_boundary<W: Checked>() {
    for seed in 0..SCHEDULES {
        let _seed = Seed(seed);
        let mut rng = Rng(seed);
        let mut pair = Pair::<W>::new(W::SIZES[seed as usize % W::SIZES.len()]);
        let bits = rng.below(45);
        for _ in 0..rng.below(40) {
            random_step(&mut pair, &mut rng, bits);
        }
        pair.run_out();
    }
}

fn random_step<W: Checked>(pair: &mut Pair<W>, rng: &mut Rng, bits: u64) {
    let now = pair.wheel.now().0;
    match rng.below(10) {
        0..4 => {
            for _ in 0..rng.below(6) {
                let due = now + rng.scaled(bits);
                // Now and then late.
                pair.insert(due.saturating_sub(rng.below(2) * rng.scaled(3)));
            }
        }
        4 => drop(pair.work()),
        5 => random_jump(pair, rng),
        6 => pair.run_to((now + rng.below(6)).min(LAST)),
        7 => {
            let one_in = 1 + rng.below(4);
            for slot in pair.slots() {
                if rng.below(one_in) == 0 {
                    pair.kill(slot);
                }
            }
        }
        8 => drop(pair.sweep(1 + rng.below(8) as usize)),
        _ => {
            let step = 1 + rng.below(20) as usize;
            pair.sweep_round(step);
        }
    }
}

/// To any boundary up to the next with work.
fn random_jump<W: Checked>(pair: &mut Pair<W>, rng: &mut Rng) {
    let now = pair.wheel.now().0;
    let limit = pair.wheel.next_expiration().map_or(LAST, |work| work.0);
    if now < limit {
        let distance = 1 + rng.scaled(44).min(limit - now - 1);
        pair.advance(now + distance);
    }
}

fn what_is_late_comes_at_the_next_boundary<W: Checked>() {
    for &size in W::SIZES {
        let mut pair = Pair::<W>::new(size);
        pair.advance(1000);
        let late = [
            pair.insert(0),
            pair.insert(999),
            pair.insert(1000),
            pair.insert(1001),
        ];
        assert_eq!(pair.advance(1001), late);
    }
}

fn time_zero_counts_as_processed<W: Checked>() {
    let mut pair = Pair::<W>::new(W::SIZES[0]);
    let slot = pair.insert(0);
    assert_eq!(pair.advance(1), [slot]);
}

fn boundaries_without_work_cost_nothing_and_lose_nothing<W: Checked>() {
    for &size in W::SIZES {
        let mut pair = Pair::<W>::new(size);
        pair.insert(300);
        let work = pair.wheel.next_expiration().unwrap().0;
        let before = pair.wheel.counters();
        for boundary in 1..work {
            assert!(pair.advance(boundary).is_empty());
        }
        assert_eq!(pair.wheel.counters(), before);
        pair.run_out();
        assert_eq!(pair.wheel.now().0, 300);
    }
}

fn the_last_tick_of_all_is_reached<W: Checked>() {
    for &size in W::SIZES {
        let mut pair = Pair::<W>::new(size);
        for due in [LAST, LAST - 1, LAST / 2, LAST - size as u64, 1] {
            pair.insert(due);
        }
        pair.run_out();
        assert_eq!(pair.wheel.now().0, LAST);
        // Nothing can come after it, but late entries must not confuse the wheel.
        pair.insert(LAST);
        pair.insert(3);
        assert_eq!(pair.wheel.next_expiration().unwrap().0, LAST + 1);
    }
}

fn a_sweep_looks_at_every_entry_once_a_round<W: Checked>() {
    for &size in W::SIZES {
        for step in [1, 2, 7, 1000] {
            let mut rng = Rng(step as u64);
            let mut pair = Pair::<W>::new(size);
            for _ in 0..50 {
                let due = rng.scaled(14);
                let slot = pair.insert(due);
                if rng.below(2) == 0 {
                    pair.kill(slot);
                }
            }
            let seen = RefCell::new(Vec::new());
            let mut looked = 0;
            while looked < 50 {
                looked += sweep(&mut pair.wheel, step.min(50 - looked), &|entry: Entry| {
                    seen.borrow_mut().push(entry.slot().number());
                    false
                });
            }
            let mut seen = seen.into_inner();
            seen.sort_unstable();
            assert_eq!(seen, (0..50).collect::<Vec<u32>>());
            pair.sweep_round(step);
            pair.run_out();
        }
    }
}

fn a_bucket_may_expire_in_the_midst_of_a_round<W: Checked>() {
    for steps in 0..12 {
        for due in [5, 900] {
            let mut pair = Pair::<W>::new(W::SIZES[2]);
            for i in 0..10 {
                let slot = pair.insert(due);
                if i % 3 == 0 {
                    pair.kill(slot);
                }
            }
            pair.insert(due + 4096);
            for _ in 0..steps {
                pair.sweep(1);
            }
            pair.run_to(due);
            pair.sweep_round(1);
            pair.run_out();
        }
    }
}

fn entries_filed_during_a_sweep_are_swept_as_well<W: Checked>() {
    let mut pair = Pair::<W>::new(W::SIZES[2]);
    for _ in 0..4 {
        let slot = pair.insert(1);
        pair.kill(slot);
    }
    // Another bucket, so that the round goes on.
    let other = pair.insert(2);
    pair.kill(other);
    assert_eq!(pair.sweep(2), 4);
    for due in [1, 2] {
        let slot = pair.insert(due);
        pair.kill(slot);
    }
    let survivor = pair.insert(1);
    assert_eq!(pair.sweep(1), 2, "the rest of the round");
    assert_eq!(pair.sweep(1), 2, "around to the first bucket");
    assert_eq!(pair.slots(), [survivor]);
    pair.run_out();
}

fn a_wheel_swept_empty_has_no_work<W: Checked>() {
    for &size in W::SIZES {
        let mut pair = Pair::<W>::new(size);
        assert_eq!(pair.sweep(10), 0);
        for due in [1, 2, 40, 5000, 1 << 30] {
            let slot = pair.insert(due);
            pair.kill(slot);
        }
        pair.sweep_round(2);
        assert_eq!(pair.wheel.next_expiration(), None);
        pair.advance(1 << 40);
        pair.insert((1 << 40) + 1);
        assert_eq!(pair.work(), Some((1 << 40) + 1));
    }
}

fn memory_follows_the_number_of_entries<W: Checked>() {
    const ENTRIES: u64 = 100_000;
    let mut wheel = W::make(64);
    let empty = wheel.bytes();
    let mut rng = Rng(1);
    for slot in 0..ENTRIES {
        wheel.insert(entry(1 + rng.below(4000), slot as u32));
    }
    let full = wheel.bytes() - empty;
    assert!(
        (16 * ENTRIES..=32 * ENTRIES).contains(&(full as u64)),
        "{full} bytes"
    );
    sweep(&mut wheel, ENTRIES as usize, &|entry: Entry| {
        entry.slot().number() % 100 != 0
    });
    let swept = wheel.bytes() - empty;
    assert!(
        swept <= full / 10,
        "{swept} bytes after sweeping, {full} before"
    );
    run_out(&mut wheel);
    // One spare group a level, and no buffers.
    let left = wheel.bytes() - empty;
    assert!(
        left as u64 <= 4096 * wheel.counters().levels,
        "{left} bytes left of {full}"
    );
}

fn a_bucket_starts_with_room_for_as_many_as_the_last_one_handed_out<W: Checked>() {
    let mut wheel = W::make(64);
    for (handed_out, room) in [(1, 1), (3, 4), (10, 16), (64, 64), (200, 64)] {
        let now = wheel.now().0;
        // Keeps the group of buckets alive.
        wheel.insert(entry(now + 20, 0));
        for slot in 0..handed_out {
            wheel.insert(entry(now + 1, slot));
        }
        // What the buffer holds already was not handed out by this bucket.
        let mut due = vec![entry(1, 0); 30];
        wheel.advance(Tick(now + 1), &mut due, &|_| false);
        let before = wheel.bytes();
        wheel.insert(entry(now + 2, 0));
        assert_eq!(wheel.bytes() - before, room * size_of::<Entry>());
        run_out(&mut wheel);
    }
}

fn run_out<W: Checked>(wheel: &mut W) {
    let mut due = Vec::new();
    while let Some(work) = wheel.next_expiration() {
        due.clear();
        wheel.advance(work, &mut due, &|_| false);
    }
}

fn nothing_is_handed_out_into_a_full_buffer_but_behind_it<W: Checked>() {
    let mut wheel = W::make(W::SIZES[1]);
    let [first, second, third] = [1, 2, 2].map(|due| entry(due, due as u32));
    for entry in [first, second, third] {
        wheel.insert(entry);
    }
    let mut due = Vec::new();
    while let Some(work) = wheel.next_expiration() {
        wheel.advance(work, &mut due, &|_| false);
    }
    assert_eq!(due, [first, second, third]);
}

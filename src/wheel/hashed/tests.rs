//! Tests of the hashed wheel alone: rounds, skipping, order, and the extremes of its size.

use crate::entry::Entry;
use crate::time::Tick;
use crate::wheel::Wheel;
use crate::wheel::hashed::HashedWheel;
use crate::wheel::model::{HashedPair, LAST, Rng, Seed, entry};

fn advance(wheel: &mut HashedWheel, to: u64) -> Vec<Entry> {
    let mut due = Vec::new();
    wheel.advance(Tick(to), &mut due, &|_| false);
    due
}

/// The table in the head of the module.
#[test]
fn the_worked_example() {
    let mut pair = HashedPair::new(8);
    pair.advance(3);
    let [d6, d11, d14, d30, d2] = [6, 11, 14, 30, 2].map(|due| pair.insert(due));
    let expected = [(4, d2), (6, d6), (11, d11), (14, d14), (30, d30)];
    for (boundary, slot) in expected {
        assert_eq!(pair.wheel.next_expiration(), Some(Tick(boundary)));
        assert_eq!(pair.advance(boundary), [slot]);
    }
    // At 6 it met 14 and 30, at 14 it met 30; 22 was never visited.
    assert_eq!(pair.wheel.counters().bucket_visits, 5);
    assert_eq!(pair.wheel.counters().passed_over, 3);
}

#[test]
fn a_bucket_with_nothing_due_this_round_is_not_looked_at() {
    let mut wheel = HashedWheel::new(16);
    for slot in 0..1000 {
        wheel.insert(entry(16 * 1000 + 5, slot));
    }
    for boundary in 1..16 * 1000 + 5 {
        assert!(advance(&mut wheel, boundary).is_empty());
    }
    assert_eq!(wheel.counters().bucket_visits, 0);
    assert_eq!(wheel.counters().passed_over, 0);
    assert_eq!(advance(&mut wheel, 16 * 1000 + 5).len(), 1000);
    assert_eq!(wheel.counters().bucket_visits, 1);
    assert_eq!(wheel.counters().passed_over, 0);
}

#[test]
fn entries_of_later_rounds_are_passed_over_once_a_visit() {
    let mut pair = HashedPair::new(8);
    for round in 0..10 {
        pair.insert(5 + 8 * round);
    }
    pair.run_out();
    assert_eq!(pair.wheel.counters().bucket_visits, 10);
    assert_eq!(pair.wheel.counters().passed_over, (0..10).sum::<u64>());
}

#[test]
fn one_boundary_keeps_the_order_of_filing_over_all_rounds() {
    let mut pair = HashedPair::new(8);
    let mut filed = Vec::new();
    for now in 1..=92 {
        filed.push(pair.insert(100));
        // Others that share the bucket: of the coming visit, and of one behind boundary 100.
        pair.insert((now + 3) / 8 * 8 + 4);
        pair.insert(108);
        filed.push(pair.insert(100));
        pair.run_to(now);
    }
    pair.run_to(99);
    assert_eq!(pair.advance(100), filed);
}

#[test]
fn a_wheel_of_one_slot_is_a_list() {
    let mut pair = HashedPair::new(1);
    for due in [3, 1, LAST, 2, 3, 1] {
        pair.insert(due);
    }
    assert_eq!(pair.advance(1), [1, 5]);
    assert_eq!(pair.advance(2), [3]);
    assert_eq!(pair.advance(3), [0, 4]);
    assert_eq!(pair.advance(LAST), [2]);
}

#[test]
fn the_largest_wheel_takes_memory_only_where_it_is_used() {
    const SLOTS: u64 = 1 << 24;
    let mut wheel = HashedWheel::new(SLOTS as usize);
    let empty = wheel.bytes();
    assert!(empty < 5 << 20, "{empty} bytes for an empty wheel");
    let dues = [
        1,
        63,
        64,
        SLOTS - 1,
        SLOTS,
        SLOTS + 1,
        77 * SLOTS + 12_345,
        LAST,
    ];
    for (slot, &due) in dues.iter().enumerate() {
        wheel.insert(entry(due, slot as u32));
    }
    assert!(wheel.bytes() < empty + 6 * 4096);
    for (slot, &due) in dues.iter().enumerate() {
        assert_eq!(wheel.next_expiration(), Some(Tick(due)));
        assert_eq!(advance(&mut wheel, due), [entry(due, slot as u32)]);
    }
    assert_eq!(wheel.next_expiration(), None);
    wheel.check();
}

#[test]
fn the_largest_wheel_gives_back_what_a_revolution_has_used() {
    let mut wheel = HashedWheel::new(1 << 24);
    let empty = wheel.bytes();
    let mut due = Vec::new();
    for boundary in (1000..1 << 24).step_by(1000) {
        wheel.insert(entry(boundary, 0));
        due.clear();
        wheel.advance(Tick(boundary), &mut due, &|_| false);
        assert_eq!(due.len(), 1);
    }
    assert!(wheel.bytes() < empty + 4096);
}

#[test]
fn far_deadlines_are_exact_on_every_size() {
    for log2 in 0..=24 {
        let buckets = 1_u64 << log2;
        let mut wheel = HashedWheel::new(buckets as usize);
        let mut dues = vec![
            LAST,
            LAST - 1,
            LAST - buckets / 2,
            LAST / 3,
            (1 << 44) + 1,
            1 << 44,
        ];
        dues.sort_unstable();
        dues.dedup();
        for &due in &dues {
            wheel.insert(entry(due, 0));
        }
        for &due in &dues {
            assert_eq!(wheel.next_expiration(), Some(Tick(due)));
            assert_eq!(advance(&mut wheel, due), [entry(due, 0)]);
        }
    }
}

/// Differences that shifts would lose.
#[test]
fn rounds_that_are_powers_of_two_are_told_from_none() {
    for log2 in 0..=24 {
        for rounds in (0..44 - log2).map(|rounds| 1_u64 << rounds) {
            let mut wheel = HashedWheel::new(1 << log2);
            let (near, far) = (entry(5, 0), entry(5 + (rounds << log2), 1));
            wheel.insert(far);
            wheel.insert(near);
            assert_eq!(wheel.next_expiration(), Some(near.due()));
            assert_eq!(advance(&mut wheel, near.due().0), [near]);
            assert_eq!(wheel.next_expiration(), Some(far.due()));
        }
    }
}

#[test]
fn the_bytes_of_an_empty_wheel_are_those_of_its_tables() {
    // Pointers to groups of 64 buckets; the earliest ticks of the groups, of 64 groups, and so on.
    let tables = |groups: usize, nodes: usize| {
        groups * size_of::<usize>() + (groups + nodes) * size_of::<Tick>()
    };
    for (buckets, groups, nodes) in [
        (256, 4, 1),
        (4096, 64, 1),
        (8192, 128, 2 + 1),
        (1 << 24, 1 << 18, 4096 + 64 + 1),
    ] {
        assert_eq!(HashedWheel::new(buckets).bytes(), tables(groups, nodes));
    }
}

#[test]
fn deadlines_next_to_a_revolution_of_any_start() {
    for buckets in [1, 2, 64, 128] {
        for start in [
            0,
            1,
            buckets - 1,
            buckets,
            buckets + 1,
            1000 * buckets - 1,
            1000 * buckets,
        ] {
            for delay in [
                0,
                1,
                buckets - 1,
                buckets,
                buckets + 1,
                2 * buckets - 1,
                2 * buckets + 1,
            ] {
                let mut pair = HashedPair::new(buckets as usize);
                if start > 0 {
                    pair.advance(start);
                }
                pair.insert(start + delay);
                assert_eq!(pair.work(), Some(start + delay.max(1)));
            }
        }
    }
}

#[test]
fn next_work_forgets_what_a_sweep_has_removed() {
    let mut pair = HashedPair::new(8);
    let near = pair.insert(4);
    let middle = pair.insert(12);
    pair.insert(20);
    pair.kill(near);
    pair.sweep_round(1);
    assert_eq!(pair.wheel.next_expiration(), Some(Tick(12)));
    pair.kill(middle);
    pair.sweep_round(1);
    assert_eq!(pair.wheel.next_expiration(), Some(Tick(20)));
}

#[test]
fn a_step_of_a_sweep_looks_at_whole_buckets() {
    const ENTRIES: u32 = 100_000;
    let mut wheel = HashedWheel::new(64);
    for slot in 0..ENTRIES {
        // Half of them in the next round, and another bucket behind.
        wheel.insert(entry(7 + u64::from(slot % 2) * 64, slot));
        wheel.insert(entry(9, ENTRIES + slot));
    }
    let sweep =
        |wheel: &mut HashedWheel| wheel.sweep_bucket(&|e: Entry| e.slot().number() % 10 != 8);
    assert_eq!(sweep(&mut wheel), ENTRIES as usize);
    wheel.check();
    assert_eq!(wheel.len(), ENTRIES as usize / 10 + ENTRIES as usize);
    let due = advance(&mut wheel, 7);
    let expected = (0..ENTRIES).filter(|slot| slot % 10 == 8);
    assert!(due.iter().map(|e| e.slot().number()).eq(expected));
    assert_eq!(sweep(&mut wheel), ENTRIES as usize, "the other bucket");
    assert_eq!(advance(&mut wheel, 9).len(), ENTRIES as usize / 10);
    assert_eq!(wheel.len(), 0);
}

#[test]
fn sweeps_and_expiries_of_a_single_bucket_in_any_order() {
    for seed in 0..300 {
        let _seed = Seed(seed);
        let mut rng = Rng(seed);
        let mut pair = HashedPair::new(1 << rng.below(2));
        for _ in 0..40 {
            let now = pair.wheel.now().0;
            for _ in 0..rng.below(5) {
                let slot = pair.insert(now + rng.below(12));
                if rng.below(2) == 0 {
                    pair.kill(slot);
                }
            }
            pair.sweep(1 + rng.below(6) as usize);
            if rng.below(3) == 0 {
                pair.run_to(now + 1);
            }
        }
        pair.run_out();
    }
}

#[test]
#[should_panic(expected = "not a power of two")]
fn slots_that_are_no_power_of_two_are_refused() {
    HashedWheel::new(12);
}

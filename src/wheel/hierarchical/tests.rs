//! Tests of the hierarchical wheel alone: levels, cascades and the queue of buckets. Most
//! of it is what Kafka leaves untested.

mod kafka;

use crate::entry::Entry;
use crate::time::Tick;
use crate::wheel::Wheel;
use crate::wheel::hierarchical::HierarchicalWheel;
use crate::wheel::model::{HierarchicalPair, LAST, Rng, Seed, entry, sweep};

// --- Levels and cascades. ---

#[test]
fn entries_cancelled_between_and_during_cascades_do_not_come_out() {
    // Before each cascade, a sweep that has come `steps` entries far.
    for steps in 0..=12 {
        let mut pair = HierarchicalPair::new(4);
        let slots: Vec<u32> = (0..10).map(|i| pair.insert(300 + i % 5)).collect();
        let mut killed = 0;
        while let Some(work) = pair.wheel.next_expiration() {
            if killed < slots.len() {
                pair.kill(slots[killed]);
                killed += 3;
            }
            for _ in 0..steps {
                pair.sweep(1);
            }
            if pair.wheel.next_expiration() == Some(work) {
                pair.advance(work.0);
            }
        }
        assert_eq!(pair.wheel.len(), 0);
    }
}

#[test]
fn what_cascades_at_a_boundary_comes_before_what_level_one_has_for_it() {
    let mut pair = HierarchicalPair::new(20);
    let from_level_2 = pair.insert(40);
    pair.advance(25);
    let from_level_1 = pair.insert(40);
    assert_eq!(pair.wheel.locate(from_level_2), Some((2, 2)));
    assert_eq!(pair.wheel.locate(from_level_1), Some((1, 0)));
    assert_eq!(pair.advance(40), [from_level_2, from_level_1]);
    assert_eq!(pair.cascaded(), 0);
}

#[test]
fn the_smallest_wheel_has_forty_five_levels() {
    let mut pair = HierarchicalPair::new(2);
    let slot = pair.insert(LAST);
    assert_eq!(pair.levels(), 45);
    assert_eq!(pair.wheel.locate(slot), Some((45, 1)));
    assert_eq!(pair.work(), Some(1 << 44));
    pair.run_out();
    // From level 45 down to level 2, where it is due at the very start of its bucket.
    assert_eq!(pair.cascaded(), 43);
    assert_eq!(pair.wheel.now(), Tick(LAST));
}

#[test]
fn an_entry_cascades_at_most_once_a_level() {
    for size in [2, 3, 10, 100] {
        let mut rng = Rng(size as u64);
        let mut pair = HierarchicalPair::new(size);
        for _ in 0..100 {
            let start = pair.wheel.now().0;
            let before = pair.cascaded();
            let slot = pair.insert(start + rng.scaled(40));
            let (level, _) = pair.wheel.locate(slot).unwrap();
            pair.run_out();
            assert!(pair.cascaded() - before < level as u64);
        }
    }
}

#[test]
fn a_short_timeout_after_a_long_idle_time_goes_to_level_one() {
    let mut pair = HierarchicalPair::new(20);
    pair.insert(5000);
    pair.run_out();
    assert_eq!(pair.levels(), 3);
    let cascaded = pair.cascaded();
    for idle in [7, 399, 400, 8000, 1 << 30, 1 << 44] {
        let now = pair.wheel.now().0 + idle;
        pair.advance(now);
        let slot = pair.insert(now + 19);
        let bucket = ((now + 19) % 20) as usize;
        assert_eq!(pair.wheel.locate(slot), Some((1, bucket)));
        assert_eq!(pair.work(), Some(now + 19));
    }
    assert_eq!(pair.cascaded(), cascaded);
}

#[test]
fn buckets_are_used_again_over_many_revolutions() {
    let mut pair = HierarchicalPair::new(3);
    for _ in 0..1000 {
        let now = pair.wheel.now().0;
        for delay in [1, 2, 3, 4, 8, 9, 10] {
            pair.insert(now + delay);
        }
        pair.run_to(now + 2);
    }
    pair.run_out();
    assert_eq!(pair.levels(), 3);
}

/// From starts next to every level's edge, deadlines next to the edges of that level and of the
/// two below and above it.
#[test]
fn edges_of_levels_are_exact() {
    for size in [2_u64, 3, 20, 1000] {
        let powers = (1..45).map(|k| size.saturating_pow(k));
        let spans: Vec<u64> = powers.filter(|&span| span < LAST).collect();
        for (level, &span) in spans.iter().enumerate() {
            let delays = &spans[level.saturating_sub(2)..spans.len().min(level + 3)];
            for start in [span - 1, span, span + 1] {
                try_delays_around(delays, size, start);
            }
        }
    }
}

fn try_delays_around(spans: &[u64], size: u64, start: u64) {
    let mut pair = HierarchicalPair::new(size as usize);
    pair.advance(start);
    for delay in spans.iter().flat_map(|span| [span - 1, *span, span + 1]) {
        let due = (start + delay).min(LAST);
        let slot = pair.insert(due);
        let (level, bucket) = pair.wheel.locate(slot).unwrap();
        assert_eq!((level, bucket as u64), naive_place(size, start, due));
    }
    pair.run_out();
}

/// The lowest level whose clock and span reach `due`.
fn naive_place(size: u64, now: u64, due: u64) -> (usize, u64) {
    let boundary = u128::from(due.max(now + 1));
    let mut tick = 1_u128;
    for level in 1.. {
        let clock = u128::from(now) / tick * tick;
        if boundary < clock + tick * u128::from(size) {
            return (level, (boundary / tick % u128::from(size)) as u64);
        }
        tick *= u128::from(size);
    }
    unreachable!()
}

#[test]
fn a_million_entries_in_one_bucket_cascade() {
    const ENTRIES: u64 = 1_000_000;
    let mut wheel = HierarchicalWheel::new(100);
    for i in 0..ENTRIES {
        wheel.insert(entry(20_000 + i % 10_000, i as u32));
    }
    assert_eq!(wheel.queue_len(), 1);
    let mut due = Vec::new();
    let mut fired = 0;
    while let Some(work) = wheel.next_expiration() {
        due.clear();
        wheel.advance(work, &mut due, &|_| false);
        assert!(due.iter().all(|entry| entry.due() == work));
        fired += due.len() as u64;
    }
    assert_eq!(fired, ENTRIES);
    // Those that are due at the very start of a bucket skip the levels below.
    let at_level_3_start = ENTRIES / 10_000;
    let at_level_2_start = ENTRIES / 100 - at_level_3_start;
    let expected = 2 * ENTRIES - 2 * at_level_3_start - at_level_2_start;
    // Entries in the first hundred ticks go from level 3 to level 1 at once.
    let straight_to_level_1 = ENTRIES / 100 - at_level_3_start;
    assert_eq!(wheel.counters().cascaded, expected - straight_to_level_1);
}

#[test]
fn spans_saturate() {
    // Two levels span less than the last tick, and three more than 2^64 ticks: of 2^22, three
    // would span 2^66, which is 0 in 64 bits.
    for size in [5_000_000, 1 << 22] {
        let mut pair = HierarchicalPair::new(size as usize);
        for due in [1, size - 1, size, size * size - 1, size * size, LAST] {
            let slot = pair.insert(due);
            let (level, bucket) = pair.wheel.locate(slot).unwrap();
            assert_eq!((level, bucket as u64), naive_place(size, 0, due));
        }
        assert_eq!(pair.levels(), 3);
        pair.run_out();
        assert_eq!(pair.wheel.now(), Tick(LAST));
    }
}

#[test]
fn the_largest_wheel_takes_memory_only_where_it_is_used() {
    let mut pair = HierarchicalPair::new(1 << 24);
    for due in [1, (1 << 24) - 1, 1 << 24, LAST] {
        pair.insert(due);
    }
    assert_eq!(pair.levels(), 2);
    assert!(pair.wheel.bytes() < 5 << 20);
    pair.run_out();
}

// --- The queue of buckets. ---

#[test]
fn a_bucket_emptied_by_a_sweep_wakes_nobody() {
    let mut pair = HierarchicalPair::new(20);
    let near = pair.insert(5);
    pair.insert(9);
    pair.kill(near);
    pair.sweep_round(10);
    assert_eq!(pair.wheel.next_expiration(), Some(Tick(9)));
    assert_eq!(pair.wheel.queue_len(), 1);
}

#[test]
fn a_bucket_emptied_and_filled_again_is_handed_out_once() {
    let mut pair = HierarchicalPair::new(20);
    pair.insert(3);
    // Keeps the group of buckets.
    pair.insert(15);
    for _ in 0..5 {
        let slot = pair.insert(7);
        pair.kill(slot);
        pair.sweep_round(10);
    }
    let slot = pair.insert(7);
    pair.run_to(6);
    let visits = pair.wheel.counters().bucket_visits;
    assert_eq!(pair.advance(7), [slot]);
    assert_eq!(pair.wheel.counters().bucket_visits, visits + 1);
    assert_eq!(pair.wheel.next_expiration(), Some(Tick(15)));
}

#[test]
fn leftovers_in_the_queue_are_bounded() {
    let mut wheel = HierarchicalWheel::new(1000);
    wheel.insert(entry(1, u32::MAX));
    for round in 0..1000 {
        // Behind the first one, so that none of these comes to the head.
        for i in 0..50 {
            wheel.insert(entry(2 + (round * 7 + i * 13) % 900, i as u32));
        }
        sweep(&mut wheel, usize::MAX, &|entry: Entry| {
            entry.slot().number() != u32::MAX
        });
        assert_eq!(wheel.len(), 1);
        assert!(
            wheel.queue_len() <= 200,
            "{} buckets queued",
            wheel.queue_len()
        );
    }
    wheel.check();
}

/// A wheel with a bucket at each tick from 1 to `buckets`.
fn one_entry_a_tick(buckets: u64) -> HierarchicalWheel {
    let mut wheel = HierarchicalWheel::new(10_000);
    for due in 1..=buckets {
        wheel.insert(entry(due, due as u32));
    }
    wheel
}

/// Sweeps out the entries of `slots`.
fn sweep_out(wheel: &mut HierarchicalWheel, slots: std::ops::Range<u32>) {
    sweep(wheel, usize::MAX, &|entry: Entry| {
        slots.contains(&entry.slot().number())
    });
}

#[test]
fn the_queue_is_cleared_when_leftovers_may_be_half_of_it_and_more_than_a_few() {
    // A few: 64. They are behind the first bucket, which stays.
    let mut wheel = one_entry_a_tick(100);
    sweep_out(&mut wheel, 2..2 + 64);
    assert_eq!((wheel.len(), wheel.queue_len()), (36, 100));
    sweep_out(&mut wheel, 66..67);
    assert_eq!((wheel.len(), wheel.queue_len()), (35, 35));

    // Half of the queue: 300.
    let mut wheel = one_entry_a_tick(600);
    sweep_out(&mut wheel, 2..2 + 300);
    assert_eq!((wheel.len(), wheel.queue_len()), (300, 600));
    sweep_out(&mut wheel, 302..303);
    assert_eq!((wheel.len(), wheel.queue_len()), (299, 299));
    // It counts anew.
    sweep_out(&mut wheel, 303..303 + 149);
    assert_eq!((wheel.len(), wheel.queue_len()), (150, 299));
    wheel.check();
}

#[test]
fn the_queue_gives_memory_back_when_three_quarters_are_unused() {
    let run_down_to = |wheel: &mut HierarchicalWheel, buckets: usize| {
        let mut due = Vec::new();
        while wheel.queue_len() > buckets {
            let work = wheel.next_expiration().unwrap();
            wheel.advance(work, &mut due, &|_| false);
        }
    };
    let mut wheel = one_entry_a_tick(1000);
    let capacity = wheel.queue_capacity();
    run_down_to(&mut wheel, capacity / 4);
    assert_eq!(wheel.queue_capacity(), capacity);
    let left = capacity / 4 - 1;
    run_down_to(&mut wheel, left);
    let shrunk = wheel.queue_capacity();
    assert!((2 * left..3 * left).contains(&shrunk), "room for {shrunk}");

    // Room for a few is not worth it.
    let mut wheel = one_entry_a_tick(64);
    assert_eq!(wheel.queue_capacity(), 64);
    run_down_to(&mut wheel, 1);
    assert_eq!(wheel.queue_capacity(), 64);
}

#[test]
fn the_bytes_of_a_wheel_are_those_of_its_buckets_and_its_queue() {
    let mut wheel = HierarchicalWheel::new(640);
    assert_eq!(wheel.bytes(), 10 * size_of::<usize>(), "groups of buckets");
    wheel.insert(entry(1, 0));
    // All in the group that the first has made, each with a buffer for one.
    for due in 2..64 {
        let (bytes, capacity) = (wheel.bytes(), wheel.queue_capacity());
        wheel.insert(entry(due, 0));
        let queued = (wheel.queue_capacity() - capacity) * size_of::<(Tick, usize)>();
        assert_eq!(wheel.bytes() - bytes, size_of::<Entry>() + queued);
    }
}

#[test]
fn emptied_and_filled_buckets_at_random() {
    for seed in 0..50 {
        let _seed = Seed(seed);
        let mut rng = Rng(seed);
        let mut pair = HierarchicalPair::new(200);
        for _ in 0..20 {
            let now = pair.wheel.now().0;
            for _ in 0..20 {
                let slot = pair.insert(now + 1 + rng.scaled(9));
                if rng.below(8) > 0 {
                    pair.kill(slot);
                }
            }
            pair.sweep_round(64);
            if rng.below(4) == 0 {
                pair.run_to(now + rng.below(20));
            }
        }
        pair.run_out();
    }
}

#[test]
#[should_panic(expected = "less than 2")]
fn a_wheel_of_one_bucket_is_refused() {
    HierarchicalWheel::new(1);
}

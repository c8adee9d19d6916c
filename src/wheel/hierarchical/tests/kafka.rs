//! The worked examples of the literature, and Kafka's own tests, on the hierarchical wheel.

use crate::time::Tick;
use crate::wheel::Wheel;
use crate::wheel::model::HierarchicalPair;

// --- The worked examples of the literature. ---

#[test]
fn one_hour_thirty_minutes_twenty_seconds() {
    let mut pair = HierarchicalPair::new(60);
    let slot = pair.insert(5420);
    assert_eq!(pair.wheel.locate(slot), Some((3, 1)));
    assert_eq!(pair.work(), Some(3600));
    assert_eq!(pair.wheel.locate(slot), Some((2, 30)));
    assert_eq!(pair.work(), Some(5400));
    assert_eq!(pair.wheel.locate(slot), Some((1, 20)));
    assert_eq!(pair.wheel.next_expiration(), Some(Tick(5420)));
    assert_eq!(pair.advance(5420), [slot]);
    assert_eq!(pair.cascaded(), 2);
    assert_eq!(pair.wheel.counters().bucket_visits, 3);
    assert_eq!(pair.levels(), 3);
}

#[test]
fn four_hundred_and_fifty_milliseconds() {
    let mut pair = HierarchicalPair::new(20);
    let s350 = pair.insert(350);
    assert_eq!(pair.wheel.locate(s350), Some((2, 17)));
    assert_eq!(pair.levels(), 2);
    let [s450, s446, s455, s473] = [450, 446, 455, 473].map(|due| pair.insert(due));
    for slot in [s450, s446, s455, s473] {
        assert_eq!(pair.wheel.locate(slot), Some((3, 1)));
    }
    pair.run_to(399);
    assert_eq!(pair.cascaded(), 1, "350, from [340, 360) to level 1");

    assert_eq!(pair.work(), Some(400));
    for slot in [s450, s446, s455] {
        assert_eq!(pair.wheel.locate(slot), Some((2, 2)), "[440, 460)");
    }
    assert_eq!(pair.wheel.locate(s473), Some((2, 3)), "[460, 480)");
    assert_eq!(pair.cascaded(), 1 + 4);

    assert_eq!(pair.work(), Some(440));
    assert_eq!(pair.wheel.locate(s450), Some((1, 10)));
    assert_eq!(pair.cascaded(), 1 + 4 + 3);
    pair.run_to(449);
    assert_eq!(pair.advance(450), [s450]);
    pair.run_out();
    assert_eq!(pair.cascaded(), 1 + 4 + 4);
}

// --- Kafka's tests. ---

#[test]
fn kafka_already_expired_tasks_all_fire() {
    let mut pair = HierarchicalPair::new(20);
    pair.advance(100);
    let expired: Vec<u32> = (0..5).map(|i| pair.insert(96 + i)).collect();
    assert_eq!(pair.advance(101), expired);
}

#[test]
fn kafka_expiration_in_order_of_delay_and_as_often_as_added() {
    let mut pair = HierarchicalPair::new(3);
    let mut delays: Vec<u64> = (0..5)
        .chain(10..100)
        .chain(100..500)
        .chain(10..100)
        .collect();
    for &delay in &delays {
        pair.insert(delay);
    }
    let mut fired = Vec::new();
    while let Some(work) = pair.wheel.next_expiration() {
        let slots = pair.advance(work.0);
        fired.extend(slots.iter().map(|&slot| delays[slot as usize]));
        assert!(
            slots
                .iter()
                .all(|&slot| delays[slot as usize].max(1) == work.0)
        );
    }
    // 0 and 1 share boundary 1; everything else has one of its own.
    fired[..2].sort_unstable();
    delays.sort_unstable();
    assert_eq!(fired, delays);
}

/// Kafka's wheel has a tick of 10 and starts at 1000; here that is a start at tick 100, and times
/// inside a tick are rounded up before they come to the wheel.
#[test]
fn kafka_levels_and_clocks_of_a_wheel_of_five() {
    let mut pair = HierarchicalPair::new(5);
    pair.advance(100);
    let taken = pair.insert(102);
    assert_eq!(pair.wheel.locate(taken), Some((1, 2)));
    let due = pair.insert(100);
    let inside_the_current_tick = pair.insert(101);
    let cancelled = pair.insert(103);
    pair.kill(cancelled);
    pair.sweep_round(10);
    assert_eq!(pair.wheel.locate(cancelled), None);
    assert_eq!(pair.wheel.clocks(), [Tick(100)]);

    assert_eq!(pair.advance(101), [due, inside_the_current_tick]);
    assert_eq!(pair.wheel.clocks(), [Tick(101)]);
    assert_eq!(pair.levels(), 1);
    let overflow = pair.insert(106);
    assert_eq!(pair.levels(), 2);
    assert_eq!(pair.wheel.clocks(), [Tick(101), Tick(100)]);
    let same = pair.insert(107);
    assert_eq!(pair.levels(), 2);
    assert_eq!(pair.wheel.locate(overflow), Some((2, 1)));
    assert_eq!(pair.wheel.locate(same), Some((2, 1)));
    pair.run_to(106);
    assert_eq!(pair.wheel.clocks(), [Tick(106), Tick(105)]);
}

#[test]
fn kafka_moving_entries_between_buckets_does_not_change_the_count() {
    let mut pair = HierarchicalPair::new(3);
    let slots: Vec<u32> = (0..10).map(|i| pair.insert(81 + i)).collect();
    while pair.wheel.next_expiration() < Some(Tick(81)) {
        pair.work();
        assert_eq!(pair.wheel.len(), 10);
    }
    pair.kill(slots[4]);
    assert_eq!(pair.wheel.len(), 10);
    pair.sweep_round(100);
    assert_eq!(pair.wheel.len(), 9);
    pair.run_out();
}

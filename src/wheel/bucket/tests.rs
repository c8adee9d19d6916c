use super::*;
use crate::entry::SlotId;

fn bucket(entries: u32) -> Bucket {
    let mut bucket = Bucket::EMPTY;
    for slot in 0..entries {
        bucket.push(Entry::new(Tick(1), SlotId::from_number(slot)));
    }
    bucket
}

/// Room for `room` entries, of which `entries` are taken; and how many it has room for after a
/// sweep that has met nobody dead.
fn room_after_a_sweep(room: usize, entries: usize) -> usize {
    let mut bucket = Bucket::EMPTY;
    bucket.reserve(room);
    assert_eq!(bucket.bytes(), room * size_of::<Entry>());
    for _ in 0..entries {
        bucket.push(Entry::new(Tick(1), SlotId::from_number(0)));
    }
    assert_eq!(bucket.sweep(&|_| false), 0);
    bucket.bytes() / size_of::<Entry>()
}

#[test]
fn a_sweep_keeps_the_order_and_returns_the_number_removed() {
    let mut bucket = bucket(20);
    let is_dead = |entry: Entry| entry.slot().number() % 3 == 0;
    assert_eq!(bucket.sweep(&is_dead), 7);
    let left = bucket.entries().iter().map(|entry| entry.slot().number());
    assert!(left.eq((0..20).filter(|number| number % 3 != 0)));
}

#[test]
fn a_buffer_gives_memory_back_when_three_quarters_are_unused() {
    assert_eq!(room_after_a_sweep(400, 100), 400);
    assert_eq!(room_after_a_sweep(400, 99), 198);
    assert_eq!(room_after_a_sweep(KEPT_BUCKET + 1, 1), 2);
    assert_eq!(
        room_after_a_sweep(KEPT_BUCKET, 1),
        KEPT_BUCKET,
        "not worth it"
    );
}

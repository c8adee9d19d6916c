use super::*;
use crate::entry::SlotId;

fn bucket(entries: u32) -> Bucket {
    let mut bucket = Bucket::EMPTY;
    for slot in 0..entries {
        bucket.push(Entry::new(Tick(1), 0, SlotId::from_number(slot), 0));
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
        bucket.push(Entry::new(Tick(1), 0, SlotId::from_number(0), 0));
    }
    bucket.finish_sweep(&mut Progress::default());
    bucket.bytes() / size_of::<Entry>()
}

#[test]
fn a_gap_is_closed_when_it_is_more_than_half_of_the_bucket() {
    let mut bucket = bucket(20);
    let mut progress = Progress::default();
    // Two alive, then a gap that grows.
    let is_dead = |entry: Entry| entry.slot().number() >= 2;
    bucket.sweep(&mut progress, 12, &is_dead);
    assert_eq!((bucket.len(), progress.kept, progress.seen), (20, 2, 12));
    bucket.sweep(&mut progress, 1, &is_dead);
    assert_eq!((bucket.len(), progress.kept, progress.seen), (9, 2, 2));
    let alive = bucket.alive(progress);
    assert!(
        alive
            .iter()
            .map(|entry| entry.slot().number())
            .eq([0, 1].into_iter().chain(13..20))
    );
}

#[test]
fn a_sweep_says_whether_it_has_removed_anything() {
    let mut bucket = bucket(3);
    let mut progress = Progress::default();
    bucket.sweep(&mut progress, 2, &|_| false);
    bucket.sweep(&mut progress, 2, &|_| false);
    assert!(!bucket.finish_sweep(&mut progress));
    bucket.sweep(&mut progress, 1, &|_| true);
    bucket.sweep(&mut progress, 2, &|_| false);
    assert!(bucket.finish_sweep(&mut progress));
}

#[test]
fn a_buffer_gives_memory_back_when_three_quarters_are_unused() {
    assert_eq!(room_after_a_sweep(400, 100), 400);
    assert_eq!(room_after_a_sweep(400, 99), 198);
    assert_eq!(room_after_a_sweep(SMALL + 1, 1), 2);
    assert_eq!(room_after_a_sweep(SMALL, 1), SMALL, "not worth it");
}

use super::*;
use std::thread;

type Cells = Table<AtomicU64, 512>;

#[test]
fn every_index_has_its_own_place_and_blocks_follow_each_other() {
    let mut expected = (0, 0);
    for index in 0..100_000 {
        let (block, place) = locate::<256>(index);
        assert_eq!((block, place - (256 << block)), expected);
        expected.1 += 1;
        if expected.1 == 256 << expected.0 {
            expected = (expected.0 + 1, 0);
        }
    }
    let (block, place) = locate::<64>(u32::MAX);
    assert!(block < BLOCKS && (place.wrapping_sub(64 << block) as u64) < 64 << block);
}

#[test]
fn values_are_zero_at_first_and_keep_their_address() {
    let table = Cells::new();
    assert!(table.get(0).is_none());
    let first: *const AtomicU64 = table.get_or_grow(7);
    for index in [0, 511, 512, 5000, 100_000] {
        let value = table.get_or_grow(index);
        assert_eq!(value.swap(u64::from(index) + 1, Ordering::Relaxed), 0);
    }
    assert!(ptr::eq(first, table.get(7).unwrap()));
    assert_eq!(table.get(5000).unwrap().load(Ordering::Relaxed), 5001);
    assert!(table.get(1 << 30).is_none());
    let set = |(_, cell): &(u32, &AtomicU64)| cell.load(Ordering::Relaxed) != 0;
    let indices: Vec<_> = table
        .iter(0..6000)
        .filter(set)
        .map(|(index, _)| index)
        .collect();
    assert_eq!(indices, [0, 511, 512, 5000]);
}

#[test]
fn threads_that_grow_it_at_once_get_the_same_block() {
    for _ in 0..if cfg!(miri) { 5 } else { 200 } {
        let table = Cells::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| table.get_or_grow(900).fetch_add(1, Ordering::Relaxed));
            }
        });
        assert_eq!(table.get(900).unwrap().load(Ordering::Relaxed), 3);
    }
}

#[test]
fn discarded_pages_read_as_zeroes_and_the_others_stay() {
    let table = Cells::new();
    for index in 0..3 * 512 {
        table.get_or_grow(index).store(7, Ordering::Relaxed);
    }
    // Indices 512 to 1535 are the second block, two pages.
    // SAFETY: nobody else uses the table.
    let discarded = unsafe { table.discard(1024..1536) };
    assert_eq!(discarded, cfg!(all(target_os = "linux", not(miri))));
    let expected = if discarded { 0 } else { 7 };
    for (index, cell) in table.iter(0..3 * 512) {
        let value = cell.load(Ordering::Relaxed);
        assert_eq!(value, if index < 1024 { 7 } else { expected }, "{index}");
    }
}

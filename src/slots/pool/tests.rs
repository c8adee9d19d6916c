use super::*;
use crate::entry::Entry;
use crate::slots::{Handle, Kind, ReleaseResult, Slot, SlotCache, StoredTask, Vacant};
use crate::time::Tick;
use std::collections::HashSet;

fn id(number: u32) -> SlotId {
    SlotId::from_number(number)
}

/// Arms a slot that was claimed, cancels it and frees it. Returns the entry.
fn use_once(slots: &Slots<()>, pool: &SlotPool, number: u32) -> Entry {
    // SAFETY: the test has claimed it.
    let vacant = unsafe { Vacant::new(id(number)) };
    let slot = slots.get(id(number));
    let entry = slot.arm(vacant, StoredTask::once(|()| {}), Kind::Once, Tick(1), 0);
    if entry.seq() == 0 {
        pool.note_epoch(id(number), entry.epoch());
    }
    assert!(!slot.is_dead(entry));
    assert!(slot.cancel(|| ()));
    assert_eq!(slot.release_here(Handle::User), ReleaseResult::Abandoned);
    slot.free_here();
    entry
}

fn discard_all(pool: &SlotPool, slots: &Slots<()>) {
    let mut at = Some(0);
    while let Some(group) = at {
        at = pool.discard_free(slots, group);
    }
}

const DISCARDS: bool = cfg!(all(target_os = "linux", not(miri)));

#[test]
fn a_cache_takes_the_lowest_and_reuses_what_came_back_last() {
    let (pool, slots, cache) = (SlotPool::new(), Slots::<()>::new(), SlotCache::new());
    let take = || cache.take(&pool, &slots).slot().number();
    assert_eq!([take(), take(), take()], [0, 1, 2]);
    cache.put(id(1), &pool);
    cache.put(id(0), &pool);
    assert_eq!([take(), take(), take()], [0, 1, 3]);
    assert_eq!(pool.held(), 64);
}

#[test]
fn what_a_full_cache_gives_up_is_taken_by_another() {
    let (pool, slots) = (SlotPool::new(), Slots::<()>::new());
    let (frees, takes) = (SlotCache::new(), SlotCache::new());
    let numbers: Vec<u32> = (0..192)
        .map(|_| takes.take(&pool, &slots).slot().number())
        .collect();
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 192);
    for number in &numbers {
        frees.put(id(*number), &pool);
    }
    assert_eq!(
        frees.len(),
        128,
        "the older half of 128 went back when it was full"
    );
    let again: HashSet<u32> = (0..64)
        .map(|_| takes.take(&pool, &slots).slot().number())
        .collect();
    assert!(
        again.iter().all(|number| numbers.contains(number)),
        "no new slots"
    );
    frees.release_all(&pool);
    takes.release_all(&pool);
    assert_eq!(pool.held(), 192);
}

#[test]
fn free_pages_go_back_and_old_entries_stay_dead_however_often() {
    let (pool, slots) = (SlotPool::new(), Slots::<()>::new());
    let mut old: Vec<Entry> = Vec::new();
    for round in 0..50 {
        let cache = SlotCache::new();
        let numbers: Vec<u32> = (0..1000)
            .map(|_| cache.take(&pool, &slots).slot().number())
            .collect();
        for entry in &old {
            assert!(
                slots.get(entry.slot()).is_dead(*entry),
                "an entry of round {round} came alive"
            );
        }
        // Armed, so that an old entry could be taken for the new one.
        for &number in &numbers {
            let entry = use_once(&slots, &pool, number);
            assert!(!old.contains(&entry), "{entry:?} was given out twice");
            if number % 97 == 0 {
                old.push(entry);
            }
            cache.put(id(number), &pool);
        }
        cache.release_all(&pool);
        discard_all(&pool, &slots);
        assert_eq!(pool.held(), if DISCARDS { 0 } else { 1024 });
    }
}

#[test]
fn epochs_go_on_where_a_slot_has_gone_round_before_its_page_was_discarded() {
    let (pool, slots, cache) = (SlotPool::new(), Slots::<()>::new(), SlotCache::new());
    let mut last = None;
    for _ in 0..3 {
        let number = cache.take(&pool, &slots).slot().number();
        assert_eq!(number, 0);
        for _ in 0..20_000 {
            let entry = use_once(&slots, &pool, number);
            let now = (entry.epoch(), entry.seq());
            assert!(last < Some(now), "{now:?} after {last:?}");
            last = Some(now);
        }
        cache.put(id(number), &pool);
        cache.release_all(&pool);
        discard_all(&pool, &slots);
    }
}

#[test]
fn a_page_with_one_slot_in_use_stays() {
    let (pool, slots, cache) = (SlotPool::new(), Slots::<()>::new(), SlotCache::new());
    let numbers: Vec<u32> = (0..640)
        .map(|_| cache.take(&pool, &slots).slot().number())
        .collect();
    for &number in &numbers {
        use_once(&slots, &pool, number);
        if number % 128 != 70 {
            cache.put(id(number), &pool);
        }
    }
    cache.release_all(&pool);
    let seq = |number: u32| {
        // SAFETY: numbers that end in 70 modulo 128 are this test's.
        let vacant = unsafe { Vacant::new(id(number)) };
        slots
            .get(id(number))
            .arm(vacant, StoredTask::once(|()| {}), Kind::Once, Tick(1), 0)
            .seq()
    };
    discard_all(&pool, &slots);
    assert_eq!(pool.held(), if DISCARDS { 5 * 64 } else { 640 });
    assert_eq!(seq(70), 2, "it goes on");
    assert!(slots.get(id(70)).cancel(|| ()));
    let claimed = (0..pool.used_groups()).flat_map(|group| pool.claimed(group, &slots));
    assert!(
        claimed
            .map(|(id, _): (SlotId, &Slot<()>)| id.number())
            .eq([70, 198, 326, 454, 582])
    );
}

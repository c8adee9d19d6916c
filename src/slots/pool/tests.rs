use super::*;
use crate::entry::{Entry, Lane};
use crate::slots::{
    Arming, Handle, Kind, Label, Place, ReleaseResult, Slot, SlotCache, StoredTask, Vacant,
};
use crate::time::Tick;
use std::collections::HashSet;

fn id(number: u32) -> SlotId {
    SlotId::from_number(number)
}

/// Arms a slot that was claimed, and due at `due`.
fn arm(slots: &Slots<()>, number: u32, due: u64) -> Place {
    // SAFETY: the test has claimed it.
    let vacant = unsafe { Vacant::new(id(number)) };
    let arming = Arming {
        kind: Kind::Once,
        label: Label::NONE,
        stamp: 1,
        due: Tick(due),
        lane: Lane::Soon,
        early: 0,
    };
    let task = StoredTask::once(|()| {});
    slots.get(id(number)).arm(vacant, task, arming)
}

/// Cancels the timeout of a slot and frees it.
fn end(slot: &Slot<()>) {
    assert!(slot.cancel(|| ()));
    assert_eq!(slot.release_here(Handle::User), ReleaseResult::Abandoned);
    slot.free_here();
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

/// What a slot says of queue and wheel goes with its page: what they have of it is dead then, and it is pushed again.
#[test]
fn free_pages_go_back_and_old_entries_are_dead_however_often() {
    let (pool, slots) = (SlotPool::new(), Slots::<()>::new());
    for _ in 0..50 {
        let cache = SlotCache::new();
        let numbers: Vec<u32> = (0..1000)
            .map(|_| cache.take(&pool, &slots).slot().number())
            .collect();
        for &number in &numbers {
            let slot = slots.get(id(number));
            assert_eq!(arm(&slots, number, 9), Place::Nowhere);
            assert!(slots.file(id(number), Tick(1)).is_some());
            assert!(!slots.is_dead(Entry::new(Tick(9), id(number)), Tick(1)));
            end(slot);
            cache.put(id(number), &pool);
        }
        cache.release_all(&pool);
        discard_all(&pool, &slots);
        assert_eq!(pool.held(), if DISCARDS { 0 } else { 1024 });
        for &number in &numbers {
            let mut old = [Entry::new(Tick(9), id(number))];
            let counting = slots.clear_filed(&mut old, &[]);
            assert_eq!(counting, usize::from(!DISCARDS));
            slots.clear_queued(&[id(number)], Lane::Soon);
        }
    }
}

#[test]
fn a_page_with_one_slot_in_use_stays() {
    let (pool, slots, cache) = (SlotPool::new(), Slots::<()>::new(), SlotCache::new());
    let numbers: Vec<u32> = (0..640)
        .map(|_| cache.take(&pool, &slots).slot().number())
        .collect();
    for &number in &numbers {
        let _ = arm(&slots, number, 9);
        end(slots.get(id(number)));
        if number % 128 != 70 {
            cache.put(id(number), &pool);
        }
    }
    cache.release_all(&pool);
    discard_all(&pool, &slots);
    assert_eq!(pool.held(), if DISCARDS { 5 * 64 } else { 640 });
    assert_eq!(arm(&slots, 70, 9), Place::Queued, "it waits as before");
    end(slots.get(id(70)));
    let claimed = (0..pool.used_groups()).flat_map(|group| pool.claimed(group, &slots));
    assert!(
        claimed
            .map(|(id, _): (SlotId, &Slot<()>)| id.number())
            .eq([70, 198, 326, 454, 582])
    );
}

#[test]
fn a_batch_for_which_the_depot_has_no_room_is_released() {
    let (pool, slots) = (SlotPool::new(), Slots::<()>::new());
    let (frees, takes) = (SlotCache::new(), SlotCache::new());
    let claimed = |pool: &SlotPool| -> u32 {
        let words = 0..pool.used_groups();
        words
            .map(|group| pool.free.claimed(group).count_ones())
            .sum()
    };
    let ids: Vec<SlotId> = (0..4096)
        .map(|_| takes.take(&pool, &slots).slot())
        .collect();
    for id in &ids {
        frees.put(*id, &pool);
    }
    assert_eq!(claimed(&pool), 128 + 32 * 64, "in the cache and the depot");
    let again: HashSet<u32> = (0..4096 - 128)
        .map(|_| takes.take(&pool, &slots).slot().number())
        .collect();
    assert_eq!(again.len(), 4096 - 128, "each once");
    assert_eq!(pool.held(), 4096, "no new slots");
}

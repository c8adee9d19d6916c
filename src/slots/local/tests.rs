//! Where free slots go, and what becomes of a thread's counters.

use super::*;
use crate::slots::Handle;
use crate::slots::ReleaseResult;
use crate::slots::StoredTask;
use crate::time::Tick;
use std::collections::HashSet;
use std::thread;

const CHAIN_LEN: usize = CHAIN as usize;

/// The slots of one timer, and the rest of it left out.
struct Bench {
    slab: Slab<()>,
    depot: Arc<Depot>,
}

impl Bench {
    fn new() -> Bench {
        // Timers count from 1.
        static NEXT: AtomicU64 = AtomicU64::new(1 << 60);
        Bench {
            slab: Slab::new(),
            depot: Depot::new(NEXT.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn take(&self) -> u32 {
        with_cache(&self.depot, |cache| cache.take(&self.slab).slot())
    }

    fn take_many(&self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.take()).collect()
    }

    /// Gives a slot back, after it was used.
    fn put(&self, number: u32) {
        // SAFETY: it came from this slab, and the caller has taken it.
        let (slot, vacant) = unsafe { (self.slab.slot(number), Vacant::new(number)) };
        slot.arm(vacant, StoredTask::once(|()| {}), Tick(1), 0, false);
        assert!(slot.cancel(|| ()));
        assert_eq!(slot.release_here(Handle::User), ReleaseResult::Abandoned);
        // SAFETY: it was found abandoned, and the bench keeps it.
        with_cache(&self.depot, |cache| unsafe { cache.put(number, slot) });
        assert!(slot.is_free());
    }

    fn in_depot(&self) -> Vec<u32> {
        (self.depot.chains.lock().iter())
            .map(|chain| chain.len)
            .collect()
    }
}

#[test]
fn a_slot_is_used_again_while_it_is_warm() {
    let bench = Bench::new();
    let slots = bench.take_many(3);
    assert_eq!(slots, [0, 1, 2]);
    bench.put(1);
    bench.put(0);
    bench.put(2);
    assert_eq!(bench.take_many(4), [2, 0, 1, 3]);
}

#[test]
fn every_slot_is_given_out_once() {
    let bench = Bench::new();
    let slots = bench.take_many(5 * CHAIN_LEN);
    assert_eq!(slots.iter().collect::<HashSet<_>>().len(), slots.len());
    assert_eq!(bench.slab.used(), 5 * CHAIN);
}

#[test]
fn a_cache_keeps_two_chains_and_gives_whole_ones_away() {
    let bench = Bench::new();
    let slots = bench.take_many(4 * CHAIN_LEN + 1);
    let (last, slots) = slots.split_last().unwrap();
    for (given, part) in slots.chunks(CHAIN_LEN).enumerate() {
        // A chain begins where the cache has 63 of the fifth left, so each part fills one up.
        for slot in part {
            bench.put(*slot);
        }
        assert_eq!(bench.in_depot(), vec![CHAIN; given]);
    }
    // Now there are five full ones, two of them in the cache.
    bench.put(*last);
    assert_eq!(bench.in_depot(), [CHAIN; 3]);

    let again = bench.take_many(5 * CHAIN_LEN);
    assert_eq!(again.iter().collect::<HashSet<_>>().len(), again.len());
    assert_eq!(bench.slab.used(), 5 * CHAIN, "all of them were used again");
}

#[test]
fn what_one_thread_frees_another_uses() {
    let bench = Bench::new();
    for _ in 0..3 {
        let slots = bench.take_many(10 * CHAIN_LEN);
        thread::scope(|scope| {
            let other = scope.spawn(|| slots.into_iter().for_each(|slot| bench.put(slot)));
            // Until the thread is gone, with what it kept; the scope itself would not wait for that.
            other.join().unwrap();
        });
        assert_eq!(bench.slab.used(), 10 * CHAIN);
    }
}

#[test]
fn a_thread_that_ends_leaves_its_slots_and_its_counts() {
    let bench = Bench::new();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let slot = bench.take();
            bench.put(slot);
            with_cache(&bench.depot, |cache| {
                cache.counters().scheduled.add(7);
                cache.counters().cancelled.add(2);
                cache.counters().expired.add(4);
                cache.counters().scheduled.take_back(1);
            });
            assert_eq!(bench.depot.ledger.lock().threads.len(), 1);
        });
        other.join().unwrap();
    });
    assert!(bench.depot.ledger.lock().threads.is_empty());
    assert_eq!(bench.in_depot(), [CHAIN]);
    let sums = bench.depot.sums();
    assert_eq!((sums.scheduled, sums.cancelled, sums.expired), (6, 2, 4));
    // Those of the living are added to them.
    with_cache(&bench.depot, |cache| cache.counters().scheduled.add(10));
    assert_eq!(bench.depot.sums().scheduled, 16);
}

#[test]
fn what_has_ended_has_also_begun() {
    let bench = Bench::new();
    with_cache(&bench.depot, |cache| {
        cache.counters().cancelled.add(3);
        cache.counters().expired.add(2);
    });
    assert_eq!(bench.depot.sums().scheduled, 5);
}

#[test]
fn the_caches_of_several_timers_keep_apart() {
    let benches = [Bench::new(), Bench::new(), Bench::new()];
    for round in 0..10 {
        for bench in &benches {
            assert_eq!(bench.take(), round);
            with_cache(&bench.depot, |cache| cache.counters().scheduled.add(1));
        }
    }
    for bench in &benches {
        assert_eq!(bench.depot.sums().scheduled, 10);
        assert_eq!(bench.depot.ledger.lock().threads.len(), 1);
    }
}

#[test]
fn the_cache_of_a_timer_that_is_gone_goes_when_the_next_is_made() {
    let (gone, there) = (Bench::new(), Bench::new());
    gone.take();
    there.take();
    assert_eq!(Arc::strong_count(&gone.depot), 2);
    gone.depot.close();
    Bench::new().take();
    assert_eq!(Arc::strong_count(&gone.depot), 1);
    assert_eq!(Arc::strong_count(&there.depot), 2);
    // It was the one used last, and is thrown away: it must not be found again.
    let next = Bench::new();
    next.take();
    next.depot.close();
    Bench::new().take();
    assert_eq!(Arc::strong_count(&next.depot), 1);
    assert_eq!(there.take(), 1);
}

#[test]
fn a_thread_keeps_its_number() {
    let here = thread_number();
    assert_eq!(thread_number(), here);
    let there = thread::spawn(|| [thread_number(), thread_number()]);
    let there = there.join().unwrap();
    assert_eq!(there[0], there[1]);
    assert_ne!(there[0], here);
}

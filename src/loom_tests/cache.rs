//! Slots that one thread frees and another arms, through the caches and the depot. A chain has two
//! slots here.

use super::{Probe, arm_number, explore};
use crate::slots::Handle;
use crate::slots::ReleaseResult;
use crate::slots::Slab;
use crate::slots::local::{self, Depot};
use loom::thread;
use std::sync::Arc;

/// Takes a slot, arms it, cancels the timeout and frees the slot: a timeout's whole life, on one
/// thread. The number of the slot.
fn live(slab: &Slab<()>, depot: &Arc<Depot>, probe: &Probe) -> u32 {
    let vacant = local::with_cache(depot, |cache| cache.take(slab));
    let number = vacant.slot();
    // SAFETY: the number came from this slab.
    let slot = unsafe { slab.slot(number) };
    assert!(slot.is_free());
    arm_number(slot, number, probe.task(), 1);
    assert!(slot.cancel(|| ()));
    assert_eq!(slot.release_here(Handle::User), ReleaseResult::Abandoned);
    // SAFETY: it was found abandoned, and the caller keeps the slab.
    local::with_cache(depot, |cache| unsafe { cache.put(number, slot) });
    number
}

#[test]
fn a_slot_freed_by_one_thread_is_armed_by_another_without_a_race() {
    let ends = ["a used slot", "a new slot"];
    explore(ends, || {
        let (slab, depot) = (Arc::new(Slab::new()), Depot::new(1));
        let probes = [Probe::default(), Probe::default()];
        // Its slot comes to the depot when the thread ends, which it may still do after the join.
        let other = thread::spawn({
            let (slab, depot, probe) = (Arc::clone(&slab), Arc::clone(&depot), probes[1].clone());
            move || live(&slab, &depot, &probe)
        });
        let mine = live(&slab, &depot, &probes[0]);
        let others = other.join().unwrap();
        assert!(probes.iter().all(Probe::is_gone));
        assert_eq!(slab.used(), if mine == others { 2 } else { 4 });
        if mine == others {
            "a used slot"
        } else {
            "a new slot"
        }
    });
}

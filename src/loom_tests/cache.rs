//! Things that change hands between threads, in a timer on a manual clock: slots through the caches and the pool, and a
//! thread's number with its shard. A group has two slots here.

use super::{Probe, TICK, builder, check_figures, explore, unexplored};
use crate::{HashedWheelTimer, ManualClock, Timeout, TimerHandle};
use loom::thread;
use std::time::Duration;

/// A timer that has started, and its clock.
fn timer() -> (HashedWheelTimer, ManualClock) {
    unexplored(|| {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        timer.start().unwrap();
        (timer, clock)
    })
}

fn schedule(timer: &TimerHandle, probe: &Probe, delay: Duration) -> Timeout {
    let held = probe.hold();
    timer.new_timeout(move |_| held(), delay).unwrap()
}

/// A timeout's whole life on one thread: its slot is taken, armed, freed and put back. The number of the slot.
fn live(timer: &TimerHandle, probe: &Probe) -> u32 {
    // Never due, so that nothing goes through the queue.
    let timeout = schedule(timer, probe, Duration::MAX);
    assert!(timeout.cancel());
    timeout.slot_number()
}

#[test]
fn a_slot_freed_by_one_thread_is_armed_by_another_without_a_race() {
    explore(["a used slot", "a new slot"], || {
        let (timer, _clock) = timer();
        let probes = [Probe::default(), Probe::default()];
        // Its slots come to the pool when the thread ends, which it may still do after the join.
        let other = thread::spawn({
            let (timer, probe) = (timer.handle(), probes[1].clone());
            move || live(&timer, &probe)
        });
        let mine = live(&timer.handle(), &probes[0]);
        let others = other.join().unwrap();
        assert!(probes.iter().all(Probe::is_gone));
        let groups = timer.handle().shared().used_slots();
        assert_eq!(groups, if mine == others { 1 } else { 2 });
        if mine == others {
            "a used slot"
        } else {
            "a new slot"
        }
    });
}

#[test]
fn the_shard_of_a_thread_that_ends_is_adopted_with_all_that_is_in_it() {
    explore(["adopted", "a shard of its own"], || {
        let (timer, clock) = timer();
        let probes = [Probe::default(), Probe::default()];
        let threads = [0, 1].map(|thread: usize| {
            let (timer, probe) = (timer.handle(), probes[thread].clone());
            thread::spawn(move || {
                drop(schedule(&timer, &probe, TICK));
                timer.shared().thread_number()
            })
        });
        let numbers = threads.map(|thread| thread.join().unwrap());
        clock.advance(TICK);
        assert_eq!(probes.each_ref().map(Probe::runs), [1, 1]);
        assert!(probes.iter().all(Probe::is_gone));
        assert_eq!(check_figures(&timer.handle()).expired, 2);
        if numbers[0] == numbers[1] {
            "adopted"
        } else {
            "a shard of its own"
        }
    });
}

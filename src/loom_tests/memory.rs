//! Giving a timer's memory back, when its owner and the last handle go at the same time; and the set of free
//! indices.

use super::Slot;
use super::{Probe, arm, builder, explore, free_slot, unexplored};
use crate::ManualClock;
use crate::entry::SlotId;
use crate::memory::FreeSet;
use crate::shared::{Lifecycle, StartDecision, StopDecision};
use crate::slots::Handle;
use crate::slots::{Depot, ReleaseResult, StopOutcome};
use crate::sync::{Mutex, UnsafeCell};
use loom::thread;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A timer's memory, with one slot. It follows `Timeout::drop`, `Shared::free` and `retired` step by
/// step, because a model cannot see what is wrong with memory that is really gone: here it only
/// counts as gone, and whoever touches it after or without the freeing thread's knowledge is caught.
struct Memory {
    /// Read by a touch, written when the memory goes.
    there: UnsafeCell<bool>,
    slot: Slot,
    lifecycle: Lifecycle,
    /// The memory is retired. In production this does not lie in the memory itself.
    retired: Mutex<bool>,
}

// SAFETY: loom checks the one field that is not.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn touch(&self) -> &Memory {
        // SAFETY: loom checks that no write is going on.
        self.there.with(|there| assert!(unsafe { *there }));
        self
    }

    fn give_back(&self) {
        // SAFETY: loom checks that nobody else reads or writes.
        self.there
            .with_mut(|there| assert!(unsafe { there.replace(false) }, "gone twice"));
    }

    /// As a handle's drop. Returns `true` if it gave the memory back.
    fn drop_handle(&self, handle: Handle) -> bool {
        if self.touch().slot.release_here(handle) == ReleaseResult::InUse {
            return false;
        }
        let stopped = self.touch().lifecycle.is_shutdown();
        self.touch().slot.free_here();
        stopped && self.look()
    }

    /// As `retired::look`.
    fn look(&self) -> bool {
        let mut retired = self.retired.lock();
        let free = *retired && self.slot.is_free();
        if free {
            *retired = false;
            drop(retired);
            self.give_back();
        }
        free
    }

    /// As `retired::release`, by the last keeper.
    fn release(&self) -> bool {
        *self.retired.lock() = true;
        self.look()
    }
}

#[test]
fn the_last_handle_of_a_closed_timer_frees_its_memory_once_and_last() {
    let ends = [
        "freed by its owner",
        "freed by the handle",
        "left to the next look",
    ];
    explore(ends, || {
        let memory = Arc::new(Memory {
            there: UnsafeCell::new(true),
            slot: free_slot(),
            lifecycle: Lifecycle::default(),
            retired: Mutex::new(false),
        });
        assert_eq!(memory.lifecycle.begin_start(), StartDecision::Starting);
        memory.lifecycle.started(0);
        let probe = Probe::default();
        arm(&memory.slot, probe.task(), 1);
        let user = thread::spawn({
            let memory = Arc::clone(&memory);
            move || {
                memory.touch().slot.cancel(|| ());
                memory.drop_handle(Handle::User)
            }
        });

        // The owner's drop: stop, the scan, the returned handle, and then its own share.
        assert_eq!(
            memory.touch().lifecycle.request_stop(false),
            StopDecision::Running
        );
        if memory.touch().slot.stop() == StopOutcome::Returned {
            drop(memory.touch().slot.take_stopped());
            assert!(!memory.drop_handle(Handle::Returned), "the owner is there");
        }
        let by_owner = memory.release();
        let by_handle = user.join().unwrap();

        assert!(probe.is_gone());
        match (by_owner, by_handle) {
            (true, false) => "freed by its owner",
            (false, true) => "freed by the handle",
            (false, false) => {
                // The handle looked at the state before the stop.
                assert!(memory.look());
                "left to the next look"
            }
            (true, true) => panic!("freed twice"),
        }
    });
}

#[test]
fn the_memory_of_a_real_timer_goes_with_its_owner_or_its_last_handle() {
    let ends = ["gone with the two", "left to the next timer"];
    explore(ends, move || {
        let clock = ManualClock::new();
        let timer = builder().clock(&clock).build().unwrap();
        let timeout = timer.new_timeout(|_| (), Duration::MAX).unwrap();
        let memory = Arc::downgrade(timer.handle().shared());
        let user = thread::spawn(move || {
            timeout.cancel();
            drop(timeout);
        });
        drop(timer);
        user.join().unwrap();
        let end = if memory.strong_count() == 0 {
            ends[0]
        } else {
            ends[1]
        };
        drop(builder().clock(&clock).build().unwrap());
        assert_eq!(memory.strong_count(), 0);
        end
    });
}

/// A set of which only these bits of word 0 are free, and with `words` words below a full one.
fn nearly_full(words: u32, free: u64) -> Arc<FreeSet> {
    unexplored(|| {
        let set = FreeSet::new();
        for _ in 1..words {
            let (word, bits) = set.claim_word();
            assert_eq!(bits, u64::MAX, "{word}");
        }
        set.claim_bits(words - 1, !free);
        Arc::new(set)
    })
}

/// One thread takes the last free index of a word, another releases one: what is free at the end must be found.
fn fill_and_release(words: u32, release: u32) -> &'static str {
    let last = (words - 1) * 64;
    let set = nearly_full(words, 1 << 5);
    let releases = thread::spawn({
        let set = Arc::clone(&set);
        move || set.release_one(release)
    });
    let claimed = set.claim_one(words - 1);
    releases.join().unwrap();
    let free = if claimed == release {
        last + 5
    } else {
        release
    };
    assert!(claimed == last + 5 || claimed == release);
    assert_eq!(set.claim_word(), (free / 64, 1 << (free % 64)), "hidden");
    if claimed == release {
        "the released one"
    } else {
        "the last one"
    }
}

#[test]
fn an_index_that_is_released_while_its_word_is_marked_as_full_is_found() {
    let ends = ["the released one", "the last one"];
    explore(ends, || fill_and_release(1, 2));
}

#[test]
fn an_index_that_is_released_while_the_word_above_is_marked_as_full_is_found() {
    explore(["the last one"], || fill_and_release(64, 7));
}

#[test]
fn two_that_claim_a_word_and_one_that_releases_leave_nothing_hidden() {
    explore(["none was left", "one was left"], || {
        let set = nearly_full(1, 1 << 5);
        let releases = thread::spawn({
            let set = Arc::clone(&set);
            move || set.release(0, 1 << 7)
        });
        let other = thread::spawn({
            let set = Arc::clone(&set);
            move || set.claim_bits(0, 1 << 5 | 1 << 7)
        });
        let mine = set.claim_bits(0, 1 << 5);
        releases.join().unwrap();
        let others = other.join().unwrap();
        assert_eq!(mine & others, 0, "claimed twice");
        let left = (1 << 5 | 1 << 7) & !(mine | others);
        let (word, bits) = set.claim_word();
        if left == 0 {
            assert_eq!((word, bits), (1, u64::MAX));
            "none was left"
        } else {
            assert_eq!((word, bits), (0, left), "hidden");
            "one was left"
        }
    });
}

/// As `SlotPool::discard_free` against `SlotPool::claim` and `release`: what is discarded is in nobody else's hands.
#[test]
fn a_group_of_slots_is_discarded_only_while_nobody_has_one_of_them() {
    struct Group {
        free: FreeSet,
        cells: [UnsafeCell<u64>; 2],
    }
    // SAFETY: loom checks the cells.
    unsafe impl Sync for Group {}
    // SAFETY: as above.
    unsafe impl Send for Group {}

    impl Group {
        fn set(&self, index: u32, value: u64) -> u64 {
            // SAFETY: loom checks that nobody else reads or writes.
            self.cells[index as usize].with_mut(|cell| unsafe { cell.replace(value) })
        }
    }

    let ends = ["discarded", "one was in use"];
    explore(ends, move || {
        let group = unexplored(|| {
            Arc::new(Group {
                free: FreeSet::new(),
                cells: [0, 0].map(UnsafeCell::new),
            })
        });
        let owner = thread::spawn({
            let group = Arc::clone(&group);
            // One at a time, the second when the first is free again.
            move || {
                for value in [7, 8] {
                    let index = group.free.claim_one(0);
                    if index >= 64 {
                        // Of the next word: all of this one are being discarded.
                        group.free.release_one(index);
                        continue;
                    }
                    group.set(index, value);
                    assert_eq!(group.set(index, 0), value, "discarded while in use");
                    group.free.release_one(index);
                }
            }
        });
        let all = group.free.claim_all(0, u64::MAX);
        if all {
            for index in [0, 1] {
                group.set(index, 0);
            }
            group.free.release(0, u64::MAX);
        }
        owner.join().unwrap();
        assert_eq!(group.free.claim_word(), (0, u64::MAX), "hidden");
        ends[usize::from(!all)]
    });
}

/// Two threads put batches into the depot, which has one place here, and take batches out.
#[test]
fn a_batch_in_the_depot_is_handed_out_once_and_whole() {
    fn take(depot: &Depot) -> Vec<u32> {
        let batch = [const { Cell::new(SlotId::from_number(0)) }; 2];
        let found = depot.take(&batch);
        let ids = batch.map(|id| id.get().number());
        if found { ids.to_vec() } else { Vec::new() }
    }
    fn exchange(depot: &Depot, mine: u32) -> Vec<u32> {
        let mut taken = take(depot);
        let batch = [mine, mine + 1].map(SlotId::from_number).map(Cell::new);
        if !depot.put(&batch) {
            taken.extend([mine, mine + 1]);
        }
        taken
    }

    explore([false, true], || {
        let depot = unexplored(|| {
            let depot = Arc::new(Depot::new());
            assert_eq!(exchange(&depot, 0), []);
            depot
        });
        let other = thread::spawn({
            let depot = Arc::clone(&depot);
            move || exchange(&depot, 2)
        });
        let mut taken = exchange(&depot, 4);
        let others = other.join().unwrap();
        let is_shared = !taken.is_empty() && !others.is_empty();
        taken.extend(others);
        taken.extend(take(&depot));
        assert!(
            taken
                .chunks(2)
                .all(|batch| batch[0].abs_diff(batch[1]) == 1),
            "torn: {taken:?}"
        );
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5]);
        is_shared
    });
}

//! The pending queue: an owner pushes, trims and promotes while the timer thread takes. A chunk has two cells here, and
//! an owner that has two entries waiting samples them.

use super::{Probe, Slot, arm_number, explore, explore_within, free_slot, unexplored};
use crate::entry::{Entry, Liveness, SlotId};
use crate::queue::{EntrySink, InsertOutcome, PendingQueue, Reader, Take, way};
use crate::shared::{Lifecycle, StartDecision, StopDecision};
use crate::slots::StopOutcome;
use crate::sync::{AtomicU8, Ordering};
use crate::time::Tick;
use loom::thread;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

/// A queue, the numbers of the entries that are dead, and when each is due. These are no part of the model.
pub(super) struct Queue {
    pub(super) queue: PendingQueue,
    dead: Mutex<HashSet<u32>>,
    due: Mutex<HashMap<u32, Tick>>,
}

impl Queue {
    pub(super) fn new() -> Arc<Queue> {
        Arc::new(Queue {
            queue: PendingQueue::new(),
            dead: Mutex::default(),
            due: Mutex::default(),
        })
    }

    /// Pushes entries that are due at 9 to shard 0.
    fn push(&self, numbers: impl IntoIterator<Item = u32>) {
        for number in numbers {
            self.push_to(0, number, 9);
        }
    }

    pub(super) fn push_to(&self, shard: u32, number: u32, due: u64) {
        let entry = Entry::new(Tick(due), 1, SlotId::from_number(number), 0);
        self.due.lock().unwrap().insert(number, Tick(due));
        let place = self.queue.shard(shard);
        self.queue.push(shard, place, entry, self, || Tick::ZERO);
    }

    fn kill(&self, numbers: impl IntoIterator<Item = u32>) {
        self.dead.lock().unwrap().extend(numbers);
    }
}

impl Liveness for Queue {
    fn prefetch(&self, _: Entry) {}

    fn is_dead(&self, entry: Entry) -> bool {
        self.dead.lock().unwrap().contains(&entry.slot().number())
    }
}

/// The timer thread's side, with a wheel that only remembers what it was given.
pub(super) struct Taker {
    queue: Arc<Queue>,
    pub(super) reader: Reader,
    pub(super) filed: Vec<Entry>,
}

impl Taker {
    pub(super) fn new(queue: &Arc<Queue>) -> Taker {
        way::take();
        Taker {
            queue: Arc::clone(queue),
            reader: Reader::default(),
            filed: Vec::new(),
        }
    }

    /// Looks and takes. How many entries that live were filed.
    fn take_some(&mut self, quota: usize) -> usize {
        self.take(Take::Everything, quota)
    }

    pub(super) fn take(&mut self, take: Take, quota: usize) -> usize {
        let mut wheel = Wheel(&self.queue, &mut self.filed);
        self.reader.look(&self.queue.queue, 0);
        self.reader
            .transfer(&self.queue.queue, take, quota, &mut wheel)
    }

    /// Takes all that is left when nobody pushes any more: one look must do. The numbers of all that
    /// were filed.
    fn finish(mut self) -> Vec<u32> {
        self.take_some(usize::MAX);
        assert!(self.reader.is_drained(), "the owner is gone");
        assert_eq!(self.queue.queue.len(), 0);
        let (shards, chunks, segments) = self.queue.queue.holdings();
        assert_eq!(chunks, shards, "each keeps its last chunk");
        assert!(
            segments <= 2 * shards,
            "each of its chains keeps its last segment, if any"
        );
        self.filed
            .iter()
            .map(|entry| entry.slot().number())
            .collect()
    }
}

struct Wheel<'a>(&'a Queue, &'a mut Vec<Entry>);

impl EntrySink for Wheel<'_> {
    fn prefetch(&self, _: Entry) {}

    fn insert(&mut self, entry: Entry) -> InsertOutcome {
        self.1.push(entry);
        if self.0.is_dead(entry) {
            InsertOutcome::Dropped
        } else {
            InsertOutcome::Inserted
        }
    }
}

/// Checks that what was filed are these, in this order, but for dead ones, which need not come.
fn check(queue: &Queue, filed: &[u32], pushed: impl IntoIterator<Item = u32>) {
    let dead = queue.dead.lock().unwrap();
    let mut filed_on = filed.iter().peekable();
    for number in pushed {
        if filed_on.next_if(|next| **next == number).is_none() {
            assert!(dead.contains(&number), "{number} is not in {filed:?}");
        }
    }
    assert_eq!(filed_on.next(), None, "too many in {filed:?}");
}

#[test]
fn what_an_owner_pushes_is_taken_once_and_in_order() {
    // How many of the three the worker met while they were pushed.
    explore([0, 1, 2, 3], || {
        let queue = Queue::new();
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(1..4)
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take_some(usize::MAX);
        owner.join().unwrap();
        check(&queue, &taker.finish(), 1..4);
        met
    });
}

#[test]
fn one_owners_order_survives_a_cut_transfer() {
    explore([2, 3], || {
        let queue = Queue::new();
        unexplored(|| queue.push(1..3));
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(3..5)
        });
        let mut taker = Taker::new(&queue);
        assert_eq!(taker.take_some(1), 1);
        assert!(taker.reader.is_cut());
        let met = 1 + taker.take_some(2);
        owner.join().unwrap();
        check(&queue, &taker.finish(), 1..5);
        met
    });
}

#[test]
fn two_owners_share_the_chunks_and_mix_nothing_up() {
    explore([1, 2, 3, 4], || {
        let queue = Queue::new();
        unexplored(|| {
            queue.push_to(0, 1, 9);
            queue.push_to(1, 101, 9);
            queue.kill([1]);
            queue.push_to(0, 2, 9);
            queue.kill([2]);
        });
        // Trims both, gives no chunk back and opens another; the next one also gives one back.
        let first = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push_to(0, 3, 9)
        });
        let second = thread::spawn({
            let queue = Arc::clone(&queue);
            move || (102..104).for_each(|number| queue.push_to(1, number, 9))
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take_some(usize::MAX);
        first.join().unwrap();
        second.join().unwrap();
        let filed = taker.finish();
        let (one, two): (Vec<u32>, Vec<u32>) = filed.iter().partition(|number| **number < 100);
        check(&queue, &one, 1..4);
        check(&queue, &two, 101..104);
        met
    });
}

#[test]
fn an_owner_that_trims_and_the_worker_take_each_entry_once() {
    let ends = [
        "trimmed",
        "trimmed while it was being taken",
        "taken",
        "taken after a part was trimmed",
    ];
    explore(ends, move || {
        let queue = Queue::new();
        // Two chunks. The first is given back when the owner trims, and at once the owner's own again.
        unexplored(|| {
            queue.push(1..5);
            queue.kill(1..5);
        });
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push([5])
        });
        let mut taker = Taker::new(&queue);
        taker.take_some(usize::MAX);
        owner.join().unwrap();
        let lost = way::take() == way::LOST;
        let filed = taker.finish();
        check(&queue, &filed, 1..6);
        match (filed.len(), lost) {
            (1, false) => ends[0],
            (1, true) => ends[1],
            (5, false) => ends[2],
            _ => ends[3],
        }
    });
}

/// Four entries wait, of which the second is dead, and the owner has seen that in its sample: at its next push it will
/// promote.
fn about_to_promote(queue: &Queue) {
    unexplored(|| {
        queue.push(1..3);
        queue.kill([2]);
        queue.push(3..5);
    });
}

#[test]
fn an_owner_that_promotes_and_the_worker_take_each_entry_once_and_in_order() {
    let ends = [
        "promoted before",
        "the worker helped",
        "the worker was faster: the batch is void",
        "the owner was faster: taken after the batch",
        "the worker was faster: nothing to promote",
    ];
    explore(ends, move || {
        let queue = Queue::new();
        about_to_promote(&queue);
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push([5])
        });
        let mut taker = Taker::new(&queue);
        taker.take_some(usize::MAX);
        owner.join().unwrap();
        let filed = taker.finish();
        check(&queue, &filed, 1..6);
        let ways = way::take();
        if ways & way::HELPED != 0 {
            ends[1]
        } else if ways & way::VOID != 0 {
            ends[2]
        } else if ways & way::LOST != 0 {
            ends[3]
        } else if filed.len() == 4 {
            ends[0]
        } else {
            ends[4]
        }
    });
}

#[test]
fn two_promotions_in_a_row_and_a_cut_transfer_keep_the_order() {
    // How many the two transfers have met: one that finds a batch announced meanwhile leaves the rest for the next.
    explore([1, 2, 3], || {
        let queue = Queue::new();
        about_to_promote(&queue);
        unexplored(|| queue.kill([4]));
        // 5 and 7 open a chunk: two batches.
        let owner = thread::spawn({
            let queue = Arc::clone(&queue);
            move || queue.push(5..8)
        });
        let mut taker = Taker::new(&queue);
        let met = taker.take_some(1) + taker.take_some(2);
        owner.join().unwrap();
        check(&queue, &taker.finish(), 1..8);
        met
    });
}

/// Some batches wait in the overflow, of which `live` live, and the owner has copied nearly all: its next push copies the last and
/// puts the copy in their place. Returns the number of the last entry.
fn about_to_compact(queue: &Queue, live: &[u32]) -> u32 {
    let nearly = |left: Option<u64>| left.is_some_and(|left| left <= 1);
    overflow_until(queue, live, || nearly(queue.queue.left_to_copy()))
}

/// Fills the overflow.
fn overflow_until(queue: &Queue, live: &[u32], enough: impl Fn() -> bool) -> u32 {
    unexplored(|| {
        let mut last = 0;
        while !enough() {
            queue.push(last + 1..last + 3);
            last += 2;
            // One of each chunk lives long enough to be promoted.
            queue.kill([last]);
            assert!(last < 40, "the overflow grows");
        }
        queue.kill((1..last).filter(|number| !live.contains(number)));
        last
    })
}

/// The owner compacts, and goes on until nothing is left of that.
fn compact_against(prepare: impl Fn(&Queue) -> u32, pushes: u32, takes: &[usize]) -> &'static str {
    let queue = Queue::new();
    let mut last = prepare(&queue);
    let mut taker = Taker::new(&queue);
    let owner = thread::spawn({
        let queue = Arc::clone(&queue);
        move || {
            for number in last + 1..=last + pushes {
                queue.push([number]);
                // As before: half of them end soon.
                queue.kill(Some(number).filter(|number| number % 2 == 0));
            }
        }
    });
    last += pushes;
    for quota in takes {
        taker.take_some(*quota);
    }
    owner.join().unwrap();
    let ways = way::take();
    unexplored(|| {
        while queue.queue.is_compacting() {
            last += 1;
            queue.push([last]);
            queue.kill([last]);
        }
    });
    check(&queue, &taker.finish(), 1..=last);
    if ways & way::REPLACED != 0 {
        "replaced"
    } else {
        "the worker was faster"
    }
}

const COMPACTED: [&str; 2] = ["replaced", "the worker was faster"];

#[test]
fn an_owner_that_compacts_and_the_worker_take_each_entry_once_and_in_order() {
    explore(COMPACTED, || {
        compact_against(|queue| about_to_compact(queue, &[3]), 1, &[usize::MAX])
    });
}

#[test]
fn an_owner_that_compacts_and_a_transfer_that_is_cut_take_each_entry_once_and_in_order() {
    explore(COMPACTED, || {
        compact_against(|queue| about_to_compact(queue, &[1, 3, 5]), 1, &[1, 1])
    });
}

#[test]
fn an_owner_that_compacts_and_clears_and_the_worker_take_each_entry_once_and_in_order() {
    explore(COMPACTED, || {
        compact_against(|queue| about_to_compact(queue, &[1, 5]), 3, &[usize::MAX])
    });
}

#[test]
fn an_owner_that_compacts_does_not_begin_while_a_batch_is_popped() {
    // One is enough: in the middle of a pop.
    explore_within(1, COMPACTED, || {
        let two_wait =
            |queue: &Queue| overflow_until(queue, &[1, 3, 5, 7], || queue.queue.batches() == 2);
        compact_against(two_wait, 11, &[1])
    });
}

/// As `Shared::schedule` against `shutdown::finish`, with one slot that is scheduled when the queue is as `prepare`
/// leaves it.
fn schedule_and_stop(prepare: fn(&Queue)) -> &'static str {
    struct Timer {
        slot: Slot,
        queue: Arc<Queue>,
        lifecycle: Lifecycle,
    }
    let timer = Arc::new(Timer {
        slot: free_slot(),
        queue: Queue::new(),
        lifecycle: Lifecycle::default(),
    });
    unexplored(|| {
        assert_eq!(timer.lifecycle.begin_start(), StartDecision::Starting);
        timer.lifecycle.started(0);
    });
    prepare(&timer.queue);
    let probe = Probe::default();
    let producer = thread::spawn({
        let (timer, probe) = (Arc::clone(&timer), probe.clone());
        move || {
            let entry = arm_number(&timer.slot, 5, probe.task(), 9);
            let queue = &timer.queue;
            let shard = queue.queue.shard(0);
            queue.queue.push(0, shard, entry, &**queue, || Tick::ZERO);
            timer.lifecycle.is_shutdown() && timer.slot.disarm().is_some()
        }
    });
    assert_eq!(timer.lifecycle.request_stop(false), StopDecision::Running);
    timer.queue.queue.order_after_pushes();
    let returned = timer.slot.stop() == StopOutcome::Returned;
    let taken_back = producer.join().unwrap();
    assert!(
        returned ^ taken_back,
        "one of the two: {returned}, {taken_back}"
    );
    if returned {
        drop(timer.slot.take_stopped());
        "returned"
    } else {
        "taken back"
    }
}

#[test]
fn a_push_is_before_the_scan_of_stop_or_sees_the_stop() {
    // Nothing but P1 is sequentially consistent in this push.
    let ends = ["returned", "taken back"];
    explore(ends, || {
        schedule_and_stop(|queue| unexplored(|| queue.push([1])))
    });
}

#[test]
fn a_push_that_promotes_is_before_the_scan_of_stop_or_sees_the_stop() {
    explore(["returned", "taken back"], || {
        schedule_and_stop(about_to_promote)
    });
}

#[test]
fn the_first_push_to_a_shard_is_before_the_scan_of_stop_or_sees_the_stop() {
    explore(["returned", "taken back"], || schedule_and_stop(|_| ()));
}

/// The contract of `order_after_pushes` by itself: nothing else in here is sequentially consistent for whoever stops, as
/// `Lifecycle::request_stop` is in the models above.
#[test]
fn what_follows_the_order_after_pushes_sees_every_push_that_has_not_seen_the_stop() {
    explore(
        ["seen by both", "seen by the push", "seen by the stop"],
        || {
            struct Timer {
                queue: Arc<Queue>,
                stopped: AtomicU8,
                armed: AtomicU8,
            }
            let timer = Arc::new(Timer {
                queue: Queue::new(),
                stopped: AtomicU8::new(0),
                armed: AtomicU8::new(0),
            });
            // So that nothing but P1 is sequentially consistent in the push.
            unexplored(|| timer.queue.push([1]));
            let producer = thread::spawn({
                let timer = Arc::clone(&timer);
                move || {
                    timer.armed.store(1, Ordering::Relaxed);
                    timer.queue.push([2]);
                    timer.stopped.load(Ordering::Relaxed) == 1
                }
            });
            timer.stopped.store(1, Ordering::Relaxed);
            timer.queue.queue.order_after_pushes();
            let seen = timer.armed.load(Ordering::Relaxed) == 1;
            match (producer.join().unwrap(), seen) {
                (true, true) => "seen by both",
                (true, false) => "seen by the push",
                (false, true) => "seen by the stop",
                (false, false) => panic!("lost between the two"),
            }
        },
    );
}

/// Copies what is due by tick 1 to the wheel, where it was not taken out, at most `quota`. Whether that was all of it.
fn scan(taker: &mut Taker, quota: usize) -> bool {
    let due = Tick(1);
    taker.take(
        Take::Soon {
            due,
            near: due,
            now: 0,
        },
        quota,
    );
    !taker.reader.is_cut()
}

/// Checks that each of these was filed once, but for dead ones, which need not come, what is due at the same tick in order, and
/// nothing else.
fn check_copies(queue: &Queue, filed: &[Entry], pushed: impl IntoIterator<Item = u32>) {
    let (dead, due) = (queue.dead.lock().unwrap(), queue.due.lock().unwrap());
    for entry in filed {
        assert_eq!(
            Some(&entry.due()),
            due.get(&entry.slot().number()),
            "no entry"
        );
    }
    let mut numbers: Vec<u32> = filed.iter().map(|entry| entry.slot().number()).collect();
    for due in [1, 9] {
        let of_tick = filed.iter().filter(|entry| entry.due() == Tick(due));
        assert!(
            of_tick.is_sorted_by_key(|entry| entry.slot().number()),
            "due at {due}: {numbers:?}"
        );
    }
    numbers.sort_unstable();
    let mut filed = numbers.iter().peekable();
    for number in pushed {
        if filed.next_if(|next| **next == number).is_none() {
            assert!(dead.contains(&number), "{number} is not in {numbers:?}");
        }
    }
    assert_eq!(filed.next(), None, "too many in {numbers:?}");
}

/// Scans, in steps of `quota`, while the owner pushes what is due soon; then takes the rest. What was copied is taken by nobody
/// again, and nothing else is left out, whatever the owner sees of the scan. Returns how many the scans have found.
fn scan_against(
    prepare: impl Fn(&Queue),
    pushed: std::ops::RangeInclusive<u32>,
    quotas: &[usize],
) -> usize {
    let queue = Queue::new();
    unexplored(|| prepare(&queue));
    let last = *pushed.end();
    let owner = thread::spawn({
        let queue = Arc::clone(&queue);
        move || pushed.for_each(|number| queue.push_to(0, number, 1))
    });
    let mut taker = Taker::new(&queue);
    for quota in quotas {
        if scan(&mut taker, *quota) {
            let first = taker.filed.iter().find(|entry| entry.slot().number() == 1);
            assert!(first.is_some(), "what is due soon was copied");
        }
    }
    let found = taker.filed.len();
    owner.join().unwrap();
    taker.take_some(usize::MAX);
    assert!(taker.reader.is_drained(), "the owner is gone");
    check_copies(&queue, &taker.filed, 1..=last);
    found
}

/// The first of each chunk is due soon, and the second is dead.
fn some_are_due_soon(queue: &Queue) {
    for number in 1..5 {
        queue.push_to(0, number, if number % 2 == 1 { 1 } else { 9 });
    }
    queue.kill([2]);
}

/// As [`about_to_promote`], with two that are due soon.
fn about_to_promote_and_scan(queue: &Queue) {
    queue.push_to(0, 1, 1);
    queue.push_to(0, 2, 9);
    queue.kill([2]);
    queue.push_to(0, 3, 9);
    queue.push_to(0, 4, 1);
}

#[test]
fn a_scan_and_an_owner_that_trims_lose_nothing_and_double_nothing() {
    // The owner opens a chunk, and trims.
    explore([2, 3], || {
        scan_against(some_are_due_soon, 5..=5, &[usize::MAX])
    });
}

#[test]
fn a_scan_and_an_owner_that_trims_twice_lose_nothing_and_double_nothing() {
    // The owner opens two chunks. The second may be the first one again, with other entries.
    explore([2, 3, 4, 5], || {
        scan_against(some_are_due_soon, 5..=7, &[usize::MAX])
    });
}

#[test]
fn a_scan_and_an_owner_that_promotes_lose_nothing_and_double_nothing() {
    explore([2, 3], || {
        scan_against(about_to_promote_and_scan, 5..=5, &[usize::MAX])
    });
}

#[test]
fn a_scan_that_is_cut_and_an_owner_that_trims_lose_nothing_and_double_nothing() {
    explore([2], || scan_against(some_are_due_soon, 5..=5, &[1, 1]));
}

#[test]
fn a_scan_that_is_cut_and_an_owner_that_promotes_lose_nothing_and_double_nothing() {
    // The owner opens two chunks: the second is the first one again. One preemption is enough: in the middle of the scan.
    explore_within(1, [1], || {
        scan_against(about_to_promote_and_scan, 5..=7, &[1])
    });
}

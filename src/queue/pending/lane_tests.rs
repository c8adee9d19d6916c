//! One lane and its inlet: what is in the queue, what is dropped from it, and what comes out.

use super::{COMPACT_FROM, CROWD, EntrySink, Inlet, InsertOutcome, LOOKAHEAD, Lane, Pushed, RING};
use super::{Liveness, drop_dead};
use crate::entry::Entry;
use crate::time::Tick;
use std::cell::{Cell, RefCell};
use std::thread;

fn entry(slot: usize) -> Entry {
    Entry::new(Tick(1), 0, slot as u32, 0)
}

fn slots(entries: &[Entry]) -> Vec<usize> {
    entries.iter().map(|entry| entry.slot() as usize).collect()
}

/// A timer whose slots below `dead` are dead.
#[derive(Default)]
struct Timer {
    now: Cell<u64>,
    dead: Cell<usize>,
    told: RefCell<Vec<Entry>>,
}

impl Liveness for Timer {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn prefetch(&self, entry: Entry) {
        self.told.borrow_mut().push(entry);
    }

    fn is_dead(&self, entry: Entry) -> bool {
        (entry.slot() as usize) < self.dead.get()
    }
}

/// A lane, its timer, and how many were pushed: the next one's slot.
struct Bench {
    lane: Lane,
    timer: Timer,
    pushed: usize,
}

impl Bench {
    /// Of a timer that so many processors push to.
    fn new(processors: usize) -> Bench {
        Bench {
            lane: Lane::new(processors),
            timer: Timer::default(),
            pushed: 0,
        }
    }

    /// Pushes so many entries; how often it was told that the lane is crowded.
    fn push(&mut self, count: usize) -> usize {
        let from = self.pushed;
        self.pushed += count;
        (from..self.pushed)
            .filter(|&slot| self.lane.push(entry(slot), &self.timer) == Pushed::Crowded)
            .count()
    }
}

#[test]
fn what_does_not_fit_the_ring_is_moved_to_the_heap_in_order() {
    let mut bench = Bench::new(1);
    assert!(bench.lane.is_empty());
    let empty = bench.lane.bytes();
    bench.push(RING);
    assert_eq!((bench.lane.len(), bench.lane.bytes()), (RING, empty));
    assert_eq!(bench.lane.waiting_since(), None);
    bench.timer.now.set(5);
    bench.push(1);
    let heap = bench.lane.bytes() - empty;
    let room = RING * size_of::<Entry>();
    assert!((room..2 * room).contains(&heap), "{heap} bytes");
    bench.timer.now.set(9);
    bench.push(RING);
    assert_eq!(bench.lane.len(), 2 * RING + 1);
    assert_eq!(bench.lane.waiting_since(), Some(5), "the first of them");
    assert!(!bench.lane.is_empty());

    let mut taken = Vec::new();
    assert!(bench.lane.take(&mut taken), "no push is under way");
    assert_eq!(slots(&taken), (0..=2 * RING).collect::<Vec<_>>());
    assert_eq!((bench.lane.len(), bench.lane.bytes()), (0, empty));
    assert!(bench.lane.is_empty());
    assert_eq!(bench.lane.waiting_since(), None);
}

#[test]
fn a_lane_whose_ring_is_empty_is_not_empty_while_its_heap_is_not() {
    let mut bench = Bench::new(1);
    bench.push(3);
    let pushed = bench.lane.make_room(&bench.timer);
    assert_eq!((pushed, bench.lane.ring.len()), (Pushed::Queued, 0));
    assert_eq!((bench.lane.len(), bench.lane.is_empty()), (3, false));
    bench.lane.clear();
    assert_eq!((bench.lane.len(), bench.lane.is_empty()), (0, true));
}

#[test]
fn a_heap_is_rid_of_the_dead_when_it_has_grown_to_twice_what_lived() {
    let mut bench = Bench::new(1);
    let dead = COMPACT_FROM / 4;
    bench.timer.dead.set(dead);
    bench.push(COMPACT_FROM);
    assert_eq!(bench.lane.len(), COMPACT_FROM, "the ring is moved late");
    bench.push(1);
    let live = COMPACT_FROM - dead;
    assert_eq!(bench.lane.len(), live + 1);
    // The next time at twice the live ones, which have died meanwhile.
    bench.timer.dead.set(usize::MAX);
    bench.push(live - 1);
    assert_eq!(bench.lane.len(), 2 * live);
    bench.push(1);
    assert_eq!(bench.lane.len(), 1);
    // With few left, it is as in the beginning.
    bench.push(COMPACT_FROM - 1);
    assert_eq!(bench.lane.len(), COMPACT_FROM);
    bench.push(1);
    assert_eq!(bench.lane.len(), 1);
}

#[test]
fn a_lane_is_crowded_when_it_holds_more_live_ones_than_its_part() {
    const LANES: usize = CROWD / COMPACT_FROM;
    let mut bench = Bench::new(LANES);
    assert_eq!(bench.push(CROWD / LANES + 1), 0, "its part, and one");
    assert_eq!(bench.push(COMPACT_FROM - 1), 0, "not counted yet");
    assert_eq!(bench.push(1), 1, "counted once");
    assert_eq!(bench.lane.len(), 2 * COMPACT_FROM + 1);
    assert_eq!(bench.push(RING), 0);
}

#[test]
fn the_dead_are_dropped_and_the_others_keep_their_order() {
    let timer = Timer::default();
    timer.dead.set(10);
    let mut entries: Vec<Entry> = [10, 1, 11, 2, 3, 12].map(entry).into();
    assert!(drop_dead(&mut entries, &timer));
    assert_eq!(slots(&entries), [10, 11, 12]);
    assert_eq!(
        slots(&timer.told.borrow()),
        [0; 0],
        "too few to be told ahead"
    );

    let mut entries: Vec<Entry> = (0..50).map(entry).collect();
    assert!(drop_dead(&mut entries, &timer));
    assert_eq!(slots(&entries), (10..50).collect::<Vec<_>>());
    let told = slots(&timer.told.borrow());
    assert_eq!(told, (LOOKAHEAD..50).collect::<Vec<_>>());
}

#[test]
fn a_push_waits_for_one_that_is_under_way_when_the_ring_is_full_of_it() {
    let lane = Lane::new(1);
    let position = lane.ring.begin_push();
    thread::scope(|scope| {
        scope.spawn(|| {
            let timer = Timer::default();
            for slot in 1..=RING {
                assert_eq!(lane.push(entry(slot), &timer), Pushed::Queued);
            }
        });
        // The last of them has to wait.
        while lane.ring.len() < RING {
            thread::yield_now();
        }
        lane.ring.end_push(position, entry(0));
    });
    let mut taken = Vec::new();
    assert!(lane.take(&mut taken));
    assert_eq!(slots(&taken), (0..=RING).collect::<Vec<_>>());
}

/// A wheel that takes what has an even slot.
#[derive(Default)]
struct Wheel {
    filed: Vec<Entry>,
    told: RefCell<Vec<Entry>>,
}

impl EntrySink for Wheel {
    fn prefetch(&self, entry: Entry) {
        self.told.borrow_mut().push(entry);
    }

    fn file(&mut self, entry: Entry) -> InsertOutcome {
        if entry.slot() % 2 == 1 {
            return InsertOutcome::Dropped;
        }
        self.filed.push(entry);
        InsertOutcome::InWheel
    }
}

#[test]
fn an_inlet_files_as_many_as_it_is_allowed_and_keeps_the_rest() {
    let (mut bench, mut inlet, mut wheel) = (Bench::new(1), Inlet::default(), Wheel::default());
    assert!(inlet.is_drained() && inlet.is_empty(&bench.lane));
    bench.push(20);
    assert!(!inlet.is_empty(&bench.lane), "some are in the lane");
    assert_eq!(inlet.drain(&bench.lane, 3, &mut wheel), 3);
    // 0, 2 and 4 went, 1 and 3 were dropped.
    assert_eq!((inlet.len(), bench.lane.len()), (15, 0));
    assert!(!inlet.is_drained() && !inlet.is_empty(&bench.lane));
    bench.push(2);
    // The rest of what was taken out, and as many of the new ones as there is room for.
    assert_eq!(inlet.drain(&bench.lane, 7, &mut wheel), 7);
    assert_eq!((inlet.len(), bench.lane.len()), (1, 2));
    assert_eq!(inlet.drain(&bench.lane, 0, &mut wheel), 0);
    assert_eq!((inlet.len(), bench.lane.len()), (1, 2));
    assert_eq!(inlet.drain(&bench.lane, 1, &mut wheel), 1);
    assert_eq!((inlet.len(), bench.lane.len()), (1, 0));
    assert_eq!(inlet.drain(&bench.lane, 1, &mut wheel), 0);
    assert!(inlet.is_drained() && inlet.is_empty(&bench.lane));
    assert_eq!(slots(&wheel.filed), (0..22).step_by(2).collect::<Vec<_>>());
    let told = slots(&wheel.told.into_inner());
    assert_eq!(told, (LOOKAHEAD..20).collect::<Vec<_>>());
}

#[test]
fn an_inlet_is_not_drained_while_a_push_is_under_way() {
    let (mut bench, mut inlet, mut wheel) = (Bench::new(1), Inlet::default(), Wheel::default());
    bench.push(1);
    let position = bench.lane.ring.begin_push();
    assert_eq!(inlet.drain(&bench.lane, 10, &mut wheel), 1);
    assert_eq!(inlet.len(), 0);
    assert!(!inlet.is_drained() && !inlet.is_empty(&bench.lane));
    bench.lane.ring.end_push(position, entry(2));
    assert_eq!(inlet.drain(&bench.lane, 10, &mut wheel), 1);
    assert!(inlet.is_drained() && inlet.is_empty(&bench.lane));
    assert_eq!(slots(&wheel.filed), [0, 2]);
}

#[test]
fn there_are_two_lanes_for_each_processor_and_eight_at_most() {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(super::processors(), processors.next_power_of_two().min(8));
    let lanes = (2 * processors).next_power_of_two().min(8);
    assert_eq!((Lane::all().len(), Inlet::all().len()), (lanes, lanes));
}

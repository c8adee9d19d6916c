use super::probe::{Step, looked};
use super::trim::LOOKS;
use super::*;
use crate::entry::SlotId;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::thread;

/// Slots, of which it is only known whether they live. An entry's slot is its number.
struct Slots(Vec<AtomicBool>);

impl Slots {
    fn new(count: usize) -> Slots {
        Slots((0..count).map(|_| AtomicBool::new(true)).collect())
    }

    fn kill(&self, number: u32) {
        self.0[number as usize].store(false, Ordering::Relaxed);
    }
}

impl Liveness for Slots {
    fn prefetch(&self, _: Entry) {}

    fn is_dead(&self, entry: Entry) -> bool {
        !self
            .0
            .get(entry.slot().number() as usize)
            .is_some_and(|live| live.load(Ordering::Relaxed))
    }
}

/// A wheel that remembers the numbers of what lived.
struct Wheel<'a> {
    slots: &'a Slots,
    filed: Vec<u32>,
    met: usize,
}

impl EntrySink for Wheel<'_> {
    fn prefetch(&self, _: Entry) {}

    fn insert(&mut self, entry: Entry) -> InsertOutcome {
        self.met += 1;
        if self.slots.is_dead(entry) {
            return InsertOutcome::Dropped;
        }
        self.filed.push(entry.slot().number());
        InsertOutcome::Inserted
    }
}

impl<'a> Wheel<'a> {
    fn new(slots: &'a Slots) -> Self {
        Wheel {
            slots,
            filed: Vec::new(),
            met: 0,
        }
    }
}

fn entry(number: u32, due: u64) -> Entry {
    Entry::new(Tick(due), 1, SlotId::from_number(number), 0)
}

fn push(queue: &PendingQueue, shard: u32, entry: Entry, slots: &Slots) {
    queue.push(shard, queue.shard(shard), entry, slots, || Tick(3));
}

fn take_all(queue: &PendingQueue, slots: &Slots) -> Vec<u32> {
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(slots));
    reader.look(queue, 0);
    reader.transfer(queue, Take::Everything, usize::MAX, &mut wheel);
    assert!(reader.is_drained());
    wheel.filed
}

#[test]
fn entries_come_out_in_order_over_many_chunks() {
    let slots = Slots::new(10_000);
    let queue = PendingQueue::new();
    for number in 0..10_000 {
        push(&queue, 0, entry(number, 5), &slots);
    }
    assert_eq!(queue.len(), 10_000);
    assert!(take_all(&queue, &slots).into_iter().eq(0..10_000));
    assert_eq!(queue.len(), 0);
    assert!(take_all(&queue, &slots).is_empty());
}

#[test]
fn a_cut_transfer_keeps_the_rest_and_shares_the_quota() {
    let slots = Slots::new(2000);
    let queue = PendingQueue::new();
    for number in 0..1000 {
        push(&queue, 0, entry(number, 5), &slots);
        push(&queue, 1, entry(1000 + number, 5), &slots);
    }
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    reader.look(&queue, 0);
    assert_eq!((reader.waiting(&queue), reader.earliest()), (2000, Tick(5)));
    assert_eq!(reader.waiting_since(), Some(Tick(3)));
    assert_eq!(
        reader.transfer(&queue, Take::Everything, 10, &mut wheel),
        10
    );
    assert_eq!(
        wheel.filed.iter().filter(|number| **number < 1000).count(),
        5
    );
    assert_eq!(reader.earliest(), Tick(5), "not all of it is filed");
    assert_eq!(reader.waiting(&queue), 1990);
    while !reader.is_drained() {
        assert!(reader.transfer(&queue, Take::Everything, 7, &mut wheel) <= 7);
    }
    for half in [0..1000, 1000..2000] {
        let filed = wheel
            .filed
            .iter()
            .copied()
            .filter(|number| half.contains(number));
        assert!(filed.eq(half.clone()));
    }
    assert_eq!(
        (reader.earliest(), reader.waiting_since()),
        (Tick::NEVER, None)
    );
}

#[test]
fn young_entries_that_are_not_due_stay_where_they_are() {
    let slots = Slots::new(300);
    let queue = PendingQueue::new();
    for number in 0..100 {
        push(&queue, 0, entry(number, 50), &slots);
        push(&queue, 1, entry(100 + number, 60), &slots);
    }
    push(&queue, 2, entry(200, 90), &slots);
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    reader.look(&queue, 1000);
    let mut take = |due, now| {
        let take = Take::Soon {
            due: Tick(due),
            near: Tick(due),
            now,
        };
        reader.transfer(&queue, take, usize::MAX, &mut wheel)
    };
    assert_eq!(take(49, 1000), 1, "few are taken at once");
    assert_eq!(take(49, 1000), 0);
    assert_eq!(take(50, 1000), 100, "copied");
    assert_eq!(take(59, 999 + reader::AGE), 0);
    assert_eq!(queue.len(), 200, "they stay where they are");
    // Those that were copied have fired by then.
    (0..100).for_each(|number| slots.kill(number));
    let mut take = |due, now| {
        let take = Take::Soon {
            due: Tick(due),
            near: Tick(due),
            now,
        };
        reader.transfer(&queue, take, usize::MAX, &mut wheel)
    };
    assert_eq!(take(59, 1000 + reader::AGE), 100, "the others");
    assert_eq!(queue.len(), 0);
    assert!(reader.is_drained());
}

/// Copies what is due soon, in small steps.
#[test]
fn old_entries_stay_with_an_owner_that_pushes_many_until_something_is_due() {
    let slots = Slots::new(20_000);
    let queue = PendingQueue::new();
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    let mut next = 0;
    let mut push_some = |count, due| {
        for number in next..next + count {
            push(&queue, 0, entry(number, due), &slots);
        }
        next += count;
    };
    let mut now = 0;
    let mut take_after_age = |due| {
        now += reader::AGE;
        reader.look(&queue, now);
        let take = Take::Soon {
            due: Tick(due),
            near: Tick(due),
            now,
        };
        while {
            reader.transfer(&queue, take, usize::MAX, &mut wheel);
            reader.is_interrupted()
        } {}
        wheel.filed.len()
    };
    push_some(6400, 50);
    assert_eq!(take_after_age(9), 0, "they are seen for the first time");
    for _ in 0..3 {
        push_some(200, 50);
        assert_eq!(take_after_age(9), 0, "the owner looks after them");
    }
    push_some(100, 50);
    assert_eq!(take_after_age(9), 7000, "too few pushed for so many");
    push_some(200, 20);
    assert_eq!(take_after_age(9), 7000);
    push_some(200, 50);
    assert_eq!(
        take_after_age(20),
        7300,
        "something is due: all that is old"
    );
    assert_eq!(take_after_age(20), 7500, "nothing was pushed since");
    assert!(wheel.filed.into_iter().eq(0..7500));
}

fn scan(reader: &mut Reader, queue: &PendingQueue, due: u64, wheel: &mut Wheel<'_>) {
    scan_ahead(reader, queue, [due, due], wheel);
}

/// The same, and what is due by the second tick along with it.
fn scan_ahead(
    reader: &mut Reader,
    queue: &PendingQueue,
    [due, near]: [u64; 2],
    wheel: &mut Wheel<'_>,
) {
    reader.look(queue, 0);
    let take = Take::Soon {
        due: Tick(due),
        near: Tick(near),
        now: 0,
    };
    while reader.transfer(queue, take, 7, wheel) > 0 || reader.is_interrupted() {}
}

#[test]
fn a_scan_copies_what_is_due_in_order_and_finds_what_comes_near_before_what_is_new() {
    let slots = Slots::new(3000);
    let queue = PendingQueue::new();
    // Every third is due soon, every third later, the others far away.
    for number in 0..1000 {
        push(
            &queue,
            0,
            entry(number, [10, 20, 9999][number as usize % 3]),
            &slots,
        );
    }
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    scan(&mut reader, &queue, 12, &mut wheel);
    assert!(wheel.filed.iter().copied().eq((0..1000).step_by(3)));
    assert_eq!(reader.earliest(), Tick(20));
    scan(&mut reader, &queue, 19, &mut wheel);
    assert_eq!(wheel.filed.len(), 334, "nothing has come near");
    // Those that fired are dead. New ones are due at the same tick as some that were passed over.
    (0..1000).step_by(3).for_each(|number| slots.kill(number));
    wheel.filed.clear();
    for number in 1000..1100 {
        push(&queue, 0, entry(number, 20), &slots);
    }
    scan(&mut reader, &queue, 20, &mut wheel);
    let expected = (1..1000).step_by(3).chain(1000..1100);
    assert!(
        wheel.filed.iter().copied().eq(expected),
        "in the order of pushing"
    );
    assert_eq!(reader.earliest(), Tick(9999));
}

/// What a scan has copied is passed over by the next scan and by the drain, also if the quota has cut it: nothing is
/// charged twice, in whatever steps it comes.
#[test]
fn what_a_scan_has_copied_is_not_moved_again_wherever_it_was_cut() {
    const COUNT: u32 = 1000;
    for quota in [1, 7, 100, 5000] {
        for step in [1, 3, 40] {
            let slots = Slots::new(COUNT as usize);
            let queue = PendingQueue::new();
            let due_of = |number: u32| 10 + u64::from(number.wrapping_mul(7919) % 50);
            let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
            let (mut pushed, mut now, mut moved) = (0, 0, 0);
            while moved < COUNT as usize {
                // Some come while a scan is under way.
                let more = COUNT.min(pushed + 200);
                for number in pushed..more {
                    push(&queue, 0, entry(number, due_of(number)), &slots);
                }
                pushed = more;
                now += 1;
                assert!(now < 10_000, "{moved} of {COUNT} were moved");
                reader.look(&queue, now * 1_000_000);
                let take = Take::Soon {
                    due: Tick(now * step),
                    near: Tick(now * step),
                    now: now * 1_000_000,
                };
                moved += reader.transfer(&queue, take, quota, &mut wheel);
            }
            assert_eq!(take_the_rest(&queue, &mut reader, &mut wheel), 0);
            let mut filed = wheel.filed.clone();
            filed.sort_unstable();
            assert!(filed.into_iter().eq(0..COUNT), "quota {quota}, step {step}");
            for due in 10..60 {
                let of_tick = wheel.filed.iter().filter(|number| due_of(**number) == due);
                assert!(of_tick.is_sorted(), "quota {quota}, step {step}, due {due}");
            }
        }
    }
}

/// The owner promotes what is being scanned, and comes to use the same chunk again.
#[test]
fn a_scan_does_not_take_a_chunk_for_what_it_was_before() {
    const PUSHED: u32 = 72;
    const SOON: u32 = PUSHED - 1;
    let slots = Arc::new(Slots::new(200_000));
    let queue = Arc::new(PendingQueue::new());
    for number in 0..PUSHED {
        push(&queue, 0, entry(number, 9999), &slots);
    }
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    slots.kill(SOON - 1);
    push(&queue, 0, entry(SOON - 1, 5), &slots);
    scan(&mut reader, &queue, 10, &mut wheel);
    assert!(wheel.filed.is_empty(), "it was dead");
    push(&queue, 0, entry(100_000, 6), &slots);
    looked::interrupt_by({
        let (slots, queue, mut again) = (Arc::clone(&slots), Arc::clone(&queue), false);
        move |step| {
            if step != Step::Scanning || std::mem::replace(&mut again, true) {
                return;
            }
            (0..PUSHED).for_each(|number| slots.kill(number));
            let scanned = queue.shard(0).tail();
            let mut numbers = PUSHED..100_000;
            while queue.shard(0).head().serial() <= scanned.serial()
                || queue.shard(0).head().chunk() != scanned.chunk()
            {
                let number = numbers.next().expect("the chunk is used again");
                push(&queue, 0, entry(number, 9999), &slots);
                // Many at once, so that chunks are given back, and claimed again.
                if number % 128 == 0 {
                    (number.saturating_sub(138).max(PUSHED)..number - 10)
                        .for_each(|number| slots.kill(number));
                }
            }
        }
    });
    scan(&mut reader, &queue, 10, &mut wheel);
    looked::interrupt_by(|_| {});
    // An owner was faster: the rest is for the next boundary.
    while reader.is_cut() {
        scan(&mut reader, &queue, 10, &mut wheel);
    }
    assert!(wheel.filed.contains(&100_000), "it is due soon");
}

fn take_the_rest(queue: &PendingQueue, reader: &mut Reader, wheel: &mut Wheel<'_>) -> usize {
    reader.look(queue, 0);
    let moved = reader.transfer(queue, Take::Everything, usize::MAX, wheel);
    assert!(reader.is_drained());
    moved
}

#[test]
fn a_scan_looks_ahead_but_not_past_an_older_entry_that_it_has_left() {
    let slots = Slots::new(3000);
    let queue = PendingQueue::new();
    for number in 0..200 {
        push(
            &queue,
            0,
            entry(number, [10, 50][number as usize % 2]),
            &slots,
        );
    }
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    scan_ahead(&mut reader, &queue, [10, 49], &mut wheel);
    assert!(wheel.filed.iter().copied().eq((0..200).step_by(2)));
    wheel.filed.clear();
    for number in 200..400 {
        let due = [12, 13, 50, 60][number as usize % 4];
        push(&queue, 0, entry(number, due), &slots);
    }
    // Some of the older ones are due at 50, so none of the newer ones may come first.
    scan_ahead(&mut reader, &queue, [12, 60], &mut wheel);
    let soon = (200..400).filter(|number| number % 4 < 2);
    assert!(wheel.filed.iter().copied().eq(soon), "up to 49, not to 12");
    wheel.filed.clear();
    assert_eq!(reader.earliest(), Tick(50));
    scan_ahead(&mut reader, &queue, [50, 60], &mut wheel);
    let rest = (1..200).step_by(2);
    let rest = rest.chain((200..400).filter(|number| number % 4 >= 2));
    assert!(
        wheel.filed.iter().copied().eq(rest),
        "in the order of pushing"
    );
    assert_eq!(reader.earliest(), Tick::NEVER);
}

/// The owner pushes and trims a quarter of all serial numbers.
fn pass_a_quarter(queue: &PendingQueue) {
    let (shard, at) = (queue.shard(0), queue.shard(0).tail());
    let serial = at.serial().wrapping_add(1 << 30);
    let to = position::Position::new(serial, at.chunk(), at.cell());
    shard.owner().tail.store(to.0, Ordering::Relaxed);
    assert!(shard.move_head(at, to, [], &queue.chunks));
}

#[test]
fn nothing_is_lost_however_much_is_trimmed_while_the_reader_sleeps() {
    for (quarters, scans) in [
        (1, false),
        (2, false),
        (3, false),
        (1, true),
        (2, true),
        (3, true),
    ] {
        let slots = Slots::new(4000);
        let queue = PendingQueue::new();
        let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
        push(&queue, 0, entry(0, 5000), &slots);
        scan(&mut reader, &queue, 1, &mut wheel);
        (0..quarters).for_each(|_| pass_a_quarter(&queue));
        wheel.filed.clear();
        // One in twenty lives for long, so that the owner promotes.
        for number in 1..4000 {
            push(&queue, 0, entry(number, 10), &slots);
            if number > 50 && (number - 50) % 20 != 0 {
                slots.kill(number - 50);
            }
        }
        assert!(queue.shard(0).overflow.len() > 0, "promoted");
        if scans {
            scan(&mut reader, &queue, 12, &mut wheel);
        }
        take_the_rest(&queue, &mut reader, &mut wheel);
        let live = (1..4000).filter(|number| !slots.is_dead(entry(*number, 10)));
        assert!(
            wheel.filed.iter().copied().eq(live),
            "{quarters} quarters, {scans}"
        );
    }
}

/// A shard that is always drained is not scanned for a long time: its serial numbers come round meanwhile.
#[test]
fn a_scan_finds_what_is_due_however_much_was_drained_since_the_last_one() {
    let slots = Slots::new(200);
    for rounds in 1..9 {
        let queue = PendingQueue::new();
        let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
        for _ in 0..rounds {
            push(&queue, 0, entry(0, 5000), &slots);
            scan(&mut reader, &queue, 1, &mut wheel);
            assert_eq!(queue.len(), 0, "few are taken at once");
            pass_a_quarter(&queue);
        }
        wheel.filed.clear();
        for number in 0..200 {
            push(&queue, 0, entry(number, 10), &slots);
        }
        scan(&mut reader, &queue, 12, &mut wheel);
        assert!(wheel.filed.iter().copied().eq(0..200), "{rounds} rounds");
        assert_eq!(take_the_rest(&queue, &mut reader, &mut wheel), 0);
    }
}

#[test]
fn what_is_cancelled_soon_never_reaches_the_reader_and_chunks_are_reused() {
    let slots = Slots::new(100_000);
    let queue = PendingQueue::new();
    for number in 0..100_000 {
        push(&queue, 0, entry(number, 5), &slots);
        if number >= 100 {
            slots.kill(number - 100);
        }
        assert!(queue.len() <= 100 + 2 * 31 + LOOKS);
    }
    assert!(queue.bytes() < 100_000, "{} bytes", queue.bytes());
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    reader.look(&queue, 0);
    reader.transfer(&queue, Take::Everything, usize::MAX, &mut wheel);
    assert!(wheel.filed.into_iter().eq(99_900..100_000));
    assert!(wheel.met < 300);
}

#[test]
fn one_that_lives_long_does_not_keep_the_dead_behind_it() {
    let slots = Slots::new(100_001);
    let queue = PendingQueue::new();
    push(&queue, 0, entry(100_000, 5), &slots);
    for number in 0..100_000 {
        push(&queue, 0, entry(number, 5), &slots);
        if number >= 100 {
            slots.kill(number - 100);
        }
        assert!(queue.len() <= 4096, "{} after {number}", queue.len());
    }
    let filed = take_all(&queue, &slots);
    assert!(
        filed
            .into_iter()
            .eq([100_000].into_iter().chain(99_900..100_000))
    );
}

/// Each lives long enough to be promoted, and dies before the reader comes.
#[test]
fn what_dies_in_the_overflow_goes_before_the_reader_comes() {
    let count = if cfg!(miri) { 20_000 } else { 300_000 };
    for (every, life) in [(31, 3000), (7, 3000), (100, 10_000), (3, 2000)] {
        let slots = Slots::new(count as usize);
        let queue = PendingQueue::new();
        let mut most = 0;
        for number in 0..count {
            push(&queue, 0, entry(number, 5), &slots);
            if number % every != 0 {
                slots.kill(number);
            } else if number >= life / every * every {
                slots.kill(number - life / every * every);
            }
            most = most.max(queue.len());
        }
        // The limits of chunks and batches, and twice what lives, in batches that are not full.
        let live = (life / every) as usize;
        assert!(most < 4096 + 31 * 64 + 6 * live, "{most} with {live} alive");
        assert!(
            queue.bytes() < 2 * 512 * (most / 31) + 200_000,
            "{} bytes",
            queue.bytes()
        );
        let filed = take_all(&queue, &slots);
        let live = (0..count).filter(|number| !slots.is_dead(entry(*number, 5)));
        assert!(filed.into_iter().eq(live), "once each, and in order");
    }
}

#[test]
fn a_push_looks_at_no_more_than_it_says_and_moves_no_more_than_two_chunks() {
    let slots = Slots::new(200_000);
    let queue = PendingQueue::new();
    let (mut most_looked, mut most_moved) = (0, 0);
    let mut random = 1_u32;
    looked::take();
    for number in 0..200_000 {
        push(&queue, 0, entry(number, 5), &slots);
        let (looks, moves) = looked::take();
        most_looked = most_looked.max(looks);
        most_moved = most_moved.max(moves);
        // Ends in random order: survivors are left everywhere.
        for _ in 0..3 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            slots.kill(number - (random >> 8) % (number + 1).min(20_000));
        }
    }
    assert!(
        (1..=LOOKS).contains(&most_looked),
        "{most_looked} looked at"
    );
    assert!(
        (1..=62).contains(&most_moved),
        "{most_moved} moved: the overflow was used"
    );
    let mut filed = take_all(&queue, &slots);
    assert!(filed.is_sorted(), "in order, also over the overflow");
    filed.dedup();
    let live = (0..200_000).filter(|number| !slots.is_dead(entry(*number, 5)));
    assert!(filed.into_iter().eq(live));
}

#[test]
fn a_reader_that_comes_between_any_two_steps_of_an_owner_gets_everything_once_and_in_order() {
    /// Runs the reader inside the owner's look at an entry, the `at`-th one.
    struct Interrupting<'a> {
        slots: &'a Slots,
        left: std::cell::Cell<usize>,
        reader: RefCell<(Reader, Wheel<'a>)>,
        queue: &'a PendingQueue,
    }
    impl Liveness for Interrupting<'_> {
        fn prefetch(&self, _: Entry) {}
        fn is_dead(&self, entry: Entry) -> bool {
            let left = self.left.get().wrapping_sub(1);
            self.left.set(left);
            let dead = self.slots.is_dead(entry);
            if left == 0 {
                let (reader, wheel) = &mut *self.reader.borrow_mut();
                reader.look(self.queue, 0);
                reader.transfer(self.queue, Take::Everything, 40, wheel);
            }
            dead
        }
    }
    for at in 1..600 {
        let slots = Slots::new(4000);
        let queue = PendingQueue::new();
        let interrupting = Interrupting {
            slots: &slots,
            left: std::cell::Cell::new(at * 5),
            reader: RefCell::new((Reader::default(), Wheel::new(&slots))),
            queue: &queue,
        };
        // A third lives on: most are dead, so that promotions happen.
        for number in 0..4000 {
            queue.push(0, queue.shard(0), entry(number, 5), &interrupting, || {
                Tick(0)
            });
            if number % 3 != 0 && number > 50 {
                slots.kill(number - 50);
            }
        }
        let (mut reader, mut wheel) = interrupting.reader.into_inner();
        while {
            reader.look(&queue, 0);
            reader.transfer(&queue, Take::Everything, 1000, &mut wheel) > 0
        } {}
        assert!(
            wheel.filed.is_sorted_by(|a, b| a < b),
            "doubled or out of order at {at}"
        );
        let filed: VecDeque<_> = wheel.filed.into();
        let live = (0..4000).filter(|number| !slots.is_dead(entry(*number, 5)));
        assert!(
            live.into_iter()
                .all(|number| filed.binary_search(&number).is_ok()),
            "lost at {at}"
        );
    }
}

/// A reader that comes while an owner is in the middle of a push.
struct Visitor {
    queue: Arc<PendingQueue>,
    slots: Arc<Slots>,
    reader: Reader,
    due: Option<Tick>,
    now: u64,
    /// The time that passes between two visits.
    pause: u64,
    /// In the order in which they were first filed. An entry that a scan has copied may be filed again.
    filed: Vec<u32>,
    is_filed: Vec<bool>,
}

impl Visitor {
    fn due_of(number: u32) -> u64 {
        [5, 9][number as usize % 2]
    }

    /// Takes all that it wants. `pushed` entries are there.
    fn visit(&mut self, pushed: u32) {
        self.now += self.pause;
        loop {
            self.reader.look(&self.queue, self.now);
            let take = self.due.map_or(Take::Everything, |due| Take::Soon {
                due,
                near: due,
                now: self.now,
            });
            let mut wheel = Wheel::new(&self.slots);
            let moved = self.reader.transfer(&self.queue, take, 500, &mut wheel);
            for number in wheel.filed {
                if !std::mem::replace(&mut self.is_filed[number as usize], true) {
                    self.filed.push(number);
                }
            }
            if moved == 0 && !self.reader.is_interrupted() {
                break;
            }
        }
        let wanted = self.due.unwrap_or(Tick::NEVER);
        for number in 0..pushed {
            let entry = entry(number, Visitor::due_of(number));
            assert!(
                entry.due() > wanted || self.is_filed[number as usize] || self.slots.is_dead(entry),
                "{number} of {pushed} is hidden or lost"
            );
        }
    }
}

/// Lets a visitor come at every `period`-th time that an owner reaches `step`. Returns how often it came.
fn interrupt_pushes(step: Step, period: u32, due: Option<Tick>, pause: u64) -> u32 {
    let count = if cfg!(miri) { 2500 } else { 6000 };
    let queue = Arc::new(PendingQueue::new());
    let slots = Arc::new(Slots::new(count as usize));
    let visitor = Rc::new(RefCell::new(Visitor {
        queue: Arc::clone(&queue),
        slots: Arc::clone(&slots),
        reader: Reader::default(),
        due,
        now: 0,
        pause,
        filed: Vec::new(),
        is_filed: vec![false; count as usize],
    }));
    let (pushed, visits) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    looked::interrupt_by({
        let (visitor, pushed, visits) =
            (Rc::clone(&visitor), Rc::clone(&pushed), Rc::clone(&visits));
        let mut reached = 0;
        move |at| {
            reached += u32::from(at == step);
            if at == step && reached % period == 0 {
                visitor.borrow_mut().visit(pushed.get());
                visits.set(visits.get() + 1);
            }
        }
    });
    // A third lives on: most are dead, so that promotions happen.
    for number in 0..count {
        push(&queue, 0, entry(number, Visitor::due_of(number)), &slots);
        pushed.set(number + 1);
        if number % 3 != 0 && number > 50 {
            slots.kill(number - 50);
        }
    }
    looked::interrupt_by(|_| {});
    let mut visitor = visitor.borrow_mut();
    visitor.due = None;
    visitor.visit(count);
    for due in [5, 9] {
        let filed = (visitor.filed.iter()).filter(|number| Visitor::due_of(**number) == due);
        assert!(filed.is_sorted(), "out of order");
    }
    assert_eq!(queue.len(), 0);
    visits.get()
}

#[test]
fn a_push_that_is_interrupted_at_any_step_hides_loses_and_disorders_nothing() {
    let takes = [
        (None, 0),
        (Some(Tick(5)), 0),
        (Some(Tick(9)), 0),
        (Some(Tick(5)), reader::AGE / 2),
    ];
    for (step, often) in [
        (Step::Written, 29),
        (Step::Published, 29),
        (Step::Trimming, 1),
        (Step::Claimed, 1),
        (Step::Copied, 1),
        (Step::Pushed, 1),
        (Step::Announced, 1),
        (Step::Compacted, 1),
    ] {
        for (due, pause) in takes {
            for period in [1, 2, 3, 5, 11, 23] {
                let visits = interrupt_pushes(step, period * often, due, pause);
                assert!(visits > 0 || period > 1, "{step:?} was never reached");
            }
        }
    }
}

#[test]
fn producers_and_the_reader_on_real_threads_lose_nothing() {
    let (per_thread, threads) = if cfg!(miri) { (300, 2) } else { (300_000, 4) };
    let slots = Slots::new(per_thread * threads);
    let queue = PendingQueue::new();
    let running = AtomicUsize::new(threads);
    let cancelled: Vec<AtomicU32> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    let filed = thread::scope(|scope| {
        for thread in 0..threads {
            let (queue, slots, running, cancelled) = (&queue, &slots, &running, &cancelled);
            scope.spawn(move || {
                let first = (thread * per_thread) as u32;
                for number in first..first + per_thread as u32 {
                    push(queue, thread as u32, entry(number, 5), slots);
                    // Half of them end soon, in a row.
                    if number % 2 == 0 && number > first + 64 {
                        slots.kill(number - 64);
                        cancelled[thread].fetch_add(1, Ordering::Relaxed);
                    }
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
        let mut last = false;
        while !last {
            last = running.load(Ordering::Acquire) == 0;
            reader.look(&queue, 0);
            reader.transfer(&queue, Take::Everything, 1000, &mut wheel);
            last &= reader.is_drained();
        }
        wheel.filed
    });
    for thread in 0..threads as u32 {
        let first = thread * per_thread as u32;
        let mine: Vec<u32> = filed
            .iter()
            .copied()
            .filter(|number| number / per_thread as u32 == thread)
            .collect();
        assert!(mine.is_sorted_by(|a, b| a < b), "doubled or out of order");
        let live =
            (first..first + per_thread as u32).filter(|number| !slots.is_dead(entry(*number, 5)));
        for number in live {
            assert!(mine.binary_search(&number).is_ok(), "{number} was lost");
        }
    }
}

/// The owner puts batches together while a scan is cut: what that has copied may come again, and nothing else.
#[test]
fn only_what_a_cut_scan_has_copied_is_filed_twice_when_batches_are_put_together() {
    const DUE: u32 = 31 * 300;
    let slots = Slots::new(60_000);
    let queue = PendingQueue::new();
    // One of each chunk lives.
    for number in 0..DUE {
        push(
            &queue,
            0,
            entry(number, if number % 31 == 0 { 5 } else { 9999 }),
            &slots,
        );
    }
    let (mut reader, mut wheel) = (Reader::default(), Wheel::new(&slots));
    reader.look(&queue, 0);
    let take = Take::Soon {
        due: Tick(5),
        near: Tick(5),
        now: 0,
    };
    assert_eq!(reader.transfer(&queue, take, 200, &mut wheel), 200);
    assert!(reader.is_cut());
    let copied = 200 + reader.backlog();
    for number in 0..60_000 {
        if number >= DUE {
            push(&queue, 0, entry(number, 9999), &slots);
        }
        if number % 31 != 0 || number >= DUE {
            slots.kill(number);
        }
    }
    assert!(queue.shard(0).overflow.len() < 100, "put together");
    take_the_rest(&queue, &mut reader, &mut wheel);
    let due = (0..DUE).step_by(31);
    let expected = due.clone().take(copied).chain(due);
    assert!(wheel.filed.into_iter().eq(expected));
}

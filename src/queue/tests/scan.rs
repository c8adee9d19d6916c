//! Scans copy what is due soon and leave the rest in its place.

use super::super::probe::{Step, looked};
use super::*;
use std::sync::Arc;

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
                let take = soon(now * step, now * 1_000_000);
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
    assert_eq!(reader.transfer(&queue, soon(5, 0), 200, &mut wheel), 200);
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

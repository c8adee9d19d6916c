//! What a transfer takes, in which order, and what it leaves.

use super::*;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::thread;

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
    let mut take = |due, now| reader.transfer(&queue, soon(due, now), usize::MAX, &mut wheel);
    assert_eq!(take(49, 1000), 1, "few are taken at once");
    assert_eq!(take(49, 1000), 0);
    assert_eq!(take(50, 1000), 100, "copied");
    assert_eq!(take(59, 999 + reader::AGE), 0);
    assert_eq!(queue.len(), 200, "they stay where they are");
    // Those that were copied have fired by then.
    (0..100).for_each(|number| slots.kill(number));
    let mut take = |due, now| reader.transfer(&queue, soon(due, now), usize::MAX, &mut wheel);
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
        while {
            reader.transfer(&queue, soon(due, now), usize::MAX, &mut wheel);
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

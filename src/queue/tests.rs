//! The queue from both ends: what is pushed is taken, once and in the order of each shard.

use super::*;
use crate::tuning::CROWD;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

fn id(number: u32) -> SlotId {
    SlotId::from_number(number)
}

fn push(queue: &PendingQueue, shard: u32, number: u32) {
    queue.push(queue.shard(shard), Lane::Soon, id(number), Tick(9), || {
        Tick(3)
    });
}

/// Looks, and takes all that was seen.
fn take(queue: &PendingQueue, reader: &mut Reader) -> Vec<u32> {
    reader.look(queue);
    let (waiting, mut taken) = (reader.waiting(), Vec::new());
    reader.take(queue, &mut |ids, _| {
        taken.extend(ids.iter().map(|id| id.number()));
    });
    assert!(taken.len() >= waiting);
    assert_eq!((reader.waiting(), reader.waiting_since()), (0, None));
    taken
}

#[test]
fn every_length_is_taken_in_order_whenever_it_is_taken() {
    for step in 1..=40_u32 {
        let (queue, mut reader) = (PendingQueue::new(), Reader::default());
        let mut next = 0;
        for _ in 0..10 {
            let first = next;
            for _ in 0..step {
                push(&queue, 0, next);
                next += 1;
            }
            assert_eq!(queue.len(), step as usize);
            assert!(take(&queue, &mut reader).into_iter().eq(first..next));
            assert_eq!((queue.len(), take(&queue, &mut reader)), (0, Vec::new()));
        }
    }
}

#[test]
fn what_is_not_looked_at_waits() {
    let (queue, mut reader) = (PendingQueue::new(), Reader::default());
    assert_eq!(reader.waiting_since(), None);
    push(&queue, 0, 0);
    reader.look(&queue);
    assert_eq!(
        (reader.waiting(), reader.waiting_since()),
        (1, Some(Tick(3)))
    );
    for number in 1..100 {
        push(&queue, 0, number);
    }
    assert_eq!((reader.waiting(), queue.len()), (1, 100));
    // The block is full by now, and taken as a whole.
    let mut taken = Vec::new();
    reader.take(&queue, &mut |ids, _| {
        taken.extend(ids.iter().map(|id| id.number()));
    });
    assert!(taken.iter().copied().eq(0..16), "{taken:?}");
    assert!(take(&queue, &mut reader).into_iter().eq(16..100));
}

#[test]
fn shards_do_not_mix() {
    let (queue, mut reader) = (PendingQueue::new(), Reader::default());
    for number in 0..1000 {
        push(&queue, number % 130, number);
    }
    assert_eq!(queue.len(), 1000);
    let taken = take(&queue, &mut reader);
    assert_eq!(taken.len(), 1000);
    for shard in 0..130 {
        let of_shard = taken.iter().copied().filter(|number| number % 130 == shard);
        assert!(of_shard.eq((shard..1000).step_by(130)));
    }
}

#[test]
fn a_number_takes_seventeen_bytes_at_most_and_gives_them_back() {
    let (queue, mut reader) = (PendingQueue::new(), Reader::default());
    push(&queue, 0, 0);
    let before = queue.bytes();
    for number in 1..=10_000 {
        push(&queue, 0, number);
    }
    assert!(queue.bytes() <= before + 17 * 10_000);
    assert_eq!(take(&queue, &mut reader).len(), 10_001);
    assert!(queue.bytes() <= before);
}

#[test]
fn a_crowd_is_told_with_every_few_thousand() {
    let shard = Shard::new(0);
    let crowded = |count: u64| (0..count).filter(|_| shard.push(Lane::Soon, id(0))).count();
    assert_eq!(crowded(CROWD - 1), 0);
    assert_eq!(crowded(1), 1);
    assert_eq!(crowded(3 * CROWD), 3);
}

/// The reader comes at any moment: in the middle of a block, while it is handed over, while the next one is begun.
#[test]
fn what_is_pushed_while_it_is_taken_comes_once_and_in_order() {
    const PUSHES: u32 = if cfg!(miri) { 500 } else { 300_000 };
    let (queue, done) = (
        Arc::new(PendingQueue::new()),
        Arc::new(AtomicBool::new(false)),
    );
    let producers: Vec<_> = (0..2)
        .map(|shard| {
            let queue = Arc::clone(&queue);
            thread::spawn(move || {
                for number in 0..PUSHES {
                    push(&queue, shard, number * 2 + shard);
                }
            })
        })
        .collect();
    let watcher = thread::spawn({
        let done = Arc::clone(&done);
        move || {
            for producer in producers {
                producer.join().unwrap();
            }
            done.store(true, Ordering::SeqCst);
        }
    });
    let mut reader = Reader::default();
    let mut next = [0, 1];
    loop {
        let last = done.load(Ordering::SeqCst);
        for number in take(&queue, &mut reader) {
            let shard = number as usize % 2;
            assert_eq!(number, next[shard], "shard {shard}");
            next[shard] += 2;
        }
        if last {
            break;
        }
    }
    assert_eq!(next, [2 * PUSHES, 2 * PUSHES + 1]);
    watcher.join().unwrap();
}

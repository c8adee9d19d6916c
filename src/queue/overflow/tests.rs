use super::super::chunk::ChunkId;
use super::super::position::Position;
use super::*;
use std::sync::Arc;

fn batch(len: u32) -> Batch {
    Batch {
        chunk: ChunkId::NONE,
        len,
        from: Position::START,
        to: Position::START,
        were_in: 0,
    }
}

#[test]
fn batches_come_out_in_order_and_segments_are_used_again() {
    let segments = Segments::new();
    let overflows = [Overflow::default(), Overflow::default()];
    let mut used = 0;
    for round in 0..10 {
        for number in 0..1000 {
            for (overflow, own) in overflows.iter().zip([0, 5000]) {
                overflow.push(batch(own + number), &segments);
            }
        }
        assert_eq!(segments.in_use(), 63, "all that are counted");
        for (overflow, own) in overflows.iter().zip([0, 5000]) {
            let popped = |number| {
                overflow
                    .pop(u64::MAX, &segments)
                    .map(|batch| (batch.len, number))
            };
            for number in own..own + 1000 {
                assert_eq!(popped(number), Some((number, number)));
            }
        }
        assert!(segments.in_use() <= 2, "each keeps the last: round {round}");
        if round == 0 {
            used = segments.table.used();
        }
        // Each may begin and end in the middle of one.
        assert!(segments.table.used() <= used + 2, "they are used again");
    }
}

#[test]
fn a_shard_that_promotes_now_and_then_needs_one_or_two_segments() {
    let (segments, overflow) = (Segments::new(), Overflow::default());
    for number in 0..10_000 {
        overflow.push(batch(number), &segments);
        overflow.push(batch(number), &segments);
        for _ in 0..2 {
            assert_eq!(
                overflow.pop(u64::MAX, &segments).map(|batch| batch.len),
                Some(number)
            );
        }
    }
    assert!(segments.in_use() <= 2);
    assert!(segments.table.used() <= 4);
}

/// The owner has put the other chain in place between the two reads, and has filled the first again, but not put it back.
#[test]
fn what_is_announced_of_a_chain_that_is_being_filled_does_not_count() {
    let overflow = Arc::new(Overflow::default());
    overflow.own.announced[0].store(3, Ordering::Relaxed);
    looked::interrupt_by({
        let (overflow, mut again) = (Arc::clone(&overflow), false);
        move |step| {
            if step == Step::Rooted && !std::mem::replace(&mut again, true) {
                let root = Root::new(3, 1);
                overflow.taken.root.store(root.0, Ordering::Relaxed);
                overflow.own.announced[1].store(5, Ordering::Relaxed);
                overflow.own.announced[0].store(7, Ordering::Relaxed);
            }
        }
    });
    assert_eq!(overflow.announced(), 5, "6 is not there yet");
    looked::interrupt_by(|_| {});
}

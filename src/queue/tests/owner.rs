//! What the owner's pushes clear away themselves, and how much one of them does.

use super::super::probe::looked;
use super::super::trim::LOOKS;
use super::*;

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

use super::*;
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use std::thread;

#[test]
fn the_lowest_free_indices_are_claimed_first() {
    let set = FreeSet::new();
    assert_eq!(set.claim_one(0), 0);
    assert_eq!(set.claim_one(0), 1);
    assert_eq!(set.claim_word(), (0, !0b11));
    assert_eq!(set.claim_word(), (1, FULL));
    set.release(0, 0b110);
    assert_eq!(set.claim_one(7), 7 * 64, "near where it was asked for");
    assert_eq!(set.claim_word(), (0, 0b110));
    assert_eq!(set.claim_word(), (2, FULL));
}

#[test]
fn a_claim_passes_over_full_words_on_every_level() {
    let set = FreeSet::new();
    // Beyond 64 × 64 words, so that bits of levels 1 and 2 are set.
    let words = 64 * 64 * 2 + 3;
    for number in 0..words {
        assert_eq!(set.claim_word(), (number, FULL));
    }
    for number in [words - 1, 64 * 64, 4095, 70, 0] {
        set.release_one(number * 64 + 5);
        assert_eq!(set.claim_word(), (number, 1 << 5), "the only free one");
    }
    assert_eq!(set.claim_word(), (words, FULL));
}

#[test]
fn only_whole_sets_of_free_indices_are_claimed_together() {
    let set = FreeSet::new();
    assert_eq!(set.claim_bits(3, 0b1111), 0b1111);
    assert_eq!(
        set.claim_bits(3, 0b11_1100),
        0b11_0000,
        "those that were free"
    );
    assert!(!set.claim_all(3, 0b110_0000));
    assert!(set.claim_all(3, 0b1100_0000));
    set.release(3, 0xff);
    assert!(set.claim_all(3, FULL));
    assert!(!set.claim_all(3, 1));
}

#[test]
fn threads_never_claim_an_index_twice_and_lose_none() {
    let rounds = if cfg!(miri) { 30 } else { 20_000 };
    let set = FreeSet::new();
    let in_use: Vec<AtomicBool> = (0..64 * 64).map(|_| AtomicBool::new(false)).collect();
    thread::scope(|scope| {
        for number in 0..4_u32 {
            let (set, in_use) = (&set, &in_use);
            scope.spawn(move || {
                let mut held = Vec::new();
                for round in 0..rounds {
                    if round % 3 == 0 {
                        let (word, bits) = set.claim_word();
                        held.extend(
                            (0..64)
                                .filter(|bit| bits >> bit & 1 == 1)
                                .map(|bit| word * 64 + bit),
                        );
                    } else {
                        held.push(set.claim_one(number));
                    }
                    let new = held.len().saturating_sub(64);
                    for index in held.drain(..new).collect::<Vec<_>>() {
                        set.release_one(index);
                    }
                }
                for &index in &held {
                    assert!(
                        !in_use[index as usize].swap(true, Ordering::Relaxed),
                        "{index} twice"
                    );
                }
            });
        }
    });
    // Everything else is free again: the lowest words hold it all.
    let taken: HashSet<u32> = (0..64 * 64)
        .filter(|index| in_use[*index as usize].load(Ordering::Relaxed))
        .collect();
    let mut free = 0;
    while free < 64 * 20 {
        let (word, bits) = set.claim_word();
        for bit in (0..64).filter(|bit| bits >> bit & 1 == 1) {
            assert!(!taken.contains(&(word * 64 + bit)));
            free += 1;
        }
        assert!(word < 64, "free ones were overlooked");
    }
}

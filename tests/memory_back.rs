//! The memory that a burst has used goes back to the system.

mod common;

use common::{Kind, on_both_timers};
use hashed_wheel::{ManualClock, Timeout};
use std::time::Duration;

on_both_timers!(
    memory_goes_back_when_few_slots_have_been_in_use_for_a_second,
    memory_stays_while_a_quarter_of_the_slots_is_in_use,
    the_memory_of_a_few_thousand_slots_stays,
    handles_that_are_kept_answer_as_before,
    a_second_burst_finds_its_timeouts_and_no_old_ones,
);

const BURST: usize = if cfg!(miri) { 6_000 } else { 40_000 };
const SECOND: Duration = Duration::from_secs(1);
const FAR: Duration = Duration::from_secs(3600);
/// Where pages can be given back.
const GIVES_BACK: bool = cfg!(all(target_os = "linux", not(miri)));

fn burst(timer: &common::Timer) -> Vec<Timeout> {
    (0..BURST)
        .map(|_| timer.new_timeout(|_| {}, FAR).unwrap())
        .collect()
}

fn memory_goes_back_when_few_slots_have_been_in_use_for_a_second(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let kept = timer.new_timeout(|_| {}, 2 * FAR).unwrap();
    let held = burst(&timer);
    clock.advance(SECOND);
    let full = timer.stats().bytes;
    assert!(full >= 64 * BURST as u64);
    assert_eq!(timer.cancel_all(), BURST + 1);
    drop((held, kept));
    clock.advance(SECOND / 2);
    let early = timer.stats().bytes;
    clock.advance(SECOND);
    let after = timer.stats().bytes;
    if GIVES_BACK {
        assert!(
            early > 48 * BURST as u64,
            "{early} of {full}: not before a second"
        );
        assert!(after < full / 8, "{after} of {full} bytes are still held");
    }
}

fn memory_stays_while_a_quarter_of_the_slots_is_in_use(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let mut held = burst(&timer);
    clock.advance(SECOND);
    // The first third stays.
    for timeout in held.split_off(BURST / 3) {
        timeout.cancel();
    }
    clock.advance(10 * SECOND);
    assert!(timer.stats().bytes >= 64 * BURST as u64);
}

fn the_memory_of_a_few_thousand_slots_stays(kind: Kind) {
    const FEW: usize = 3_000;
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for _ in 0..FEW {
        timer.new_timeout(|_| {}, SECOND).unwrap();
    }
    for _ in 0..5 {
        clock.advance(SECOND);
    }
    assert_eq!(timer.stats().expired as usize, FEW);
    assert!(timer.stats().bytes >= 64 * FEW as u64);
}

fn handles_that_are_kept_answer_as_before(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    let held = burst(&timer);
    let fired = timer.new_timeout(|_| {}, SECOND).unwrap();
    clock.advance(SECOND);
    // One in a thousand is kept: pending, cancelled, or both gone and looked at later.
    let mut kept = Vec::new();
    for (number, timeout) in held.into_iter().enumerate() {
        if number % 2000 != 0 {
            timeout.cancel();
        }
        if number % 1000 == 0 {
            kept.push(timeout);
        }
    }
    for _ in 0..5 {
        clock.advance(SECOND);
    }
    for (number, timeout) in kept.iter().enumerate() {
        assert_eq!(timeout.is_cancelled(), number % 2 == 1);
        assert!(!timeout.is_expired());
        let left = FAR.checked_sub(6 * SECOND).unwrap();
        assert_eq!(
            timeout.remaining(),
            if number % 2 == 0 {
                left
            } else {
                Duration::ZERO
            }
        );
    }
    assert!(fired.is_expired());
    clock.advance(FAR);
    assert!(kept.iter().step_by(2).all(Timeout::is_expired));
    assert_eq!(timer.stats().expired as usize, 1 + kept.len().div_ceil(2));
}

fn a_second_burst_finds_its_timeouts_and_no_old_ones(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    for round in 1..=4_u64 {
        let held = burst(&timer);
        clock.advance(SECOND);
        // Half fires in time, the other half is cancelled and leaves its entries behind.
        for timeout in held.iter().step_by(2) {
            timeout.cancel();
        }
        drop(held);
        clock.advance(FAR);
        clock.advance(2 * SECOND);
        let stats = timer.stats();
        assert_eq!(stats.expired, round * BURST as u64 / 2);
        assert_eq!(stats.pending, 0);
        if GIVES_BACK {
            assert!(
                stats.bytes < 16 * BURST as u64,
                "{} bytes in round {round}",
                stats.bytes
            );
        }
    }
}

//! Settings that are refused, those that are adjusted, and the words in which that is said.

mod common;

use std::error::Error;
use std::panic::catch_unwind;
use std::time::Duration;

use common::{Builder, Count, Kind, logs, message_of, ms, noting, on_both_timers};
use hashed_wheel::{ConfigError, HashedWheelTimer, HierarchicalWheelTimer, ManualClock};
use log::Level;

on_both_timers![
    a_zero_tick_is_refused,
    zero_buckets_are_refused,
    more_than_two_to_the_24_buckets_are_refused,
    a_tick_whose_revolution_overflows_is_refused,
    the_longest_tick_that_fits_is_accepted,
    a_limit_of_zero_is_refused,
    a_transfer_cap_of_zero_is_refused,
    a_tick_below_a_millisecond_becomes_one_with_a_warning,
    a_tick_of_a_millisecond_is_taken_without_a_warning,
    each_rule_has_a_message_of_its_own,
];

fn refused(builder: Builder) -> String {
    let error = builder.try_build().expect_err("the setting is refused");
    assert!(error.source().is_none(), "nothing lies beneath it");
    let (shown, debug) = (error.to_string(), format!("{error:?}"));
    assert!(!debug.is_empty());
    shown
}

/// The numbers in a text, in the order they stand.
fn numbers(text: &str) -> Vec<&str> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect()
}

/// The message tells the bad value and at least one bound of what is allowed.
#[track_caller]
fn assert_tells(message: &str, bad: &str, bounds: &[&str]) {
    assert!(
        message.contains(bad),
        "the bad value {bad} is missing: {message}"
    );
    assert!(
        numbers(message).len() >= 2,
        "the range is missing: {message}"
    );
    let told = bounds.is_empty() || bounds.iter().any(|bound| message.contains(bound));
    assert!(told, "none of {bounds:?} is told: {message}");
}

fn a_zero_tick_is_refused(kind: Kind) {
    assert_tells(&refused(kind.builder().tick(Duration::ZERO)), "0", &[]);
}

fn zero_buckets_are_refused(kind: Kind) {
    let bounds = ["16777216", "16_777_216", "2^24"];
    assert_tells(&refused(kind.builder().buckets(0)), "0", &bounds);
}

#[test]
fn a_hierarchy_needs_two_buckets() {
    let message = refused(Kind::Hierarchical.builder().buckets(1));
    assert_tells(&message, "1", &["16777216", "16_777_216", "2^24"]);
    assert!(numbers(&message).contains(&"2"), "{message}");
    Kind::Hierarchical.builder().buckets(2).build();
    Kind::Hashed.builder().buckets(1).build();
}

fn more_than_two_to_the_24_buckets_are_refused(kind: Kind) {
    let bounds = ["16777216", "16_777_216", "2^24"];
    for slots in [(1 << 24) + 1, 1 << 25, usize::MAX] {
        // The shortest tick, so that only the number of slots is wrong.
        let message = refused(kind.builder().tick(ms(1)).buckets(slots));
        assert_tells(&message, &slots.to_string(), &bounds);
    }
    kind.builder().tick(ms(1)).buckets(1 << 16).build();
}

fn a_tick_whose_revolution_overflows_is_refused(kind: Kind) {
    // (2^64 − 1) / 512 nanoseconds, in whatever unit they are told.
    let (longest, shown) = (u64::MAX / 512, "36028797");
    let builder = || kind.builder().buckets(512);
    let message = refused(builder().tick(Duration::from_nanos(longest + 1)));
    assert_tells(&message, shown, &[shown]);
    let message = refused(builder().tick(Duration::MAX));
    assert_tells(&message, "18446744073709551615", &[shown]);
    builder().tick(Duration::from_nanos(longest)).build();
}

fn the_longest_tick_that_fits_is_accepted(kind: Kind) {
    let clock = ManualClock::new();
    let tick = Duration::from_nanos(u64::MAX / 8);
    let timer = kind.builder().buckets(8).tick(tick).clock(&clock).build();
    let runs = Count::new();
    timer.new_timeout(runs.task(), ms(1)).unwrap();
    clock.advance(tick.checked_sub(ms(1)).unwrap());
    assert_eq!(runs.get(), 0);
    clock.advance(ms(1));
    assert_eq!(runs.get(), 1);
}

fn a_limit_of_zero_is_refused(kind: Kind) {
    assert_tells(&refused(kind.builder().max_pending(0)), "0", &["1"]);
    kind.builder().max_pending(1).build();
    kind.builder().max_pending(usize::MAX).build();
}

fn a_transfer_cap_of_zero_is_refused(kind: Kind) {
    assert_tells(&refused(kind.builder().max_transfers(0)), "0", &["1"]);
    kind.builder().max_transfers(1).build();
    kind.builder().max_transfers(usize::MAX).build();
}

fn each_rule_has_a_message_of_its_own(kind: Kind) {
    let mut messages = vec![
        refused(kind.builder().tick(Duration::ZERO)),
        refused(kind.builder().buckets(0)),
        refused(kind.builder().tick(Duration::MAX)),
        refused(kind.builder().max_pending(0)),
        refused(kind.builder().max_transfers(0)),
    ];
    messages.sort_unstable();
    messages.dedup();
    assert_eq!(messages.len(), 5, "{messages:?}");
}

#[test]
fn new_panics_with_the_same_words() {
    type New = fn(Duration, usize) -> Option<ConfigError>;
    type Build = fn(Duration, usize) -> Option<ConfigError>;
    let hashed: (New, Build) = (
        |tick, slots| {
            HashedWheelTimer::new(tick, slots);
            None
        },
        |tick, slots| {
            let builder = HashedWheelTimer::builder()
                .tick_duration(tick)
                .ticks_per_wheel(slots);
            builder.build().err()
        },
    );
    let hierarchical: (New, Build) = (
        |tick, slots| {
            HierarchicalWheelTimer::new(tick, slots);
            None
        },
        |tick, slots| {
            let builder = HierarchicalWheelTimer::builder()
                .tick_duration(tick)
                .wheel_size(slots);
            builder.build().err()
        },
    );
    for (new, build) in [hashed, hierarchical] {
        let bad = [
            (ms(0), 512),
            (ms(100), 0),
            (ms(100), (1 << 24) + 1),
            (Duration::MAX, 512),
        ];
        for (tick, slots) in bad {
            let message = build(tick, slots).expect("refused").to_string();
            let payload = catch_unwind(|| new(tick, slots)).expect_err("panics");
            let panicked = message_of(&*payload);
            assert!(
                panicked.contains(&message),
                "{panicked:?} does not say {message:?}"
            );
        }
    }
}

/// Whether timeouts of these two due ticks share a bucket: one is met when the other fires.
fn share_a_bucket(slots: usize, first: u64, second: u64) -> bool {
    let clock = ManualClock::new();
    let timer = Kind::Hashed.builder().buckets(slots).clock(&clock).build();
    timer.new_timeout(|_| {}, ms(10) * first as u32).unwrap();
    timer.new_timeout(|_| {}, ms(10) * second as u32).unwrap();
    clock.advance(ms(10) * first as u32);
    assert_eq!((timer.stats().expired, timer.stats().levels), (1, 1));
    timer.stats().passed_over == 1
}

#[test]
fn ticks_per_wheel_is_rounded_up_to_a_power_of_two() {
    for (asked, rounded) in [
        (1, 1),
        (2, 2),
        (3, 4),
        (4, 4),
        (5, 8),
        (500, 512),
        (513, 1024),
    ] {
        assert!(
            share_a_bucket(asked, 3, 3 + rounded),
            "{asked} slots become {rounded}"
        );
        if asked as u64 != rounded {
            assert!(
                !share_a_bucket(asked, 3, 3 + asked as u64),
                "{asked} slots do not stay"
            );
        }
        if rounded > 1 {
            assert!(
                !share_a_bucket(asked, 3, 3 + rounded / 2),
                "{asked} slots are no fewer"
            );
        }
    }
}

#[test]
fn the_default_is_a_hundred_milliseconds_and_512_buckets() {
    let clock = ManualClock::new();
    let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    for ticks in [1, 513, 256] {
        timer.new_timeout(|_| {}, ms(100) * ticks).unwrap();
    }
    clock.advance(ms(99));
    assert_eq!(timer.stats().expired, 0);
    clock.advance(ms(1));
    assert_eq!((timer.stats().expired, timer.stats().passed_over), (1, 1));
}

#[test]
fn the_hierarchys_default_is_a_millisecond_and_twenty_buckets() {
    let clock = ManualClock::new();
    let timer = HierarchicalWheelTimer::builder()
        .clock(&clock)
        .build()
        .unwrap();
    timer.new_timeout(|_| {}, ms(1)).unwrap();
    timer.new_timeout(|_| {}, ms(399)).unwrap();
    clock.advance(ms(1));
    assert_eq!((timer.stats().expired, timer.stats().levels), (1, 2));
    timer.new_timeout(|_| {}, ms(400)).unwrap();
    clock.advance(ms(1));
    assert_eq!(timer.stats().levels, 3, "two levels of twenty span 400 ms");
}

fn a_tick_below_a_millisecond_becomes_one_with_a_warning(kind: Kind) {
    logs::keep();
    for tick in [Duration::from_nanos(1), Duration::from_nanos(999_999)] {
        let (clock, seen) = (ManualClock::new(), common::Record::new());
        let before = logs::of_this_thread(Some(Level::Warn)).len();
        let timer = kind.builder().tick(tick).clock(&clock).build();
        assert_eq!(logs::of_this_thread(Some(Level::Warn)).len(), before + 1);
        timer.new_timeout(noting(&seen, &clock, ()), ms(0)).unwrap();
        clock.advance(Duration::from_micros(999));
        assert_eq!(seen.len(), 0);
        clock.advance(Duration::from_micros(1));
        assert_eq!(seen.take(), [((), 1)]);
    }
}

fn a_tick_of_a_millisecond_is_taken_without_a_warning(kind: Kind) {
    logs::keep();
    kind.builder().tick(ms(1)).build();
    let warnings = logs::of_this_thread(Some(Level::Warn));
    assert!(warnings.is_empty(), "{warnings:?}");
}

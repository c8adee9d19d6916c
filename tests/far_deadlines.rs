//! Deadlines far away: many rounds, centuries, and those that never come.

mod common;

use std::time::Duration;

use common::{Count, Kind, Record, assert_counts_add_up, ms, noting, on_both_timers};
use hashed_wheel::{ManualClock, Timeout};

const NEVER: Duration = Duration::MAX;
const DAY: Duration = Duration::from_secs(24 * 3_600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);

on_both_timers![
    the_longest_delay_never_fires,
    a_delay_that_saturates_never_fires,
    a_sum_that_saturates_never_fires,
    the_longest_delay_can_be_cancelled_and_reset,
    the_longest_delay_comes_back_from_stop,
    the_last_representable_years_fire_on_time,
    many_rounds_fire_at_the_exact_boundary,
    a_timer_that_runs_for_centuries_keeps_exact_time,
    a_far_timeout_costs_nothing_until_it_is_due,
    a_real_timer_takes_far_deadlines_beside_near_ones,
];

fn the_longest_delay_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let timeout = timer.new_timeout(runs.task(), NEVER).unwrap();
    assert_eq!(timeout.remaining(), NEVER);
    for _ in 0..3 {
        clock.advance(100 * YEAR);
        assert_eq!(timeout.remaining(), NEVER);
    }
    clock.advance(NEVER);
    assert_eq!(runs.get(), 0, "not even at the end of time");
    assert_eq!((timer.pending_timeouts(), timeout.is_expired()), (1, false));
    assert_eq!(timeout.remaining(), NEVER);
}

fn a_delay_that_saturates_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    let held: Vec<_> = [585, 1_000, 100_000]
        .map(|years| timer.new_timeout(runs.task(), years * YEAR).unwrap())
        .into_iter()
        .collect();
    assert!(
        held.iter().all(|t| t.remaining() == NEVER),
        "2^64 ns are 584.9 years"
    );
    clock.advance(NEVER);
    assert_eq!(runs.get(), 0);
    assert!(held.iter().all(Timeout::cancel));
}

fn a_sum_that_saturates_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    timer.start().unwrap();
    clock.advance(300 * YEAR);
    let runs = Count::new();
    let never = timer.new_timeout(runs.task(), 300 * YEAR).unwrap();
    let once = timer.new_timeout(runs.task(), 280 * YEAR).unwrap();
    assert_eq!((never.remaining(), once.remaining()), (NEVER, 280 * YEAR));
    clock.advance(NEVER);
    assert_eq!(runs.get(), 1);
    assert!(once.is_expired() && !never.is_expired());
    assert_counts_add_up(&timer);
}

fn the_longest_delay_can_be_cancelled_and_reset(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.on(&clock);
    let gone = timer.new_timeout(noting(&seen, &clock, 0), NEVER).unwrap();
    assert!(gone.cancel());
    assert_eq!(
        (gone.remaining(), timer.pending_timeouts()),
        (Duration::ZERO, 0)
    );
    let back = timer.new_timeout(noting(&seen, &clock, 1), NEVER).unwrap();
    let away = timer.new_timeout(noting(&seen, &clock, 2), ms(50)).unwrap();
    clock.advance(ms(10));
    assert!(back.reset(ms(30)));
    assert!(away.reset(NEVER));
    assert_eq!((back.remaining(), away.remaining()), (ms(30), NEVER));
    clock.advance(YEAR);
    assert_eq!(seen.take(), [(1, 40)]);
    assert!(away.reset(ms(0)));
    clock.advance(ms(10));
    assert_eq!(seen.len(), 1);
}

fn the_longest_delay_comes_back_from_stop(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let runs = Count::new();
    timer.new_timeout(runs.task(), NEVER).unwrap();
    clock.advance(DAY);
    let left = timer.stop().unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].is_cancelled());
    left[0].take_task().unwrap()(&left[0]);
    assert_eq!(runs.get(), 1);
}

fn the_last_representable_years_fire_on_time(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind.builder().tick(ms(1)).clock(&clock).build();
    let last = Duration::from_nanos(u64::MAX).checked_sub(DAY).unwrap();
    let last = last.as_millis() as u64;
    for before in [0, 1, 1_000_000_000, 1_000_000_000_000] {
        let deadline = last - before;
        timer
            .new_timeout(noting(&seen, &clock, deadline), ms(deadline))
            .unwrap();
    }
    clock.advance(ms(last));
    let seen = seen.take();
    assert_eq!(seen.len(), 4);
    assert!(seen.is_sorted());
    assert!(
        seen.iter().all(|(deadline, fired)| deadline == fired),
        "{seen:?}"
    );
}

fn many_rounds_fire_at_the_exact_boundary(kind: Kind) {
    for slots in [2, 4, 8, 64] {
        let (clock, seen) = (ManualClock::new(), Record::new());
        let timer = kind
            .builder()
            .buckets(slots)
            .tick(ms(1))
            .clock(&clock)
            .build();
        clock.advance(ms(5));
        timer.start().unwrap();
        // Each power of two and its neighbours, so many turns away.
        let delays = (1..30).flat_map(|bits| [-1, 0, 1].map(|d| (1_i64 << bits) + d));
        let mut expected = Vec::new();
        for delay in delays.map(|d| u64::try_from(d).unwrap()) {
            timer
                .new_timeout(noting(&seen, &clock, delay), ms(delay))
                .unwrap();
            expected.push((delay, delay + 5));
        }
        clock.advance(ms(1 << 31));
        expected.sort_unstable();
        assert_eq!(seen.take(), expected, "{slots} slots");
    }
}

fn a_timer_that_runs_for_centuries_keeps_exact_time(kind: Kind) {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = kind
        .builder()
        .tick(ms(1))
        .buckets(512)
        .clock(&clock)
        .build();
    let far = 580 * YEAR;
    let landmark = timer.new_timeout(noting(&seen, &clock, 0), far).unwrap();
    let mut now = 0;
    // Where counters of milliseconds, signed or not, have been known to end.
    for bits in [30, 31, 32, 33, 36, 40, 41, 42, 43, 44] {
        let edge = 1_u64 << bits;
        clock.advance(ms(edge - 8 - now));
        now = edge - 8;
        for delay in (1..=16).rev() {
            timer
                .new_timeout(noting(&seen, &clock, now + delay), ms(delay))
                .unwrap();
        }
        for _ in 0..16 {
            clock.advance(ms(1));
            now += 1;
            assert_eq!(seen.take(), [(now, now)], "around 2^{bits} ms");
        }
        assert!(!landmark.is_expired());
        assert_eq!(landmark.remaining(), far.checked_sub(ms(now)).unwrap());
    }
    clock.advance(far.checked_sub(ms(now + 1)).unwrap());
    assert!(!landmark.is_expired());
    clock.advance(ms(1));
    assert_eq!(seen.take(), [(0, far.as_millis() as u64)]);
    assert_counts_add_up(&timer);
}

fn a_far_timeout_costs_nothing_until_it_is_due(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().tick(ms(1)).clock(&clock).build();
    let runs = Count::new();
    timer.new_timeout(runs.task(), 50 * YEAR).unwrap();
    clock.advance(ms(1));
    let settled = timer.stats().wakeups;
    assert_eq!(settled, 1, "the boundary at which it was filed");
    clock.advance(100 * YEAR);
    assert_eq!(runs.get(), 1);
    let visited = timer.stats().wakeups - settled;
    // One for the hashed wheel; on the hierarchy one more for each level it comes down.
    assert!(
        visited <= timer.stats().levels,
        "{visited} boundaries visited"
    );
}

fn a_real_timer_takes_far_deadlines_beside_near_ones(kind: Kind) {
    let timer = kind.real(ms(1));
    let delays = [NEVER, 1_000 * YEAR, 500 * YEAR, YEAR, DAY];
    let far = delays.map(|delay| {
        timer
            .new_timeout(|_| panic!("must not run"), delay)
            .unwrap()
    });
    for _ in 0..3 {
        let (done, signal) = std::sync::mpsc::channel();
        timer
            .new_timeout(move |_| done.send(()).unwrap(), ms(2))
            .unwrap();
        common::recv(&signal);
    }
    assert!(far.iter().all(|t| !t.is_expired()));
    assert_eq!((far[0].remaining(), far[1].remaining()), (NEVER, NEVER));
    assert!(far[3].remaining() > 364 * DAY && far[3].remaining() <= YEAR);
    assert_eq!(timer.stop().unwrap().len(), 5);
}

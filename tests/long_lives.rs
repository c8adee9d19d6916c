//! Timers that run for a century, timers made at an odd time, and places in memory that are used again
//! and again: nothing is early, late, lost or mistaken for something else. `far_deadlines` has the
//! deadlines that are far from the beginning; here it is the timer that has come far.

mod common;

use std::time::Duration;

use common::{FAR, Kind, Record, Timer, assert_counts_add_up, on_both_timers};
use hashed_wheel::{ManualClock, Period, Timeout};

on_both_timers![
    short_timeouts_beside_a_far_one_cross_every_edge,
    deadlines_a_nanosecond_from_every_edge_round_up_however_they_were_set,
    a_slow_periodic_task_keeps_its_phase_for_a_century,
    one_place_used_again_for_ever_knows_its_old_handles,
    an_entry_left_behind_never_moves_a_later_tenant,
];

const MS: u64 = 1_000_000;
const YEAR: u64 = 365 * 24 * 3_600 * 1_000 * MS;

/// Where counters of milliseconds have been known to end, and a century, in nanoseconds.
const EDGES: [u64; 6] = [
    (1 << 30) * MS,
    (1 << 31) * MS,
    (1 << 32) * MS,
    (1 << 36) * MS,
    (1 << 40) * MS,
    100 * YEAR,
];

const fn ns(nanos: u64) -> Duration {
    Duration::from_nanos(nanos)
}

/// A timer on a clock of its own, and what ran on it: a number and the time since the timer started.
struct Life {
    clock: ManualClock,
    timer: Timer,
    start: u64,
    seen: Record<(u64, u64)>,
}

impl Life {
    fn begin(kind: Kind, tick: u64, slots: usize, start: u64) -> Life {
        let clock = ManualClock::new();
        clock.advance(ns(start));
        let builder = kind.builder().tick(ns(tick)).buckets(slots);
        let timer = builder.clock(&clock).build();
        timer.start().unwrap();
        let seen = Record::new();
        Life {
            clock,
            timer,
            start,
            seen,
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap() - self.start
    }

    /// Goes to a time since the start.
    fn go_to(&self, moment: u64) {
        self.clock.advance(ns(moment - self.now()));
    }

    /// A task that notes its number and when it ran.
    fn noting(&self, number: u64) -> impl FnMut(&Timeout) + Send + use<> {
        let (seen, clock, start) = (self.seen.clone(), self.clock.clone(), self.start);
        move |_| {
            let now = u64::try_from(clock.now().as_nanos()).unwrap();
            seen.push((number, now - start));
        }
    }

    /// Schedules number `number` for a time since the start.
    fn at(&self, moment: u64, number: u64) -> Timeout {
        let delay = ns(moment - self.now());
        self.timer.new_timeout(self.noting(number), delay).unwrap()
    }
}

/// At and next to every edge, and at odd times.
fn starts(tick: u64) -> Vec<u64> {
    let beside = |edge: u64| [edge - 8 * tick, edge - 1, edge, edge + 1];
    [0, 1, MS - 1]
        .into_iter()
        .chain(EDGES.into_iter().flat_map(beside))
        .collect()
}

fn short_timeouts_beside_a_far_one_cross_every_edge(kind: Kind) {
    const AROUND: u64 = 8;
    let sizes = [2, 8, 20, 512, 8192];
    for (n, tick) in [1, 3, 10, 1_000]
        .map(|millis| millis * MS)
        .into_iter()
        .enumerate()
    {
        for (m, start) in starts(tick).into_iter().enumerate() {
            let life = Life::begin(kind, tick, sizes[(n + m) % sizes.len()], start);
            let far = 400 * YEAR;
            let landmark = life.at(far, 0);
            // First where the clock itself may cross an edge, then where the timer's own time does.
            for edge in [AROUND * tick].into_iter().chain(EDGES) {
                let first = edge / tick - AROUND;
                life.go_to(first * tick);
                let boundaries = first + 1..=first + 2 * AROUND;
                for boundary in boundaries.clone().rev() {
                    life.at(boundary * tick, boundary);
                }
                for boundary in boundaries {
                    life.clock.advance(ns(tick));
                    let seen = life.seen.take();
                    assert_eq!(seen, [(boundary, boundary * tick)], "from {start}");
                }
                assert_eq!(landmark.remaining(), ns(far - life.now()));
            }
            life.go_to(far - 1);
            assert!(!landmark.is_expired());
            life.go_to(far.next_multiple_of(tick));
            assert_eq!(life.seen.take(), [(0, far.next_multiple_of(tick))]);
            assert_counts_add_up(&life.timer);
        }
    }
}

fn deadlines_a_nanosecond_from_every_edge_round_up_however_they_were_set(kind: Kind) {
    for tick in [MS, 7 * MS, 1_000 * MS + 1] {
        for start in [0, EDGES[0] - 1, EDGES[5]] {
            let life = Life::begin(kind, tick, 20, start);
            let mut expected = Vec::new();
            let mut held = Vec::new();
            for edge in EDGES {
                // Of the clock as well as of the timer.
                let of_clock = edge.checked_sub(start).filter(|moment| *moment > 2);
                for moment in [Some(edge), of_clock].into_iter().flatten() {
                    for deadline in [moment - 1, moment, moment + 1] {
                        let at_once = life.at(deadline, deadline);
                        let later = life.at(1, deadline);
                        assert!(later.reset(ns(deadline)));
                        let earlier = life.at(500 * YEAR, deadline);
                        assert!(earlier.reset(ns(deadline)));
                        held.extend([at_once, later, earlier]);
                        let boundary = deadline.next_multiple_of(tick);
                        expected.extend([(deadline, boundary); 3]);
                    }
                }
            }
            let never = life
                .timer
                .new_timeout(life.noting(0), Duration::MAX)
                .unwrap();
            life.go_to(101 * YEAR);
            let mut seen = life.seen.take();
            assert!(seen.is_sorted_by_key(|(_, at)| *at));
            seen.sort_unstable();
            expected.sort_unstable();
            assert_eq!(seen, expected, "tick {tick}, start {start}");
            assert!(held.iter().all(Timeout::is_expired));
            assert_eq!(never.remaining(), Duration::MAX);
        }
    }
}

fn a_slow_periodic_task_keeps_its_phase_for_a_century(kind: Kind) {
    // Twelve days and a bit: 2^30 ms, and not a whole number of ticks.
    let period = EDGES[0] + 12_345;
    for tick in [MS, 10 * MS, 3_600_000 * MS] {
        let life = Life::begin(kind, tick, 64, EDGES[2] - 5);
        let first = 7 * tick + 1;
        let rate = life
            .timer
            .new_periodic(life.noting(0), ns(first), Period::FixedRate(ns(period)))
            .unwrap();
        let delay = Period::FixedDelay(ns(period));
        let delayed = life.timer.new_periodic(life.noting(1), ns(first), delay);
        let delayed = delayed.unwrap();
        let end = 100 * YEAR;
        for stop in [EDGES[0] - 1].into_iter().chain(EDGES) {
            life.go_to(stop);
        }
        assert_eq!(life.now(), end);
        let runs = (0..).map(|n| first + n * period);
        let at_rate = runs.map(|deadline| (0, deadline.next_multiple_of(tick)));
        let next_delayed =
            |&(number, at): &(u64, u64)| Some((number, (at + period).next_multiple_of(tick)));
        let with_delay =
            std::iter::successors(Some((1, first.next_multiple_of(tick))), next_delayed);
        let mut expected: Vec<_> = at_rate.take_while(|(_, at)| *at <= end).collect();
        let rate_runs = expected.len() as u64;
        expected.extend(with_delay.take_while(|(_, at)| *at <= end));
        expected.sort_unstable();
        let mut seen = life.seen.take();
        seen.sort_unstable();
        assert_eq!(seen, expected, "tick {tick}");
        let next = first + rate_runs * period;
        assert_eq!(rate.remaining(), ns(next - end));
        assert!(rate.cancel() && delayed.cancel());
    }
}

/// `seq`, the counter that tells one use of a place from the next, goes round after so many.
const WRAP: usize = 1 << 13;

fn one_place_used_again_for_ever_knows_its_old_handles(kind: Kind) {
    let life = Life::begin(kind, MS, 8, 0);
    let expired = life.at(MS, 1);
    life.go_to(MS);
    let cancelled = life.at(5 * MS, 2);
    assert!(cancelled.cancel());
    let pending = life.timer.new_timeout(life.noting(3), FAR).unwrap();
    life.seen.take();
    for use_of_it in 0..5 * WRAP + 3 {
        // The same thread, one at a time: it gets the same place every time.
        let tenant = life.timer.new_timeout(life.noting(4), FAR).unwrap();
        if use_of_it % 1_000 == 0 {
            for old in [&expired, &cancelled] {
                assert!(!old.cancel() && !old.reset(Duration::ZERO));
                assert!(old.take_task().is_none() && old.remaining().is_zero());
            }
            assert!(expired.is_expired() && !expired.is_cancelled());
            assert!(cancelled.is_cancelled() && !cancelled.is_expired());
            assert!(!tenant.is_expired() && !tenant.is_cancelled());
            assert_eq!(life.timer.pending_timeouts(), 2);
            life.clock.advance(ns(MS));
        }
        assert!(tenant.cancel());
    }
    assert!(!pending.is_expired() && pending.cancel());
    life.clock.advance(2 * FAR);
    assert_eq!(life.seen.take(), []);
    let stats = life.timer.stats();
    assert_eq!((stats.expired, stats.pending), (1, 0));
    assert_counts_add_up(&life.timer);
}

/// How a place gets through so many numbers before its next tenant comes.
#[derive(Debug, Clone, Copy)]
enum Through {
    Tenants,
    Resets,
    Runs,
}

impl Through {
    fn go(self, life: &Life, numbers: usize) {
        let timer = &life.timer;
        match self {
            Through::Tenants => {
                for _ in 0..numbers {
                    assert!(timer.new_timeout(|_| {}, FAR).unwrap().cancel());
                }
            }
            Through::Resets => {
                let tenant = timer.new_timeout(|_| {}, 2 * FAR).unwrap();
                for _ in 1..numbers {
                    // Only an earlier time takes a new number.
                    assert!(tenant.reset(2 * FAR) && tenant.reset(FAR));
                }
                assert!(tenant.cancel());
            }
            Through::Runs => {
                let every_tick = Period::FixedRate(Duration::ZERO);
                let first = Duration::ZERO;
                let tenant = timer.new_periodic(|_: &Timeout| {}, first, every_tick);
                let tenant = tenant.unwrap();
                life.clock.advance(ns(MS) * (numbers as u32 - 1));
                assert!(tenant.cancel());
            }
        }
    }
}

fn an_entry_left_behind_never_moves_a_later_tenant(kind: Kind) {
    for through in [Through::Tenants, Through::Resets, Through::Runs] {
        for numbers in [1, WRAP - 2, WRAP - 1, WRAP, WRAP + 1, 2 * WRAP - 1] {
            for due in [-1_i64, 0, 1] {
                let life = Life::begin(kind, MS, 8, 0);
                let left_at = 20_000 * MS;
                // Filed, and then cancelled: its entry lies in the wheel until its time comes.
                let gone = life.at(left_at, 0);
                life.clock.advance(ns(MS));
                assert!(gone.cancel());
                drop(gone);
                through.go(&life, numbers);
                let deadline = left_at.saturating_add_signed(due * 10_000_000);
                let tenant = life.at(deadline, 1);
                life.go_to(deadline - 1);
                assert!(!tenant.is_expired(), "{through:?}, {numbers}: early");
                life.go_to(left_at + 100 * MS);
                let seen = life.seen.take();
                assert_eq!(seen, [(1, deadline)], "{through:?}, {numbers}");
                assert_counts_add_up(&life.timer);
            }
        }
    }
}

/// On the hashed wheel, what was scheduled first for a boundary runs first, also when an entry of an
/// earlier tenant of the second one's place lies in front of both.
#[test]
fn an_entry_left_behind_never_moves_a_later_tenant_forward() {
    for through in [Through::Tenants] {
        for numbers in [WRAP - 2, WRAP - 1, WRAP] {
            let life = Life::begin(Kind::Hashed, MS, 8, 0);
            let left_at = 20_000 * MS;
            let gone = life.at(left_at, 0);
            life.clock.advance(ns(MS));
            assert!(gone.cancel());
            let first = life.at(left_at, 1);
            // From here on its place is the next to be used.
            drop(gone);
            through.go(&life, numbers);
            let second = life.at(left_at, 2);
            life.go_to(left_at);
            let seen = life.seen.take();
            let expected = [(1, left_at), (2, left_at)];
            assert_eq!(seen, expected, "{through:?}, {numbers}");
            assert!(first.is_expired() && second.is_expired());
        }
    }
}

//! The hierarchy at work: levels come when they are needed, entries step down, and time is exact.

mod common;

use std::time::Duration;

use common::{Count, Record, assert_counts_add_up, ms, noting};
use hashed_wheel::{HierarchicalWheelTimer, ManualClock, Timeout};

fn wheel(clock: &ManualClock, tick: Duration, size: usize) -> HierarchicalWheelTimer {
    let builder = HierarchicalWheelTimer::builder()
        .tick_duration(tick)
        .wheel_size(size);
    builder.clock(clock).build().unwrap()
}

#[test]
fn tasks_that_are_already_due_all_fire() {
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = wheel(&clock, ms(1), 3);
    for _ in 0..5 {
        timer.new_timeout(runs.task(), ms(0)).unwrap();
    }
    clock.advance(ms(1));
    assert_eq!(runs.get(), 5);
}

#[test]
fn each_fires_as_often_as_it_was_added_in_order_of_delay() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = wheel(&clock, ms(1), 3);
    let delays = (0..5).chain(10..100).chain(10..100).chain(100..500);
    let mut expected: Vec<u64> = delays.collect();
    for delay in &expected {
        timer
            .new_timeout(noting(&seen, &clock, *delay), ms(*delay))
            .unwrap();
    }
    clock.advance(ms(1_000));
    expected.sort_unstable();
    let seen = seen.take();
    assert!(
        seen.iter()
            .map(|(delay, _)| *delay)
            .skip(2)
            .eq(expected.iter().copied().skip(2))
    );
    // 0 and 1 ms share the first boundary; the rest has its own time.
    assert!(seen.iter().all(|(delay, at)| *at == (*delay).max(1)));
}

#[test]
fn the_worked_example_of_an_hour_and_a_half() {
    let second = Duration::from_secs(1);
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = wheel(&clock, second, 60);
    timer.new_timeout(runs.task(), 5_420 * second).unwrap();
    assert_eq!(timer.stats().levels, 1);
    // Level 3 until 3 600 s, level 2 until 5 400 s, level 1 until it fires.
    for (until, cascaded, fired) in [(3_599, 0, 0), (5_399, 1, 0), (5_419, 2, 0), (5_420, 2, 1)] {
        clock.advance((until * second).checked_sub(clock.now()).unwrap());
        assert_eq!(
            (timer.stats().cascaded, runs.get()),
            (cascaded, fired),
            "at {until} s"
        );
        assert_eq!(timer.stats().levels, 3);
    }
    assert_eq!(timer.stats().wakeups, 4, "filed, two steps down, fired");
}

#[test]
fn the_worked_example_of_twenty_buckets() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = wheel(&clock, ms(1), 20);
    timer
        .new_timeout(noting(&seen, &clock, 350), ms(350))
        .unwrap();
    clock.advance(ms(1));
    assert_eq!(timer.stats().levels, 2, "within 400 ms");
    for deadline in [450, 446, 455, 473] {
        timer
            .new_timeout(noting(&seen, &clock, deadline), ms(deadline - 1))
            .unwrap();
    }
    clock.advance(ms(1));
    assert_eq!((timer.stats().levels, timer.stats().cascaded), (3, 0));
    for (until, cascaded) in [
        (339, 0),
        (340, 1),
        (399, 1),
        (400, 5),
        (439, 5),
        (440, 8),
        (460, 9),
    ] {
        clock.advance(ms(until).checked_sub(clock.now()).unwrap());
        assert_eq!(timer.stats().cascaded, cascaded, "at {until} ms");
    }
    clock.advance(ms(100));
    let expected = [350, 446, 450, 455, 473].map(|t| (t, t));
    assert_eq!(seen.take(), expected);
}

#[test]
fn deadlines_on_every_levels_edge_fire_on_time() {
    for size in [2, 3, 5, 20] {
        let powers = std::iter::successors(Some(size as u64), |span| Some(span * size as u64));
        let spans: Vec<u64> = powers.take_while(|span| *span < 1 << 20).collect();
        let near = |span: &u64| [span - 1, *span, span + 1];
        // Started at zero, and scheduled when the clock stands next to each level's edge.
        for start in [0].into_iter().chain(spans.iter().flat_map(near)) {
            let (clock, seen) = (ManualClock::new(), Record::new());
            let timer = wheel(&clock, ms(1), size);
            timer.start().unwrap();
            clock.advance(ms(start));
            let mut expected = Vec::new();
            for delay in spans.iter().flat_map(near).filter(|delay| *delay > 0) {
                timer
                    .new_timeout(noting(&seen, &clock, delay), ms(delay))
                    .unwrap();
                expected.push((delay, start + delay));
            }
            clock.advance(ms(1 << 21));
            expected.sort_unstable();
            assert_eq!(seen.take(), expected, "{size} slots, from {start} ms");
        }
    }
}

#[test]
fn a_level_is_made_only_when_a_deadline_needs_it() {
    let clock = ManualClock::new();
    let timer = wheel(&clock, ms(1), 10);
    timer.start().unwrap();
    // Two ticks short of each span: one passes before the entry is filed.
    for (level, span) in [(1, 10), (2, 100), (3, 1_000), (4, 10_000)] {
        clock.advance(ms(100_000).checked_sub(clock.now()).unwrap_or_default());
        let timeout = timer.new_timeout(|_| {}, ms(span - 2)).unwrap();
        clock.advance(ms(1));
        assert_eq!(timer.stats().levels, level, "span {span}");
        assert!(timeout.cancel());
        clock.advance(ms(99_999));
    }
}

#[test]
fn a_short_timeout_after_a_long_idle_time_does_not_travel() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = wheel(&clock, ms(1), 20);
    timer
        .new_timeout(noting(&seen, &clock, 100_000), ms(100_000))
        .unwrap();
    clock.advance(ms(100_000));
    let before = timer.stats();
    for idle in [1, 399, 8_001, 1_000_003] {
        clock.advance(ms(idle));
        let due = clock.now().as_millis() as u64 + 15;
        timer
            .new_timeout(noting(&seen, &clock, due), ms(15))
            .unwrap();
        clock.advance(ms(16));
    }
    let seen = seen.take();
    assert_eq!(seen.len(), 5);
    assert!(seen.iter().all(|(due, at)| due == at), "{seen:?}");
    assert_eq!(
        timer.stats().cascaded,
        before.cascaded,
        "within the first level's span"
    );
}

#[test]
fn cancelled_entries_do_not_step_down() {
    let clock = ManualClock::new();
    let timer = wheel(&clock, ms(1), 10);
    let runs = Count::new();
    let held: Vec<_> = (0..100)
        .map(|_| timer.new_timeout(runs.task(), ms(555)).unwrap())
        .collect();
    clock.advance(ms(499));
    assert!(held.iter().skip(1).step_by(2).all(Timeout::cancel));
    clock.advance(ms(1));
    assert_eq!(
        timer.stats().cascaded,
        50,
        "500 ms: those alive moved to the second level"
    );
    assert!(held.iter().skip(2).step_by(4).all(Timeout::cancel));
    clock.advance(ms(100));
    assert_eq!((runs.get(), timer.stats().cascaded), (25, 75));
    assert_counts_add_up(&timer.handle());
}

#[test]
fn a_task_that_runs_during_a_cascade_may_cancel_what_comes_down() {
    let clock = ManualClock::new();
    let timer = wheel(&clock, ms(1), 10);
    let runs = Count::new();
    let victims: Vec<_> = (500..560)
        .map(|d| timer.new_timeout(runs.task(), ms(d)).unwrap())
        .collect();
    // Due at the very boundary at which the others' bucket comes down.
    let task =
        move |_: &Timeout| assert!(victims.iter().skip(1).all(|t| t.cancel() || t.is_expired()));
    timer.new_timeout(task, ms(500)).unwrap();
    clock.advance(ms(1_000));
    assert_eq!(
        (runs.get(), timer.stats().panicked),
        (1, 0),
        "only the one due with it"
    );
    assert_counts_add_up(&timer.handle());
}

#[test]
fn buckets_are_used_again_over_many_revolutions() {
    let (clock, seen) = (ManualClock::new(), Record::new());
    let timer = wheel(&clock, ms(1), 4);
    let mut expected = Vec::new();
    for now in (0..20_000).step_by(7) {
        for delay in [1, 5, 21, 85] {
            timer
                .new_timeout(noting(&seen, &clock, now + delay), ms(delay))
                .unwrap();
            expected.push((now + delay, now + delay));
        }
        clock.advance(ms(7));
    }
    clock.advance(ms(200));
    expected.sort_unstable();
    assert_eq!(seen.take(), expected);
    assert_eq!(timer.stats().levels, 4, "four levels of four span 256 ms");
}

#[test]
fn a_bucket_of_very_many_entries_comes_down_whole() {
    const ENTRIES: u64 = 200_000;
    let (clock, runs) = (ManualClock::new(), Count::new());
    let timer = HierarchicalWheelTimer::builder()
        .max_transfers_per_tick(usize::MAX)
        .clock(&clock);
    let timer = timer.build().unwrap();
    for n in 0..ENTRIES {
        timer.new_timeout(runs.task(), ms(400 + n % 400)).unwrap();
    }
    clock.advance(ms(399));
    assert_eq!(
        (timer.stats().cascaded, timer.stats().transferred),
        (0, ENTRIES)
    );
    clock.advance(ms(1));
    assert_eq!(runs.get() as u64, ENTRIES / 400);
    assert_eq!(
        timer.stats().cascaded,
        ENTRIES - ENTRIES / 400,
        "all but those due at once"
    );
    clock.advance(ms(400));
    assert_eq!(runs.get() as u64, ENTRIES);
}

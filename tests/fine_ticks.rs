//! Ticks below a millisecond.

mod common;

use common::{Kind, Record, in_thread, logs, on_both_timers, recv};
use hashed_wheel::ManualClock;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const FINEST: Duration = Duration::from_micros(50);

on_both_timers![
    timeouts_fire_at_multiples_of_a_fine_tick,
    a_tick_that_is_too_fine_is_raised_with_a_warning,
    without_being_asked_for_a_fine_tick_is_a_millisecond,
    what_lies_beyond_the_horizon_never_fires,
    nothing_is_early_in_real_time_and_nothing_spins,
    the_timer_thread_has_the_finest_slack,
];

const fn us(n: u64) -> Duration {
    Duration::from_micros(n)
}

fn timeouts_fire_at_multiples_of_a_fine_tick(kind: Kind) {
    for tick in [FINEST, us(70), us(100), us(999), us(1500)] {
        let clock = ManualClock::new();
        let timer = kind.builder().fine_ticks(true).tick(tick).clock(&clock);
        let timer = timer.build();
        let record = Record::new();
        let delays = [0, 1, 49, 50, 51, 100, 250, 999, 1000, 12_345, 7_000_000];
        for delay in delays.map(us) {
            let (record, clock) = (record.clone(), clock.clone());
            let task = move |_: &_| record.push((delay, clock.now()));
            timer.new_timeout(task, delay).unwrap();
        }
        clock.advance(Duration::from_secs(10));
        let due = |delay: Duration| {
            let ticks = delay.as_nanos().div_ceil(tick.as_nanos()).max(1);
            tick * u32::try_from(ticks).unwrap()
        };
        let expected: Vec<_> = delays.map(|d| (us(d), due(us(d)))).into();
        assert_eq!(record.take(), expected, "tick {tick:?}");
    }
}

fn a_tick_that_is_too_fine_is_raised_with_a_warning(kind: Kind) {
    logs::keep();
    for tick in [Duration::from_nanos(1), us(49)] {
        let clock = ManualClock::new();
        let timer = kind.builder().fine_ticks(true).tick(tick).clock(&clock);
        let timer = timer.build();
        let timeout = timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
        clock.advance(us(49));
        assert!(!timeout.is_expired());
        clock.advance(us(1));
        assert!(timeout.is_expired());
        let warning = format!("a tick of {tick:?} is too short; 50µs is used");
        let lines = logs::containing(&warning);
        assert!(lines.iter().all(|line| line.level == log::Level::Warn));
        assert!(!lines.is_empty());
    }
}

fn without_being_asked_for_a_fine_tick_is_a_millisecond(kind: Kind) {
    for builder in [kind.builder(), kind.builder().fine_ticks(false)] {
        let clock = ManualClock::new();
        let timer = builder.tick(us(100)).clock(&clock).build();
        let timeout = timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
        clock.advance(us(999));
        assert!(!timeout.is_expired());
        clock.advance(us(1));
        assert!(timeout.is_expired());
    }
}

fn what_lies_beyond_the_horizon_never_fires(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.builder().fine_ticks(true).tick(FINEST).clock(&clock);
    let timer = timer.build();
    let last = FINEST * ((1 << 30) - 1) * (1 << 15);
    let before = timer.new_timeout(|_| {}, last).unwrap();
    let beyond = Duration::from_micros(50 * (1 << 45));
    let never = [beyond, 2 * beyond, Duration::MAX].map(|delay| {
        let timeout = timer.new_timeout(|_| {}, delay).unwrap();
        assert_eq!(timeout.remaining(), Duration::MAX, "{delay:?}");
        timeout
    });
    clock.advance(last.checked_sub(FINEST).unwrap());
    assert!(!before.is_expired());
    clock.advance(FINEST);
    assert!(before.is_expired());
    // Up to the end of time, and a few after the horizon.
    clock.advance(beyond);
    let late = timer.new_timeout(|_| {}, Duration::ZERO).unwrap();
    clock.advance(Duration::MAX);
    assert!(!late.is_expired());
    assert!(never.iter().all(|timeout| !timeout.is_expired()));
    assert_eq!(timer.stop().unwrap().len(), 4);
}

fn nothing_is_early_in_real_time_and_nothing_spins(kind: Kind) {
    let timer = kind.builder().fine_ticks(true).tick(us(100)).build();
    let (fired, firings) = mpsc::channel();
    for delay in (0..100).map(|n| us(n * 37)) {
        let (fired, begin) = (fired.clone(), Instant::now());
        let task = move |_: &_| fired.send((delay, begin.elapsed())).unwrap();
        timer.new_timeout(task, delay).unwrap();
    }
    for _ in 0..100 {
        let (delay, took) = recv(&firings);
        assert!(took >= delay, "{took:?} instead of {delay:?}");
    }
    timer.new_timeout(|_| {}, common::FAR).unwrap();
    // One look at what has just come, and then none.
    common::eventually("it sleeps", || {
        let before = timer.stats().wakeups;
        thread::sleep(common::ms(50));
        timer.stats().wakeups == before
    });
}

fn the_timer_thread_has_the_finest_slack(kind: Kind) {
    let timer = kind.builder().fine_ticks(true).tick(us(100)).build();
    let (sender, slack) = mpsc::channel();
    let task = move |_: &_| sender.send(timer_slack()).unwrap();
    timer.new_timeout(task, Duration::ZERO).unwrap();
    let other = recv(&in_thread(timer_slack));
    let fine = recv(&slack);
    if cfg!(target_os = "linux") && !cfg!(miri) {
        assert_eq!(fine, Some(1));
        assert_ne!(other, Some(1), "of no other thread");
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
#[expect(clippy::unnecessary_wraps, reason = "other systems have none")]
fn timer_slack() -> Option<i32> {
    // SAFETY: the call takes no pointer.
    Some(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn timer_slack() -> Option<i32> {
    None
}

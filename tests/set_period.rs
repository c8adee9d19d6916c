//! A periodic timeout whose period is changed.

mod common;

use std::thread;

use common::{FAR, Kind, Record, Timer, ms, now_ms, on_both_timers};
use hashed_wheel::{Job, ManualClock, Period, Timeout};

on_both_timers![
    the_next_run_keeps_its_time_and_later_ones_use_the_new_period,
    the_last_of_two_holds,
    called_by_the_run_it_holds_for_the_next,
    called_by_another_thread_during_a_run_it_holds_for_the_next,
    rate_and_delay_can_be_exchanged,
    it_is_false_of_any_other_timeout,
    the_next_timeout_in_the_same_slot_has_its_own_period,
];

fn rate(n: u64) -> Period {
    Period::FixedRate(ms(n))
}

/// A periodic task that notes when it runs, every 10 ms.
fn noting(timer: &Timer, clock: &ManualClock) -> (Timeout, Record<u64>) {
    let (seen, clock) = (Record::new(), clock.clone());
    let note = seen.clone();
    let task = move |_: &Timeout| note.push(now_ms(&clock));
    (timer.new_periodic(task, ms(10), rate(10)).unwrap(), seen)
}

fn the_next_run_keeps_its_time_and_later_ones_use_the_new_period(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (timeout, seen) = noting(&timer, &clock);
    clock.advance(ms(25));
    assert!(timeout.set_period(rate(40)));
    assert_eq!(timeout.remaining(), ms(5), "the next run keeps its time");
    clock.advance(ms(100));
    assert_eq!(seen.take(), [10, 20, 30, 70, 110]);
    assert!(timeout.set_period(rate(0)), "at every tick");
    clock.advance(ms(55));
    assert_eq!(seen.take(), [150, 160, 170, 180]);
    assert!(timeout.cancel());
    assert_eq!(timer.stats().periodic_runs, 9);
}

fn the_last_of_two_holds(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (timeout, seen) = noting(&timer, &clock);
    assert!(timeout.set_period(rate(500)));
    assert!(timeout.set_period(rate(20)));
    clock.advance(ms(60));
    assert_eq!(seen.take(), [10, 30, 50]);
}

fn called_by_the_run_it_holds_for_the_next(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let seen = Record::new();
    let (note, time) = (seen.clone(), clock.clone());
    let mut period = 10;
    let slower_each_time = move |timeout: &Timeout| {
        note.push(now_ms(&time));
        period *= 2;
        assert!(timeout.set_period(rate(period)));
    };
    timer
        .new_periodic(slower_each_time, ms(10), rate(10))
        .unwrap();
    clock.advance(ms(200));
    assert_eq!(seen.take(), [10, 30, 70, 150]);
}

fn called_by_another_thread_during_a_run_it_holds_for_the_next(kind: Kind) {
    let (clock, jobs) = (ManualClock::new(), Record::<Job>::new());
    let list = jobs.clone();
    let timer = kind
        .builder()
        .clock(&clock)
        .executor(move |job| list.push(job))
        .build();
    let (timeout, seen) = noting(&timer, &clock);
    clock.advance(ms(10));
    // Claimed, and not run yet: that is during the run.
    assert!(thread::scope(|s| s
        .spawn(|| timeout.set_period(rate(50)))
        .join()
        .unwrap()));
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(timeout.remaining(), ms(50));
    clock.advance(ms(50));
    jobs.take().into_iter().for_each(|job| job());
    assert_eq!(seen.take(), [10, 60]);
}

fn rate_and_delay_can_be_exchanged(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (timeout, seen) = noting(&timer, &clock);
    assert!(timeout.set_period(Period::FixedDelay(ms(35))));
    clock.advance(ms(80));
    assert_eq!(seen.take(), [10, 50], "45 and 85 by the delay");
    assert!(timeout.set_period(rate(15)));
    clock.advance(ms(60));
    assert_eq!(seen.take(), [90, 100, 120, 130], "by rate from 85 on");
}

fn it_is_false_of_any_other_timeout(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let once = timer.new_timeout(|_| {}, ms(10)).unwrap();
    assert!(!once.set_period(rate(10)));
    clock.advance(ms(10));
    assert!(!once.set_period(rate(10)));

    let (cancelled, _) = noting(&timer, &clock);
    cancelled.cancel();
    assert!(!cancelled.set_period(rate(10)));

    let ended = Record::new();
    let note = ended.clone();
    let in_the_run = move |timeout: &Timeout| {
        timeout.cancel();
        note.push(timeout.set_period(rate(10)));
    };
    timer.new_periodic(in_the_run, ms(10), rate(10)).unwrap();
    clock.advance(ms(20));
    assert_eq!(ended.take(), [false]);

    let (stopped, _) = noting(&timer, &clock);
    let left = timer.stop().unwrap();
    assert!(!stopped.set_period(rate(10)));
    assert!(!left[0].set_period(rate(10)));
}

fn the_next_timeout_in_the_same_slot_has_its_own_period(kind: Kind) {
    let clock = ManualClock::new();
    let timer = kind.on(&clock);
    let (timeout, _) = noting(&timer, &clock);
    assert!(timeout.set_period(Period::FixedRate(FAR)));
    timeout.cancel();
    drop(timeout);
    // The slot that was freed last is the first to be used again.
    let (_timeout, seen) = noting(&timer, &clock);
    clock.advance(ms(30));
    assert_eq!(seen.take(), [10, 20, 30]);
}

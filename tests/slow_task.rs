//! Tasks that hold the timer thread, in the log.

mod common;

use std::thread;
use std::time::{Duration, Instant};

use common::{Builder, Kind, eventually, logs, ms, on_both_timers};
use hashed_wheel::{Period, Timeout, TimerDriver};

on_both_timers![
    a_task_that_takes_longer_is_logged_once_a_second,
    a_job_on_another_thread_is_not_logged,
    a_job_on_the_timer_thread_is_logged,
    without_the_setting_nothing_is_logged,
];

fn driven(builder: Builder) -> (common::Timer, TimerDriver) {
    logs::keep();
    builder.tick(ms(1)).build_driven()
}

/// Turns until the timer has run as many tasks.
fn turn_until(driver: &mut TimerDriver, tasks: usize) {
    let mut run = 0;
    eventually("the tasks have run", || {
        run += driver.turn();
        run >= tasks
    });
}

fn slow(_: &Timeout) {
    thread::sleep(ms(12));
}

/// What this thread has logged about slow tasks.
fn lines() -> Vec<String> {
    let lines = logs::of_this_thread(Some(log::Level::Warn)).into_iter();
    lines
        .map(|line| line.text)
        .filter(|text| text.contains("slow_task"))
        .collect()
}

fn a_task_that_takes_longer_is_logged_once_a_second(kind: Kind) {
    let (timer, mut driver) = driven(kind.builder().slow_task(ms(5)));
    let begun = Instant::now();
    let reports = timer.labelled("reports");
    timer.new_timeout(|_| {}, ms(1)).unwrap();
    turn_until(&mut driver, 1);
    assert!(lines().is_empty(), "a quick one");
    reports.new_timeout(slow, ms(1)).unwrap();
    turn_until(&mut driver, 1);
    for _ in 0..3 {
        timer.new_timeout(slow, ms(1)).unwrap();
        timer
            .new_periodic(slow, ms(1), Period::FixedDelay(Duration::MAX))
            .unwrap();
    }
    turn_until(&mut driver, 6);
    // If this thread was not held up, all of it was within a second.
    let lines = lines();
    assert!(!lines.is_empty() && (lines.len() as u64) <= 1 + begun.elapsed().as_secs());
    let text = &lines[0];
    assert!(
        text.starts_with("a task labelled \"reports\" held the timer thread for "),
        "{text}"
    );
    assert!(text.ends_with("ms; slow_task is 5ms"), "{text}");
    thread::sleep(Duration::from_secs(1));
    let before = lines.len();
    timer.new_timeout(slow, ms(1)).unwrap();
    turn_until(&mut driver, 1);
    let lines = self::lines();
    assert_eq!(lines.len(), before + 1);
    assert!(
        lines[before].starts_with("a task held"),
        "{}",
        lines[before]
    );
}

fn a_job_on_another_thread_is_not_logged(kind: Kind) {
    let builder = kind.builder().slow_task(ms(5)).executor(|job| {
        thread::scope(|scope| drop(scope.spawn(job)));
    });
    let (timer, mut driver) = driven(builder);
    let before = logs::containing("labelled \"elsewhere\"").len();
    timer
        .labelled("elsewhere")
        .new_timeout(slow, ms(1))
        .unwrap();
    turn_until(&mut driver, 1);
    assert_eq!(logs::containing("labelled \"elsewhere\"").len(), before);
    assert!(timer.stats().longest_task >= ms(12));
}

fn a_job_on_the_timer_thread_is_logged(kind: Kind) {
    let (timer, mut driver) = driven(kind.builder().slow_task(ms(5)).executor(|job| job()));
    timer.new_timeout(slow, ms(1)).unwrap();
    turn_until(&mut driver, 1);
    assert_eq!(lines().len(), 1);
}

fn without_the_setting_nothing_is_logged(kind: Kind) {
    let (timer, mut driver) = driven(kind.builder());
    timer.new_timeout(slow, ms(1)).unwrap();
    turn_until(&mut driver, 1);
    assert!(lines().is_empty());
    assert_eq!(timer.stats().slow_tasks, 1, "longer than a tick");
}

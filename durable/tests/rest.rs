//! A timer that has nothing to do sleeps. In a file of its own: it counts what the threads of the process do.
#![cfg(target_os = "linux")]

mod common;

use std::fs;
use std::thread;

use common::{Folder, HOUR, eventually, ms};
use hashed_wheel_durable::{DurableTimer, Outcome, Scheduled};

/// How often the timer's threads have gone to sleep.
fn sleeps() -> u64 {
    let mut sum = 0;
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.starts_with("durable-") {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            sum += line.map_or(0, |count| count.trim().parse::<u64>().unwrap());
        }
    }
    sum
}

/// Waits until all threads have gone to sleep, and counts.
fn settled() -> u64 {
    let mut before = sleeps();
    eventually("rest", || {
        thread::sleep(ms(400));
        let now = sleeps();
        std::mem::replace(&mut before, now) == now
    });
    before
}

#[test]
fn no_wake_up_without_jobs_and_one_a_second_with_a_far_one() {
    let folder = Folder::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open(folder.file("timers.redb"))
        .unwrap();
    timer.job("mail").after(ms(0)).unwrap();
    // A kind without a handler wakes nobody either.
    timer.job("fax").after(ms(0)).unwrap();
    eventually("the job", || timer.pending().unwrap() == 1);
    let before = settled();
    assert!(before > 0, "no thread was found");
    thread::sleep(ms(2200));
    assert_eq!(sleeps() - before, 0, "wake-ups without anything to do");

    timer.job("mail").key("far").after(HOUR).unwrap();
    let before = settled();
    thread::sleep(ms(2500));
    let count = sleeps() - before;
    assert!((1..=3).contains(&count), "{count} wake-ups in 2.5 s");

    // Nobody is woken for a job that was cancelled, but for the look that finds it gone.
    assert!(timer.cancel("far").unwrap());
    thread::sleep(ms(1200));
    let before = settled();
    thread::sleep(ms(2200));
    assert_eq!(sleeps() - before, 0, "wake-ups for a job that is gone");

    // Nor for one that was not stored, because a job of another kind has its key.
    timer.job("fax").key("taken").after(HOUR).unwrap();
    let kept = timer.job("mail").key("taken").after(HOUR).unwrap();
    assert!(matches!(kept, Scheduled::Kept(_)));
    thread::sleep(ms(1200));
    let before = settled();
    thread::sleep(ms(2200));
    assert_eq!(
        sleeps() - before,
        0,
        "wake-ups for a job that was not stored"
    );
}

//! Restarts, crashes of the whole process, and callers against each other, on a file.

mod common;

use std::env;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use common::{Folder, HOUR, Notes, eventually, ms};
use hashed_wheel_durable::{DurableTimer, Outcome};

#[test]
fn jobs_survive_a_restart_and_overdue_ones_run_in_order() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let timer = DurableTimer::builder().open(&path).unwrap();
    let now = SystemTime::now();
    for number in [3_u64, 1, 4, 0, 2] {
        timer
            .job("mail")
            .payload([number as u8])
            .at(now - ms(100) + ms(number))
            .unwrap();
    }
    timer
        .job("mail")
        .key("later")
        .payload([9])
        .after(HOUR)
        .unwrap();
    timer.job("fax").after(Duration::ZERO).unwrap();
    drop(timer);

    let runs = Notes::new();
    let notes = runs.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add((job.payload()[0], job.attempt()));
            Outcome::Done
        })
        .threads(1)
        .open(&path)
        .unwrap();
    eventually("the overdue jobs", || timer.pending().unwrap() == 2);
    assert_eq!(runs.take(), [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
    assert!(timer.reschedule("later", Duration::ZERO).unwrap());
    eventually("the later one", || timer.pending().unwrap() == 1);
    assert_eq!(runs.take(), [(9, 1)]);
}

#[test]
fn tokens_grow_over_restarts() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let mut last = 0;
    for _ in 0..4 {
        let tokens = Notes::new();
        let notes = tokens.clone();
        let timer = DurableTimer::builder()
            .on("mail", move |job| {
                notes.add(job.token());
                Outcome::Done
            })
            .open(&path)
            .unwrap();
        timer.job("mail").after(Duration::ZERO).unwrap();
        eventually("the job", || timer.pending().unwrap() == 0);
        let token = tokens.take()[0];
        assert!(token > last);
        last = token;
    }
}

#[test]
fn jobs_are_never_early_and_run_once() {
    let folder = Folder::new();
    let runs = Notes::new();
    let notes = runs.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add((job.payload().to_vec(), SystemTime::now() >= job.due()));
            Outcome::Done
        })
        .open(folder.file("timers.redb"))
        .unwrap();
    thread::scope(|scope| {
        for caller in 0..4_u8 {
            let timer = &timer;
            scope.spawn(move || {
                for number in 0..40_u8 {
                    timer
                        .job("mail")
                        .payload([caller, number])
                        .after(ms(u64::from(number) * 7 % 90))
                        .unwrap();
                }
            });
        }
    });
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let mut runs = runs.take();
    assert!(runs.iter().all(|(_, in_time)| *in_time));
    runs.sort();
    runs.dedup();
    assert_eq!(runs.len(), 160);
}

#[test]
fn cancel_and_move_have_one_winner_against_firing() {
    let folder = Folder::new();
    let fired = Notes::new();
    let notes = fired.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add(String::from_utf8(job.payload().to_vec()).unwrap());
            Outcome::Done
        })
        .open(folder.file("timers.redb"))
        .unwrap();
    let cancelled = AtomicU64::new(0);
    let jobs = 120;
    for number in 0..jobs {
        timer
            .job("mail")
            .key(format!("{number}"))
            .payload(format!("{number}"))
            .after(ms(40 + number))
            .unwrap();
    }
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for number in 0..jobs {
                    if number % 3 == 0 {
                        let _ = timer.reschedule(format!("{number}"), ms(30)).unwrap();
                    } else if timer.cancel(format!("{number}")).unwrap() {
                        cancelled.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    eventually("the rest", || timer.pending().unwrap() == 0);
    let mut fired = fired.take();
    let runs = fired.len() as u64;
    fired.sort();
    fired.dedup();
    assert_eq!(fired.len() as u64, runs, "a job ran twice");
    assert_eq!(runs + cancelled.load(Ordering::SeqCst), jobs);
    assert_eq!(timer.stats().cancelled, cancelled.load(Ordering::SeqCst));
}

/// Set for a child: the file of its store.
const CHILD: &str = "DURABLE_TEST_CHILD";

/// The process of `a_job_that_aborts_the_process_ends_among_the_dead`: ends by itself when nothing is pending.
#[test]
fn child_with_a_job_that_aborts() {
    let Ok(path) = env::var(CHILD) else { return };
    let timer = DurableTimer::builder()
        .on("mail", |job| {
            if job.payload() == b"poison" {
                std::process::abort();
            }
            assert_eq!(job.attempt(), 1, "a bystander was charged");
            thread::sleep(Duration::from_micros(100));
            Outcome::Done
        })
        .backoff(ms(1), ms(2))
        .max_attempts(3)
        .open(path)
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let dead = timer.dead(10).unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(
        (dead[0].payload.as_slice(), dead[0].attempts),
        (b"poison".as_slice(), 3)
    );
    assert_eq!(dead[0].last_error, "interrupted");
    timer.stop().unwrap();
}

#[test]
#[cfg(unix)]
fn a_job_that_aborts_the_process_ends_among_the_dead() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let timer = DurableTimer::builder().open(&path).unwrap();
    let due = SystemTime::now();
    thread::scope(|scope| {
        for number in 0..=100 {
            let timer = &timer;
            scope.spawn(move || {
                let payload = if number == 37 { "poison" } else { "good" };
                timer.job("mail").payload(payload).at(due).unwrap();
            });
        }
    });
    timer.stop().unwrap();
    let mut deaths = 0;
    loop {
        let status = Command::new(env::current_exe().unwrap())
            .args([
                "child_with_a_job_that_aborts",
                "--exact",
                "--test-threads=1",
            ])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap();
        if status.success() {
            break;
        }
        deaths += 1;
        assert!(deaths < 10, "it never ends");
    }
    // Once with all others, uncharged, and then alone for each of its attempts.
    assert_eq!(deaths, 4);
}

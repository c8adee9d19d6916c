//! Keys, outcomes and dead letters, on the manual clock.

mod common;

use std::time::Duration;

use common::{HOUR, Notes, ms};
use hashed_wheel::ManualClock;
use hashed_wheel_durable::{DurableTimer, Outcome, Scheduled};

fn send_and_sync<T: Send + Sync + std::fmt::Debug>() {}

#[test]
fn the_timer_can_be_shared() {
    send_and_sync::<DurableTimer>();
    send_and_sync::<hashed_wheel_durable::Error>();
}

#[test]
fn a_key_is_free_from_the_claim_on_also_inside_the_handler() {
    let clock = ManualClock::new();
    let answers = Notes::new();
    let notes = answers.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            let timer = job.timer();
            notes.add((
                timer.cancel("a").unwrap(),
                matches!(
                    timer.job("mail").key("a").after(HOUR),
                    Ok(Scheduled::New(_))
                ),
                matches!(
                    timer.job("mail").key("a").after(HOUR),
                    Ok(Scheduled::Kept(_))
                ),
                timer.cancel("a").unwrap(),
            ));
            Outcome::Done
        })
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").key("a").after(ms(10)).unwrap();
    clock.advance(ms(10));
    assert_eq!(answers.take(), [(false, true, true, true)]);
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn a_job_can_be_cancelled_until_it_is_due() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").key("a").after(ms(100)).unwrap();
    clock.advance(ms(99));
    assert!(timer.cancel("a").unwrap());
    clock.advance(HOUR);
    assert_eq!(timer.stats().fired, 0);
}

#[test]
fn a_moved_job_runs_at_its_new_time_alone() {
    let clock = ManualClock::new();
    let runs = Notes::new();
    let (notes, now) = (runs.clone(), clock.clone());
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            notes.add(now.now());
            Outcome::Done
        })
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").key("later").after(ms(10)).unwrap();
    timer.job("mail").key("earlier").after(ms(100)).unwrap();
    assert!(timer.reschedule("later", ms(50)).unwrap());
    assert!(timer.reschedule("earlier", ms(20)).unwrap());
    clock.advance(HOUR);
    assert_eq!(runs.take(), [ms(20), ms(50)]);
}

#[test]
fn a_panic_is_a_retry_with_its_message() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |job| {
            assert!(job.attempt() > 100, "attempt {} fails", job.attempt());
            Outcome::Done
        })
        .max_attempts(4)
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").key("a").after(Duration::ZERO).unwrap();
    clock.advance(HOUR);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.retried, stats.dead), (4, 3, 1));
    let dead = timer.dead(10).unwrap();
    assert_eq!(
        (dead[0].attempts, dead[0].last_error.as_str()),
        (4, "attempt 4 fails")
    );
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn retries_follow_the_back_off() {
    let clock = ManualClock::new();
    let runs = Notes::new();
    let (notes, now) = (runs.clone(), clock.clone());
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            notes.add(now.now());
            Outcome::Retry
        })
        .backoff(Duration::from_secs(1), Duration::from_secs(8))
        .max_attempts(7)
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(ms(1)).unwrap();
    clock.advance(HOUR);
    let runs = runs.take();
    assert_eq!(runs.len(), 7);
    for (pair, whole) in runs
        .windows(2)
        .zip([1, 2, 4, 8, 8, 8].map(Duration::from_secs))
    {
        let pause = pair[1].saturating_sub(pair[0]);
        assert!(
            pause >= whole / 2 && pause <= whole + ms(1),
            "{pause:?} of {whole:?}"
        );
    }
    assert_eq!(
        timer.dead(1).unwrap()[0].last_error,
        "the handler asked for a retry"
    );
}

#[test]
fn dead_letters_can_be_read_revived_and_discarded() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |job| match job.payload() {
            b"good" => Outcome::Done,
            _ => Outcome::Dead("bad".into()),
        })
        .open_in_memory(&clock)
        .unwrap();
    for number in 0..5 {
        timer
            .job("mail")
            .key(format!("{number}"))
            .payload("evil")
            .after(Duration::ZERO)
            .unwrap();
    }
    clock.advance(ms(1));
    assert_eq!(timer.dead(3).unwrap().len(), 3);
    assert_eq!(timer.dead(0).unwrap().len(), 0);
    let dead = timer.dead(usize::MAX).unwrap();
    assert_eq!(dead.len(), 5);
    assert!(timer.discard(dead[0].id).unwrap());
    assert!(!timer.discard(dead[0].id).unwrap());
    assert!(!timer.revive(dead[0].id).unwrap());
    assert!(!timer.revive(u64::MAX).unwrap());
    // With its key back, it can be replaced by something better.
    assert!(timer.revive(dead[1].id).unwrap());
    let replaced = timer
        .job("mail")
        .key("1")
        .payload("good")
        .replace()
        .after(Duration::ZERO)
        .unwrap();
    assert_eq!(replaced, Scheduled::Replaced(dead[1].id));
    clock.advance(ms(1));
    assert_eq!(
        (timer.pending().unwrap(), timer.dead(10).unwrap().len()),
        (0, 3)
    );
}

#[test]
fn tokens_grow() {
    let clock = ManualClock::new();
    let tokens = Notes::new();
    let notes = tokens.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add(job.token());
            if job.attempt() < 3 {
                Outcome::Retry
            } else {
                Outcome::Done
            }
        })
        .open_in_memory(&clock)
        .unwrap();
    for delay in [30, 10, 20] {
        timer.job("mail").after(ms(delay)).unwrap();
    }
    clock.advance(HOUR);
    let tokens = tokens.take();
    assert_eq!(tokens.len(), 9);
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
}

#[test]
fn advancing_from_a_handler_is_a_panic_of_the_handler() {
    let clock = ManualClock::new();
    let inner = clock.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            inner.advance(ms(1));
            Outcome::Done
        })
        .max_attempts(1)
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(ms(1)).unwrap();
    clock.advance(ms(5));
    assert!(timer.dead(1).unwrap()[0].last_error.contains("advance"));
}

#[test]
fn thousands_that_are_due_at_once_all_run_within_one_advance() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_in_memory(&clock)
        .unwrap();
    for number in 0..3000_u64 {
        timer.job("mail").after(ms(10 + number % 3)).unwrap();
    }
    clock.advance(ms(12));
    assert_eq!((timer.stats().fired, timer.pending().unwrap()), (3000, 0));
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

#[test]
fn a_panic_whose_payload_panics_is_a_retry_too() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |job| match job.attempt() {
            1 => std::panic::panic_any(Bomb),
            _ => Outcome::Done,
        })
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(ms(1)).unwrap();
    clock.advance(HOUR);
    assert_eq!((timer.stats().fired, timer.pending().unwrap()), (2, 0));
}

#[test]
fn lateness_is_from_the_due_time_to_the_handler() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(100));
    let timer = DurableTimer::builder()
        .on("mail", |job| match job.payload() {
            b"later" if job.attempt() == 1 => Outcome::RetryAfter(Duration::from_secs(10)),
            _ => Outcome::Done,
        })
        .open_in_memory(&clock)
        .unwrap();
    assert_eq!(timer.stats().lateness.count(), 0);
    // Overdue when it is stored.
    let overdue = std::time::UNIX_EPOCH + Duration::from_secs(60);
    timer.job("mail").at(overdue).unwrap();
    clock.advance(ms(1));
    let lateness = timer.stats().lateness;
    assert_eq!(lateness.count(), 1);
    assert!(
        lateness.max() >= Duration::from_secs(40) && lateness.max() < Duration::from_secs(41),
        "{lateness:?}"
    );
    // On time, twice: a retry is late by its own time.
    timer.job("mail").payload("later").after(ms(5)).unwrap();
    clock.advance(Duration::from_secs(20));
    let lateness = timer.stats().lateness;
    assert_eq!(lateness.count(), 3);
    assert!(lateness.quantile(0.5) < ms(2), "{lateness:?}");
}

//! Jobs that come again, on a manual clock.

use std::time::{Duration, UNIX_EPOCH};

use hashed_wheel::ManualClock;

use super::{Notes, ms};
use crate::{CatchUp, DurableTimer, Error, JobFilter, JobState, KindOptions, Outcome, Scheduled};

const SECOND: Duration = Duration::from_secs(1);

/// A timer that notes when its runs were due, in milliseconds.
fn noting(clock: &ManualClock) -> (DurableTimer, Notes<u128>) {
    let notes = Notes::new();
    let note = notes.clone();
    let timer = DurableTimer::builder()
        .on("job", move |job| {
            assert_eq!(job.key(), Some("key"));
            note.add(job.due().duration_since(UNIX_EPOCH).unwrap().as_millis());
            Outcome::Done
        })
        .open_in_memory(clock)
        .unwrap();
    (timer, notes)
}

#[test]
fn it_runs_once_in_each_period_until_it_is_cancelled() {
    let clock = ManualClock::new();
    let (timer, notes) = noting(&clock);
    let made = timer.job("job").key("key").every(SECOND).unwrap();
    assert!(matches!(made, Scheduled::New(_)));
    let again = timer.job("job").key("key").every(SECOND * 9).unwrap();
    assert_eq!(again, Scheduled::Kept(made.id()));
    clock.advance(ms(3500));
    assert_eq!(notes.take(), [1000, 2000, 3000]);
    // It is one job that waits, and each run was one that is gone.
    assert_eq!(timer.pending().unwrap(), 1);
    let shown = &timer.jobs(JobFilter::new()).unwrap()[0];
    assert_eq!((shown.id, shown.state), (made.id(), JobState::Waiting));
    assert_eq!(shown.rule.as_deref(), Some("every 1000 ms"));
    assert_eq!(shown.due, UNIX_EPOCH + ms(4000));
    // Moved, its phase moves with it.
    assert!(timer.reschedule("key", ms(700)).unwrap());
    clock.advance(ms(2000));
    assert_eq!(notes.take(), [4200, 5200]);
    assert!(timer.cancel("key").unwrap());
    assert!(!timer.cancel("key").unwrap());
    clock.advance(SECOND * 10);
    assert_eq!(notes.take(), []);
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn a_run_that_fails_is_tried_again_beside_the_next_one() {
    let clock = ManualClock::new();
    let notes = Notes::new();
    let note = notes.clone();
    let timer = DurableTimer::builder()
        .on("job", move |job| {
            let due = job.due().duration_since(UNIX_EPOCH).unwrap().as_millis();
            note.add((job.attempt(), job.key().map(str::to_owned)));
            match due {
                ..2000 => Outcome::retry("no"),
                _ => Outcome::Done,
            }
        })
        .kind(
            "job",
            KindOptions::default()
                .max_attempts(3)
                .backoff(ms(10), ms(10)),
        )
        .open_in_memory(&clock)
        .unwrap();
    timer.job("job").key("key").every(SECOND).unwrap();
    clock.advance(ms(3000));
    let runs: Vec<u32> = notes
        .take()
        .into_iter()
        .map(|(attempt, key)| {
            assert_eq!(key.as_deref(), Some("key"));
            attempt
        })
        .collect();
    assert_eq!(runs, [1, 2, 3, 1, 1]);
    let dead = timer.dead(10).unwrap();
    assert_eq!((dead.len(), dead[0].key.as_deref()), (1, Some("key")));
    assert!(timer.cancel("key").unwrap(), "a dead run ends nothing");
}

#[test]
fn what_was_missed_while_its_kind_was_paused_runs_once_or_not_at_all() {
    for (catch_up, caught_up) in [(CatchUp::Once, &[1000][..]), (CatchUp::Skip, &[])] {
        let clock = ManualClock::new();
        let (timer, notes) = noting(&clock);
        let job = timer.job("job").key("key").catch_up(catch_up);
        job.every(SECOND).unwrap();
        timer.pause("job").unwrap();
        clock.advance(ms(5400));
        assert_eq!(notes.take(), []);
        timer.resume("job").unwrap();
        clock.advance(ms(100));
        assert_eq!(notes.take(), caught_up);
        clock.advance(ms(1000));
        assert_eq!(notes.take(), [6000]);
    }
}

#[test]
fn cron_runs_at_the_times_of_a_zone_over_a_change_of_its_clocks() {
    // 28 March 2026, noon in Berlin.
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_774_695_600));
    let (timer, notes) = noting(&clock);
    let new = || timer.job("job").key("key");
    new().cron("30 2 * * *", "Europe/Berlin").unwrap();
    clock.advance(SECOND * 86_400 * 2);
    // 3 o'clock on the day without a half past two; half past two on the next.
    assert_eq!(notes.take(), [1_774_746_000_000, 1_774_830_600_000]);
    // One with the same rule keeps its next time, another one gets its own.
    let replaced = new().replace().cron("30 2 * * *", "Europe/Berlin").unwrap();
    assert!(matches!(replaced, Scheduled::Replaced(_)));
    new().replace().cron("0 12 * * *", "UTC").unwrap();
    let next = timer.jobs(JobFilter::new()).unwrap()[0].due;
    assert_eq!(next, UNIX_EPOCH + SECOND * 1_774_872_000);
}

#[test]
fn what_cannot_recur_is_refused() {
    let clock = ManualClock::new();
    let (timer, _) = noting(&clock);
    assert!(matches!(timer.job("job").every(SECOND), Err(Error::Key(_))));
    let refused = timer.job("job").cron("* * * * *", "UTC");
    assert!(matches!(refused, Err(Error::Key(_))));
    let new = || timer.job("job").key("key");
    for refused in [
        new().every(Duration::ZERO),
        new().cron("x", "UTC"),
        new().cron("* * * * *", "Mars"),
        new().cron("0 0 30 2 *", "UTC"),
    ] {
        assert!(matches!(refused, Err(Error::Config(_))), "{refused:?}");
    }
    assert_eq!(timer.pending().unwrap(), 0);
}

//! What is set for a kind, pauses, and dead letters that are told of and swept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hashed_wheel::ManualClock;

use super::interrupted::Kept;
use super::{Notes, eventually, ms};
use crate::time::{SystemWall, WallClock};
use crate::{DurableTimer, Error, JobFilter, KindOptions, Outcome, Scheduled};

#[test]
fn a_kind_runs_as_many_at_once_as_it_is_told() {
    let store = Kept::new();
    for number in 0..30 {
        store.add("job", SystemWall.now() - 100 + number);
    }
    let most = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let seen = Arc::clone(&most);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            let now = seen[0].fetch_add(1, Ordering::SeqCst) + 1;
            seen[1].fetch_max(now, Ordering::SeqCst);
            std::thread::sleep(ms(3));
            seen[0].fetch_sub(1, Ordering::SeqCst);
            Outcome::Done
        })
        .threads(8)
        .kind("mail", KindOptions::default().concurrency(2))
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    assert_eq!(most[1].load(Ordering::SeqCst), 2);
}

#[test]
fn a_kind_has_attempts_and_delays_of_its_own() {
    let clock = ManualClock::new();
    let (told, notes) = (Notes::new(), Notes::new());
    let (tell, note) = (told.clone(), notes.clone());
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::retry("busy"))
        .on("call", |_| Outcome::Retry)
        .on("nap", move |job| {
            note.add(job.attempt());
            Outcome::Snooze(Duration::from_secs(60))
        })
        .max_attempts(2)
        .backoff(Duration::from_secs(1), Duration::from_secs(1))
        .kind(
            "mail",
            KindOptions::default()
                .max_attempts(4)
                .backoff(ms(10), ms(10)),
        )
        .on_dead(move |dead| tell.add((dead.kind.clone(), dead.attempts, dead.last_error.clone())))
        .open_in_memory(&clock)
        .unwrap();
    for kind in ["mail", "call"] {
        timer.job(kind).after(ms(1)).unwrap();
    }
    timer.job("nap").key("nap").after(ms(1)).unwrap();
    clock.advance(ms(100));
    assert_eq!(told.take(), [("mail".to_owned(), 4, "busy".to_owned())]);
    clock.advance(Duration::from_secs(600));
    let asked = "the handler asked for a retry".to_owned();
    assert_eq!(told.take(), [("call".to_owned(), 2, asked)]);
    // A nap charges no attempt and keeps its key.
    let naps = notes.take();
    assert!(
        naps.len() >= 10 && naps.iter().all(|&attempt| attempt == 1),
        "{naps:?}"
    );
    assert!(timer.cancel("nap").unwrap());
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn settings_of_a_kind_are_checked() {
    let refused =
        |builder: crate::DurableTimerBuilder| match builder.open_in_memory(&ManualClock::new()) {
            Err(Error::Config(text)) => text,
            other => panic!("{other:?}"),
        };
    let on = || DurableTimer::builder().on("mail", |_| Outcome::Done);
    let text = refused(on().kind("call", KindOptions::default()));
    assert!(
        text.contains("\"call\"") && text.contains("no handler"),
        "{text}"
    );
    let text = refused(on().kind("mail", KindOptions::default().concurrency(0)));
    assert!(
        text.contains("concurrency") && text.contains("at least 1"),
        "{text}"
    );
    let text = refused(on().kind("mail", KindOptions::default().max_attempts(0)));
    assert!(text.contains("max_attempts"), "{text}");
    let text = refused(on().patience(ms(99)));
    assert!(text.contains("99ms") && text.contains("100ms"), "{text}");
}

#[test]
fn a_paused_kind_rests_and_goes_on_when_it_is_resumed() {
    let store = Kept::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    for _ in 0..3 {
        assert!(timer.pause("mail").unwrap());
        assert!(!timer.pause("mail").unwrap());
        let before = timer.stats();
        timer.job("mail").after(ms(0)).unwrap();
        std::thread::sleep(ms(120));
        let after = timer.stats();
        assert_eq!(
            (after.fired, after.commits),
            (before.fired, before.commits + 1)
        );
        assert!(timer.resume("mail").unwrap());
        eventually("the job", || timer.pending().unwrap() == 0);
    }
}

#[test]
fn all_or_none_are_scheduled() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder().open_in_memory(&clock).unwrap();
    let other = DurableTimer::builder().open_in_memory(&clock).unwrap();
    let many = |count: u64| (0..count).map(|due| timer.job("mail").due_in(ms(due)));
    assert_eq!(timer.schedule_all(many(10_000)).unwrap().len(), 10_000);
    assert_eq!(timer.stats().commits, 1);
    for refused in [
        timer.schedule_all(many(10_001)),
        timer.schedule_all([timer.job("mail"), timer.job("mail").key("")]),
        timer.schedule_all([timer.job("mail"), timer.job("")]),
        timer.schedule_all([
            timer.job("mail"),
            timer.job("mail").payload(vec![0; 1 << 21]),
        ]),
        timer.schedule_all([timer.job("mail"), other.job("mail")]),
    ] {
        assert!(refused.is_err(), "{refused:?}");
    }
    assert_eq!(timer.pending().unwrap(), 10_000);
    assert_eq!(timer.schedule_all([]).unwrap(), []);
    let twice = [timer.job("mail").key("a"), timer.job("mail").key("a")];
    let scheduled = timer.schedule_all(twice).unwrap();
    assert_eq!(scheduled[1], Scheduled::Kept(scheduled[0].id()));
}

#[test]
fn dead_letters_are_found_revived_and_discarded_by_filter() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Dead("no".into()))
        .on("call", |_| Outcome::Dead("no".into()))
        .open_in_memory(&clock)
        .unwrap();
    for number in 0..3000 {
        timer
            .job(["mail", "call"][number % 2])
            .after(ms(1))
            .unwrap();
    }
    clock.advance(ms(10));
    let mail = || JobFilter::new().kind("mail");
    assert_eq!(timer.dead_where(mail().limit(2000)).unwrap().len(), 1500);
    assert_eq!(timer.discard_where(mail().limit(1)).unwrap(), 1500);
    assert_eq!(timer.dead(5000).unwrap().len(), 1500);
    assert_eq!(timer.revive_where(mail()).unwrap(), 0);
    assert_eq!(timer.revive_where(JobFilter::new()).unwrap(), 1500);
    assert_eq!(timer.pending().unwrap(), 1500);
    assert_eq!(timer.stats().dead, 3000);
}

#[test]
fn a_stop_that_waits_for_a_while_says_how_many_still_run() {
    let store = Kept::new();
    for _ in 0..3 {
        store.add("job", SystemWall.now() - 10);
    }
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = parking_lot::Mutex::new(hold);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            let _ = hold.lock().recv();
            Outcome::Done
        })
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all three", || timer.stats().fired == 3);
    let start = std::time::Instant::now();
    assert_eq!(timer.stop_within(ms(50)).unwrap(), 3);
    assert!(start.elapsed() >= ms(50));
    assert!(matches!(timer.pending(), Err(Error::Stopped)));
    let_go.send(()).unwrap();
    eventually("one less", || timer.stop_within(ms(1)).unwrap() == 2);
    drop(let_go);
    assert_eq!(timer.stop_within(Duration::from_secs(60)).unwrap(), 0);
    timer.stop().unwrap();
}

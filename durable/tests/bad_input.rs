//! Values at and beyond the ends of their ranges: an error that names value and range, or what the docs say.

mod common;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Folder, HOUR, Notes, eventually, ms};
use hashed_wheel::ManualClock;
use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Error, Outcome, Scheduled};

fn refused(builder: DurableTimerBuilder) -> String {
    match builder.open_in_memory(&ManualClock::new()) {
        Err(Error::Config(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_out_of_range_are_refused_by_name_and_value() {
    let builder = DurableTimer::builder;
    assert_eq!(
        refused(builder().max_attempts(0)),
        "max_attempts is 0: it must be at least 1"
    );
    assert_eq!(
        refused(builder().threads(0)),
        "threads is 0: it must be 1 to 1024"
    );
    assert_eq!(
        refused(builder().threads(1025)),
        "threads is 1025: it must be 1 to 1024"
    );
    assert!(refused(builder().backoff(ms(2), ms(1))).contains("2ms"));
    assert!(refused(builder().horizon(Duration::ZERO)).contains("horizon is 0ns"));
    assert!(refused(builder().lease(Duration::ZERO)).contains("lease is 0ns"));
    assert!(refused(builder().on("", |_| Outcome::Done)).contains("a kind of 0 bytes"));
    assert!(refused(builder().on("a\0", |_| Outcome::Done)).contains("NUL at byte 1"));
    let twice = builder()
        .on("mail", |_| Outcome::Done)
        .on("mail", |_| Outcome::Done);
    assert_eq!(refused(twice), "the kind \"mail\" has two handlers");
}

#[test]
fn settings_are_checked_before_a_file_is_made() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    assert!(matches!(
        DurableTimer::builder().threads(0).open(&path),
        Err(Error::Config(_))
    ));
    assert!(!path.exists());
}

#[test]
fn keys_have_1_to_512_bytes_and_no_nul() {
    let builder = DurableTimer::builder;
    check_keys(&builder().open_in_memory(&ManualClock::new()).unwrap());
    let folder = Folder::new();
    check_keys(&builder().open(folder.file("timers.redb")).unwrap());
}

fn check_keys(timer: &DurableTimer) {
    let long = "k".repeat(513);
    for key in ["", "\0", "a\0b", "order\0", &long, &"ä".repeat(257)] {
        assert!(
            matches!(timer.job("mail").key(key).after(HOUR), Err(Error::Key(_))),
            "{key:?}"
        );
        assert!(matches!(timer.cancel(key), Err(Error::Key(_))));
        assert!(matches!(timer.reschedule(key, HOUR), Err(Error::Key(_))));
        assert!(matches!(
            timer.reschedule_at(key, UNIX_EPOCH),
            Err(Error::Key(_))
        ));
    }
    let Err(error) = timer.cancel(&long) else {
        panic!()
    };
    assert_eq!(
        error.to_string(),
        "a key of 513 bytes: it must have 1 to 512"
    );
    for key in [
        "k",
        "Schlüssel",
        "键",
        "\u{1}\n\t",
        &"k".repeat(512),
        &"ä".repeat(256),
    ] {
        let new = timer.job("mail").key(key).after(HOUR).unwrap();
        assert!(matches!(new, Scheduled::New(_)));
        assert!(timer.reschedule(key, HOUR).unwrap());
        assert!(timer.cancel(key).unwrap());
    }
    assert_eq!(timer.pending().unwrap(), 0);
}

#[test]
fn payloads_of_every_length_come_back_on_a_file() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let max = 1 << 20;
    let timer = DurableTimer::builder().open(&path).unwrap();
    for length in [0, 1, max] {
        let payload: Vec<u8> = (0..length).map(|n| (n % 251) as u8).collect();
        timer
            .job("echo")
            .payload(payload)
            .after(Duration::ZERO)
            .unwrap();
    }
    let error = timer
        .job("echo")
        .payload(vec![0; max + 1])
        .after(Duration::ZERO)
        .unwrap_err();
    assert!(matches!(error, Error::PayloadTooLarge { len, max: 1_048_576 } if len == max + 1));
    assert_eq!(
        error.to_string(),
        "a payload of 1048577 bytes is too large: at most 1048576 are allowed"
    );
    timer.stop().unwrap();

    let seen = Notes::new();
    let notes = seen.clone();
    let timer = DurableTimer::builder()
        .on("echo", move |job| {
            let right = job
                .payload()
                .iter()
                .enumerate()
                .all(|(n, &byte)| byte == (n % 251) as u8);
            notes.add((job.payload().len(), right));
            Outcome::Done
        })
        .open(&path)
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let mut seen = seen.take();
    seen.sort_unstable();
    assert_eq!(seen, [(0, true), (1, true), (max, true)]);
}

/// The last time that the system can express.
fn end_of_time() -> SystemTime {
    let mut end = UNIX_EPOCH;
    let mut step = Duration::from_secs(1 << 62);
    while step > Duration::ZERO {
        match end.checked_add(step) {
            Some(later) => end = later,
            None => step /= 2,
        }
    }
    end
}

#[test]
fn times_in_the_past_are_due_at_once_and_times_without_end_never() {
    let clock = ManualClock::new();
    let due = Notes::new();
    let notes = due.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            notes.add(job.due());
            Outcome::Done
        })
        .open_in_memory(&clock)
        .unwrap();
    clock.advance(HOUR);
    let past = UNIX_EPOCH + ms(5);
    let before_1970 = UNIX_EPOCH - HOUR;
    timer.job("mail").at(past).unwrap();
    timer.job("mail").at(before_1970).unwrap();
    timer.job("mail").key("end").at(end_of_time()).unwrap();
    timer.job("mail").key("never").after(Duration::MAX).unwrap();
    clock.advance(ms(1));
    assert_eq!(due.take(), [before_1970, past]);
    clock.advance(Duration::from_secs(100 * 365 * 86_400));
    assert_eq!(due.len(), 0);
    assert_eq!(timer.pending().unwrap(), 2);
    assert!(timer.cancel("never").unwrap());
    assert!(timer.reschedule("end", ms(1)).unwrap());
    clock.advance(ms(2));
    assert_eq!(due.len(), 1);
}

/// The first time that the system can express.
fn beginning_of_time() -> SystemTime {
    let mut beginning = UNIX_EPOCH;
    let mut step = Duration::from_secs(1 << 62);
    while step > Duration::ZERO {
        match beginning.checked_sub(step) {
            Some(earlier) => beginning = earlier,
            None => step /= 2,
        }
    }
    beginning
}

#[test]
fn times_at_both_ends_are_kept_in_a_file() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let builder = DurableTimer::builder;
    let timer = builder().open(&path).unwrap();
    timer
        .job("mail")
        .payload("first")
        .at(beginning_of_time())
        .unwrap();
    timer
        .job("mail")
        .payload("second")
        .at(UNIX_EPOCH - HOUR)
        .unwrap();
    timer.job("mail").payload("third").at(UNIX_EPOCH).unwrap();
    timer.job("mail").key("end").at(end_of_time()).unwrap();
    timer.job("mail").key("never").after(Duration::MAX).unwrap();
    timer.stop().unwrap();

    let seen = Notes::new();
    let notes = seen.clone();
    let timer = builder()
        .on("mail", move |job| {
            notes.add(String::from_utf8_lossy(job.payload()).into_owned());
            Outcome::Done
        })
        .threads(1)
        .open(&path)
        .unwrap();
    eventually("the past ones", || timer.pending().unwrap() == 2);
    assert_eq!(seen.take(), ["first", "second", "third"]);
    assert!(timer.cancel("end").unwrap());
    assert!(timer.reschedule("never", Duration::ZERO).unwrap());
    eventually("the last one", || timer.pending().unwrap() == 0);
}

#[test]
fn a_time_is_rounded_up_to_a_millisecond() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_in_memory(&clock)
        .unwrap();
    timer
        .job("mail")
        .at(UNIX_EPOCH + Duration::from_nanos(10_000_001))
        .unwrap();
    clock.advance(ms(10));
    assert_eq!(timer.stats().fired, 0);
    clock.advance(ms(1));
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn extreme_delays_of_retries_are_accepted() {
    let clock = ManualClock::new();
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::RetryAfter(Duration::MAX))
        .backoff(Duration::MAX, Duration::MAX)
        .open_in_memory(&clock)
        .unwrap();
    timer.job("mail").after(Duration::ZERO).unwrap();
    clock.advance(HOUR);
    assert_eq!((timer.stats().fired, timer.pending().unwrap()), (1, 1));
}

#[test]
fn the_kind_of_a_job_is_checked_too() {
    let timer = DurableTimer::builder()
        .open_in_memory(&ManualClock::new())
        .unwrap();
    for kind in ["", "a\0", &"k".repeat(513)] {
        assert!(matches!(timer.job(kind).after(HOUR), Err(Error::Config(_))));
    }
}

#[test]
fn a_store_has_4096_kinds_at_most() {
    let timer = DurableTimer::builder()
        .open_in_memory(&ManualClock::new())
        .unwrap();
    for number in 0..4096 {
        timer.job(format!("kind {number}")).after(HOUR).unwrap();
    }
    let error = timer.job("one more").after(HOUR).unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    assert!(error.to_string().contains("4096 kinds"), "{error}");
    timer.job("kind 7").after(HOUR).unwrap();
    assert_eq!(timer.pending().unwrap(), 4097);
}

#[test]
fn of_a_long_reason_4096_bytes_are_kept() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let open = || {
        DurableTimer::builder()
            .on("dead", |_| Outcome::Dead("ä".repeat(1 << 20)))
            .on("panic", |_| std::panic::panic_any("键".repeat(1 << 20)))
            .max_attempts(1)
            .open(&path)
            .unwrap()
    };
    let timer = open();
    timer.job("dead").after(Duration::ZERO).unwrap();
    eventually("the first one", || timer.pending().unwrap() == 0);
    timer.job("panic").after(Duration::ZERO).unwrap();
    eventually("the second one", || timer.pending().unwrap() == 0);
    timer.stop().unwrap();
    let reasons: Vec<String> = open()
        .dead(10)
        .unwrap()
        .into_iter()
        .map(|dead| dead.last_error)
        .collect();
    assert!(reasons[0] == "ä".repeat(2046) + "…", "{}", reasons[0].len());
    assert!(
        reasons[1] == "键".repeat(1364) + "…",
        "{}",
        reasons[1].len()
    );
}

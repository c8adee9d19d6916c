//! A file that an earlier version wrote: `fixtures/format_1.redb`, by a build of commit 808da9b. `fixtures/format_1.rs` is the program.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{Folder, Notes, eventually};
use hashed_wheel_durable::{DurableTimer, Job, JobFilter, JobState, Outcome};

const KINDS: [&str; 5] = ["mail", "report", "again", "first", "second"];

fn past(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds)
}

/// Kind and payload.
type Name = (String, Vec<u8>);

/// Key, due time and attempts.
type Rest = (Option<String>, SystemTime, u32);

/// The jobs that the file has to have.
fn stored() -> BTreeMap<Name, Rest> {
    let mut jobs = BTreeMap::new();
    let mut job = |kind: &str, payload: &[u8], key: Option<&str>, second, attempts| {
        jobs.insert(
            (kind.to_owned(), payload.to_vec()),
            (key.map(str::to_owned), past(second), attempts),
        );
    };
    for number in 0..40 {
        job("mail", format!("mail {number}").as_bytes(), None, number, 0);
        let key = format!("report:{number}");
        match number {
            // Moved, cancelled, replaced.
            7 => job("report", &[7; 200], Some(&key), 500, 0),
            8 => {}
            9 => job("report", b"replaced", Some(&key), 9, 0),
            _ => job("report", &[number as u8; 200], Some(&key), number, 0),
        }
    }
    job("again", b"again 1", Some("again:1"), 1, 1);
    job("first", b"first 1", Some("first:1"), 0, 0);
    job("second", b"second 1", Some("second:1"), 0, 0);
    job("second", b"second 2", None, 0, 0);
    jobs
}

#[test]
fn a_file_of_an_earlier_build_has_all_its_jobs_and_fires_them() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fs::copy(fixtures.join("format_1.redb"), &path).unwrap();

    // Without handlers: everything is there, as it was.
    let expected = stored();
    let timer = DurableTimer::builder().open(&path).unwrap();
    assert_eq!(timer.pending().unwrap(), expected.len() as u64);
    let mut found = BTreeMap::new();
    for job in timer.jobs(JobFilter::new()).unwrap() {
        if job.state != JobState::Dead {
            let value = (job.key, job.due, job.attempts);
            assert_eq!(found.insert((job.kind, job.payload), value), None);
        }
    }
    assert_eq!(found, expected);
    let dead = timer.dead(100).unwrap();
    let letters: Vec<_> = dead
        .iter()
        .map(|dead| (&*dead.kind, &dead.payload[..], &*dead.last_error))
        .collect();
    assert_eq!(
        letters,
        [
            ("dead", &b"dead 0"[..], "no such user"),
            ("dead", b"dead 1", "no such user"),
            ("dead", b"dead 2", "no such user"),
        ]
    );
    // A key that is held is held, and one that was cancelled is free.
    let kept = timer.job("report").key("report:7").at(past(1)).unwrap();
    let ids: Vec<u64> = dead.iter().map(|dead| dead.id).collect();
    assert!(matches!(kept, hashed_wheel_durable::Scheduled::Kept(id) if !ids.contains(&id)));
    let new = timer.job("later").key("report:8").at(past(1)).unwrap();
    assert!(matches!(new, hashed_wheel_durable::Scheduled::New(id) if !ids.contains(&id)));
    assert!(timer.cancel("report:8").unwrap());
    timer.stop().unwrap();

    // With handlers, and all of it verified: every job runs, once.
    let runs = Notes::new();
    let mut builder = DurableTimer::builder().verify(true);
    for kind in KINDS.into_iter().chain(["dead"]) {
        let runs = runs.clone();
        builder = builder.on(kind, move |job: &Job| {
            runs.add((
                (job.kind().to_owned(), job.payload().to_vec()),
                (job.key().map(str::to_owned), job.due(), job.attempt()),
            ));
            Outcome::Done
        });
    }
    let timer = builder.open(&path).unwrap();
    eventually("every job runs", || timer.pending().unwrap() == 0);
    let mut all = runs.take();
    all.sort();
    let attempted = expected.into_iter().map(|(job, (key, due, attempts))| {
        // The jobs that were claimed run for the first time as far as anybody knows.
        (job, (key, due, attempts + 1))
    });
    assert_eq!(all, attempted.collect::<Vec<_>>());
    for id in ids {
        assert!(timer.revive(id).unwrap());
    }
    eventually("the dead jobs run", || timer.pending().unwrap() == 0);
    assert_eq!(runs.take().len(), 3);
    timer.stop().unwrap();
}

//! A disk that is full, as far as a process can have one of its own: with a limit on the size of files.
#![cfg(unix)]

mod common;

use std::env;
use std::path::Path;
use std::process::Command;

use common::{Folder, HOUR};
use hashed_wheel_durable::{DurableTimer, Error};

/// Set for a child: the file of its store.
const CHILD: &str = "DURABLE_TEST_FULL_DISK";

/// Runs a test of this file as a child that can write so many blocks of 512 bytes to a file, and gets an error after that.
fn limited(test: &str, blocks: u32, path: &Path) -> String {
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" {test} --exact --nocapture --test-threads=1"
    );
    let output = Command::new("sh")
        .args(["-c", &script])
        .arg(env::current_exe().unwrap())
        .env(CHILD, path)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    printed
}

#[test]
fn child_that_fills_the_disk() {
    let Ok(path) = env::var(CHILD) else { return };
    let timer = DurableTimer::builder().open(&path).unwrap();
    let mut stored = 0;
    let error = loop {
        match timer.job("mail").payload(vec![7; 50_000]).after(HOUR) {
            Ok(_) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 10_000, "the disk is never full");
    };
    assert!(matches!(error, Error::Store(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains(&path) && text.contains("cannot write"),
        "{text}"
    );
    assert!(matches!(
        timer.job("mail").after(HOUR),
        Err(Error::Poisoned { .. })
    ));
    // It may have been opened again meanwhile: little is to be written.
    assert!(matches!(timer.stop(), Ok(()) | Err(Error::Poisoned { .. })));
    println!("stored={stored}.");
}

#[test]
fn what_was_acknowledged_before_the_disk_was_full_is_there() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let text = limited("child_that_fills_the_disk", 8000, &path);
    let stored = text
        .split("stored=")
        .nth(1)
        .and_then(|rest| rest.split('.').next())
        .unwrap();
    let stored: u64 = stored.parse().unwrap();
    assert!(stored > 0);
    let timer = DurableTimer::builder().open(&path).unwrap();
    let pending = timer.pending().unwrap();
    assert!(
        pending == stored || pending == stored + 1,
        "{pending} instead of {stored}"
    );
    timer.job("mail").after(HOUR).unwrap();
}

#[test]
fn child_that_makes_a_store() {
    let Ok(path) = env::var(CHILD) else { return };
    match DurableTimer::builder().open(&path) {
        Err(Error::Store(error)) => assert!(error.to_string().contains(&path), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_store_that_cannot_be_made_leaves_nothing() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    limited("child_that_makes_a_store", 10, &path);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    DurableTimer::builder().open(&path).unwrap();
}

//! The command for operators, on a file and on PostgreSQL.

#[cfg(feature = "postgres")]
#[path = "../../tests/common/server.rs"]
mod server;

mod common;

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use common::Folder;
use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Error, Outcome};
use serde_json::Value;

/// What it has printed, what it has complained of, and its exit code.
struct Ran {
    out: String,
    err: String,
    code: Option<i32>,
}

fn run(store: &[&str], args: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durable-jobs"));
    let output = command.args(store).args(args).output().unwrap();
    Ran {
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        code: output.status.code(),
    }
}

fn listed(store: &[&str], args: &[&str]) -> Vec<Value> {
    let ran = run(store, &[&["--json", "list"], args].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let lines = ran.out.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

const HOUR: Duration = Duration::from_secs(3600);

/// Jobs of several kinds, three of them dead.
fn fill(open: impl FnOnce(DurableTimerBuilder) -> Result<DurableTimer, Error>) {
    let (sender, died) = mpsc::channel();
    let builder = DurableTimer::builder()
        .on("bad", |_| Outcome::Dead("no such user".into()))
        .on_dead(move |dead| sender.send(dead.id).unwrap());
    let timer = open(builder).unwrap();
    for number in 0..3 {
        let job = timer.job("bad").key(format!("bad {number}"));
        job.after(Duration::ZERO).unwrap();
    }
    for _ in 0..3 {
        died.recv().unwrap();
    }
    timer
        .job("mail")
        .key("one")
        .payload("first")
        .after(HOUR)
        .unwrap();
    timer
        .job("mail")
        .key("two")
        .payload([0xff, 0])
        .after(HOUR)
        .unwrap();
    timer
        .job("call")
        .key("daily")
        .cron("0 9 * * *", "Europe/Berlin")
        .unwrap();
    timer.stop().unwrap();
}

fn operate(store: &[&str]) {
    let all = listed(store, &[]);
    assert_eq!(all.len(), 6, "{all:?}");
    let states: Vec<_> = all
        .iter()
        .map(|job| job["state"].as_str().unwrap())
        .collect();
    assert_eq!(
        states,
        ["dead", "dead", "dead", "waiting", "waiting", "recurring"]
    );
    assert_eq!(all[5]["rule"], "cron 0 9 * * * Europe/Berlin");
    // Filters and pages.
    let mail = listed(store, &["--kind", "mail", "--limit", "1"]);
    assert_eq!((mail.len(), &mail[0]["key"]), (1, &"one".into()));
    let after = mail[0]["id"].to_string();
    let next = listed(store, &["--kind", "mail", "--after", &after]);
    assert_eq!((next.len(), &next[0]["key"]), (1, &"two".into()));
    assert_eq!(listed(store, &["--state", "dead"]).len(), 3);
    // One of them, for people and for programs.
    let shown = run(store, &["show", &after]);
    assert!(
        shown.out.contains("\"one\"") && shown.out.ends_with("first\n"),
        "{}",
        shown.out
    );
    let shown = run(store, &["--json", "show", &next[0]["id"].to_string()]);
    let shown: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!(shown["payload"]["base64"], "/wA=");
    assert_eq!(run(store, &["show", "999999"]).code, Some(1));
    // Moved, cancelled, ended.
    assert_eq!(run(store, &["move", "one", "7200000"]).code, Some(0));
    let moved = &listed(store, &["--key", "one"])[0];
    assert!(moved["due_ms"].as_u64() > mail[0]["due_ms"].as_u64());
    let cancelled = run(store, &["cancel", "two", "three", "daily"]);
    assert_eq!(cancelled.code, Some(1));
    assert_eq!(cancelled.err, "no job waits under \"three\"\n");
    assert_eq!(run(store, &["move", "two", "1"]).code, Some(1));
    // Dead letters: one by one, and all that are meant.
    let dead = all[0]["id"].to_string();
    assert_eq!(run(store, &["revive", &dead]).code, Some(0));
    assert_eq!(run(store, &["discard", &dead]).code, Some(1));
    let discarded = run(store, &["discard", "--all", "--key", "bad 1"]);
    assert_eq!(discarded.out, "1 discarded\n");
    assert_eq!(
        run(store, &["revive", "--all", "--kind", "mail"]).out,
        "0 revived\n"
    );
    assert_eq!(run(store, &["revive", "--all"]).out, "1 revived\n");
    let left = listed(store, &[]);
    let keys: Vec<_> = left
        .iter()
        .map(|job| job["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["bad 0", "bad 2", "one"]);
    assert!(left.iter().all(|job| job["state"] == "waiting"));
    // Pauses.
    for (command, code) in [("pause", 0), ("pause", 1), ("resume", 0), ("resume", 1)] {
        assert_eq!(run(store, &[command, "mail"]).code, Some(code), "{command}");
    }
}

#[test]
fn it_shows_and_changes_the_jobs_of_a_file() {
    let folder = Folder::new();
    let file = folder.path("jobs.redb");
    fill(|builder| builder.open(&file));
    operate(&["--file", &file]);
}

#[test]
#[cfg(feature = "postgres")]
fn it_shows_and_changes_the_jobs_of_a_database_beside_others() {
    let Some(server) = server::Server::start() else {
        return;
    };
    let url = server.url();
    fill(|builder| builder.table_prefix("shop_").open_postgres(&url));
    let beside = DurableTimer::builder()
        .table_prefix("shop_")
        .open_postgres(&url)
        .unwrap();
    operate(&["--postgres", &url, "--table-prefix", "shop_"]);
    beside.stop().unwrap();
}

#[test]
fn a_file_is_verified() {
    let folder = Folder::new();
    let file = folder.path("jobs.redb");
    fill(|builder| builder.open(&file));
    let store = ["--file", file.as_str()];
    let ran = run(&store, &["verify"]);
    assert_eq!(ran.out, "3 jobs, 3 dead, 0 of these damaged\n");
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let mut bytes = fs::read(&file).unwrap();
    let places: Vec<usize> = (0..bytes.len() - 5)
        .filter(|&place| &bytes[place..place + 5] == b"first")
        .collect();
    for place in places {
        bytes[place] ^= 1;
    }
    fs::write(&file, bytes).unwrap();
    let ran = run(&store, &["verify"]);
    assert_eq!(ran.code, Some(1), "{} {}", ran.out, ran.err);
    // What the engine finds refuses the file, what the checksums of jobs find is counted.
    assert!(
        ran.err.contains("corrupted") || ran.out.contains("1 of these damaged"),
        "{} {}",
        ran.out,
        ran.err
    );
}

#[test]
fn a_file_that_is_not_there_or_in_use_is_an_error() {
    let folder = Folder::new();
    let file = folder.path("jobs.redb");
    let store = ["--file", file.as_str()];
    let ran = run(&store, &["list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("no such file"), "{}", ran.err);
    assert!(!fs::exists(&file).unwrap());
    let timer = DurableTimer::builder().open(&file).unwrap();
    let ran = run(&store, &["list"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("in use"), "{}", ran.err);
    timer.stop().unwrap();
}

#[test]
fn a_bad_command_line_is_refused() {
    for args in [
        &[][..],
        &["list"],
        &["--file", "x", "--postgres", "y", "list"],
        &["--file", "x"],
        &["--file", "x", "lists"],
        &["--file", "x", "list", "--kinds", "y"],
        &["--file", "x", "list", "--state", "gone"],
        &["--file", "x", "show", "one"],
        &["--file", "x", "show"],
        &["--file", "x", "cancel", "a", "--all"],
        &["--file", "x", "cancel", "a", "--kind", "b"],
        &["--file", "x", "revive"],
        &["--file", "x", "revive", "1", "--all"],
        &["--file", "x", "move", "a"],
        &["--postgres", "host=nowhere", "verify"],
    ] {
        let ran = run(&[], args);
        assert_eq!(ran.code, Some(2), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("usage: "), "{args:?}");
    }
    assert_eq!(run(&[], &["--help"]).code, Some(0));
}

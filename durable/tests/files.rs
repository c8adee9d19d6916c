//! Files that cannot be opened: an error that names the file and what is wrong, and nothing is overwritten.

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, HOUR};
use hashed_wheel_durable::{DurableTimer, Error, Outcome};
use redb::{Database, TableDefinition};

fn builder() -> hashed_wheel_durable::DurableTimerBuilder {
    DurableTimer::builder().on("mail", |_| Outcome::Done)
}

/// Opening it is an error that has all these words; the file stays as it is.
fn refuses(path: &Path, words: &[&str]) {
    let before = fs::read(path).ok();
    let error = match builder().open(path) {
        Err(Error::Store(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(error.contains(&path.display().to_string()), "{error}");
    for word in words {
        assert!(error.contains(word), "{error:?} does not have {word:?}");
    }
    assert_eq!(fs::read(path).ok(), before, "the file was changed");
}

/// A store with a hundred jobs.
fn store(path: &Path) {
    let timer = builder().open(path).unwrap();
    for number in 0..100 {
        timer
            .job("mail")
            .key(format!("{number}"))
            .payload(vec![7; 500])
            .after(HOUR)
            .unwrap();
    }
    timer.stop().unwrap();
}

#[test]
fn a_file_that_is_no_store() {
    let folder = Folder::new();
    for content in ["", "x", "not a store of any kind", &"long ".repeat(100_000)] {
        let path = folder.file("notes.txt");
        fs::write(&path, content).unwrap();
        refuses(&path, &["is no store"]);
    }
}

#[test]
fn a_database_of_somebody_else() {
    let folder = Folder::new();
    let path = folder.file("other.redb");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = TableDefinition::<&str, &str>::new("meta");
    transaction
        .open_table(table)
        .unwrap()
        .insert("format", "mine")
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    refuses(&path, &["is no store"]);
}

#[test]
fn a_store_of_a_newer_version() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    store(&path);
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = TableDefinition::<&str, u64>::new("meta");
    transaction
        .open_table(table)
        .unwrap()
        .insert("format", 3)
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    refuses(&path, &["newer version", "format is 3", "knows 2"]);
}

#[test]
fn a_truncated_store() {
    let folder = Folder::new();
    let whole = folder.file("whole.redb");
    store(&whole);
    let bytes = fs::read(&whole).unwrap();
    let path = folder.file("part.redb");
    for part in [5, 8] {
        fs::write(&path, &bytes[..part]).unwrap();
        refuses(&path, &["is no store"]);
    }
    for part in [
        20,
        100,
        512,
        4096,
        10_000,
        bytes.len() / 2,
        bytes.len() - 4096,
    ] {
        fs::write(&path, &bytes[..part]).unwrap();
        refuses(&path, &["truncated"]);
    }
}

#[test]
fn a_damaged_store_is_an_error_or_works() {
    let folder = Folder::new();
    let whole = folder.file("whole.redb");
    store(&whole);
    let bytes = fs::read(&whole).unwrap();
    let path = folder.file("damaged.redb");
    for place in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut damaged = bytes.clone();
        for byte in damaged.iter_mut().skip(place).take(300) {
            *byte ^= 0x5a;
        }
        fs::write(&path, &damaged).unwrap();
        // Neither a panic nor a hang.
        if let Ok(timer) = builder().open(&path) {
            let _ = timer.pending();
            let _ = timer.job("mail").key("new").after(HOUR);
            let _ = timer.cancel("50");
            let _ = timer.stop();
        }
    }
}

#[test]
fn a_read_only_store() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    store(&path);
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&path, permissions).unwrap();
    refuses(&path, &["is read-only"]);
}

#[test]
fn a_folder() {
    let folder = Folder::new();
    refuses(folder.path(), &["is a folder"]);
}

#[test]
fn a_folder_that_is_not_there() {
    let folder = Folder::new();
    refuses(&folder.file("missing/timers.redb"), &["cannot create"]);
}

#[test]
fn a_file_in_use_is_named_and_free_after_stop() {
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let timer = builder().open(&path).unwrap();
    match builder().open(&path) {
        Err(Error::InUse(file)) => assert_eq!(file, path),
        other => panic!("{other:?}"),
    }
    timer.job("mail").after(HOUR).unwrap();
    timer.stop().unwrap();
    let timer = builder().open(&path).unwrap();
    assert_eq!(timer.pending().unwrap(), 1);
    drop(timer);
    builder().open(&path).unwrap();
}

/// Set for a child of the test below: the file that it has to try.
const IN_USE: &str = "DURABLE_TEST_IN_USE";

#[test]
fn a_file_in_use_is_refused_to_another_process() {
    if let Ok(path) = std::env::var(IN_USE) {
        match builder().open(&path) {
            Err(error @ Error::InUse(_)) => println!("refused: {error}"),
            other => panic!("{other:?}"),
        }
        return;
    }
    let folder = Folder::new();
    let path = folder.file("timers.redb");
    let timer = builder().open(&path).unwrap();
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_file_in_use_is_refused_to_another_process"])
        .arg("--nocapture")
        .env(IN_USE, &path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{said}");
    let refusal = said.lines().find(|line| line.contains("refused: "));
    assert!(
        refusal.is_some_and(|line| line.contains(&path.display().to_string())),
        "{said}"
    );
    // The first one has not noticed.
    timer.job("mail").after(HOUR).unwrap();
    assert_eq!(timer.pending().unwrap(), 1);
}

#[test]
fn a_leftover_of_a_killed_creation_is_taken_over() {
    let folder = Folder::new();
    let empty = folder.file("empty.redb");
    builder().open(&empty).unwrap().stop().unwrap();
    let bare = folder.file("bare.redb");
    drop(Database::create(&bare).unwrap());
    let whole = fs::read(&empty).unwrap();
    // redb writes its magic number last.
    let without_magic = [vec![0; 9], whole[9..].to_vec()].concat();
    for leftover in [vec![], without_magic, fs::read(&bare).unwrap(), whole] {
        let path = folder.file("timers.redb");
        fs::write(folder.file("timers.redb.new"), leftover).unwrap();
        let timer = builder().open(&path).unwrap();
        timer.job("mail").after(HOUR).unwrap();
        timer.stop().unwrap();
        assert!(!folder.file("timers.redb.new").exists());
        assert_eq!(builder().open(&path).unwrap().pending().unwrap(), 1);
        fs::remove_file(&path).unwrap();
    }
}

/// Opening `path` is refused because of `other`, which stays as it is.
fn is_in_the_way(path: &Path, other: &Path) {
    let before = fs::read(other).unwrap();
    for _ in 0..2 {
        match builder().open(path) {
            Err(Error::Store(error)) => {
                let error = error.to_string();
                assert!(error.contains(&other.display().to_string()), "{error}");
                assert!(error.contains("in the way"), "{error}");
            }
            result => panic!("{result:?}"),
        }
        assert_eq!(fs::read(other).unwrap(), before, "it was changed");
        assert!(!path.exists());
    }
}

#[test]
fn the_name_of_an_unfinished_store_may_be_taken() {
    let folder = Folder::new();
    let (path, other) = (folder.file("timers"), folder.file("timers.new"));
    fs::write(&other, "notes").unwrap();
    is_in_the_way(&path, &other);
    fs::remove_file(&other).unwrap();

    let database = Database::create(&other).unwrap();
    let transaction = database.begin_write().unwrap();
    let table = TableDefinition::<&str, &str>::new("mine");
    transaction.open_table(table).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let before = fs::read(&other).unwrap();
    assert!(matches!(builder().open(&path), Err(Error::Store(_))));
    assert_eq!(fs::read(&other).unwrap().len(), before.len());
    fs::remove_file(&other).unwrap();

    store(&other);
    match builder().open(&path) {
        Err(Error::Store(error)) => assert!(error.to_string().contains("in the way"), "{error}"),
        result => panic!("{result:?}"),
    }
    assert_eq!(builder().open(&other).unwrap().pending().unwrap(), 100);
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_refused_and_not_waited_for() {
    let folder = Folder::new();
    let path = folder.file("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    if !made.is_ok_and(|status| status.success()) {
        return;
    }
    match builder().open(&path) {
        Err(Error::Store(error)) => assert!(error.to_string().contains("regular file"), "{error}"),
        result => panic!("{result:?}"),
    }
}

#[cfg(unix)]
#[test]
fn a_link_is_followed_and_never_replaced() {
    let folder = Folder::new();
    let (link, target) = (folder.file("link.redb"), folder.file("timers.redb"));
    std::os::unix::fs::symlink(&target, &link).unwrap();
    match builder().open(&link) {
        Err(Error::Store(error)) => {
            let error = error.to_string();
            assert!(error.contains(&link.display().to_string()), "{error}");
            assert!(error.contains("link to nothing"), "{error}");
        }
        result => panic!("{result:?}"),
    }
    assert_eq!(fs::read_link(&link).unwrap(), target);
    assert!(!target.exists());

    store(&target);
    assert_eq!(builder().open(&link).unwrap().pending().unwrap(), 100);
    let timer = builder().open(&target).unwrap();
    assert!(matches!(builder().open(&link), Err(Error::InUse(_))));
    drop(timer);
}

#[test]
fn several_that_make_the_same_file_end_with_one_store() {
    for _ in 0..5 {
        let folder = Folder::new();
        let path = folder.file("timers.redb");
        let stored: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|_| {
                    scope.spawn(|| match builder().open(&path) {
                        Ok(timer) => {
                            timer.job("mail").after(HOUR).unwrap();
                            1
                        }
                        Err(Error::InUse(_)) => 0,
                        Err(error) => panic!("{error}"),
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert!(stored >= 1);
        assert_eq!(builder().open(&path).unwrap().pending().unwrap(), stored);
    }
}

//! Files that are migrated, verified and compacted when they are opened.

use std::fs;
use std::path::{Path, PathBuf};

use ::redb::TableHandle;

use super::super::layout::{FORMAT, META, Place, array, body, entry, old, place};
use super::*;
use crate::job::state::State as JobState;
use crate::job::{JobFilter, Scheduled};
use crate::store::{Claim, DAMAGED, Row};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("durable-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("store.redb")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A file as version 0.1.0 left it: two jobs that wait, one of them with a key, an interrupted one, a claim, a dead letter.
fn old_file(path: &Path) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        meta.insert("format", 1).unwrap();
        meta.insert("last", 1000).unwrap();
        let mut kinds = transaction.open_table(KINDS).unwrap();
        kinds.insert("mail", 0).unwrap();
        kinds.insert("fax", 1).unwrap();
        let mut jobs = transaction.open_table(old::JOBS).unwrap();
        for id in 1..=5_u64 {
            let key = (id == 2 || id == 4).then(|| format!("key {id}"));
            // Without the checksum.
            let value = body(id, key.as_deref(), false, &[id as u8; 3])[4..].to_vec();
            jobs.insert(id, value.as_slice()).unwrap();
        }
        let mut waiting = transaction.open_table(old::WAITING).unwrap();
        waiting.insert(&place(0, 10, 1), 0).unwrap();
        waiting.insert(&place(1, 20, 2), 7).unwrap();
        let mut interrupted = transaction.open_table(old::INTERRUPTED).unwrap();
        interrupted.insert(&place(0, 30, 3), 1).unwrap();
        let mut keys = transaction.open_table(KEYS).unwrap();
        let mut key = [0; 21];
        key[..20].copy_from_slice(&place(1, 20, 2));
        keys.insert("key 2", &key).unwrap();
        let mut claimed = transaction.open_table(old::CLAIMED).unwrap();
        let mut claim = [0; 33];
        claim[..8].copy_from_slice(&900_u64.to_le_bytes());
        claim[8..28].copy_from_slice(&place(0, 40, 4));
        claim[28] = 2;
        claim[32] = 1;
        claimed.insert(4, &claim).unwrap();
        let mut dead = transaction.open_table(old::DEAD).unwrap();
        let letter = [&[0, 0, 0, 0, 3, 0, 0, 0][..], b"no user"].concat();
        dead.insert(5, letter.as_slice()).unwrap();
    }
    transaction.commit().unwrap();
}

fn rows(store: &RedbStore) -> Vec<Row> {
    store.reader().jobs(&JobFilter::new()).unwrap()
}

fn open(path: &Path, verify: bool) -> RedbStore {
    RedbStore::open(path, &handled(), verify).unwrap()
}

#[test]
fn tables_that_were_added_later_are_made_and_a_lost_one_is_not() {
    let folder = Folder::new("tables");
    drop(open(&folder.file(), false));
    let delete = |tables: &[&str]| {
        let database = Database::create(folder.file()).unwrap();
        let transaction = database.begin_write().unwrap();
        for name in transaction.list_tables().unwrap().collect::<Vec<_>>() {
            if tables.contains(&name.name()) {
                transaction.delete_table(name).unwrap();
            }
        }
        transaction.commit().unwrap();
    };
    delete(&["paused", "recurring", "rules"]);
    let mut store = open(&folder.file(), false);
    assert_eq!(store.slots(10, 10, &[1, 1]).unwrap(), []);
    assert!(store.poll(&|_, _, _| None, &[1, 1]).is_ok() && rows(&store).is_empty());
    drop(store);
    delete(&["due"]);
    let refused = RedbStore::open(&folder.file(), &handled(), false).err();
    assert!(refused.unwrap().to_string().contains("a table is missing"));
}

#[test]
fn a_file_of_the_first_format_is_migrated() {
    let folder = Folder::new("migrate");
    old_file(&folder.file());
    for verify in [false, true] {
        let mut store = open(&folder.file(), verify);
        let found: Vec<_> = rows(&store)
            .into_iter()
            .map(|row| {
                let standing = row.standing;
                (
                    row.id,
                    row.key,
                    row.payload[0],
                    standing.state,
                    standing.attempts,
                )
            })
            .collect();
        let key = |id: u64| Some(format!("key {id}"));
        assert_eq!(
            found,
            [
                (1, None, 1, JobState::Waiting, 0),
                (2, key(2), 2, JobState::Waiting, 7),
                (3, None, 3, JobState::Suspect, 1),
                (4, key(4), 4, JobState::Charged, 2),
                (5, None, 5, JobState::Dead, 3),
            ]
        );
        let dead = rows(&store).pop().unwrap();
        assert_eq!(
            (&*dead.kind, dead.error.as_deref()),
            ("mail", Some("no user"))
        );
        assert!(dead.died.is_some());
        let call = Call::Schedule(vec![New {
            kind: "mail".to_owned(),
            key: Some("key 2".to_owned()),
            payload: vec![],
            due: 1,
            replace: false,
            rule: None,
        }]);
        let claim = ClaimRequest {
            room: vec![9, 9],
            ..ClaimRequest::default()
        };
        let committed = commit(&mut store, &(vec![call], vec![], claim)).unwrap();
        let kept = vec![Scheduled::Kept(2)];
        assert_eq!(committed.replies, [crate::store::Reply::Scheduled(kept)]);
    }
    // Version 0.1.0 refuses it by its format.
    let database = Database::open(folder.file()).unwrap();
    let transaction = database.begin_read().unwrap();
    let meta = transaction.open_table(META).unwrap();
    assert_eq!(meta.get("format").unwrap().unwrap().value(), FORMAT);
}

#[test]
fn a_migration_that_is_cut_short_leaves_the_old_file_or_the_new_one() {
    let folder = Folder::new("migrate-cut");
    old_file(&folder.file());
    let bytes = fs::read(folder.file()).unwrap();
    // As many writes as it takes, and then no more.
    for failing in 0..40 {
        let disk = Disk::default();
        disk.0.lock().seen.clone_from(&bytes);
        disk.0.lock().synced.clone_from(&bytes);
        disk.break_at(failing, io::ErrorKind::Other);
        let database = Database::builder().create_with_backend(disk.clone());
        if let Ok(mut database) = database {
            let path = Path::new("backend");
            let _ = super::super::upgrade::prepare(&mut database, path, 0, false);
            std::mem::forget(database);
        }
        let left = disk.crash(&mut Random(failing as u64));
        let mut database = Database::builder().create_with_backend(left).unwrap();
        super::super::upgrade::prepare(&mut database, Path::new("backend"), 0, true).unwrap();
        let transaction = database.begin_read().unwrap();
        assert_eq!(
            transaction
                .open_table(BODIES)
                .unwrap()
                .iter()
                .unwrap()
                .count(),
            5
        );
        assert_eq!(
            transaction.open_table(DUE).unwrap().iter().unwrap().count(),
            2
        );
    }
}

/// Stores so many jobs, and closes the file.
fn fill(path: &Path, jobs: u64) {
    let mut store = open(path, false);
    let new = (0..jobs).map(|number| New {
        kind: "mail".to_owned(),
        key: Some(format!("key {number}")),
        payload: vec![number as u8; 500],
        due: 10,
        replace: false,
        rule: None,
    });
    let claim = ClaimRequest {
        room: vec![9, 9],
        ..ClaimRequest::default()
    };
    commit(
        &mut store,
        &(vec![Call::Schedule(new.collect())], vec![], claim),
    )
    .unwrap();
}

/// What a file with a flipped bit has: claims of all that waits, and dead letters. `None` if it is refused.
fn claims_and_letters(path: &Path, verify: bool) -> Option<(usize, usize)> {
    let refused = |error: &str| assert!(error.contains(&path.display().to_string()), "{error}");
    let mut store = match RedbStore::open(path, &handled(), verify) {
        Ok(store) => store,
        Err(error) => {
            refused(&error.to_string());
            return None;
        }
    };
    let claim = ClaimRequest {
        until: Millis::MAX,
        limit: 1000,
        bytes: usize::MAX,
        room: vec![1000; 2],
        ..ClaimRequest::default()
    };
    let mut claims = Vec::new();
    for again in [false, true] {
        if again {
            // As the store thread does when it, or the scan, met something that does not fit.
            let held = claims.iter().map(|claim: &Claim| claim.token).collect();
            store.shared.damaged.store(true, Ordering::Relaxed);
            if let Err(error) = store.reopen(&held) {
                refused(&error.to_string());
                return None;
            }
        }
        match commit(&mut store, &(vec![], vec![], claim.clone())) {
            Ok(committed) => claims.extend(committed.claims),
            Err(error) => refused(&error.to_string()),
        }
    }
    for claim in &claims {
        let number: u64 = claim.key.as_ref().unwrap()[4..].parse().unwrap();
        assert_eq!(claim.payload, vec![number as u8; 500]);
        assert_eq!((claim.due, claim.attempt), (10, 1));
    }
    let ids: HashSet<Id> = claims.iter().map(|claim| claim.id).collect();
    assert_eq!(ids.len(), claims.len(), "a job was claimed twice");
    let letters = store.reader().jobs(&JobFilter::new().dead()).unwrap();
    assert!(
        letters
            .iter()
            .all(|row| row.error.as_deref() == Some(DAMAGED))
    );
    Some((claims.len(), letters.len()))
}

#[test]
fn a_flipped_bit_reaches_no_handler_and_loses_no_job() {
    let folder = Folder::new("flip");
    let path = folder.file();
    fill(&path, 300);
    let whole = fs::read(&path).unwrap();
    let mut random = Random(30);
    let (mut refused, mut dead, mut unharmed) = (0, 0, 0);
    for round in 0..80 {
        let mut bytes = whole.clone();
        // Where the jobs are: a byte of a page that is in use.
        let at = loop {
            let at = random.below(bytes.len() as u64) as usize;
            if at > 4096 && bytes[at] != 0 {
                break at;
            }
        };
        bytes[at] ^= 1 << random.below(8);
        fs::write(&path, &bytes).unwrap();
        match claims_and_letters(&path, round % 2 == 0) {
            None => refused += 1,
            Some((claims, letters)) => {
                assert!(claims + letters >= 300, "{claims} {letters} at {at}");
                *(if letters == 0 {
                    &mut unharmed
                } else {
                    &mut dead
                }) += 1;
            }
        }
    }
    assert!(
        dead > 20 && refused < 8,
        "refused {refused}, dead {dead}, unharmed {unharmed}"
    );
}

#[test]
fn an_entry_that_no_search_meets_is_found_beside_the_store_thread() {
    let folder = Folder::new("scan");
    let path = folder.file();
    fill(&path, 300);
    let whole = fs::read(&path).unwrap();
    let entry = place(0, 10, 150);
    let places: Vec<usize> = (0..whole.len() - entry.len())
        .filter(|&at| whole[at..].starts_with(&entry))
        .collect();
    let mut found = 0;
    for at in places {
        let mut bytes = whole.clone();
        // Of a kind that nobody has.
        bytes[at] ^= 0x40;
        fs::write(&path, &bytes).unwrap();
        let runs = Arc::new(Mutex::new(HashSet::new()));
        let seen = Arc::clone(&runs);
        let timer = DurableTimer::builder()
            .on("mail", move |job| {
                assert!(seen.lock().insert(job.key().unwrap().to_owned()));
                Outcome::Done
            })
            .open(&path)
            .unwrap();
        // While it is opened again, calls are refused.
        let dead = loop {
            let dead = timer.dead(10).map_or(0, |dead| dead.len());
            if runs.lock().len() + dead == 300 {
                break dead;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        found += dead;
        timer.stop().unwrap();
    }
    assert_eq!(found, 1, "in the index, and not in the table of keys");
}

#[cfg(unix)]
#[test]
fn a_mended_file_has_the_permissions_of_the_damaged_one_and_links_stay() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = Folder::new("mode");
    let (path, link) = (folder.file(), folder.0.join("link.redb"));
    fill(&path, 300);
    let mut bytes = fs::read(&path).unwrap();
    // In the payload of a job.
    let at = bytes
        .windows(100)
        .position(|window| window == [77; 100])
        .unwrap();
    bytes[at + 50] ^= 1;
    fs::write(&path, &bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    symlink(&path, &link).unwrap();
    let store = open(&link, true);
    let dead = store.reader().jobs(&JobFilter::new().dead()).unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].payload.len(), 500, "what is left of it is shown");
    assert_eq!(store.reader().pending().unwrap(), 299);
    drop(store);
    assert_eq!(fs::read_link(&link).unwrap(), path);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let kept = folder.0.join("store.redb.damaged");
    assert!(fs::metadata(kept).unwrap().len() >= bytes.len() as u64);
}

#[test]
fn a_file_whose_rows_cannot_be_counted_is_refused_and_kept() {
    let folder = Folder::new("count");
    let path = folder.file();
    fill(&path, 300);
    let whole = fs::read(&path).unwrap();
    // The number of rows of a table, beside its root: one more than there are.
    let rows = 300_u64.to_le_bytes();
    let places: Vec<usize> = (0..whole.len() - 8)
        .filter(|&at| whole[at..].starts_with(&rows))
        .collect();
    assert!(!places.is_empty());
    let mut refused = 0;
    for at in places {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        if let Err(error) = RedbStore::open(&path, &handled(), true) {
            let error = error.to_string();
            assert!(error.contains("cannot all be found"), "{error}");
            assert!(error.contains(&path.display().to_string()), "{error}");
            refused += 1;
        }
        assert!(!folder.0.join("store.redb.mended").exists());
    }
    assert!(refused > 0);
}

#[test]
fn verifying_finds_a_job_that_stands_nowhere_or_twice() {
    let folder = Folder::new("verify");
    let path = folder.file();
    fill(&path, 10);
    let mut store = open(&path, true);
    assert!(
        rows(&store)
            .iter()
            .all(|row| row.standing.state == JobState::Waiting)
    );
    let damage = |work: &mut Work<'_>| {
        let first: Place = array(work.keys.get("key 0")?.unwrap().value());
        let second: Place = array(work.keys.get("key 1")?.unwrap().value());
        work.due.remove(&first)?.unwrap();
        work.suspects.insert(&second, entry(&second, 0))?;
        work.written = true;
        Ok(())
    };
    store.write("cannot damage", 0, true, damage).unwrap();
    store.flip_body(5);
    drop(store);
    let store = open(&path, true);
    let dead: Vec<_> = rows(&store)
        .into_iter()
        .filter(|row| row.standing.state == JobState::Dead)
        .map(|row| row.id)
        .collect();
    assert_eq!(dead, [1, 2, 5]);
    assert_eq!(store.reader().pending().unwrap(), 7);
}

#[test]
fn a_damaged_claim_and_a_job_without_a_body_are_dead() {
    let folder = Folder::new("claims");
    fill(&folder.file(), 3);
    let mut store = open(&folder.file(), false);
    let claim = ClaimRequest {
        until: 10,
        limit: 2,
        bytes: usize::MAX,
        room: vec![9, 9],
        ..ClaimRequest::default()
    };
    let request = || (vec![], vec![], claim.clone());
    assert_eq!(commit(&mut store, &request()).unwrap().claims.len(), 2);
    let damage = |work: &mut Work<'_>| {
        // Another due time in the claim of the first, and of another kind.
        let mut claim = *work.claims.get(1)?.unwrap().value();
        claim[8 + 3] ^= 1;
        work.claims.insert(1, &claim)?;
        work.bodies.remove(3)?;
        work.written = true;
        Ok(())
    };
    store.write("cannot damage", 0, true, damage).unwrap();
    let recovered = store.recover(&|_, _, _| None, 0).unwrap();
    assert_eq!((recovered.found, recovered.died), (1, vec![1]));
    let committed = commit(&mut store, &request()).unwrap();
    assert_eq!((committed.claims.len(), committed.died), (0, vec![3]));
    let dead: Vec<_> = store
        .reader()
        .jobs(&JobFilter::new().dead())
        .unwrap()
        .into_iter()
        .map(|row| (row.id, row.error.unwrap()))
        .collect();
    assert_eq!(dead, [(1, DAMAGED.to_owned()), (3, DAMAGED.to_owned())]);
}

#[test]
fn a_file_that_is_mostly_free_is_made_smaller() {
    let folder = Folder::new("compact");
    let path = folder.file();
    fill(&path, 30_000);
    let large = fs::metadata(&path).unwrap().len();
    let mut store = open(&path, false);
    let cancel = (10..30_000).map(|number| Call::Cancel {
        key: format!("key {number}"),
    });
    let claim = ClaimRequest {
        room: vec![9, 9],
        ..ClaimRequest::default()
    };
    commit(&mut store, &(cancel.collect(), vec![], claim)).unwrap();
    drop(store);
    assert!(fs::metadata(&path).unwrap().len() > large / 2);
    let store = open(&path, false);
    assert_eq!(rows(&store).len(), 10);
    drop(store);
    let small = fs::metadata(&path).unwrap().len();
    assert!(small < large / 4, "{large} {small}");
}

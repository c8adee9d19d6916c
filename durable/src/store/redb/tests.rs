//! Faults of the storage: writes that are torn, reordered or dropped before a sync, writes that fail, a disk that is full.

use std::io;
use std::sync::Arc;

use ::redb::{ReadableTable, StorageBackend};
use parking_lot::Mutex;

mod upgrade;

use super::layout::{BODIES, CLAIMS, ERRORS, KEYS, KINDS, LETTERS, META};
use super::open::{builder, format, initialize};
use super::*;
use crate::store::{Id, New, Verdict};
use crate::{DurableTimer, Error, Outcome};

impl RedbStore {
    /// Flips a bit in the payload of a job, if there is such a job.
    pub(crate) fn flip_body(&mut self, id: Id) {
        let work = |work: &mut Work<'_>| {
            let body = work.bodies.get(id)?.map(|body| body.value().to_vec());
            if let Some(mut body) = body {
                *body.last_mut().unwrap() ^= 1;
                work.bodies.insert(id, body.as_slice())?;
                work.written = true;
            }
            Ok(())
        };
        self.write("cannot flip", 0, true, work).unwrap();
    }
}

/// A disk with a cache: what was written but not synced may be lost, in part and in any order.
#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// As the process sees it.
    seen: Vec<u8>,
    /// As a crash leaves it at least.
    synced: Vec<u8>,
    unsynced: Vec<Change>,
    /// Writes, changes of length and syncs so far.
    count: usize,
    /// All of them fail from this one on, with this error.
    broken: Option<(usize, io::ErrorKind)>,
}

#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Length(u64),
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => {
            let (start, end) = (*offset as usize, *offset as usize + data.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data);
        }
        Change::Length(length) => bytes.resize(*length as usize, 0),
    }
}

impl Disk {
    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.0.lock();
        state.check()?;
        apply(&mut state.seen, &change);
        state.unsynced.push(change);
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.lock().count
    }

    fn break_at(&self, count: usize, kind: io::ErrorKind) {
        self.0.lock().broken = Some((count, kind));
    }

    /// The disk as it may be after a crash now. Of what was not synced each sector is there or not, and later writes may be there without earlier ones.
    fn crash(&self, random: &mut Random) -> Disk {
        let state = self.0.lock();
        let mut bytes = state.synced.clone();
        let mut changes = state.unsynced.clone();
        for place in (1..changes.len()).rev() {
            changes.swap(place, random.below(place as u64 + 1) as usize);
        }
        for change in changes {
            match change {
                _ if random.below(3) == 0 => {}
                Change::Write(offset, data) if random.below(2) == 0 => {
                    for (sector, part) in data.chunks(512).enumerate() {
                        if random.below(2) == 0 {
                            apply(
                                &mut bytes,
                                &Change::Write(offset + 512 * sector as u64, part.to_vec()),
                            );
                        }
                    }
                }
                change => apply(&mut bytes, &change),
            }
        }
        let disk = State {
            seen: bytes.clone(),
            synced: bytes,
            ..State::default()
        };
        Disk(Arc::new(Mutex::new(disk)))
    }
}

impl State {
    fn check(&mut self) -> io::Result<()> {
        self.count += 1;
        match self.broken {
            Some((count, kind)) if self.count > count => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock();
        let (start, end) = (offset as usize, offset as usize + out.len());
        let bytes = state
            .seen
            .get(start..end)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Change::Length(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        state.check()?;
        let State {
            synced, unsynced, ..
        } = &mut *state;
        for change in unsynced.drain(..) {
            apply(synced, &change);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(Change::Write(offset, data.to_vec()))
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

impl RedbStore {
    /// The same over any storage, for tests of faults.
    pub(crate) fn open_backend(
        backend: impl StorageBackend + Clone,
        handled: &[String],
    ) -> std::result::Result<RedbStore, Error> {
        let open = move |_| {
            let failed = |error: ::redb::Error| {
                Error::Store(StoreError::with("backend: cannot open", error))
            };
            let database = builder()
                .create_with_backend(backend.clone())
                .map_err(|error| failed(error.into()))?;
            let fresh = {
                let transaction = database
                    .begin_read()
                    .map_err(|error| failed(error.into()))?;
                format(&transaction).map_err(failed)?.is_none()
            };
            if fresh {
                initialize(&database).map_err(failed)?;
            }
            Ok(database)
        };
        RedbStore::start("backend".to_owned(), handled, false, Box::new(open))
    }
}

fn handled() -> Vec<String> {
    vec!["mail".to_owned(), "call".to_owned()]
}

/// All that is stored.
fn content(store: &RedbStore) -> Vec<String> {
    let database = store.shared.database.read();
    let transaction = database.as_ref().unwrap().begin_read().unwrap();
    let mut all = Vec::new();
    macro_rules! read {
        ($($table:expr),*) => {
            $(for entry in transaction.open_table($table).unwrap().iter().unwrap() {
                let (key, value) = entry.unwrap();
                all.push(format!("{} {:?} {:?}", $table, key.value(), value.value()));
            })*
        };
    }
    read!(
        META, KINDS, BODIES, DUE, SUSPECTS, KEYS, CLAIMS, LETTERS, ERRORS
    );
    all
}

/// A batch of every sort. What it claims is finished by later ones.
type Transaction = (Vec<Call>, Vec<End>, ClaimRequest);

fn transactions(seed: u64) -> Vec<Transaction> {
    let mut random = Random(seed);
    let mut all = Vec::new();
    for number in 0..12 {
        let (mut calls, mut ends) = (Vec::new(), Vec::new());
        for _ in 0..=random.below(6) {
            let key = format!("k{}", random.below(6));
            let due = random.below(100) as Millis;
            match random.below(8) {
                0 => calls.push(Call::Cancel { key }),
                1 => calls.push(Call::Move { key, due }),
                2 => ends.push(End {
                    id: random.below(20),
                    token: random.below(40),
                    kind: "mail".into(),
                    verdict: Verdict::Retry {
                        due,
                        error: Some("busy".to_owned()),
                    },
                }),
                _ => calls.push(Call::Schedule(vec![New {
                    kind: ["mail", "call", "fax"][random.below(3) as usize].to_owned(),
                    key: (random.below(2) == 0).then_some(key),
                    payload: vec![number as u8; random.below(3000) as usize],
                    due,
                    replace: random.below(2) == 0,
                    rule: None,
                }])),
            }
        }
        let claim = ClaimRequest {
            now: 0,
            until: 60,
            limit: 3 * random.below(2) as usize,
            bytes: 10_000,
            suspect: None,
            room: vec![9, 9],
        };
        all.push((calls, ends, claim));
    }
    all
}

fn commit(
    store: &mut RedbStore,
    (calls, ends, claim): &Transaction,
) -> std::result::Result<Committed, StoreError> {
    store.commit(calls, ends, claim, Instant::now())
}

#[test]
fn a_crash_leaves_the_old_or_the_new_state() {
    let mut crashes = [0, 0];
    // A hundred take half a minute without optimization.
    let cases = std::env::var("HASHED_WHEEL_CASES").map_or(30, |cases| cases.parse().unwrap());
    for seed in 0..cases {
        let transactions = transactions(seed);
        // On a disk that works: the states in between.
        let disk = Disk::default();
        let mut store = RedbStore::open_backend(disk.clone(), &handled()).unwrap();
        let start = disk.count();
        let mut states = vec![content(&store)];
        for batch in &transactions {
            commit(&mut store, batch).unwrap();
            states.push(content(&store));
        }
        let end = disk.count();
        drop(store);

        // The same, until the disk stops at some write.
        let mut random = Random(seed + 1_000_000);
        let disk = Disk::default();
        let mut store = RedbStore::open_backend(disk.clone(), &handled()).unwrap();
        disk.break_at(
            start + random.below((end - start) as u64) as usize,
            io::ErrorKind::Other,
        );
        let committed = transactions
            .iter()
            .take_while(|batch| commit(&mut store, batch).is_ok())
            .count();
        let left = disk.crash(&mut random);
        drop(store);

        let found = content(&RedbStore::open_backend(left, &handled()).unwrap());
        let is_new = states.get(committed + 1) == Some(&found) && found != states[committed];
        assert!(
            is_new || found == states[committed],
            "seed {seed}: a mixture after {committed} commits"
        );
        crashes[usize::from(is_new)] += 1;
    }
    assert!(
        crashes[0] > 0,
        "no crash lost an unfinished commit: {crashes:?}"
    );
}

fn timer_on(disk: &Disk) -> std::result::Result<DurableTimer, Error> {
    let disk = disk.clone();
    DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_with(Arc::new(crate::time::SystemWall), move |kinds| {
            Box::new(RedbStore::open_backend(disk, kinds).unwrap())
        })
}

fn a_failing_disk_poisons_the_timer(kind: io::ErrorKind) {
    let hour = std::time::Duration::from_secs(3600);
    for failing in 0..12 {
        let disk = Disk::default();
        let timer = timer_on(&disk).unwrap();
        timer.job("mail").key("stored").after(hour).unwrap();
        disk.break_at(disk.count() + failing, kind);
        let mut stored = 1;
        let error = loop {
            match timer.job("mail").payload(vec![0; 100_000]).after(hour) {
                Ok(_) => stored += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Store(_)), "{error:?}");
        assert!(std::error::Error::source(&error).is_some());
        assert!(error.to_string().contains("cannot write"), "{error}");
        // Nothing pretends to be durable.
        for refused in [
            timer.job("mail").after(hour).map(|_| ()),
            timer.cancel("stored").map(|_| ()),
            timer.reschedule("stored", hour).map(|_| ()),
            timer.pending().map(|_| ()),
            timer.stop(),
        ] {
            let Err(Error::Poisoned { cause }) = refused else {
                panic!("{refused:?}")
            };
            assert!(cause.to_string().contains("backend: cannot"), "{cause}");
        }
        assert!(timer.stop().is_ok());
        drop(timer);

        // What was acknowledged is there.
        let timer = timer_on(&disk.crash(&mut Random(failing as u64))).unwrap();
        let pending = timer.pending().unwrap();
        assert!(
            pending == stored || pending == stored + 1,
            "{pending} {stored}"
        );
        assert!(timer.cancel("stored").unwrap());
    }
}

#[test]
fn a_failed_write_poisons_the_timer() {
    a_failing_disk_poisons_the_timer(io::ErrorKind::Other);
}

#[test]
fn a_full_disk_poisons_the_timer() {
    a_failing_disk_poisons_the_timer(io::ErrorKind::StorageFull);
}

#[test]
fn a_disk_that_has_room_again_is_used_again() {
    let disk = Disk::default();
    let timer = timer_on(&disk).unwrap();
    let soon = std::time::Duration::from_millis(100);
    let mut stored = 0;
    for failing in [3, 7, 20] {
        disk.break_at(disk.count() + failing, io::ErrorKind::StorageFull);
        while timer.job("mail").after(soon).is_ok() {
            stored += 1;
        }
        assert!(matches!(timer.pending(), Err(Error::Poisoned { .. })));
        std::thread::sleep(std::time::Duration::from_millis(150));
        disk.0.lock().broken = None;
        let start = std::time::Instant::now();
        while timer.pending().is_err() {
            assert!(start.elapsed().as_secs() < 30, "it stays poisoned");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        // A call that was refused may have been stored.
        timer.job("mail").after(soon).unwrap();
        stored += 1;
    }
    while timer.pending().unwrap() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(
        timer.stats().fired >= stored,
        "{stored} {:?}",
        timer.stats()
    );
    timer.stop().unwrap();
}

#[test]
fn a_write_that_fails_while_jobs_run_loses_none_of_them() {
    let disk = Disk::default();
    let timer = timer_on(&disk).unwrap();
    disk.break_at(disk.count() + 25, io::ErrorKind::StorageFull);
    let mut stored = 0;
    while timer.job("mail").after(std::time::Duration::ZERO).is_ok() {
        stored += 1;
    }
    let _ = timer.stop();
    let fired = timer.stats().fired;
    drop(timer);
    let timer = timer_on(&disk.crash(&mut Random(5))).unwrap();
    while timer.pending().unwrap() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(
        fired + timer.stats().fired >= stored,
        "{fired} + {} < {stored}",
        timer.stats().fired
    );
}

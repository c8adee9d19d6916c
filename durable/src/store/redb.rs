//! The embedded store: one file, through redb.
//!
//! Every commit has quick repair on: two phases, each with its own sync, and the allocator's state inside. After a kill the file opens without a
//! walk over its pages.

mod index;
mod layout;
mod mend;
mod open;
mod read;
mod scan;
mod upgrade;
mod work;

use std::collections::{HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use ::redb::{Database, Durability, ReadableDatabase, ReadableTable, WriteTransaction};
use parking_lot::RwLock;

use self::index::{earliest, in_order};
use self::layout::{
    DUE, PAUSED, RECURRING, RULES, SUSPECTS, check_kinds, due_of, id_of, kind_of, read_rule,
};
use self::open::guarded;
use self::work::{Work, damaged};
use super::{
    Call, ClaimRequest, Committed, Earliest, End, Judge, Polled, Reader, Recovered, Slot, Store,
    Wake,
};
use crate::broken::{self, Defect};
use crate::error::{Error, StoreError};
use crate::time::{Millis, SystemWall, WallClock};

/// The most memory that redb keeps pages in.
const CACHE: usize = 64 << 20;

/// The engine's error, of whatever operation.
type Result<T> = std::result::Result<T, ::redb::Error>;

/// Kinds by name and number, and which of them have a handler.
#[derive(Debug, Default)]
struct Kinds {
    numbers: HashMap<Arc<str>, u32>,
    names: HashMap<u32, Arc<str>>,
    /// In the order of their handlers.
    handled: Vec<Arc<str>>,
}

impl Kinds {
    fn add(&mut self, name: &str, number: u32) {
        let name: Arc<str> = name.into();
        self.numbers.insert(Arc::clone(&name), number);
        self.names.insert(number, name);
    }

    /// Their checksum.
    fn check(&self) -> u64 {
        let kinds = self.numbers.iter();
        check_kinds(kinds.map(|(name, &number)| (&**name, number)))
    }

    /// The numbers of handled kinds, and how many of each may be claimed.
    fn open(&self, room: &[usize]) -> impl Iterator<Item = (u32, usize)> {
        let numbers = self.handled.iter().map(|kind| self.numbers.get(kind));
        numbers
            .zip(room)
            .filter_map(|(number, &room)| Some((*number?, room)))
    }
}

/// The file, for the store thread and for readers. `None` when it is closed.
struct Shared {
    database: RwLock<Option<Database>>,
    /// For errors: the file's name.
    name: String,
    /// Something in the file does not fit: it is verified when it is opened again.
    damaged: AtomicBool,
}

impl Shared {
    fn failed(&self, what: &str, error: ::redb::Error) -> StoreError {
        StoreError::with(format!("{}: {what}", self.name), error)
    }

    fn with<T>(
        &self,
        what: &str,
        work: impl FnOnce(&Database) -> Result<T>,
    ) -> std::result::Result<T, StoreError> {
        let database = self.database.read();
        let Some(database) = &*database else {
            return Err(StoreError::new(format!("{} is closed", self.name)));
        };
        // redb asserts what a damaged file may break.
        let done = panic::catch_unwind(AssertUnwindSafe(|| work(database)));
        let error = match done {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error,
            Err(payload) => ::redb::Error::Corrupted(crate::engine::panic_text(&*payload)),
        };
        if matches!(error, ::redb::Error::Corrupted(_)) {
            self.damaged.store(true, Ordering::Relaxed);
        }
        Err(self.failed(what, error))
    }
}

/// Opens the file once more, and verifies it if that is asked for.
type Open = Box<dyn FnMut(bool) -> std::result::Result<Database, Error> + Send>;

pub(crate) struct RedbStore {
    shared: Arc<Shared>,
    open: Open,
    kinds: Kinds,
    numbers: Numbers,
    /// Wakes the store thread.
    wake: Option<Wake>,
    loaded: Instant,
}

/// Where ids and tokens come from.
#[derive(Debug, Clone, Copy, Default)]
struct Numbers {
    /// The last one given out.
    last: u64,
    /// Up to this one the file knows.
    reserved: u64,
}

/// Begins a transaction that is durable when it is committed.
fn begin(database: &Database) -> Result<WriteTransaction> {
    let mut transaction = database.begin_write()?;
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Writes to the tables of a file that no store keeps yet.
fn rewrite<T>(database: &Database, work: impl FnOnce(&mut Work<'_>) -> Result<T>) -> Result<T> {
    let transaction = begin(database)?;
    let (mut kinds, mut numbers) = (Kinds::default(), Numbers::default());
    let mut tables = Work::new(&transaction, &mut kinds, &mut numbers, SystemWall.now())?;
    let value = work(&mut tables)?;
    drop(tables);
    transaction.commit()?;
    Ok(value)
}

impl RedbStore {
    /// Does some work in a transaction, and commits it if anything was written.
    fn write<T>(
        &mut self,
        what: &str,
        now: Millis,
        durable: bool,
        work: impl FnOnce(&mut Work<'_>) -> Result<T>,
    ) -> std::result::Result<(T, bool), StoreError> {
        let (kinds, numbers) = (&mut self.kinds, &mut self.numbers);
        self.shared.with(what, |database| {
            let mut transaction = begin(database)?;
            if !durable {
                transaction.set_quick_repair(false);
                transaction.set_durability(Durability::None)?;
            }
            let mut tables = Work::new(&transaction, kinds, numbers, now)?;
            let value = work(&mut tables)?;
            let written = tables.end()?;
            if written {
                transaction.commit()?;
            } else {
                transaction.abort()?;
            }
            Ok((value, written))
        })
    }
}

impl Store for RedbStore {
    fn recover(
        &mut self,
        judge: Judge<'_>,
        now: Millis,
    ) -> std::result::Result<Recovered, StoreError> {
        let what = "cannot take up what was interrupted";
        let (recovered, _) = self.write(what, now, true, |work| work.recover(judge))?;
        Ok(recovered)
    }

    fn commit(
        &mut self,
        calls: &[Call],
        ends: &[End],
        claim: &ClaimRequest,
        _: Instant,
    ) -> std::result::Result<Committed, StoreError> {
        let lax = broken::is(Defect::ClaimNotDurable) && calls.is_empty() && ends.is_empty();
        let (committed, written) = self.write("cannot write", claim.now, !lax, |work| {
            let mut committed = Committed::default();
            for end in ends {
                committed.ended.push(work.finish(end)?);
            }
            for call in calls {
                committed.replies.push(work.apply(call)?);
            }
            committed.claims = work.claim(claim)?;
            committed.next = work.earliest(&claim.room, &committed.claims)?;
            committed.died = std::mem::take(&mut work.died);
            Ok(committed)
        })?;
        Ok(Committed {
            written,
            ..committed
        })
    }

    fn poll(&mut self, _: Judge<'_>, room: &[usize]) -> std::result::Result<Polled, StoreError> {
        let kinds = &self.kinds;
        self.shared.with("cannot read", |database| {
            if self.shared.damaged.load(Ordering::Relaxed) {
                return Err(damaged("something in the indexes does not fit"));
            }
            let transaction = database.begin_read()?;
            let mut paused = HashSet::new();
            for entry in transaction.open_table(PAUSED)?.iter()? {
                paused.insert(entry?.0.value().to_owned());
            }
            let find = |table| earliest(&transaction.open_table(table)?, kinds.open(room));
            Ok(Polled {
                next: Earliest {
                    waiting: find(DUE)?,
                    suspect: find(SUSPECTS)?,
                    recurring: find(RECURRING)?,
                },
                recovered: Recovered::default(),
                paused,
            })
        })
    }

    fn slots(
        &mut self,
        until: Millis,
        limit: usize,
        room: &[usize],
    ) -> std::result::Result<Vec<Slot>, StoreError> {
        let kinds = &self.kinds;
        self.shared.with("cannot read", |database| {
            let transaction = database.begin_read()?;
            let recurring = transaction.open_table(RECURRING)?;
            let rules = transaction.open_table(RULES)?;
            let mut places = Vec::new();
            in_order(&recurring, kinds.open(room), |place, _| {
                let due = due_of(&place) <= until && places.len() < limit;
                if due {
                    places.push(place);
                }
                due
            })?;
            let mut slots = Vec::new();
            for place in places {
                let (id, kind) = (id_of(&place), &kinds.names[&kind_of(&place)]);
                let rule = rules.get(id)?;
                let text = rule.as_ref().and_then(|rule| read_rule(id, rule.value()));
                slots.push(Slot {
                    id,
                    kind: Arc::clone(kind),
                    due: due_of(&place),
                    // Without a rule it is damaged: that shows when it is advanced.
                    rule: text.unwrap_or_default().to_owned(),
                });
            }
            Ok(slots)
        })
    }

    fn reopen(&mut self, held: &HashSet<u64>) -> std::result::Result<(), StoreError> {
        // Closed first: a file has one owner. redb may not be able to close one that is damaged.
        let close = || *self.shared.database.write() = None;
        if panic::catch_unwind(AssertUnwindSafe(close)).is_err() {
            self.shared.damaged.store(true, Ordering::Relaxed);
        }
        let verify = self.shared.damaged.load(Ordering::Relaxed);
        let database = guarded(&self.shared.name, || {
            (self.open)(verify).map_err(|error| match error {
                Error::Store(error) => error,
                other => StoreError::new(other.to_string()),
            })
        })?;
        self.shared.damaged.store(false, Ordering::Relaxed);
        let last = self.numbers.last;
        self.load(database)?;
        self.numbers.last = self.numbers.last.max(last);
        self.write("cannot write", 0, true, |work| work.give_back_all_but(held))?;
        if let Some(wake) = self.wake.as_ref().filter(|_| !verify) {
            scan::begin(&self.shared, wake);
        }
        Ok(())
    }

    fn heard(&mut self) -> (Earliest, Option<Instant>) {
        let damaged = self.shared.damaged.load(Ordering::Relaxed);
        (Earliest::default(), damaged.then_some(self.loaded))
    }

    fn listen(&mut self, wake: Wake) {
        scan::begin(&self.shared, &wake);
        self.wake = Some(wake);
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(read::FileReader(Arc::clone(&self.shared)))
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        // Readers may outlive the store: the file does not wait for them.
        *self.shared.database.write() = None;
    }
}

#[cfg(test)]
mod tests;

//! The embedded store: one file, through redb.
//!
//! Every commit has quick repair on: two phases, each with its own sync, and the allocator's state inside. After a kill the file opens without a
//! walk over its pages.

mod index;
mod layout;
mod open;
mod work;

use std::collections::HashMap;

use ::redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, WriteTransaction,
};

use self::index::{bounds, in_order};
use self::layout::{
    CLAIMED, Claimed, DEAD, INTERRUPTIONS, JOBS, Place, WAITING, decode_dead, due_of, id_of,
    kind_of, parts,
};
use self::work::Work;
use super::{Committed, Earliest, Judge, Op, Reply, Store};
use crate::broken::{self, Defect};
use crate::error::StoreError;
use crate::job::{DeadJob, PendingJob};
use crate::time::time_of;

/// The most memory that redb keeps pages in.
const CACHE: usize = 64 << 20;

/// The engine's error, of whatever operation.
type Result<T> = std::result::Result<T, ::redb::Error>;

/// Kinds by name and number, and which of them have a handler.
#[derive(Debug, Default)]
struct Kinds {
    numbers: HashMap<String, u32>,
    names: HashMap<u32, String>,
    /// By name: the index of the handler.
    handlers: HashMap<String, usize>,
    /// By number.
    handled: HashMap<u32, usize>,
}

impl Kinds {
    fn add(&mut self, name: &str, number: u32) {
        self.numbers.insert(name.to_owned(), number);
        self.names.insert(number, name.to_owned());
        if let Some(&handler) = self.handlers.get(name) {
            self.handled.insert(number, handler);
        }
    }
}

pub(crate) struct RedbStore {
    database: Database,
    /// For errors: the file's name.
    name: String,
    kinds: Kinds,
    numbers: Numbers,
}

/// Where ids and tokens come from.
#[derive(Debug, Clone, Copy)]
struct Numbers {
    /// The last one given out.
    last: u64,
    /// Up to this one the file knows.
    reserved: u64,
}

impl RedbStore {
    fn failed(&self, what: &str, error: ::redb::Error) -> StoreError {
        StoreError::with(format!("{}: {what}", self.name), error)
    }

    /// Begins a transaction that is durable when it is committed.
    fn begin(&self) -> Result<WriteTransaction> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_quick_repair(true);
        Ok(transaction)
    }

    fn try_commit(&mut self, ops: &[Op]) -> Result<Committed> {
        let mut transaction = self.begin()?;
        if broken::is(Defect::ClaimNotDurable)
            && ops
                .iter()
                .all(|op| matches!(op, Op::Claim { .. } | Op::ClaimAlone { .. }))
        {
            transaction.set_quick_repair(false);
            transaction.set_durability(Durability::None)?;
        }
        let mut work = Work::new(&transaction, &mut self.kinds, &mut self.numbers)?;
        let mut replies = Vec::with_capacity(ops.len());
        for op in ops {
            replies.push(work.apply(op)?);
        }
        let (written, earliest) = work.end()?;
        if written {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(Committed {
            replies,
            written,
            earliest,
        })
    }

    /// Answers operations that only read, without a write transaction.
    fn try_read(&self, ops: &[Op]) -> Result<Committed> {
        let transaction = self.database.begin_read()?;
        let mut replies = Vec::with_capacity(ops.len());
        for op in ops {
            replies.push(match op {
                Op::Dead { limit } => {
                    let jobs = transaction.open_table(JOBS)?;
                    let dead = transaction.open_table(DEAD)?;
                    Reply::Dead(read_dead(&jobs, &dead, &self.kinds, *limit)?)
                }
                Op::List { limit } => Reply::List(read_pending(
                    &transaction.open_table(JOBS)?,
                    &transaction.open_table(WAITING)?,
                    &transaction.open_table(INTERRUPTIONS)?,
                    &transaction.open_table(CLAIMED)?,
                    &self.kinds,
                    *limit,
                )?),
                _ => Reply::Pending(
                    transaction.open_table(WAITING)?.len()?
                        + transaction.open_table(INTERRUPTIONS)?.len()?
                        + transaction.open_table(CLAIMED)?.len()?,
                ),
            });
        }
        Ok(Committed {
            replies,
            ..Committed::default()
        })
    }

    fn try_recover(&mut self, judge: Judge<'_>) -> Result<usize> {
        let transaction = self.begin()?;
        let mut work = Work::new(&transaction, &mut self.kinds, &mut self.numbers)?;
        let mut claims = Vec::new();
        for entry in work.claimed.iter()? {
            let (id, value) = entry?;
            claims.push((id.value(), Claimed::decode(value.value())));
        }
        for (id, claim) in &claims {
            work.interrupt(*id, claim, judge)?;
        }
        let (written, _) = work.end()?;
        if written {
            transaction.commit()?;
        } else {
            transaction.abort()?;
        }
        Ok(claims.len())
    }

    fn try_earliest(&self) -> Result<Earliest> {
        let transaction = self.database.begin_read()?;
        let waiting = transaction.open_table(WAITING)?;
        let interrupted = transaction.open_table(INTERRUPTIONS)?;
        Ok(Earliest {
            waiting: in_order(&waiting, &self.kinds, 0, |_, _| false)?,
            interrupted: in_order(&interrupted, &self.kinds, 0, |_, _| false)?,
        })
    }

    fn try_unhandled(&self) -> Result<Vec<String>> {
        let transaction = self.database.begin_read()?;
        let waiting = transaction.open_table(WAITING)?;
        let interrupted = transaction.open_table(INTERRUPTIONS)?;
        let mut found = Vec::new();
        for (&number, name) in &self.kinds.names {
            if self.kinds.handled.contains_key(&number) {
                continue;
            }
            let (first, last) = bounds(number);
            if waiting.range::<&Place>(&first..=&last)?.next().is_some()
                || interrupted
                    .range::<&Place>(&first..=&last)?
                    .next()
                    .is_some()
            {
                found.push(name.clone());
            }
        }
        found.sort();
        Ok(found)
    }
}

impl Store for RedbStore {
    fn recover(&mut self, judge: Judge<'_>) -> std::result::Result<usize, StoreError> {
        self.try_recover(judge)
            .map_err(|error| self.failed("cannot take up interrupted jobs", error))
    }

    fn earliest(&mut self) -> std::result::Result<Earliest, StoreError> {
        self.try_earliest()
            .map_err(|error| self.failed("cannot read", error))
    }

    fn unhandled(&mut self) -> std::result::Result<Vec<String>, StoreError> {
        self.try_unhandled()
            .map_err(|error| self.failed("cannot read", error))
    }

    fn commit(&mut self, ops: &[Op]) -> std::result::Result<Committed, StoreError> {
        if ops
            .iter()
            .all(|op| matches!(op, Op::Pending | Op::List { .. } | Op::Dead { .. }))
        {
            self.try_read(ops)
                .map_err(|error| self.failed("cannot read", error))
        } else {
            self.try_commit(ops)
                .map_err(|error| self.failed("cannot write", error))
        }
    }
}

/// Reads jobs that are not dead, over all kinds, the earliest due first.
fn read_pending(
    jobs: &impl ReadableTable<u64, &'static [u8]>,
    waiting: &impl ReadableTable<&'static Place, u32>,
    interrupted: &impl ReadableTable<&'static Place, u32>,
    claimed: &impl ReadableTable<u64, &'static [u8; 33]>,
    kinds: &Kinds,
    limit: usize,
) -> Result<Vec<PendingJob>> {
    // The claimed ones are few. Of each kind, no more than the limit can be among the earliest.
    let mut places = Vec::new();
    for entry in claimed.iter()? {
        let claim = Claimed::decode(entry?.1.value());
        places.push((claim.place, claim.attempts, true));
    }
    for &kind in kinds.names.keys() {
        let (first, last) = bounds(kind);
        let range = waiting.range::<&Place>(&first..=&last)?.take(limit);
        for entry in range.chain(interrupted.range::<&Place>(&first..=&last)?.take(limit)) {
            let (place, attempts) = entry?;
            places.push((*place.value(), attempts.value(), false));
        }
    }
    places.sort_unstable_by_key(|(place, ..)| (due_of(place), id_of(place)));
    let mut found = Vec::new();
    for (place, attempts, claimed) in places.into_iter().take(limit) {
        let Some(job) = jobs.get(id_of(&place))? else {
            continue;
        };
        let (key, payload) = parts(job.value());
        found.push(PendingJob {
            id: id_of(&place),
            kind: kinds
                .names
                .get(&kind_of(&place))
                .cloned()
                .unwrap_or_default(),
            key: key.map(str::to_owned),
            payload: payload.to_vec(),
            due: time_of(due_of(&place)),
            attempts,
            claimed,
        });
    }
    Ok(found)
}

fn read_dead(
    jobs: &impl ReadableTable<u64, &'static [u8]>,
    dead: &impl ReadableTable<u64, &'static [u8]>,
    kinds: &Kinds,
    limit: usize,
) -> Result<Vec<DeadJob>> {
    let mut found = Vec::new();
    for entry in dead.iter()?.take(limit) {
        let (id, value) = entry?;
        let id = id.value();
        let Some((kind, attempts, error)) = decode_dead(value.value()) else {
            continue;
        };
        let Some(job) = jobs.get(id)? else { continue };
        let (key, payload) = parts(job.value());
        found.push(DeadJob {
            id,
            kind: kinds.names.get(&kind).cloned().unwrap_or_default(),
            key: key.map(str::to_owned),
            payload: payload.to_vec(),
            attempts,
            last_error: error.into_owned(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests;

//! What is done to a file when it is opened: an older format is migrated, the file is verified if that was asked for, and made smaller if most of it is free.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use ::redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    WriteTransaction,
};

use super::super::{DAMAGED, Id};
use super::layout::{
    BODIES, CLAIMS, Claimed, FIRST_TABLES, FORMAT, INDEXES, LETTERS, Letter, Place, TABLES, array,
    body, entry, id_of, kind_of, old, parts, read_body, read_entry,
};
use super::mend::mend;
use super::open::{failed, format, tables};
use super::work::Work;
use super::{Kinds, Numbers, Result, begin, rewrite};
use crate::error::Error;
use crate::job::state::{Standing, State};
use crate::time::{SystemWall, WallClock};

/// Smaller files are not compacted.
const SMALL: u64 = 4 << 20;

/// So many jobs are looked at to estimate how much of the file is in use.
const SAMPLE: usize = 1000;

/// What a job takes beside its body, in the indexes and in half-filled pages.
const BESIDE: u64 = 150;

pub(super) fn prepare(
    database: &mut Database,
    path: &Path,
    length: u64,
    verify: bool,
) -> std::result::Result<(), Error> {
    let failed = |what: &str, error| failed(path, what, error);
    migrate(database).map_err(|error| failed("migrate to the format of this version", error))?;
    if verify {
        match database.check_integrity().map_err(::redb::Error::from) {
            Ok(true) => {}
            Ok(false) => log::warn!(
                "{}: its structure was damaged and is repaired",
                path.display()
            ),
            Err(error @ ::redb::Error::Corrupted(_)) => *database = mend(database, path, &error)?,
            Err(error) => return Err(failed("verify", error)),
        }
        let damaged = bury_damaged(database).map_err(|error| failed("verify", error))?;
        if damaged > 0 {
            log::error!(
                "{}: {damaged} jobs are damaged, and are among the dead now",
                path.display()
            );
        }
    }
    let used = used(database).map_err(|error| failed("read", error))?;
    if length > SMALL && length / 2 > used {
        let smaller = database
            .compact()
            .map_err(|error| failed("compact", error.into()))?;
        log::info!(
            "{}: about {used} of {length} bytes were in use; compacted: {smaller}",
            path.display()
        );
    }
    Ok(())
}

/// About how many bytes of the file hold jobs.
fn used(database: &Database) -> Result<u64> {
    let transaction = database.begin_read()?;
    let bodies = transaction.open_table(BODIES)?;
    let (mut bytes, mut many) = (0, 0);
    for entry in bodies.iter()?.take(SAMPLE) {
        bytes += entry?.1.value().len() as u64;
        many += 1;
    }
    Ok(bodies.len()? * (bytes / many.max(1) + BESIDE))
}

/// Brings a file of format 1 up to date, in one transaction.
fn migrate(database: &Database) -> Result<()> {
    let (format, tables) = {
        let transaction = database.begin_read()?;
        (format(&transaction)?, tables(&transaction)?)
    };
    if format != Some(old::FORMAT) {
        // What has lost one of the first is left as it is.
        if tables.len() < TABLES.len()
            && TABLES[..FIRST_TABLES]
                .iter()
                .all(|name| tables.contains(*name))
        {
            rewrite(database, |_| Ok(()))?;
        }
        return Ok(());
    }
    let transaction = begin(database)?;
    copy(&transaction)?;
    transaction.delete_table(old::JOBS)?;
    transaction.delete_table(old::WAITING)?;
    transaction.delete_table(old::INTERRUPTED)?;
    transaction.delete_table(old::CLAIMED)?;
    transaction.delete_table(old::DEAD)?;
    transaction.commit()?;
    Ok(())
}

fn copy(transaction: &WriteTransaction) -> Result<()> {
    let (mut kinds, mut numbers) = (Kinds::default(), Numbers::default());
    let mut work = Work::new(transaction, &mut kinds, &mut numbers, SystemWall.now())?;
    for entry in transaction.open_table(old::JOBS)?.iter()? {
        let (id, value) = entry?;
        let (key, payload) = parts(value.value());
        work.bodies
            .insert(id.value(), body(id.value(), key, false, payload).as_slice())?;
    }
    for (table, state) in [
        (old::WAITING, State::Waiting),
        (old::INTERRUPTED, State::Suspect),
    ] {
        for value in transaction.open_table(table)?.iter()? {
            let (place, attempts) = value?;
            let entry = entry(place.value(), attempts.value());
            work.index(state).insert(place.value(), entry)?;
        }
    }
    for value in transaction.open_table(old::CLAIMED)?.iter()? {
        let (id, value) = value?;
        let claim = Claimed::decode(value.value());
        work.claims.insert(id.value(), &claim.encode())?;
    }
    for value in transaction.open_table(old::DEAD)?.iter()? {
        let (id, value) = value?;
        // Kind and attempts, then the error. Nothing was known of times.
        let value = value.value();
        let head = value.len().min(8);
        let mut letter = Letter::decode(&value[..head]);
        letter.died = work.now;
        letter.due = work.now;
        letter.error = String::from_utf8_lossy(&value[head..]);
        work.letters
            .insert(id.value(), letter.encode().as_slice())?;
    }
    work.meta.insert("format", FORMAT)?;
    Ok(())
}

/// Has every job among the dead of which something does not fit. Their number.
pub(super) fn bury_damaged(database: &Database) -> Result<usize> {
    let damaged = find_damaged(&database.begin_read()?)?;
    if damaged.is_empty() {
        return Ok(0);
    }
    rewrite(database, |work| {
        let fine = |place: &Place| !damaged.contains_key(&id_of(place));
        let sound = |place: &Place, value| fine(place) && read_entry(place, value).1;
        work.due.retain(|place, value| sound(place, value))?;
        work.suspects.retain(|place, value| sound(place, value))?;
        work.recurring.retain(|place, value| sound(place, value))?;
        work.keys.retain(|_, value| fine(&array(value)))?;
        work.claims.retain(|id, value| {
            !damaged.contains_key(&id) && Claimed::decode(value).is_sound(id, value)
        })?;
        for (&id, &(kind, attempts)) in &damaged {
            if work.bodies.get(id)?.is_none() {
                work.bodies
                    .insert(id, body(id, None, false, &[]).as_slice())?;
            }
            let standing = Standing {
                state: State::Dead,
                due: work.now,
                attempts,
            };
            work.mark_dead(kind, id, standing, DAMAGED)?;
        }
        Ok(damaged.len())
    })
}

/// Where a job was met: its kind and attempts, and whether the checksum is right.
type Met = (u32, u32, bool);

/// Ids of jobs whose checksum is wrong, which stand nowhere or twice, or whose body is missing; with kind and attempts as far as known.
fn find_damaged(transaction: &ReadTransaction) -> Result<HashMap<Id, (u32, u32)>> {
    let mut placed: HashMap<Id, Met> = HashMap::new();
    let mut damaged = HashSet::new();
    let mut meet = |id: Id, (kind, attempts, sound): Met| {
        match placed.get(&id) {
            // Twice, rightly: which of both?
            Some((.., true)) if sound => drop(damaged.insert(id)),
            // The id may be what is wrong, and this is another job.
            Some(_) if !sound => {}
            _ => drop(placed.insert(id, (kind, attempts, sound))),
        }
    };
    for (table, _) in INDEXES {
        for value in transaction.open_table(table)?.iter()? {
            let (place, value) = value?;
            let place = place.value();
            let (attempts, sound) = read_entry(place, value.value());
            meet(id_of(place), (kind_of(place), attempts, sound));
        }
    }
    for value in transaction.open_table(CLAIMS)?.iter()? {
        let (id, value) = value?;
        let claim = Claimed::decode(value.value());
        let sound = claim.is_sound(id.value(), value.value());
        meet(id.value(), (kind_of(&claim.place), claim.attempts, sound));
    }
    let letters = transaction.open_table(LETTERS)?;
    for value in transaction.open_table(BODIES)?.iter()? {
        let (id, value) = value?;
        let id = id.value();
        let whole = read_body(id, value.value()).sound && !damaged.contains(&id);
        match placed.get(&id) {
            Some((.., true)) if whole => drop(placed.remove(&id)),
            // One that is dead already is shown as it is.
            None if letters.get(id)?.is_none() => drop(placed.insert(id, (u32::MAX, 0, false))),
            _ => {}
        }
    }
    // What is left has no body, or something does not fit.
    let left = placed.into_iter();
    Ok(left
        .map(|(id, (kind, attempts, _))| (id, (kind, attempts)))
        .collect())
}

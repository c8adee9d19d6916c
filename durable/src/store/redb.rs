//! The embedded store: one file, through redb.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | `format`: the version of this layout; `last`: no number above it has been given out, for ids and tokens alike |
//! | `kinds` | name | number |
//! | `jobs` | id | the length of the key + 1, or 0 without one (2 bytes, little-endian), key, payload |
//! | `waiting` | place | attempts |
//! | `interrupted` | place | attempts |
//! | `keys` | key | place, 1 if that is among the interrupted ones |
//! | `claimed` | id | token, place, attempts, 1 if the attempt is counted |
//! | `dead` | id | kind, attempts, last error |
//!
//! A *place* is kind (4 bytes), due time (8) and id (8), big-endian, the due time with its sign bit inverted: bytes sort as (kind, due, id)
//! do. So the due times of one kind lie side by side, and a kind without a handler is never met.
//!
//! The body of a job is written once: claiming moves an entry of 20 bytes from `waiting` to `claimed`, whatever the payload.
//!
//! Every commit has quick repair on: two phases, each with its own sync, and the allocator's state inside. After a kill the file opens without a
//! walk over its pages.

mod open;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ::redb::{
    Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, Table,
    TableDefinition, WriteTransaction,
};

use super::{
    Claim, Committed, Earliest, INTERRUPTED, Id, Judge, Op, Reply, Store, Verdict, earlier,
};
use crate::broken::{self, Defect};
use crate::error::StoreError;
use crate::job::{DeadJob, Scheduled};
use crate::time::Millis;

type Place = [u8; 20];

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const KINDS: TableDefinition<&str, u32> = TableDefinition::new("kinds");
const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
const WAITING: TableDefinition<&Place, u32> = TableDefinition::new("waiting");
const INTERRUPTIONS: TableDefinition<&Place, u32> = TableDefinition::new("interrupted");
const KEYS: TableDefinition<&str, &[u8; 21]> = TableDefinition::new("keys");
const CLAIMED: TableDefinition<u64, &[u8; 33]> = TableDefinition::new("claimed");
const DEAD: TableDefinition<u64, &[u8]> = TableDefinition::new("dead");

/// The version of the layout above.
const FORMAT: u64 = 1;

/// Numbers are reserved so many at a time, so that few commits have to write the last one. A crash leaves a gap.
const RESERVE: u64 = 1000;

/// The most memory that redb keeps pages in.
const CACHE: usize = 64 << 20;

fn place(kind: u32, due: Millis, id: Id) -> Place {
    let mut place = [0; 20];
    place[..4].copy_from_slice(&kind.to_be_bytes());
    place[4..12].copy_from_slice(&(due ^ Millis::MIN).to_be_bytes());
    place[12..].copy_from_slice(&id.to_be_bytes());
    place
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

fn kind_of(place: &Place) -> u32 {
    u32::from_be_bytes(array(place))
}

fn due_of(place: &Place) -> Millis {
    Millis::from_be_bytes(array(&place[4..])) ^ Millis::MIN
}

fn id_of(place: &Place) -> Id {
    Id::from_be_bytes(array(&place[12..]))
}

/// The value of a job: key and payload.
fn body(key: Option<&str>, payload: &[u8]) -> Vec<u8> {
    let key_bytes = key.unwrap_or_default().as_bytes();
    let length = key.map_or(0, |key| key.len() as u16 + 1);
    let mut body = Vec::with_capacity(2 + key_bytes.len() + payload.len());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(key_bytes);
    body.extend_from_slice(payload);
    body
}

/// Key and payload of a value. A damaged one has neither.
fn parts(body: &[u8]) -> (Option<&str>, &[u8]) {
    let Some((length, rest)) = body.split_first_chunk() else {
        return (None, &[]);
    };
    match u16::from_le_bytes(*length) {
        0 => (None, rest),
        length => {
            let (key, payload) = rest.split_at(usize::from(length - 1).min(rest.len()));
            (std::str::from_utf8(key).ok(), payload)
        }
    }
}

struct Claimed {
    token: u64,
    place: Place,
    attempts: u32,
    /// Taken up alone: the attempt is in `attempts` already.
    alone: bool,
}

impl Claimed {
    fn encode(&self) -> [u8; 33] {
        let mut value = [0; 33];
        value[..8].copy_from_slice(&self.token.to_le_bytes());
        value[8..28].copy_from_slice(&self.place);
        value[28..32].copy_from_slice(&self.attempts.to_le_bytes());
        value[32] = u8::from(self.alone);
        value
    }

    fn decode(value: &[u8; 33]) -> Claimed {
        Claimed {
            token: u64::from_le_bytes(array(value)),
            place: array(&value[8..]),
            attempts: u32::from_le_bytes(array(&value[28..])),
            alone: value[32] != 0,
        }
    }
}

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

    fn try_commit(&mut self, ops: Vec<Op>) -> Result<Committed> {
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

    fn commit(&mut self, ops: Vec<Op>) -> std::result::Result<Committed, StoreError> {
        if ops
            .iter()
            .all(|op| matches!(op, Op::Pending | Op::Dead { .. }))
        {
            self.try_read(&ops)
                .map_err(|error| self.failed("cannot read", error))
        } else {
            self.try_commit(ops)
                .map_err(|error| self.failed("cannot write", error))
        }
    }
}

/// The first and the last place that a kind can have.
fn bounds(kind: u32) -> (Place, Place) {
    (
        place(kind, Millis::MIN, 0),
        place(kind, Millis::MAX, Id::MAX),
    )
}

/// The next entry of a kind, as it is ordered among those of other kinds: due time, id, which range, place, attempts.
type Head = Reverse<(Millis, Id, usize, Place, u32)>;

fn head(range: &mut ::redb::Range<'_, &'static Place, u32>, number: usize) -> Result<Option<Head>> {
    let Some(entry) = range.next() else {
        return Ok(None);
    };
    let (place, attempts) = entry?;
    let place = *place.value();
    Ok(Some(Reverse((
        due_of(&place),
        id_of(&place),
        number,
        place,
        attempts.value(),
    ))))
}

/// Shows the entries of handled kinds in the order of their due times, until `take` is false or `limit` have been taken. Returns the due time of
/// the first one that was not taken.
fn in_order(
    index: &impl ReadableTable<&'static Place, u32>,
    kinds: &Kinds,
    limit: usize,
    mut take: impl FnMut(Place, u32) -> bool,
) -> Result<Option<Millis>> {
    let mut ranges = Vec::with_capacity(kinds.handled.len());
    let mut heads = BinaryHeap::with_capacity(kinds.handled.len());
    for (number, &kind) in kinds.handled.keys().enumerate() {
        let (low, high) = bounds(kind);
        let mut range = index.range::<&Place>(&low..=&high)?;
        heads.extend(head(&mut range, number)?);
        ranges.push(range);
    }
    let mut taken = 0;
    while let Some(Reverse((due, _, number, place, attempts))) = heads.pop() {
        if taken == limit || !take(place, attempts) {
            return Ok(Some(due));
        }
        taken += 1;
        heads.extend(head(&mut ranges[number], number)?);
    }
    Ok(None)
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

fn encode_dead(kind: u32, attempts: u32, error: &str) -> Vec<u8> {
    [
        &kind.to_le_bytes(),
        &attempts.to_le_bytes(),
        error.as_bytes(),
    ]
    .concat()
}

fn decode_dead(value: &[u8]) -> Option<(u32, u32, std::borrow::Cow<'_, str>)> {
    let (kind, rest) = value.split_first_chunk()?;
    let (attempts, error) = rest.split_first_chunk()?;
    Some((
        u32::from_le_bytes(*kind),
        u32::from_le_bytes(*attempts),
        String::from_utf8_lossy(error),
    ))
}

/// One write transaction with its tables open.
struct Work<'t> {
    meta: Table<'t, &'static str, u64>,
    kind_numbers: Table<'t, &'static str, u32>,
    jobs: Table<'t, u64, &'static [u8]>,
    waiting: Table<'t, &'static Place, u32>,
    interrupted: Table<'t, &'static Place, u32>,
    keys: Table<'t, &'static str, &'static [u8; 21]>,
    claimed: Table<'t, u64, &'static [u8; 33]>,
    dead: Table<'t, u64, &'static [u8]>,
    kinds: &'t mut Kinds,
    numbers: &'t mut Numbers,
    written: bool,
    earliest: Earliest,
}

impl<'t> Work<'t> {
    fn new(
        transaction: &'t WriteTransaction,
        kinds: &'t mut Kinds,
        numbers: &'t mut Numbers,
    ) -> Result<Work<'t>> {
        Ok(Work {
            meta: transaction.open_table(META)?,
            kind_numbers: transaction.open_table(KINDS)?,
            jobs: transaction.open_table(JOBS)?,
            waiting: transaction.open_table(WAITING)?,
            interrupted: transaction.open_table(INTERRUPTIONS)?,
            keys: transaction.open_table(KEYS)?,
            claimed: transaction.open_table(CLAIMED)?,
            dead: transaction.open_table(DEAD)?,
            kinds,
            numbers,
            written: false,
            earliest: Earliest::default(),
        })
    }

    /// Reserves numbers if they have run out. Whether there is anything to commit, and the earliest due times put in.
    fn end(mut self) -> Result<(bool, Earliest)> {
        if self.numbers.last > self.numbers.reserved {
            self.numbers.reserved = self.numbers.last + RESERVE;
            self.meta.insert("last", self.numbers.reserved)?;
        }
        Ok((self.written, self.earliest))
    }

    fn number(&mut self) -> u64 {
        self.numbers.last += 1;
        self.numbers.last
    }

    fn kind(&mut self, name: &str) -> Result<u32> {
        if let Some(&number) = self.kinds.numbers.get(name) {
            return Ok(number);
        }
        let number = self.kinds.numbers.len() as u32;
        self.kind_numbers.insert(name, number)?;
        self.kinds.add(name, number);
        Ok(number)
    }

    fn holder(&self, key: &str) -> Result<Option<(Place, bool)>> {
        Ok(self
            .keys
            .get(key)?
            .map(|value| (array(value.value()), value.value()[20] != 0)))
    }

    /// Puts a job into one of the indexes, with its key if it has one.
    fn enter(
        &mut self,
        place: &Place,
        attempts: u32,
        key: Option<&str>,
        interrupted: bool,
    ) -> Result<()> {
        let index = if interrupted {
            &mut self.interrupted
        } else {
            &mut self.waiting
        };
        index.insert(place, attempts)?;
        if let Some(key) = key {
            let mut value = [0; 21];
            value[..20].copy_from_slice(place);
            value[20] = u8::from(interrupted);
            self.keys.insert(key, &value)?;
        }
        if self.kinds.handled.contains_key(&kind_of(place)) {
            let earliest = if interrupted {
                &mut self.earliest.interrupted
            } else {
                &mut self.earliest.waiting
            };
            *earliest = earlier(*earliest, Some(due_of(place)));
        }
        self.written = true;
        Ok(())
    }

    /// Takes a job out of its index. The number of its attempts.
    fn leave(&mut self, place: &Place, interrupted: bool) -> Result<Option<u32>> {
        self.written = true;
        let index = if interrupted {
            &mut self.interrupted
        } else {
            &mut self.waiting
        };
        Ok(index.remove(place)?.map(|attempts| attempts.value()))
    }

    /// Lets a job that was claimed or dead wait again. It takes its key if that is free, and else goes on without.
    fn put_back(&mut self, place: &Place, attempts: u32, interrupted: bool) -> Result<()> {
        let id = id_of(place);
        let key = match self.jobs.get(id)? {
            Some(job) => parts(job.value()).0.map(str::to_owned),
            None => None,
        };
        match key {
            Some(key) if self.holder(&key)?.is_some() => {
                let without = {
                    let job = self.jobs.get(id)?;
                    body(None, job.as_ref().map_or(&[], |job| parts(job.value()).1))
                };
                self.jobs.insert(id, without.as_slice())?;
                self.enter(place, attempts, None, interrupted)
            }
            key => self.enter(place, attempts, key.as_deref(), interrupted),
        }
    }

    fn bury(&mut self, place: &Place, attempts: u32, error: &str) -> Result<()> {
        let value = encode_dead(kind_of(place), attempts, error);
        self.dead.insert(id_of(place), value.as_slice())?;
        self.written = true;
        Ok(())
    }

    fn apply(&mut self, op: Op) -> Result<Reply> {
        Ok(match op {
            Op::Schedule {
                kind,
                key,
                payload,
                due,
                replace,
            } => Reply::Scheduled(self.schedule(&kind, key.as_deref(), &payload, due, replace)?),
            Op::Move { key, due } => Reply::Found(self.move_to(&key, due)?),
            Op::Cancel { key } => Reply::Found(self.cancel(&key)?),
            Op::Claim {
                until,
                limit,
                bytes,
            } => self.claim_waiting(until, limit, bytes)?,
            Op::ClaimAlone { until } => self.claim_alone(until)?,
            Op::Finish { id, token, verdict } => Reply::Found(self.finish(id, token, verdict)?),
            Op::Revive { id, due } => Reply::Found(self.revive(id, due)?),
            Op::Discard { id } => Reply::Found(self.discard(id)?),
            Op::Pending => {
                Reply::Pending(self.waiting.len()? + self.interrupted.len()? + self.claimed.len()?)
            }
            Op::Dead { limit } => {
                Reply::Dead(read_dead(&self.jobs, &self.dead, self.kinds, limit)?)
            }
        })
    }

    fn schedule(
        &mut self,
        kind: &str,
        key: Option<&str>,
        payload: &[u8],
        due: Millis,
        replace: bool,
    ) -> Result<Scheduled> {
        let holder = match key {
            Some(key) => self.holder(key)?,
            None => None,
        };
        let (id, answer) = match holder {
            Some(_) if !replace => return Ok(Scheduled::Kept),
            Some((old, interrupted)) => {
                self.leave(&old, interrupted)?;
                (id_of(&old), Scheduled::Replaced)
            }
            None => (self.number(), Scheduled::New),
        };
        let kind = self.kind(kind)?;
        self.jobs.insert(id, body(key, payload).as_slice())?;
        self.enter(&place(kind, due, id), 0, key, false)?;
        Ok(answer)
    }

    fn move_to(&mut self, key: &str, due: Millis) -> Result<bool> {
        let Some((old, interrupted)) = self.holder(key)? else {
            return Ok(false);
        };
        let attempts = if broken::is(Defect::StaleEntry) {
            0
        } else {
            self.leave(&old, interrupted)?.unwrap_or(0)
        };
        self.enter(
            &place(kind_of(&old), due, id_of(&old)),
            attempts,
            Some(key),
            interrupted,
        )?;
        Ok(true)
    }

    fn cancel(&mut self, key: &str) -> Result<bool> {
        let Some((place, interrupted)) = self.holder(key)? else {
            return Ok(false);
        };
        self.leave(&place, interrupted)?;
        self.keys.remove(key)?;
        self.jobs.remove(id_of(&place))?;
        Ok(true)
    }

    fn claim(&mut self, place: &Place, attempts: u32, alone: bool) -> Result<Option<Claim>> {
        let id = id_of(place);
        self.leave(place, alone)?;
        let Some((key, payload)) = self.jobs.get(id)?.map(|job| {
            let (key, payload) = parts(job.value());
            (key.map(str::to_owned), payload.to_vec())
        }) else {
            log::error!("job {id} has no body: the file is damaged");
            return Ok(None);
        };
        if let Some(key) = &key
            && self
                .holder(key)?
                .is_some_and(|(holder, _)| id_of(&holder) == id)
        {
            self.keys.remove(key.as_str())?;
        }
        let token = self.number();
        let attempts = attempts + u32::from(alone);
        self.claimed.insert(
            id,
            &Claimed {
                token,
                place: *place,
                attempts,
                alone,
            }
            .encode(),
        )?;
        Ok(Some(Claim {
            id,
            token,
            handler: self
                .kinds
                .handled
                .get(&kind_of(place))
                .copied()
                .unwrap_or_default(),
            key,
            payload,
            due: due_of(place),
            attempt: attempts + u32::from(!alone),
            alone,
        }))
    }

    fn claim_waiting(&mut self, until: Millis, limit: usize, bytes: usize) -> Result<Reply> {
        let mut found = Vec::new();
        let mut next = in_order(&self.waiting, self.kinds, limit, |place, attempts| {
            let due = due_of(&place) <= until;
            if due {
                found.push((place, attempts));
            }
            due
        })?;
        let mut claims: Vec<Claim> = Vec::with_capacity(found.len());
        let mut used = 0;
        for (place, attempts) in &found {
            if used > bytes {
                next = Some(due_of(place));
                break;
            }
            if let Some(claim) = self.claim(place, *attempts, false)? {
                used += claim.payload.len();
                claims.push(claim);
            }
        }
        Ok(Reply::Claimed { claims, next })
    }

    fn claim_alone(&mut self, until: Millis) -> Result<Reply> {
        let mut found = None;
        let next = in_order(&self.interrupted, self.kinds, 1, |place, attempts| {
            let due = due_of(&place) <= until;
            if due {
                found = Some((place, attempts));
            }
            due
        })?;
        let mut claims = Vec::new();
        if let Some((place, attempts)) = &found {
            claims.extend(self.claim(place, *attempts, true)?);
        }
        Ok(Reply::Claimed { claims, next })
    }

    fn finish(&mut self, id: Id, token: u64, verdict: Verdict) -> Result<bool> {
        let claim = match self.claimed.get(id)? {
            Some(value) => Claimed::decode(value.value()),
            None => return Ok(false),
        };
        if claim.token != token {
            return Ok(false);
        }
        self.claimed.remove(id)?;
        self.written = true;
        match verdict {
            Verdict::Done => {
                self.jobs.remove(id)?;
            }
            Verdict::GiveBack => {
                let attempts = claim.attempts - u32::from(claim.alone);
                self.put_back(&claim.place, attempts, claim.alone)?;
            }
            Verdict::Retry { due, attempts } => {
                let place = place(kind_of(&claim.place), due, id);
                self.put_back(&place, attempts, false)?;
            }
            Verdict::Dead { attempts, error } => self.bury(&claim.place, attempts, &error)?,
        }
        Ok(true)
    }

    /// The process died with this claim.
    fn interrupt(&mut self, id: Id, claim: &Claimed, judge: Judge<'_>) -> Result<()> {
        self.claimed.remove(id)?;
        if !claim.alone {
            let attempts = claim.attempts + u32::from(broken::is(Defect::ChargeBystanders));
            return self.put_back(&claim.place, attempts, true);
        }
        match judge(id, claim.attempts) {
            Verdict::Retry { due, attempts } => {
                self.put_back(&place(kind_of(&claim.place), due, id), attempts, true)
            }
            _ => self.bury(&claim.place, claim.attempts, INTERRUPTED),
        }
    }

    fn revive(&mut self, id: Id, due: Millis) -> Result<bool> {
        let kind = match self.dead.remove(id)? {
            Some(value) => decode_dead(value.value()).map(|(kind, _, _)| kind),
            None => None,
        };
        let Some(kind) = kind else { return Ok(false) };
        self.put_back(&place(kind, due, id), 0, false)?;
        Ok(true)
    }

    fn discard(&mut self, id: Id) -> Result<bool> {
        if self.dead.remove(id)?.is_none() {
            return Ok(false);
        }
        self.jobs.remove(id)?;
        self.written = true;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;

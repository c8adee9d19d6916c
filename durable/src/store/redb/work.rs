//! One write transaction: what each operation does to the tables.

use ::redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::super::{
    Claim, Earliest, INTERRUPTED, Id, Judge, MAX_KINDS, Op, Reply, Verdict, earlier,
};
use super::index::in_order;
use super::layout::{
    CLAIMED, Claimed, DEAD, INTERRUPTIONS, JOBS, KEYS, KINDS, META, Place, WAITING, array, body,
    decode_dead, due_of, encode_dead, id_of, kind_of, parts, place,
};
use super::{Kinds, Numbers, Result, read_dead, read_pending};
use crate::broken::{self, Defect};
use crate::job::Scheduled;
use crate::time::Millis;

/// Numbers are reserved so many at a time, so that few commits have to write the last one. A crash leaves a gap.
const RESERVE: u64 = 1000;

/// One write transaction with its tables open.
pub(super) struct Work<'t> {
    pub(super) meta: Table<'t, &'static str, u64>,
    kind_numbers: Table<'t, &'static str, u32>,
    jobs: Table<'t, u64, &'static [u8]>,
    waiting: Table<'t, &'static Place, u32>,
    interrupted: Table<'t, &'static Place, u32>,
    keys: Table<'t, &'static str, &'static [u8; 21]>,
    pub(super) claimed: Table<'t, u64, &'static [u8; 33]>,
    dead: Table<'t, u64, &'static [u8]>,
    kinds: &'t mut Kinds,
    numbers: &'t mut Numbers,
    written: bool,
    earliest: Earliest,
}

impl<'t> Work<'t> {
    pub(super) fn new(
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
    pub(super) fn end(mut self) -> Result<(bool, Earliest)> {
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

    /// The number of a kind; `None` if it is new and there are too many.
    fn kind(&mut self, name: &str) -> Result<Option<u32>> {
        if let Some(&number) = self.kinds.numbers.get(name) {
            return Ok(Some(number));
        }
        let number = self.kinds.numbers.len();
        if number >= MAX_KINDS {
            return Ok(None);
        }
        let number = number as u32;
        self.kind_numbers.insert(name, number)?;
        self.kinds.add(name, number);
        Ok(Some(number))
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

    pub(super) fn apply(&mut self, op: &Op) -> Result<Reply> {
        Ok(match op {
            Op::Schedule {
                kind,
                key,
                payload,
                due,
                replace,
            } => self
                .schedule(kind, key.as_deref(), payload, *due, *replace)?
                .map_or(Reply::TooManyKinds, Reply::Scheduled),
            Op::Move { key, due } => Reply::Found(self.move_to(key, *due)?),
            Op::Cancel { key } => Reply::Found(self.cancel(key)?),
            Op::Claim {
                until,
                limit,
                bytes,
            } => self.claim_waiting(*until, *limit, *bytes)?,
            Op::ClaimAlone { until } => self.claim_alone(*until)?,
            Op::Finish { id, token, verdict } => Reply::Found(self.finish(*id, *token, verdict)?),
            Op::Revive { id, due } => Reply::Found(self.revive(*id, *due)?),
            Op::Discard { id } => Reply::Found(self.discard(*id)?),
            Op::Pending => {
                Reply::Pending(self.waiting.len()? + self.interrupted.len()? + self.claimed.len()?)
            }
            Op::List { limit } => Reply::List(read_pending(
                &self.jobs,
                &self.waiting,
                &self.interrupted,
                &self.claimed,
                self.kinds,
                *limit,
            )?),
            Op::Dead { limit } => {
                Reply::Dead(read_dead(&self.jobs, &self.dead, self.kinds, *limit)?)
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
    ) -> Result<Option<Scheduled>> {
        let holder = match key {
            Some(key) => self.holder(key)?,
            None => None,
        };
        if holder.is_some() && !replace {
            return Ok(Some(Scheduled::Kept));
        }
        let Some(kind) = self.kind(kind)? else {
            return Ok(None);
        };
        let (id, answer) = match holder {
            Some((old, interrupted)) => {
                self.leave(&old, interrupted)?;
                (id_of(&old), Scheduled::Replaced)
            }
            None => (self.number(), Scheduled::New),
        };
        self.jobs.insert(id, body(key, payload).as_slice())?;
        self.enter(&place(kind, due, id), 0, key, false)?;
        Ok(Some(answer))
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

    fn finish(&mut self, id: Id, token: u64, verdict: &Verdict) -> Result<bool> {
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
                let place = place(kind_of(&claim.place), *due, id);
                self.put_back(&place, *attempts, false)?;
            }
            Verdict::Dead { attempts, error } => self.bury(&claim.place, *attempts, error)?,
        }
        Ok(true)
    }

    /// The process died with this claim.
    pub(super) fn interrupt(&mut self, id: Id, claim: &Claimed, judge: Judge<'_>) -> Result<()> {
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

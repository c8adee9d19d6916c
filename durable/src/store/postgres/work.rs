//! One transaction: what each operation does to the table.
//!
//! The operations take effect in their order, as far as anybody can tell. What comes in crowds, new jobs and jobs that are done, is collected and sent as one statement
//! for all of them, until an operation of another sort comes: new jobs and done ones do not touch each other.

use std::collections::{HashMap, HashSet};

use ::postgres::{Error, Row};

use super::super::{Claim, Earliest, Id, Op, Reply, Verdict, earlier};
use super::link::{Mark, Session};
use super::sql::Query;
use crate::job::{DeadJob, PendingJob, Scheduled};
use crate::time::{Millis, time_of};

/// What does not change from one transaction to the next.
pub(super) struct Kinds {
    /// The handled ones, in the order of their handlers.
    pub(super) names: Vec<String>,
    /// By name: the index of the handler.
    pub(super) handlers: HashMap<String, usize>,
}

/// The result of a transaction that is about to be committed.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) replies: Vec<Reply>,
    /// The earliest due times of handled kinds that it put into the index.
    pub(super) earliest: Earliest,
    /// Due times that other processes are told, by kind.
    pub(super) told: Vec<(String, Millis)>,
    /// All that is due until then was claimed, but for what another process has locked.
    pub(super) claimed_until: Option<Millis>,
}

pub(super) struct Work<'a> {
    session: &'a mut Session,
    kinds: &'a Kinds,
    /// In milliseconds.
    lease: i64,
    ops: &'a [Op],
    replies: Vec<Option<Reply>>,
    /// Places in `ops` of new jobs and of done ones that have not been sent.
    inserts: Vec<usize>,
    done: Vec<usize>,
    /// The keys and the tokens among them.
    keys: HashSet<&'a str>,
    tokens: HashSet<u64>,
    /// What waits now and did not before: the earliest due time by kind.
    waiting: HashMap<String, Millis>,
    interrupted: Option<Millis>,
    claimed_until: Option<Millis>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        session: &'a mut Session,
        kinds: &'a Kinds,
        lease: i64,
        ops: &'a [Op],
    ) -> Work<'a> {
        Work {
            session,
            kinds,
            lease,
            ops,
            replies: vec![None; ops.len()],
            inserts: Vec::new(),
            done: Vec::new(),
            keys: HashSet::new(),
            tokens: HashSet::new(),
            waiting: HashMap::new(),
            interrupted: None,
            claimed_until: None,
        }
    }

    /// Carries out all operations. `tell` chooses what other processes have to hear of.
    pub(super) fn run(
        mut self,
        tell: impl FnOnce(&HashMap<String, Millis>, Option<Millis>) -> Vec<(String, Millis)>,
    ) -> Result<(Outcome, Mark), Error> {
        for place in 0..self.ops.len() {
            self.apply(place)?;
        }
        self.flush()?;
        let told = tell(&self.waiting, self.claimed_until);
        let notices: Vec<String> = told
            .iter()
            .map(|(kind, due)| format!("{due} {kind}"))
            .collect();
        let (mark, next) = self.close(&notices)?;
        let mut replies: Vec<Reply> = self.replies.into_iter().flatten().collect();
        if let Some(Reply::Claimed {
            next: known,
            claims,
        }) = replies.last_mut()
        {
            let alone = matches!(self.ops.last(), Some(Op::ClaimAlone { .. }));
            *known = if alone {
                next.interrupted
            } else {
                next.waiting
            };
            claims.sort_by_key(|claim| (claim.due, claim.id));
        }
        let handled = self
            .waiting
            .iter()
            .filter(|(kind, _)| self.kinds.handlers.contains_key(*kind));
        let outcome = Outcome {
            replies,
            earliest: Earliest {
                waiting: handled.map(|(_, &due)| due).min(),
                interrupted: self.interrupted,
            },
            told,
            claimed_until: self.claimed_until,
        };
        Ok((outcome, mark))
    }

    /// Tells others and, after a claim, asks for what is earliest now.
    fn close(&mut self, notices: &[String]) -> Result<(Mark, Earliest), Error> {
        let claimed = matches!(
            self.ops.last(),
            Some(Op::Claim { .. } | Op::ClaimAlone { .. })
        );
        let kinds: &[String] = if claimed { &self.kinds.names } else { &[] };
        self.session.close(kinds, notices)
    }

    fn apply(&mut self, place: usize) -> Result<(), Error> {
        let op = &self.ops[place];
        match op {
            Op::Schedule {
                key,
                replace: false,
                ..
            } => {
                if let Some(key) = key
                    && !self.keys.insert(key)
                {
                    self.flush()?;
                    self.keys.insert(key);
                }
                self.inserts.push(place);
                return Ok(());
            }
            Op::Finish {
                token,
                verdict: Verdict::Done,
                ..
            } => {
                if !self.tokens.insert(*token) {
                    self.flush()?;
                    self.tokens.insert(*token);
                }
                self.done.push(place);
                return Ok(());
            }
            _ => {}
        }
        self.flush()?;
        self.replies[place] = Some(self.apply_one(op)?);
        Ok(())
    }

    /// Sends what was collected.
    fn flush(&mut self) -> Result<(), Error> {
        self.keys.clear();
        self.tokens.clear();
        if !self.inserts.is_empty() {
            self.insert()?;
        }
        if !self.done.is_empty() {
            self.finish_done()?;
        }
        Ok(())
    }

    fn insert(&mut self) -> Result<(), Error> {
        let mut places = std::mem::take(&mut self.inserts);
        let ops = self.ops;
        let parts = |place: usize| match &ops[place] {
            Op::Schedule {
                kind,
                key,
                payload,
                due,
                ..
            } => (kind.as_str(), key.as_deref(), *due, payload.as_slice()),
            _ => unreachable!("only new jobs are collected here"),
        };
        // By key, in every process: two that insert the same keys do not wait for each other crosswise.
        places.sort_by_key(|&place| (parts(place).1, place));
        let kinds: Vec<&str> = places.iter().map(|&place| parts(place).0).collect();
        let keys: Vec<Option<&str>> = places.iter().map(|&place| parts(place).1).collect();
        let dues: Vec<Millis> = places.iter().map(|&place| parts(place).2).collect();
        let payloads: Vec<&[u8]> = places.iter().map(|&place| parts(place).3).collect();
        let rows = self
            .session
            .query(Query::Insert, &[&kinds, &keys, &dues, &payloads])?;
        let new: HashSet<&str> = rows.iter().filter_map(|row| row.get(0)).collect();
        for place in places {
            let (kind, key, due, _) = parts(place);
            let scheduled = if key.is_none_or(|key| new.contains(key)) {
                self.waits(kind, due);
                Scheduled::New
            } else {
                Scheduled::Kept
            };
            self.replies[place] = Some(Reply::Scheduled(scheduled));
        }
        Ok(())
    }

    fn finish_done(&mut self) -> Result<(), Error> {
        let places = std::mem::take(&mut self.done);
        let ops = self.ops;
        let claim = |place: usize| match &ops[place] {
            Op::Finish { id, token, .. } => (*id as i64, *token as i64),
            _ => unreachable!("only done jobs are collected here"),
        };
        let (ids, tokens): (Vec<i64>, Vec<i64>) = places.iter().map(|&place| claim(place)).unzip();
        let rows = self.session.query(Query::Done, &[&ids, &tokens])?;
        let found: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
        for place in places {
            self.replies[place] = Some(Reply::Found(found.contains(&claim(place).0)));
        }
        Ok(())
    }

    /// A job of this kind waits, and did not before, or not so early.
    fn waits(&mut self, kind: &str, due: Millis) {
        match self.waiting.get_mut(kind) {
            Some(earliest) => *earliest = due.min(*earliest),
            None => {
                self.waiting.insert(kind.to_owned(), due);
            }
        }
    }

    /// A job waits that was claimed or moved: kind, due time and state are in the row, from this column on.
    fn waits_again(&mut self, kind: &str, due: Millis, state: i16) {
        if state == 0 {
            self.waits(kind, due);
        } else if self.kinds.handlers.contains_key(kind) {
            self.interrupted = earlier(self.interrupted, Some(due));
        }
    }

    fn apply_one(&mut self, op: &Op) -> Result<Reply, Error> {
        Ok(match op {
            Op::Schedule {
                kind,
                key,
                payload,
                due,
                ..
            } => {
                let rows = self
                    .session
                    .query(Query::Replace, &[kind, key, due, payload])?;
                self.waits(kind, *due);
                let new = rows[0].get(0);
                Reply::Scheduled(if new {
                    Scheduled::New
                } else {
                    Scheduled::Replaced
                })
            }
            Op::Move { key, due } => {
                let rows = self.session.query(Query::Move, &[key, due])?;
                if let Some(row) = rows.first() {
                    self.waits_again(row.get(0), *due, row.get(1));
                }
                Reply::Found(!rows.is_empty())
            }
            Op::Cancel { key } => {
                Reply::Found(!self.session.query(Query::Cancel, &[key])?.is_empty())
            }
            Op::Claim {
                until,
                limit,
                bytes,
            } => self.claim(*until, *limit, *bytes)?,
            Op::ClaimAlone { until } => {
                let kinds = &self.kinds.names;
                let rows = self
                    .session
                    .query(Query::ClaimAlone, &[kinds, until, &(self.lease as f64)])?;
                self.claimed(&rows, true)
            }
            Op::Finish { id, token, verdict } => Reply::Found(self.finish(*id, *token, verdict)?),
            Op::Revive { id, due } => {
                let rows = self.session.query(Query::Revive, &[&(*id as i64), due])?;
                if let Some(row) = rows.first() {
                    self.waits(row.get(0), *due);
                }
                Reply::Found(!rows.is_empty())
            }
            Op::Discard { id } => Reply::Found(
                !self
                    .session
                    .query(Query::Discard, &[&(*id as i64)])?
                    .is_empty(),
            ),
            Op::Pending => {
                let count: i64 = self.session.query(Query::Pending, &[])?[0].get(0);
                Reply::Pending(count as u64)
            }
            Op::List { limit } => {
                let rows = self.session.query(Query::List, &[&at_most(*limit)])?;
                Reply::List(rows.iter().map(pending_job).collect())
            }
            Op::Dead { limit } => {
                let rows = self.session.query(Query::Dead, &[&at_most(*limit)])?;
                Reply::Dead(rows.iter().map(dead_job).collect())
            }
        })
    }

    fn claim(&mut self, until: Millis, limit: usize, bytes: usize) -> Result<Reply, Error> {
        let kinds = &self.kinds.names;
        let rows = self.session.query(
            Query::Claim,
            &[
                kinds,
                &until,
                &at_most(limit),
                &at_most(bytes),
                &(self.lease as f64),
            ],
        )?;
        let reply = self.claimed(&rows, false);
        if let Reply::Claimed { claims, .. } = &reply {
            let size: usize = claims.iter().map(|claim| claim.payload.len()).sum();
            self.claimed_until = (claims.len() < limit && size <= bytes).then_some(until);
        }
        Ok(reply)
    }

    fn claimed(&self, rows: &[Row], alone: bool) -> Reply {
        let claims = rows.iter().map(|row| {
            let kind: &str = row.get(2);
            let attempts = row.get::<_, i64>(6) as u32;
            Claim {
                id: row.get::<_, i64>(0) as Id,
                token: row.get::<_, i64>(1) as u64,
                handler: self.kinds.handlers.get(kind).copied().unwrap_or_default(),
                key: row.get(3),
                payload: row.get(4),
                due: row.get(5),
                attempt: attempts + u32::from(!alone),
                alone,
            }
        });
        Reply::Claimed {
            claims: claims.collect(),
            next: None,
        }
    }

    fn finish(&mut self, id: Id, token: u64, verdict: &Verdict) -> Result<bool, Error> {
        let (id, token) = (id as i64, token as i64);
        let (state, due, attempts) = match verdict {
            Verdict::Done => unreachable!("collected"),
            Verdict::Dead { attempts, error } => {
                return bury(self.session, id, token, *attempts, error);
            }
            Verdict::GiveBack => (None, None, None),
            Verdict::Retry { due, attempts } => (Some(0), Some(*due), Some(*attempts)),
        };
        let found = put_back(self.session, id, token, state, due, attempts)?;
        if let Some((kind, due, state)) = &found {
            self.waits_again(kind, *due, *state);
        }
        Ok(found.is_some())
    }
}

/// Lets a claimed job wait again. Kind, due time and state, if the token was right.
pub(super) fn put_back(
    session: &mut Session,
    id: i64,
    token: i64,
    state: Option<i16>,
    due: Option<Millis>,
    attempts: Option<u32>,
) -> Result<Option<(String, Millis, i16)>, Error> {
    let attempts = attempts.map(i64::from);
    let rows = session.query(Query::PutBack, &[&id, &token, &state, &due, &attempts])?;
    Ok(rows.first().map(|row| (row.get(0), row.get(1), row.get(2))))
}

/// Has a claimed job among the dead, if the token is right.
pub(super) fn bury(
    session: &mut Session,
    id: i64,
    token: i64,
    attempts: u32,
    error: &str,
) -> Result<bool, Error> {
    // A text of PostgreSQL cannot have a NUL.
    let error = error.replace('\0', "\u{fffd}");
    let attempts = i64::from(attempts);
    let rows = session.query(Query::Bury, &[&id, &token, &attempts, &error])?;
    Ok(!rows.is_empty())
}

fn pending_job(row: &Row) -> PendingJob {
    PendingJob {
        id: row.get::<_, i64>(0) as Id,
        kind: row.get(1),
        key: row.get(2),
        payload: row.get(3),
        due: time_of(row.get(4)),
        attempts: row.get::<_, i64>(5) as u32,
        claimed: row.get(6),
    }
}

fn dead_job(row: &Row) -> DeadJob {
    DeadJob {
        id: row.get::<_, i64>(0) as Id,
        kind: row.get(1),
        key: row.get(2),
        payload: row.get(3),
        attempts: row.get::<_, i64>(4) as u32,
        last_error: row.get::<_, Option<String>>(5).unwrap_or_default(),
    }
}

fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

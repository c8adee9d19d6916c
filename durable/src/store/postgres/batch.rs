//! A batch as statements, and what their answers mean. New jobs and done ones go into one statement each.

use std::collections::HashSet;
use std::sync::Arc;

use tokio_postgres::Row;

use super::super::{
    Call, Claim, ClaimRequest, Committed, Earliest, End, Id, New, Reply, Verdict, room_left,
};
use super::schema;
use super::session::{ProcessRow, Step, step};
use super::sql::{self, Query};
use crate::job::Scheduled;
use crate::job::state::Standing;
use crate::time::Millis;

pub(super) struct Batch<'a> {
    pub(super) calls: &'a [Call],
    pub(super) ends: &'a [End],
    pub(super) claim: &'a ClaimRequest,
    /// The handled kinds.
    pub(super) kinds: &'a [Arc<str>],
    /// In milliseconds.
    pub(super) lease: f64,
    /// What is moved to a later time need not be told.
    pub(super) soon: Millis,
    pub(super) notices: Vec<String>,
}

/// What the answer to a statement is about.
enum Meaning {
    /// Places of ends.
    Done(Vec<usize>),
    End(usize),
    /// Places of the calls that these new jobs are of.
    Schedule(Vec<usize>),
    /// Adds to the count of a call.
    Count(usize),
    Claim,
    Close,
}

impl<'a> Batch<'a> {
    /// The statements, and what each is for.
    fn build(&self, process: ProcessRow) -> Vec<(Meaning, Step<'a>)> {
        let mut steps = Vec::new();
        self.add_ends(&mut steps);
        let mut new = Collected::default();
        for (place, call) in self.calls.iter().enumerate() {
            if let Call::Schedule(jobs) = call {
                for job in jobs {
                    if job.rule.is_none() && !job.replace {
                        new.add(place, job, &mut steps);
                        continue;
                    }
                    new.flush(&mut steps);
                    let (kind, key) = (job.kind.as_str(), job.key.as_deref());
                    let step = if let Some(rule) = &job.rule {
                        step![Query::Recur; kind, key, job.due, &*job.payload, rule.as_str(), job.replace]
                    } else {
                        step![Query::Replace; kind, key, job.due, &*job.payload]
                    };
                    steps.push((Meaning::Schedule(vec![place]), step));
                }
                continue;
            }
            new.flush(&mut steps);
            let mut count = |step| steps.push((Meaning::Count(place), step));
            match call {
                Call::Schedule(_) => {}
                Call::Move { key, due } => {
                    count(step![Query::Move; key.as_str(), *due, self.soon]);
                }
                Call::Cancel { key } => count(step![Query::Cancel; key.as_str()]),
                // One after the other: two of the same key share it between them.
                Call::Revive { ids, due } => {
                    for &id in ids {
                        count(step![Query::Revive; id as i64, *due]);
                    }
                }
                Call::Advance { slot, turn } => {
                    count(step![Query::Advance; slot.id as i64, slot.due, turn.next, turn.run]);
                }
                Call::Pause { kind, paused } => {
                    let query = if *paused { Query::Pause } else { Query::Resume };
                    count(step![query; kind.as_str()]);
                }
                Call::Discard { ids } => {
                    let ids: Vec<i64> = ids.iter().map(|&id| id as i64).collect();
                    count(step![Query::Discard; ids]);
                }
            }
        }
        new.flush(&mut steps);
        let names: Vec<&str> = self.kinds.iter().map(|kind| &**kind).collect();
        let open = names.iter().zip(&self.claim.room);
        let (open, room): (Vec<&str>, Vec<i64>) = open
            .filter(|&(_, &room)| room > 0)
            .map(|(&kind, &room)| (kind, at_most(room)))
            .unzip();
        if let Some(until) = self.claim.suspect {
            let step = step![Query::ClaimSuspect; open.clone(), until, self.lease];
            steps.push((Meaning::Claim, step));
        }
        if self.claim.limit > 0 {
            let (limit, bytes) = (at_most(self.claim.limit), at_most(self.claim.bytes));
            let until = self.claim.until;
            let step = step![Query::Claim; open, until, limit, bytes, self.lease, room];
            steps.push((Meaning::Claim, step));
        }
        let (notices, version) = (self.notices.clone(), schema::VERSION as i64);
        let step = step![Query::Close; names, notices, process.id, process.number, version];
        steps.push((Meaning::Close, step));
        steps
    }

    fn add_ends(&self, steps: &mut Vec<(Meaning, Step<'a>)>) {
        let is_done = |&place: &usize| self.ends[place].verdict == Verdict::Done;
        let (done, rest): (Vec<usize>, Vec<usize>) = (0..self.ends.len()).partition(is_done);
        if !done.is_empty() {
            let ends = done.iter().map(|&place| &self.ends[place]);
            let (ids, tokens): (Vec<i64>, Vec<i64>) =
                ends.map(|end| (end.id as i64, end.token as i64)).unzip();
            steps.push((Meaning::Done(done), step![Query::Done; ids, tokens]));
        }
        for place in rest {
            let End {
                id, token, verdict, ..
            } = &self.ends[place];
            let (id, token) = (*id as i64, *token as i64);
            // A text of PostgreSQL cannot have a NUL.
            let error = verdict.error().map(|error| error.replace('\0', "\u{fffd}"));
            let step = match *verdict {
                Verdict::Done | Verdict::Dead { .. } => step![Query::Die; id, token, error],
                Verdict::Retry { due, .. } => {
                    step![Query::PutBack; id, token, Some(due), true, error]
                }
                Verdict::Snooze { due } => {
                    step![Query::PutBack; id, token, Some(due), false, error]
                }
                Verdict::GiveBack => {
                    step![Query::PutBack; id, token, None::<Millis>, false, error]
                }
            };
            steps.push((Meaning::End(place), step));
        }
    }

    pub(super) fn steps(&self, process: ProcessRow) -> Vec<Step<'a>> {
        let steps = self.build(process).into_iter();
        steps.map(|(_, step)| step).collect()
    }

    /// What the answers say.
    pub(super) fn read(&self, answers: &[Vec<Row>]) -> Committed {
        let mut committed = Committed {
            replies: self
                .calls
                .iter()
                .map(|call| match call {
                    Call::Schedule(new) => Reply::Scheduled(Vec::with_capacity(new.len())),
                    _ => Reply::Count(0),
                })
                .collect(),
            ended: vec![false; self.ends.len()],
            ..Committed::default()
        };
        let meanings = self.build(ProcessRow::default()).into_iter();
        for ((meaning, _), rows) in meanings.zip(answers) {
            match meaning {
                Meaning::Done(places) => {
                    let found: HashSet<i64> = rows.iter().map(|row| row.get(0)).collect();
                    for place in places {
                        committed.ended[place] = found.contains(&(self.ends[place].id as i64));
                    }
                }
                Meaning::End(place) => {
                    let (end, ended) = (&self.ends[place], !rows.is_empty());
                    committed.ended[place] = ended;
                    if ended && matches!(end.verdict, Verdict::Dead { .. }) {
                        committed.died.push(end.id);
                    }
                }
                Meaning::Schedule(places) => {
                    for (place, row) in places.into_iter().zip(rows) {
                        let id = row.get::<_, i64>(0) as Id;
                        let scheduled = match row.get(1) {
                            Some(true) => Scheduled::New(id),
                            Some(false) => Scheduled::Replaced(id),
                            None => Scheduled::Kept(id),
                        };
                        if let Reply::Scheduled(all) = &mut committed.replies[place] {
                            all.push(scheduled);
                        }
                    }
                }
                Meaning::Count(place) => {
                    if let Reply::Count(count) = &mut committed.replies[place] {
                        *count += rows.len() as u64;
                    }
                }
                Meaning::Claim => committed
                    .claims
                    .extend(rows.iter().map(|row| self.claimed(row))),
                Meaning::Close => {
                    committed.written = rows[0].get(0);
                    let left = room_left(&self.claim.room, self.kinds, &committed.claims);
                    committed.next = earliest(&rows[0], 1, &left);
                }
            }
        }
        committed
            .claims
            .sort_by_key(|claim| (!claim.charged, claim.due, claim.id));
        committed
    }

    fn claimed(&self, row: &Row) -> Claim {
        let name: &str = row.get(2);
        let known = self.kinds.iter().find(|kind| &***kind == name);
        let charged = row.get(7);
        let standing = Standing {
            state: sql::state(2, charged),
            due: row.get(5),
            attempts: row.get::<_, i64>(6) as u32,
        };
        Claim {
            id: row.get::<_, i64>(0) as Id,
            token: row.get::<_, i64>(1) as u64,
            kind: known.map_or_else(|| name.into(), Arc::clone),
            key: row.get(3),
            payload: row.get(4),
            due: standing.due,
            attempt: standing.attempt(),
            charged,
        }
    }
}

/// New jobs that have not been sent.
#[derive(Default)]
struct Collected<'a> {
    new: Vec<(usize, &'a New)>,
    keys: HashSet<&'a str>,
}

impl<'a> Collected<'a> {
    fn add(&mut self, call: usize, new: &'a New, steps: &mut Vec<(Meaning, Step<'a>)>) {
        if let Some(key) = &new.key
            && !self.keys.insert(key)
        {
            self.flush(steps);
            self.keys.insert(key);
        }
        self.new.push((call, new));
    }

    fn flush(&mut self, steps: &mut Vec<(Meaning, Step<'a>)>) {
        self.keys.clear();
        let new = std::mem::take(&mut self.new);
        if new.is_empty() {
            return;
        }
        let kinds: Vec<&str> = new.iter().map(|(_, new)| &*new.kind).collect();
        let keys: Vec<Option<&str>> = new.iter().map(|(_, new)| new.key.as_deref()).collect();
        let dues: Vec<Millis> = new.iter().map(|(_, new)| new.due).collect();
        let payloads: Vec<&[u8]> = new.iter().map(|(_, new)| &*new.payload).collect();
        let step = step![Query::Insert; kinds, keys, dues, payloads];
        let places = new.iter().map(|&(place, _)| place).collect();
        steps.push((Meaning::Schedule(places), step));
    }
}

/// The earliest due times of kinds with room, from three columns that have one for each kind.
pub(super) fn earliest(row: &Row, column: usize, room: &[usize]) -> Earliest {
    let first = |column: usize| {
        let dues: Vec<Option<Millis>> = row.get(column);
        let open = dues.into_iter().zip(room).filter(|&(_, &room)| room > 0);
        open.filter_map(|(due, _)| due).min()
    };
    Earliest {
        waiting: first(column),
        suspect: first(column + 1),
        recurring: first(column + 2),
    }
}

pub(super) fn at_most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

//! A store in memory, for tests: the rules of the others without their disk.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{
    Claim, Committed, Earliest, INTERRUPTED, Id, Judge, MAX_KINDS, Op, Reply, Store, Verdict,
    earlier,
};
use crate::error::StoreError;
use crate::job::{DeadJob, PendingJob, Scheduled};
use crate::time::{Millis, time_of};

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Waiting,
    Interrupted,
    Claimed { token: u64, alone: bool },
    Dead { error: String },
}

#[derive(Debug, Clone)]
struct Record {
    kind: u32,
    key: Option<String>,
    payload: Vec<u8>,
    due: Millis,
    attempts: u32,
    state: State,
}

#[derive(Debug, Default)]
pub(crate) struct MemoryStore {
    /// The first ones are handled, in the order of the handlers.
    kinds: Vec<String>,
    numbers: HashMap<String, u32>,
    handled: usize,
    jobs: BTreeMap<Id, Record>,
    /// Waiting jobs that hold a key.
    keys: HashMap<String, Id>,
    /// Kind, due time and id.
    waiting: BTreeSet<(u32, Millis, Id)>,
    interrupted: BTreeSet<(u32, Millis, Id)>,
    dead: usize,
    last_id: Id,
    last_token: u64,
    /// Of the transaction under way.
    earliest: Earliest,
    written: bool,
}

impl MemoryStore {
    pub(crate) fn new(handled: &[String]) -> MemoryStore {
        let mut store = MemoryStore {
            handled: handled.len(),
            ..MemoryStore::default()
        };
        for kind in handled {
            store.number(kind);
        }
        store
    }

    fn number(&mut self, kind: &str) -> u32 {
        if let Some(&number) = self.numbers.get(kind) {
            return number;
        }
        let number = self.kinds.len() as u32;
        self.kinds.push(kind.to_owned());
        self.numbers.insert(kind.to_owned(), number);
        number
    }

    fn index(&mut self, state: &State) -> Option<&mut BTreeSet<(u32, Millis, Id)>> {
        match state {
            State::Waiting => Some(&mut self.waiting),
            State::Interrupted => Some(&mut self.interrupted),
            State::Claimed { .. } | State::Dead { .. } => None,
        }
    }

    /// Takes a job out of the store, with its index entry and its key.
    fn take(&mut self, id: Id) -> Option<Record> {
        let record = self.jobs.remove(&id)?;
        let entry = (record.kind, record.due, id);
        if let Some(index) = self.index(&record.state) {
            index.remove(&entry);
        }
        if let Some(key) = &record.key
            && self.keys.get(key) == Some(&id)
        {
            self.keys.remove(key);
        }
        if matches!(record.state, State::Dead { .. }) {
            self.dead -= 1;
        }
        self.written = true;
        Some(record)
    }

    /// Puts a job into the store, where its state says. One that waits takes its key if that is free, and else goes on without.
    fn put(&mut self, id: Id, mut record: Record) {
        let entry = (record.kind, record.due, id);
        let handled = (record.kind as usize) < self.handled;
        if let Some(index) = self.index(&record.state) {
            index.insert(entry);
            if let Some(key) = record.key.take()
                && !self.keys.contains_key(&key)
            {
                self.keys.insert(key.clone(), id);
                record.key = Some(key);
            }
        }
        match record.state {
            State::Waiting if handled => {
                self.earliest.waiting = earlier(self.earliest.waiting, Some(record.due));
            }
            State::Interrupted if handled => {
                self.earliest.interrupted = earlier(self.earliest.interrupted, Some(record.due));
            }
            State::Dead { .. } => self.dead += 1,
            _ => {}
        }
        self.jobs.insert(id, record);
        self.written = true;
    }

    fn schedule(
        &mut self,
        kind: &str,
        key: Option<String>,
        payload: Vec<u8>,
        due: Millis,
        replace: bool,
    ) -> Option<Scheduled> {
        let holder = key.as_ref().and_then(|key| self.keys.get(key).copied());
        if holder.is_some() && !replace {
            return Some(Scheduled::Kept);
        }
        if self.kinds.len() >= MAX_KINDS && !self.numbers.contains_key(kind) {
            return None;
        }
        let kind = self.number(kind);
        let (id, answer) = if let Some(id) = holder {
            self.take(id);
            (id, Scheduled::Replaced)
        } else {
            self.last_id += 1;
            (self.last_id, Scheduled::New)
        };
        self.put(
            id,
            Record {
                kind,
                key,
                payload,
                due,
                attempts: 0,
                state: State::Waiting,
            },
        );
        Some(answer)
    }

    /// The entries of handled kinds in the order of their due times.
    fn in_order(&self, index: &BTreeSet<(u32, Millis, Id)>, limit: usize) -> Vec<(Millis, Id)> {
        let mut all: Vec<(Millis, Id)> = (0..self.handled as u32)
            .flat_map(|kind| {
                index
                    .range((kind, Millis::MIN, 0)..=(kind, Millis::MAX, Id::MAX))
                    .take(limit)
                    .map(|&(_, due, id)| (due, id))
            })
            .collect();
        all.sort_unstable();
        all.truncate(limit);
        all
    }

    fn claim(&mut self, id: Id, alone: bool) -> Claim {
        let mut record = self.take(id).expect("an index entry has a job");
        self.last_token += 1;
        let token = self.last_token;
        record.attempts += u32::from(alone);
        let claim = Claim {
            id,
            token,
            handler: record.kind as usize,
            key: record.key.clone(),
            payload: record.payload.clone(),
            due: record.due,
            attempt: record.attempts + u32::from(!alone),
            alone,
        };
        record.state = State::Claimed { token, alone };
        self.put(id, record);
        claim
    }

    fn claim_waiting(&mut self, until: Millis, limit: usize, bytes: usize) -> Reply {
        let mut claims = Vec::new();
        let mut used = 0;
        let mut next = None;
        for (due, id) in self.in_order(&self.waiting, limit + 1) {
            if due > until || claims.len() == limit || used > bytes {
                next = Some(due);
                break;
            }
            let claim = self.claim(id, false);
            used += claim.payload.len();
            claims.push(claim);
        }
        Reply::Claimed { claims, next }
    }

    fn claim_alone(&mut self, until: Millis) -> Reply {
        let first = self.in_order(&self.interrupted, 2);
        let mut claims = Vec::new();
        let mut next = first.first().map(|&(due, _)| due);
        if let Some(&(due, id)) = first.first()
            && due <= until
        {
            claims.push(self.claim(id, true));
            next = first.get(1).map(|&(due, _)| due);
        }
        Reply::Claimed { claims, next }
    }

    fn finish(&mut self, id: Id, token: u64, verdict: Verdict) -> bool {
        let alone = match self.jobs.get(&id).map(|record| &record.state) {
            Some(&State::Claimed {
                token: current,
                alone,
            }) if current == token => alone,
            _ => return false,
        };
        let Some(mut record) = self.take(id) else {
            return false;
        };
        match verdict {
            Verdict::Done => return true,
            Verdict::GiveBack => {
                record.attempts -= u32::from(alone);
                record.state = if alone {
                    State::Interrupted
                } else {
                    State::Waiting
                };
            }
            Verdict::Retry { due, attempts } => {
                record.due = due;
                record.attempts = attempts;
                record.state = State::Waiting;
            }
            Verdict::Dead { attempts, error } => {
                record.attempts = attempts;
                record.state = State::Dead { error };
            }
        }
        self.put(id, record);
        true
    }

    fn apply(&mut self, op: Op) -> Reply {
        match op {
            Op::Schedule {
                kind,
                key,
                payload,
                due,
                replace,
            } => self
                .schedule(&kind, key, payload, due, replace)
                .map_or(Reply::TooManyKinds, Reply::Scheduled),
            Op::Move { key, due } => {
                let found = self
                    .keys
                    .get(&key)
                    .copied()
                    .and_then(|id| Some((id, self.take(id)?)));
                Reply::Found(found.is_some_and(|(id, record)| {
                    self.put(id, Record { due, ..record });
                    true
                }))
            }
            Op::Cancel { key } => {
                let id = self.keys.get(&key).copied();
                Reply::Found(id.is_some_and(|id| self.take(id).is_some()))
            }
            Op::Claim {
                until,
                limit,
                bytes,
            } => self.claim_waiting(until, limit, bytes),
            Op::ClaimAlone { until } => self.claim_alone(until),
            Op::Finish { id, token, verdict } => Reply::Found(self.finish(id, token, verdict)),
            Op::Revive { id, due } => Reply::Found(
                self.is_dead(id) && {
                    let record = self.take(id).expect("it is there");
                    self.put(
                        id,
                        Record {
                            due,
                            attempts: 0,
                            state: State::Waiting,
                            ..record
                        },
                    );
                    true
                },
            ),
            Op::Discard { id } => Reply::Found(self.is_dead(id) && self.take(id).is_some()),
            Op::Pending => Reply::Pending((self.jobs.len() - self.dead) as u64),
            Op::List { limit } => Reply::List(self.list(limit)),
            Op::Dead { limit } => Reply::Dead(self.dead_jobs(limit)),
        }
    }

    fn is_dead(&self, id: Id) -> bool {
        self.jobs
            .get(&id)
            .is_some_and(|record| matches!(record.state, State::Dead { .. }))
    }

    fn list(&self, limit: usize) -> Vec<PendingJob> {
        let mut pending: Vec<(&Id, &Record)> = self
            .jobs
            .iter()
            .filter(|(_, record)| !matches!(record.state, State::Dead { .. }))
            .collect();
        pending.sort_by_key(|(id, record)| (record.due, **id));
        pending
            .into_iter()
            .take(limit)
            .map(|(&id, record)| PendingJob {
                id,
                kind: self.kinds[record.kind as usize].clone(),
                key: record.key.clone(),
                payload: record.payload.clone(),
                due: time_of(record.due),
                attempts: record.attempts,
                claimed: matches!(record.state, State::Claimed { .. }),
            })
            .collect()
    }

    fn dead_jobs(&self, limit: usize) -> Vec<DeadJob> {
        self.jobs
            .iter()
            .filter_map(|(&id, record)| match &record.state {
                State::Dead { error } => Some(DeadJob {
                    id,
                    kind: self.kinds[record.kind as usize].clone(),
                    key: record.key.clone(),
                    payload: record.payload.clone(),
                    attempts: record.attempts,
                    last_error: error.clone(),
                }),
                _ => None,
            })
            .take(limit)
            .collect()
    }
}

impl Store for MemoryStore {
    fn recover(&mut self, judge: Judge<'_>) -> Result<usize, StoreError> {
        let claimed: Vec<(Id, bool)> = self
            .jobs
            .iter()
            .filter_map(|(&id, record)| match record.state {
                State::Claimed { alone, .. } => Some((id, alone)),
                _ => None,
            })
            .collect();
        for &(id, alone) in &claimed {
            let mut record = self.take(id).expect("it is there");
            record.state = State::Interrupted;
            if alone {
                match judge(id, record.attempts) {
                    Verdict::Retry { due, attempts } => {
                        record.due = due;
                        record.attempts = attempts;
                    }
                    _ => {
                        record.state = State::Dead {
                            error: INTERRUPTED.to_owned(),
                        }
                    }
                }
            }
            self.put(id, record);
        }
        Ok(claimed.len())
    }

    fn earliest(&mut self) -> Result<Earliest, StoreError> {
        Ok(Earliest {
            waiting: self.in_order(&self.waiting, 1).first().map(|&(due, _)| due),
            interrupted: self
                .in_order(&self.interrupted, 1)
                .first()
                .map(|&(due, _)| due),
        })
    }

    fn unhandled(&mut self) -> Result<Vec<String>, StoreError> {
        Ok((self.handled as u32..self.kinds.len() as u32)
            .filter(|&kind| {
                let all = (kind, Millis::MIN, 0)..=(kind, Millis::MAX, Id::MAX);
                self.waiting.range(all.clone()).next().is_some()
                    || self.interrupted.range(all).next().is_some()
            })
            .map(|kind| self.kinds[kind as usize].clone())
            .collect())
    }

    fn commit(&mut self, ops: &[Op]) -> Result<Committed, StoreError> {
        self.earliest = Earliest::default();
        self.written = false;
        let replies = ops.iter().map(|op| self.apply(op.clone())).collect();
        Ok(Committed {
            replies,
            written: self.written,
            earliest: self.earliest,
        })
    }
}

//! A store in memory, for tests: the rules of the others without their disk.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::{
    Call, Claim, ClaimRequest, Committed, Earliest, End, INTERRUPTED, Id, Judge, MAX_KINDS, New,
    Polled, Reader, Recovered, Reply, Row, Slot, Store, Verdict, room_left,
};
use crate::error::StoreError;
use crate::job::state::{After, Event, Standing, State, after};
use crate::job::{JobFilter, Scheduled};
use crate::recur::Turn;
use crate::time::Millis;

#[derive(Debug, Clone)]
struct Record {
    kind: Arc<str>,
    key: Option<String>,
    payload: Vec<u8>,
    standing: Standing,
    token: u64,
    error: Option<String>,
    died: Option<Millis>,
    /// Of a recurring job.
    rule: Option<String>,
    /// A run of a recurring job: it shows its key and does not hold it.
    run: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct MemoryStore(Arc<Mutex<Jobs>>);

#[derive(Debug, Default)]
struct Jobs {
    handled: Vec<Arc<str>>,
    kinds: HashSet<Arc<str>>,
    records: BTreeMap<Id, Record>,
    /// Waiting jobs that hold a key.
    keys: HashMap<String, Id>,
    /// State, kind, due time and id of what waits.
    index: BTreeSet<(State, Arc<str>, Millis, Id)>,
    paused: HashSet<String>,
    last_id: Id,
    last_token: u64,
    /// Of the transaction under way.
    written: bool,
}

impl MemoryStore {
    pub(crate) fn new(handled: &[String]) -> MemoryStore {
        let handled: Vec<Arc<str>> = handled.iter().map(|kind| kind.as_str().into()).collect();
        MemoryStore(Arc::new(Mutex::new(Jobs {
            kinds: handled.iter().cloned().collect(),
            handled,
            ..Jobs::default()
        })))
    }
}

impl Jobs {
    /// Takes a job out of the store, with its index entry and its key.
    fn take(&mut self, id: Id) -> Option<Record> {
        let record = self.records.remove(&id)?;
        let Standing { state, due, .. } = record.standing;
        self.index
            .remove(&(state, Arc::clone(&record.kind), due, id));
        if let Some(key) = &record.key
            && self.keys.get(key) == Some(&id)
        {
            self.keys.remove(key);
        }
        self.written = true;
        Some(record)
    }

    /// Puts a job into the store, where its state says. One that waits takes its key if that is free, and else goes on without.
    fn put(&mut self, id: Id, mut record: Record) {
        let Standing { state, due, .. } = record.standing;
        if state.waits() {
            self.index
                .insert((state, Arc::clone(&record.kind), due, id));
            if !record.run {
                record.key = record.key.take().filter(|key| !self.keys.contains_key(key));
                if let Some(key) = &record.key {
                    self.keys.insert(key.clone(), id);
                }
            }
        }
        self.records.insert(id, record);
        self.written = true;
    }

    /// Has the event happen to a job. False if it does not apply.
    fn happen(&mut self, id: Id, event: Event, change: impl FnOnce(&mut Record)) -> bool {
        let Some(after) = self
            .records
            .get(&id)
            .and_then(|record| after(record.standing, event))
        else {
            return false;
        };
        let mut record = self.take(id).expect("it was just looked at");
        if let After::Is(standing) = after {
            record.standing = standing;
            change(&mut record);
            self.put(id, record);
        }
        true
    }

    fn schedule(&mut self, new: &[New]) -> Option<Vec<Scheduled>> {
        let unknown: HashSet<&str> = new
            .iter()
            .filter(|new| {
                new.replace
                    || new
                        .key
                        .as_ref()
                        .is_none_or(|key| !self.keys.contains_key(key))
            })
            .map(|new| new.kind.as_str())
            .filter(|kind| !self.kinds.contains(*kind))
            .collect();
        if self.kinds.len() + unknown.len() > MAX_KINDS && !unknown.is_empty() {
            return None;
        }
        Some(new.iter().map(|new| self.schedule_one(new)).collect())
    }

    fn schedule_one(&mut self, new: &New) -> Scheduled {
        let holder = new.key.as_ref().and_then(|key| self.keys.get(key).copied());
        if let Some(id) = holder
            && !new.replace
        {
            return Scheduled::Kept(id);
        }
        let kind: Arc<str> = new.kind.as_str().into();
        self.kinds.insert(Arc::clone(&kind));
        let mut due = new.due;
        let (id, answer) = if let Some(id) = holder {
            let old = self.take(id).expect("it holds the key");
            if old.standing.state == State::Recurring && old.rule == new.rule {
                due = old.standing.due;
            }
            (id, Scheduled::Replaced(id))
        } else {
            self.last_id += 1;
            (self.last_id, Scheduled::New(self.last_id))
        };
        self.put(
            id,
            Record {
                kind,
                key: new.key.clone(),
                payload: new.payload.clone(),
                standing: Standing::new(due, new.rule.is_some()),
                token: 0,
                error: None,
                died: None,
                rule: new.rule.clone(),
                run: false,
            },
        );
        answer
    }

    fn apply(&mut self, call: &Call) -> Reply {
        let by_key = |jobs: &mut Jobs, key: &str, event| {
            let id = jobs.keys.get(key).copied();
            Reply::Count(id.is_some_and(|id| jobs.happen(id, event, |_| {})).into())
        };
        let dead = |jobs: &mut Jobs, ids: &[Id], event| {
            let found = ids.iter().filter(|&&id| {
                jobs.happen(id, event, |record| {
                    (record.error, record.died) = (None, None);
                })
            });
            Reply::Count(found.count() as u64)
        };
        match call {
            Call::Schedule(new) => self
                .schedule(new)
                .map_or(Reply::TooManyKinds, Reply::Scheduled),
            Call::Move { key, due } => by_key(self, key, Event::Move { due: *due }),
            Call::Cancel { key } => by_key(self, key, Event::Cancel),
            Call::Revive { ids, due } => dead(self, ids, Event::Revive { due: *due }),
            Call::Discard { ids } => dead(self, ids, Event::Discard),
            Call::Advance { slot, turn } => Reply::Count(self.advance(slot, *turn).into()),
            Call::Pause { kind, paused } => {
                let changed = if *paused {
                    self.paused.insert(kind.clone())
                } else {
                    self.paused.remove(kind)
                };
                self.written |= changed;
                Reply::Count(changed.into())
            }
        }
    }

    fn advance(&mut self, slot: &Slot, Turn { next, run }: Turn) -> bool {
        let found = self.records.get(&slot.id);
        let Some(record) = found
            .filter(|record| record.standing.due == slot.due)
            .cloned()
        else {
            return false;
        };
        if !self.happen(slot.id, Event::Advance { next }, |_| {}) {
            return false;
        }
        if run {
            self.last_id += 1;
            self.put(
                self.last_id,
                Record {
                    standing: Standing::new(slot.due, false),
                    rule: None,
                    run: true,
                    ..record
                },
            );
        }
        true
    }

    fn end(&mut self, end: &End, now: Millis) -> bool {
        let current = self.records.get(&end.id).map(|record| record.token);
        current == Some(end.token)
            && self.happen(end.id, end.verdict.event(), |record| {
                record.token = 0;
                if let Some(error) = end.verdict.error() {
                    record.error = Some(error.to_owned());
                }
                record.died = (record.standing.state == State::Dead).then_some(now);
            })
    }

    /// The entries of kinds with room, in the order of their due times.
    fn in_order(&self, state: State, room: &[usize], limit: usize) -> Vec<(Millis, Id)> {
        let mut all: Vec<(Millis, Id)> = Vec::new();
        for (kind, &room) in self.handled.iter().zip(room) {
            let from = (state, Arc::clone(kind), Millis::MIN, 0);
            let to = (state, Arc::clone(kind), Millis::MAX, Id::MAX);
            let most = if room == 0 { 0 } else { limit.min(room) };
            let entries = self.index.range(from..=to).take(most);
            all.extend(entries.map(|&(.., due, id)| (due, id)));
        }
        all.sort_unstable();
        all.truncate(limit);
        all
    }

    fn claim_one(&mut self, id: Id, claims: &mut Vec<Claim>) {
        self.last_token += 1;
        let token = self.last_token;
        let applies = self.happen(id, Event::Claim, |record| {
            record.token = token;
            claims.push(Claim {
                id,
                token,
                kind: Arc::clone(&record.kind),
                key: record.key.clone(),
                payload: record.payload.clone(),
                due: record.standing.due,
                attempt: record.standing.attempt(),
                charged: record.standing.state == State::Charged,
            });
        });
        assert!(applies, "what is in an index can be claimed");
    }

    fn claim(&mut self, request: &ClaimRequest) -> Vec<Claim> {
        let mut claims = Vec::new();
        if let Some(until) = request.suspect
            && let Some(&(due, id)) = self.in_order(State::Suspect, &request.room, 1).first()
            && due <= until
        {
            self.claim_one(id, &mut claims);
        }
        let mut used = 0;
        for (due, id) in self.in_order(State::Waiting, &request.room, request.limit) {
            if due > request.until || used > request.bytes {
                break;
            }
            self.claim_one(id, &mut claims);
            used += claims.last().map_or(0, |claim| claim.payload.len());
        }
        claims
    }

    fn earliest(&self, room: &[usize]) -> Earliest {
        let first = |state| self.in_order(state, room, 1).first().map(|&(due, _)| due);
        Earliest {
            waiting: first(State::Waiting),
            suspect: first(State::Suspect),
            recurring: first(State::Recurring),
        }
    }
}

impl Store for MemoryStore {
    fn recover(&mut self, judge: Judge<'_>, now: Millis) -> Result<Recovered, StoreError> {
        let mut jobs = self.0.lock();
        let claimed: Vec<(Id, Arc<str>, u32)> = jobs
            .records
            .iter()
            .filter(|(_, record)| record.standing.state.is_claim())
            .map(|(&id, record)| (id, Arc::clone(&record.kind), record.standing.attempts))
            .collect();
        let mut recovered = Recovered {
            found: claimed.len(),
            died: Vec::new(),
        };
        for (id, kind, attempts) in claimed {
            let again = judge(&kind, id, attempts);
            jobs.happen(id, Event::OwnerLost { again }, |record| {
                record.token = 0;
                if record.standing.state == State::Dead {
                    recovered.died.push(id);
                    record.error = Some(INTERRUPTED.to_owned());
                    record.died = Some(now);
                }
            });
        }
        Ok(recovered)
    }

    fn commit(
        &mut self,
        calls: &[Call],
        ends: &[End],
        claim: &ClaimRequest,
        _: Instant,
    ) -> Result<Committed, StoreError> {
        let mut jobs = self.0.lock();
        jobs.written = false;
        let ended: Vec<bool> = ends.iter().map(|end| jobs.end(end, claim.now)).collect();
        let died = ends
            .iter()
            .zip(&ended)
            .filter(|(end, ended)| **ended && matches!(end.verdict, Verdict::Dead { .. }));
        let died = died.map(|(end, _)| end.id).collect();
        let replies = calls.iter().map(|call| jobs.apply(call)).collect();
        let claims = jobs.claim(claim);
        let next = jobs.earliest(&room_left(&claim.room, &jobs.handled, &claims));
        Ok(Committed {
            replies,
            ended,
            claims,
            next,
            died,
            written: jobs.written,
        })
    }

    fn poll(&mut self, _: Judge<'_>, room: &[usize]) -> Result<Polled, StoreError> {
        let jobs = self.0.lock();
        Ok(Polled {
            next: jobs.earliest(room),
            paused: jobs.paused.clone(),
            ..Polled::default()
        })
    }

    fn slots(
        &mut self,
        until: Millis,
        limit: usize,
        room: &[usize],
    ) -> Result<Vec<Slot>, StoreError> {
        let jobs = self.0.lock();
        let found = jobs.in_order(State::Recurring, room, limit).into_iter();
        let slots = found
            .filter(|&(due, _)| due <= until)
            .map(|(due, id)| Slot {
                id,
                kind: Arc::clone(&jobs.records[&id].kind),
                due,
                rule: jobs.records[&id].rule.clone().unwrap_or_default(),
            });
        Ok(slots.collect())
    }

    fn reopen(&mut self, _: &HashSet<u64>) -> Result<(), StoreError> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::new(self.clone())
    }
}

impl Reader for MemoryStore {
    fn pending(&self) -> Result<u64, StoreError> {
        let jobs = self.0.lock();
        let pending = jobs
            .records
            .values()
            .filter(|record| record.standing.state != State::Dead);
        Ok(pending.count() as u64)
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Row>, StoreError> {
        let jobs = self.0.lock();
        let mut rows: Vec<Row> = jobs
            .records
            .iter()
            .filter(|&(&id, record)| {
                filter.means(id, Some(&record.kind), record.standing, record.died)
                    && (filter.key.is_none() || filter.key == record.key)
            })
            .map(|(&id, record)| Row {
                id,
                kind: record.kind.to_string(),
                key: record.key.clone(),
                payload: record.payload.clone(),
                standing: record.standing,
                error: record.error.clone(),
                died: record.died,
                rule: record.rule.clone(),
            })
            .collect();
        if filter.by_due {
            rows.sort_by_key(|row| (row.standing.due, row.id));
        }
        rows.truncate(filter.limit);
        Ok(rows)
    }

    fn kinds(&self) -> Result<Vec<String>, StoreError> {
        let jobs = self.0.lock();
        let kinds: HashSet<&str> = jobs.index.iter().map(|(_, kind, ..)| &**kind).collect();
        Ok(kinds.into_iter().map(str::to_owned).collect())
    }
}

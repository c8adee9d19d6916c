//! One write transaction: what each operation does to the tables.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use ::redb::{ReadableTable, Table, WriteTransaction};

use super::super::{
    Call, Claim, ClaimRequest, DAMAGED, Earliest, End, INTERRUPTED, Id, Judge, MAX_KINDS, New,
    Recovered, Reply, Slot, room_left,
};
use super::index::{earliest, in_order};
use super::layout::{
    BODIES, CLAIMS, Claimed, DUE, ERRORS, KEYS, KINDS, LETTERS, Letter, META, PAUSED, Place,
    RECURRING, RULES, SUSPECTS, array, body, due_of, entry, holder, id_of, kind_of, place,
    read_body, read_entry, read_holder, read_rule, rule, standing,
};
use super::{Kinds, Numbers, Result};
use crate::broken::{self, Defect};
use crate::job::Scheduled;
use crate::job::state::{After, Event, Standing, State, after};
use crate::recur::Turn;
use crate::time::Millis;

/// Numbers are reserved so many at a time, so that few commits have to write the last one. A crash leaves a gap.
const RESERVE: u64 = 1000;

/// The error of a file in which something does not fit. Nothing of the transaction is kept.
pub(super) fn damaged(what: &str) -> ::redb::Error {
    ::redb::Error::Corrupted(what.to_owned())
}

/// One write transaction with its tables open.
pub(super) struct Work<'t> {
    pub(super) meta: Table<'t, &'static str, u64>,
    pub(super) kind_numbers: Table<'t, &'static str, u32>,
    pub(super) bodies: Table<'t, u64, &'static [u8]>,
    pub(super) due: Table<'t, &'static Place, u64>,
    pub(super) suspects: Table<'t, &'static Place, u64>,
    pub(super) recurring: Table<'t, &'static Place, u64>,
    pub(super) rules: Table<'t, u64, &'static [u8]>,
    pub(super) keys: Table<'t, &'static str, &'static [u8; 21]>,
    pub(super) claims: Table<'t, u64, &'static [u8; 37]>,
    pub(super) letters: Table<'t, u64, &'static [u8]>,
    pub(super) errors: Table<'t, u64, &'static str>,
    pub(super) paused: Table<'t, &'static str, ()>,
    kinds: &'t mut Kinds,
    numbers: &'t mut Numbers,
    pub(super) now: Millis,
    pub(super) written: bool,
    /// Jobs that died.
    pub(super) died: Vec<Id>,
}

impl<'t> Work<'t> {
    pub(super) fn new(
        transaction: &'t WriteTransaction,
        kinds: &'t mut Kinds,
        numbers: &'t mut Numbers,
        now: Millis,
    ) -> Result<Work<'t>> {
        Ok(Work {
            meta: transaction.open_table(META)?,
            kind_numbers: transaction.open_table(KINDS)?,
            bodies: transaction.open_table(BODIES)?,
            due: transaction.open_table(DUE)?,
            suspects: transaction.open_table(SUSPECTS)?,
            recurring: transaction.open_table(RECURRING)?,
            rules: transaction.open_table(RULES)?,
            keys: transaction.open_table(KEYS)?,
            claims: transaction.open_table(CLAIMS)?,
            letters: transaction.open_table(LETTERS)?,
            errors: transaction.open_table(ERRORS)?,
            paused: transaction.open_table(PAUSED)?,
            kinds,
            numbers,
            now,
            written: false,
            died: Vec::new(),
        })
    }

    /// Reserves numbers if they have run out. Whether there is anything to commit.
    pub(super) fn end(mut self) -> Result<bool> {
        if self.numbers.last > self.numbers.reserved {
            self.numbers.reserved = self.numbers.last + RESERVE;
            self.meta.insert("last", self.numbers.reserved)?;
        }
        Ok(self.written)
    }

    fn number(&mut self) -> u64 {
        self.numbers.last += 1;
        self.numbers.last
    }

    pub(super) fn index(&mut self, state: State) -> &mut Table<'t, &'static Place, u64> {
        match state {
            State::Suspect => &mut self.suspects,
            State::Recurring => &mut self.recurring,
            _ => &mut self.due,
        }
    }

    /// The job that waits under a key: its place and how it stands.
    fn holder(&self, key: &str) -> Result<Option<(Place, Standing)>> {
        let Some(value) = self.keys.get(key)? else {
            return Ok(None);
        };
        let (place, state) = read_holder(value.value());
        let index = match state {
            State::Suspect => &self.suspects,
            State::Recurring => &self.recurring,
            _ => &self.due,
        };
        // Missing only in a damaged file: then nobody holds the key.
        let entry = index.get(&place)?;
        Ok(entry.map(|entry| (place, standing(&place, entry.value(), state))))
    }

    /// Puts a job into one of the indexes, with its key if it has one.
    fn enter(&mut self, kind: u32, id: Id, standing: Standing, key: Option<&str>) -> Result<()> {
        let place = place(kind, standing.due, id);
        self.index(standing.state)
            .insert(&place, entry(&place, standing.attempts))?;
        if let Some(key) = key {
            self.keys.insert(key, &holder(&place, standing.state))?;
        }
        self.written = true;
        Ok(())
    }

    /// Lets a job that was claimed or dead wait again. It takes its key if that is free, and else goes on without. A run of a recurring job has none to take.
    fn enter_again(&mut self, kind: u32, id: Id, standing: Standing) -> Result<()> {
        let mut key = match self.bodies.get(id)? {
            Some(value) => {
                let body = read_body(id, value.value());
                body.key.filter(|_| !body.run).map(str::to_owned)
            }
            None => None,
        };
        if let Some(taken) = &key
            && self.holder(taken)?.is_some()
        {
            let without = {
                let value = self.bodies.get(id)?;
                let value = value.as_ref().map_or(&[][..], |value| value.value());
                body(id, None, false, read_body(id, value).payload)
            };
            self.bodies.insert(id, without.as_slice())?;
            key = None;
        }
        self.enter(kind, id, standing, key.as_deref())
    }

    pub(super) fn mark_dead(
        &mut self,
        kind: u32,
        id: Id,
        standing: Standing,
        error: &str,
    ) -> Result<()> {
        let letter = Letter {
            kind,
            attempts: standing.attempts,
            due: standing.due,
            died: self.now,
            error: Cow::Borrowed(error),
        };
        self.letters.insert(id, letter.encode().as_slice())?;
        self.died.push(id);
        self.written = true;
        Ok(())
    }

    pub(super) fn apply(&mut self, call: &Call) -> Result<Reply> {
        Ok(match call {
            Call::Schedule(new) => {
                if self.has_room_for_kinds(new)? {
                    let mut scheduled = Vec::with_capacity(new.len());
                    for new in new {
                        scheduled.push(self.schedule(new)?);
                    }
                    Reply::Scheduled(scheduled)
                } else {
                    Reply::TooManyKinds
                }
            }
            Call::Move { key, due } => self.by_key(key, Event::Move { due: *due })?,
            Call::Cancel { key } => self.by_key(key, Event::Cancel)?,
            Call::Revive { ids, due } => self.dead(ids, Event::Revive { due: *due })?,
            Call::Discard { ids } => self.dead(ids, Event::Discard)?,
            Call::Advance { slot, turn } => Reply::Count(self.advance(slot, *turn)?.into()),
            Call::Pause { kind, paused } => {
                let before = if *paused {
                    self.paused.insert(kind.as_str(), ())?.is_some()
                } else {
                    self.paused.remove(kind.as_str())?.is_some()
                };
                let changed = before != *paused;
                self.written |= changed;
                Reply::Count(changed.into())
            }
        })
    }

    /// Can the kinds of these be numbered? Looked at before anything is written.
    fn has_room_for_kinds(&self, new: &[New]) -> Result<bool> {
        let mut unknown = HashSet::new();
        for new in new {
            if !self.kinds.numbers.contains_key(new.kind.as_str()) {
                let kept = match &new.key {
                    Some(key) if !new.replace => self.holder(key)?.is_some(),
                    _ => false,
                };
                if !kept {
                    unknown.insert(new.kind.as_str());
                }
            }
        }
        Ok(unknown.is_empty() || self.kinds.numbers.len() + unknown.len() <= MAX_KINDS)
    }

    fn schedule(&mut self, new: &New) -> Result<Scheduled> {
        let holder = match &new.key {
            Some(key) => self.holder(key)?,
            None => None,
        };
        if let Some((place, _)) = &holder
            && !new.replace
        {
            return Ok(Scheduled::Kept(id_of(place)));
        }
        let kind = if let Some(&kind) = self.kinds.numbers.get(new.kind.as_str()) {
            kind
        } else {
            let kind = self.kinds.numbers.len() as u32;
            self.kind_numbers.insert(new.kind.as_str(), kind)?;
            self.kinds.add(&new.kind, kind);
            self.meta.insert("kinds", self.kinds.check())?;
            kind
        };
        let mut standing = Standing::new(new.due, new.rule.is_some());
        let (id, answer) = if let Some((place, from)) = holder {
            self.index(from.state).remove(&place)?;
            let id = id_of(&place);
            let same = from.state == State::Recurring
                && self.rules.remove(id)?.is_some_and(|old| {
                    let rule = new.rule.as_deref();
                    rule.is_some() && read_rule(id, old.value()) == rule
                });
            let (due, recurs) = (if same { from.due } else { new.due }, new.rule.is_some());
            if let Some(After::Is(to)) = after(from, Event::Replace { due, recurs }) {
                standing = to;
            }
            (id, Scheduled::Replaced(id))
        } else {
            let id = self.number();
            (id, Scheduled::New(id))
        };
        if let Some(text) = &new.rule {
            self.rules.insert(id, rule(id, text).as_slice())?;
        }
        let value = body(id, new.key.as_deref(), false, &new.payload);
        let taken = self.bodies.insert(id, value.as_slice())?.is_some();
        if taken && matches!(answer, Scheduled::New(_)) {
            return Err(damaged("a number was given out twice"));
        }
        self.enter(kind, id, standing, new.key.as_deref())?;
        Ok(answer)
    }

    /// Moves or cancels the job that waits under a key.
    fn by_key(&mut self, key: &str, event: Event) -> Result<Reply> {
        let Some((place, from)) = self.holder(key)? else {
            return Ok(Reply::Count(0));
        };
        let Some(to) = after(from, event) else {
            return Ok(Reply::Count(0));
        };
        if !broken::is(Defect::StaleEntry) || to == After::Gone {
            self.index(from.state).remove(&place)?;
        }
        self.written = true;
        match to {
            After::Is(to) => self.enter(kind_of(&place), id_of(&place), to, Some(key))?,
            After::Gone => {
                self.keys.remove(key)?;
                self.rules.remove(id_of(&place))?;
                self.forget(id_of(&place), from.attempts)?;
            }
        }
        Ok(Reply::Count(1))
    }

    /// Advances a recurring job, and makes the run for its time. A damaged one is dead.
    fn advance(&mut self, slot: &Slot, turn: Turn) -> Result<bool> {
        let Some(&kind) = self.kinds.numbers.get(&slot.kind) else {
            return Ok(false);
        };
        let (id, place) = (slot.id, place(kind, slot.due, slot.id));
        let Some((attempts, mut sound)) = self
            .recurring
            .remove(&place)?
            .map(|value| read_entry(&place, value.value()))
        else {
            return Ok(false);
        };
        self.written = true;
        let (mut key, mut payload) = (None, Vec::new());
        sound &= self.bodies.get(id)?.is_some_and(|value| {
            let body = read_body(id, value.value());
            key = body.key.map(str::to_owned);
            payload = body.payload.to_vec();
            body.sound
        });
        sound &= self
            .rules
            .get(id)?
            .is_some_and(|value| read_rule(id, value.value()).is_some());
        let from = Standing {
            attempts,
            ..Standing::new(slot.due, true)
        };
        let event = if sound {
            Event::Advance { next: turn.next }
        } else {
            Event::Damaged
        };
        match after(from, event) {
            Some(After::Is(to)) if to.state == State::Recurring => {
                self.enter(kind, id, to, key.as_deref())?;
            }
            to => {
                // Of a damaged one the key may be wrong: nobody holds a key whose job is not where it says.
                if let Some(key) = key.as_deref().filter(|_| sound) {
                    self.keys.remove(key)?;
                }
                self.rules.remove(id)?;
                if let Some(After::Is(dead)) = to {
                    log::error!("recurring job {id}: {DAMAGED}");
                    self.mark_dead(kind, id, dead, DAMAGED)?;
                    return Ok(true);
                }
                self.forget(id, attempts)?;
            }
        }
        let runs = if broken::is(Defect::SlotTwice) { 2 } else { 1 };
        for _ in 0..if turn.run { runs } else { 0 } {
            let run = self.number();
            let value = body(run, key.as_deref(), true, &payload);
            self.bodies.insert(run, value.as_slice())?;
            self.enter(kind, run, Standing::new(slot.due, false), None)?;
        }
        Ok(true)
    }

    /// Revives or discards dead jobs.
    fn dead(&mut self, ids: &[Id], event: Event) -> Result<Reply> {
        let mut count = 0;
        for &id in ids {
            let Some((kind, from)) = self.letters.remove(id)?.map(|value| {
                let letter = Letter::decode(value.value());
                (letter.kind, letter.standing())
            }) else {
                continue;
            };
            self.written = true;
            count += 1;
            match after(from, event) {
                Some(After::Is(to)) => self.enter_again(kind, id, to)?,
                _ => self.forget(id, 0)?,
            }
        }
        Ok(Reply::Count(count))
    }

    /// Removes what is left of a job that is gone. Only one that was tried before has a reason.
    fn forget(&mut self, id: Id, attempts: u32) -> Result<()> {
        self.bodies.remove(id)?;
        if attempts > 0 {
            self.errors.remove(id)?;
        }
        Ok(())
    }

    /// Claims the job of an entry; `None` if it is damaged, and then it is dead.
    fn claim_one(&mut self, place: &Place, value: u64, state: State) -> Result<Option<Claim>> {
        let (id, from) = (id_of(place), standing(place, value, state));
        let (_, mut sound) = read_entry(place, value);
        if self.index(state).remove(place)?.is_none() {
            // It was read a moment ago, and would be claimed again and again.
            return Err(damaged("an entry of an index is not found by its key"));
        }
        self.written = true;
        let stored = self.bodies.get(id)?.map(|value| {
            let body = read_body(id, value.value());
            sound &= body.sound;
            (body.key.map(str::to_owned), body.payload.to_vec())
        });
        let (key, payload) = if let Some(stored) = stored {
            stored
        } else {
            sound = false;
            self.bodies
                .insert(id, body(id, None, false, &[]).as_slice())?;
            (None, Vec::new())
        };
        if let Some(key) = &key
            && self
                .keys
                .get(key.as_str())?
                .is_some_and(|value| id_of(&array(value.value())) == id)
        {
            self.keys.remove(key.as_str())?;
        }
        let kind = self.kinds.names.get(&kind_of(place)).cloned();
        let event = if sound { Event::Claim } else { Event::Damaged };
        let Some(After::Is(to)) = after(from, event) else {
            return Ok(None);
        };
        let Some(kind) = kind.filter(|_| to.state.is_claim()) else {
            log::error!("job {id}: {DAMAGED}");
            self.mark_dead(kind_of(place), id, to, DAMAGED)?;
            return Ok(None);
        };
        let token = self.number();
        let claimed = Claimed {
            token,
            place: *place,
            attempts: to.attempts,
            charged: to.state == State::Charged,
        };
        self.claims.insert(id, &claimed.encode())?;
        Ok(Some(Claim {
            id,
            token,
            kind,
            key,
            payload,
            due: to.due,
            attempt: to.attempt(),
            charged: claimed.charged,
        }))
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        if let Some(until) = request.suspect {
            let mut first = None;
            in_order(
                &self.suspects,
                self.kinds.open(&request.room),
                |place, value| {
                    first = (due_of(&place) <= until).then_some((place, value));
                    false
                },
            )?;
            if let Some((place, value)) = first {
                claims.extend(self.claim_one(&place, value, State::Suspect)?);
            }
        }
        let mut found = Vec::new();
        if request.limit > 0 {
            in_order(&self.due, self.kinds.open(&request.room), |place, value| {
                let due = due_of(&place) <= request.until;
                if due {
                    found.push((place, value));
                }
                due && found.len() < request.limit
            })?;
        }
        let mut used = 0;
        for (place, value) in found {
            if used > request.bytes {
                break;
            }
            if let Some(claim) = self.claim_one(&place, value, State::Waiting)? {
                used += claim.payload.len();
                claims.push(claim);
            }
        }
        Ok(claims)
    }

    pub(super) fn earliest(&self, room: &[usize], claims: &[Claim]) -> Result<Earliest> {
        let room = room_left(room, &self.kinds.handled, claims);
        Ok(Earliest {
            waiting: earliest(&self.due, self.kinds.open(&room))?,
            suspect: earliest(&self.suspects, self.kinds.open(&room))?,
            recurring: earliest(&self.recurring, self.kinds.open(&room))?,
        })
    }

    /// Ends a claim, if it still has this token.
    pub(super) fn finish(&mut self, end: &End) -> Result<bool> {
        let claim = match self.claims.get(end.id)? {
            Some(value) => Claimed::decode(value.value()),
            None => return Ok(false),
        };
        if claim.token != end.token {
            return Ok(false);
        }
        let error = end.verdict.error();
        self.settle(end.id, &claim, end.verdict.event(), error)?;
        Ok(true)
    }

    /// A claim ends by this event.
    fn settle(&mut self, id: Id, claim: &Claimed, event: Event, error: Option<&str>) -> Result<()> {
        let from = claim.standing();
        let kind = kind_of(&claim.place);
        self.claims.remove(id)?;
        self.written = true;
        match after(from, event) {
            Some(After::Is(to)) if to.state == State::Dead => {
                if to.attempts > 1 {
                    self.errors.remove(id)?;
                }
                self.mark_dead(kind, id, to, error.unwrap_or(INTERRUPTED))
            }
            Some(After::Is(to)) => {
                if let Some(error) = error {
                    self.errors.insert(id, error)?;
                }
                self.enter_again(kind, id, to)
            }
            _ => self.forget(id, from.attempts),
        }
    }

    /// All claims. One that is damaged is dead, and is not among them.
    fn all_claims(&mut self) -> Result<Vec<(Id, Claimed)>> {
        let (mut claims, mut damaged) = (Vec::new(), Vec::new());
        for entry in self.claims.iter()? {
            let (id, value) = entry?;
            let claim = Claimed::decode(value.value());
            if claim.is_sound(id.value(), value.value()) {
                claims.push((id.value(), claim));
            } else {
                damaged.push((id.value(), claim));
            }
        }
        for (mut id, claim) in damaged {
            if self.bodies.get(id)?.is_none() {
                // The id is what is damaged, or the body is gone.
                self.claims.remove(id)?;
                id = id_of(&claim.place);
            }
            log::error!("job {id}: {DAMAGED}");
            self.settle(id, &claim, Event::Damaged, Some(DAMAGED))?;
        }
        Ok(claims)
    }

    /// The process died with all its claims.
    pub(super) fn recover(&mut self, judge: Judge<'_>) -> Result<Recovered> {
        let claims = self.all_claims()?;
        let found = claims.len();
        for (id, mut claim) in claims {
            if !claim.charged && broken::is(Defect::ChargeBystanders) {
                claim.attempts += 1;
            }
            let kind = self.kinds.names.get(&kind_of(&claim.place)).cloned();
            let again = judge(&kind.unwrap_or_else(|| Arc::from("")), id, claim.attempts);
            self.settle(id, &claim, Event::OwnerLost { again }, None)?;
        }
        Ok(Recovered {
            found,
            died: std::mem::take(&mut self.died),
        })
    }

    /// Gives back what was claimed by a transaction of which nobody was told.
    pub(super) fn give_back_all_but(&mut self, held: &HashSet<u64>) -> Result<()> {
        for (id, claim) in self.all_claims()? {
            if !held.contains(&claim.token) {
                self.settle(id, &claim, Event::GiveBack, None)?;
            }
        }
        Ok(())
    }
}

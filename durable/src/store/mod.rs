//! Where jobs are kept: one trait, one implementation for each engine.
//!
//! A store is used by one thread. It is given everything that waits as one batch and makes one durable transaction of it (group commit): first the ends of runs, then the
//! calls in their order, then the claim. Each sees what came before it. What may happen to a job is the table of [`crate::job::state`]; a store keeps the jobs, their keys and
//! three indexes of due times by kind: of *waiting* jobs, of *suspects* and of *recurring* jobs.
//!
//! Counts and lists are read through a [`Reader`], by any thread, beside the store thread.
//!
//! # A store that several processes share
//!
//! - A claim takes what is due and not locked by another process, and gives each job a lease and a token. The engine keeps the list of its claims and has them
//!   [renewed](Store::renew). An end is refused if the token is not the current one: the lease has run out and another process has the job.
//! - [`Store::poll`] takes up claims whose lease has run out and finds jobs that other processes stored.
//! - What opens it also gives the engine a [`WallClock`](crate::time::WallClock): that of the database.
//! - A lost connection is an error that passes ([`StoreError::is_passing`]): the engine keeps the outcomes of handlers, and tries again after a back-off.

pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod redb;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::StoreError;
use crate::job::state::{Event, Standing};
use crate::job::{JobFilter, Scheduled};
use crate::recur::Turn;
use crate::time::Millis;

/// The number of a job. Never given twice by a store.
pub(crate) type Id = u64;

/// The most kinds that a store numbers. Each is kept, in the file and in memory, and a list of them is gone through when it is opened: the name of a kind is part of a
/// program, not of its data.
pub(crate) const MAX_KINDS: usize = 4096;

/// A job to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct New {
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Millis,
    pub(crate) replace: bool,
    /// The text of its rule, if it recurs.
    pub(crate) rule: Option<String>,
}

/// A recurring job whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) id: Id,
    pub(crate) kind: Arc<str>,
    pub(crate) due: Millis,
    pub(crate) rule: String,
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub(crate) enum Call {
    /// All or none of them. [`Reply::Scheduled`] or [`Reply::TooManyKinds`].
    Schedule(Vec<New>),
    /// Gives the waiting job of this key another due time. [`Reply::Count`].
    Move { key: String, due: Millis },
    /// Removes the waiting job of this key. [`Reply::Count`].
    Cancel { key: String },
    /// Makes dead jobs wait, with no attempt counted. [`Reply::Count`].
    Revive { ids: Vec<Id>, due: Millis },
    /// Removes dead jobs. [`Reply::Count`].
    Discard { ids: Vec<Id> },
    /// Advances a recurring job, if it still stands as it was found, and stores a run for the time that it was due at. [`Reply::Count`]: 0 if somebody else has done so, or is about to.
    Advance { slot: Slot, turn: Turn },
    /// Notes that no job of a kind is to begin, or that it may again. [`Reply::Count`]: 1 if that is a change.
    Pause { kind: String, paused: bool },
}

/// The new jobs of these calls.
pub(crate) fn new_jobs<'a>(
    calls: impl IntoIterator<Item = &'a Call>,
) -> impl Iterator<Item = &'a New> {
    let new = calls.into_iter().filter_map(|call| match call {
        Call::Schedule(new) => Some(new),
        _ => None,
    });
    new.flatten()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// One for each job.
    Scheduled(Vec<Scheduled>),
    /// Nothing was stored: it would be more kinds than [`MAX_KINDS`].
    TooManyKinds,
    /// How many jobs were found.
    Count(u64),
}

/// The end of a claim. It takes place only if the claim still has this token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) id: Id,
    pub(crate) token: u64,
    pub(crate) kind: Arc<str>,
    pub(crate) verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    Dead { error: String },
    Retry { due: Millis, error: Option<String> },
    Snooze { due: Millis },
    GiveBack,
}

impl Verdict {
    pub(crate) fn event(&self) -> Event {
        match *self {
            Verdict::Done => Event::Done,
            Verdict::Dead { .. } => Event::Fail,
            Verdict::Retry { due, .. } => Event::Retry { due },
            Verdict::Snooze { due } => Event::Snooze { due },
            Verdict::GiveBack => Event::GiveBack,
        }
    }

    /// Why the run failed, if it did and said so.
    pub(crate) fn error(&self) -> Option<&str> {
        match self {
            Verdict::Dead { error } => Some(error),
            Verdict::Retry { error, .. } => error.as_deref(),
            _ => None,
        }
    }
}

/// What may be claimed at the end of a transaction.
#[derive(Debug, Clone, Default)]
pub(crate) struct ClaimRequest {
    /// The time, for what dies in this transaction.
    pub(crate) now: Millis,
    /// Waiting jobs that are due at this time or before, the earliest first.
    pub(crate) until: Millis,
    /// How many of them; 0: none.
    pub(crate) limit: usize,
    /// How many bytes of payload, before the last.
    pub(crate) bytes: usize,
    /// One suspect, if it is due at this time or before.
    pub(crate) suspect: Option<Millis>,
    /// By handled kind: how many of it. A kind with 0 is left out of [`Committed::next`] as well.
    pub(crate) room: Vec<usize>,
}

impl ClaimRequest {
    pub(crate) fn is_empty(&self) -> bool {
        self.limit == 0 && self.suspect.is_none()
    }
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: Id,
    pub(crate) token: u64,
    pub(crate) kind: Arc<str>,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Millis,
    /// The number of this attempt, from 1.
    pub(crate) attempt: u32,
    /// It was a suspect: the attempt is counted already.
    pub(crate) charged: bool,
}

impl Claim {
    pub(crate) fn end(&self, verdict: Verdict) -> End {
        End {
            id: self.id,
            token: self.token,
            kind: Arc::clone(&self.kind),
            verdict,
        }
    }
}

/// The result of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// One for each call.
    pub(crate) replies: Vec<Reply>,
    /// For each end: whether its token was the current one.
    pub(crate) ended: Vec<bool>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) next: Earliest,
    /// Jobs that died in it.
    pub(crate) died: Vec<Id>,
    /// False if nothing had to be written.
    pub(crate) written: bool,
}

/// Due times of the earliest jobs that are left, of handled kinds with room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Earliest {
    pub(crate) waiting: Option<Millis>,
    pub(crate) suspect: Option<Millis>,
    pub(crate) recurring: Option<Millis>,
}

/// Takes the earlier one of two due times.
pub(crate) fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A kind has less room after these were claimed.
pub(crate) fn room_left(room: &[usize], handled: &[Arc<str>], claims: &[Claim]) -> Vec<usize> {
    let mut left = room.to_vec();
    for claim in claims {
        if let Some(place) = handled.iter().position(|kind| *kind == claim.kind) {
            left[place] = left[place].saturating_sub(1);
        }
    }
    left
}

/// When a job whose counted attempt was interrupted is tried again, given its kind, id and attempts; `None`: it has used them up.
pub(crate) type Judge<'a> = &'a dyn Fn(&str, Id, u32) -> Option<Millis>;

/// Wakes the store thread.
pub(crate) type Wake = Arc<dyn Fn() + Send + Sync>;

/// What became of claims whose owner is gone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) found: usize,
    /// Of these: those that had used up their attempts.
    pub(crate) died: Vec<Id>,
}

/// What a store has learnt between two transactions.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    pub(crate) next: Earliest,
    pub(crate) recovered: Recovered,
    /// The kinds that are paused.
    pub(crate) paused: HashSet<String>,
}

/// The error of a job that died with its process.
pub(crate) const INTERRUPTED: &str = "interrupted";

/// The error of a job whose checksum is wrong.
pub(crate) const DAMAGED: &str = "the stored job is damaged: its checksum is wrong";

pub(crate) trait Store: Send {
    /// Makes every claim of a dead process a suspect, durably.
    fn recover(&mut self, judge: Judge<'_>, now: Millis) -> Result<Recovered, StoreError>;

    /// Carries out a batch in one transaction, which is durable when this returns. Callers of a shared store are answered by `deadline` or soon after. After an error the
    /// store has to be [opened again](Store::reopen), unless the error [is passing](StoreError::is_passing).
    fn commit(
        &mut self,
        calls: &[Call],
        ends: &[End],
        claim: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Committed, StoreError>;

    /// Reads the earliest due times of kinds with room. A shared store also takes up claims that have lapsed.
    fn poll(&mut self, judge: Judge<'_>, room: &[usize]) -> Result<Polled, StoreError>;

    /// Recurring jobs that are due at this time or before, of kinds with room, the earliest first.
    fn slots(
        &mut self,
        until: Millis,
        limit: usize,
        room: &[usize],
    ) -> Result<Vec<Slot>, StoreError>;

    /// After an error that does not pass: opens the store again. Claims whose token is not among `held` were not handed out and are given back.
    fn reopen(&mut self, held: &HashSet<u64>) -> Result<(), StoreError>;

    fn reader(&self) -> Arc<dyn Reader>;

    /// How long claims last; `None` if they do not lapse.
    fn lease(&self) -> Option<Duration> {
        None
    }

    /// Renews the leases of claims, given by id and token. The tokens of those that were renewed; the others are lost.
    fn renew(&mut self, held: &[(Id, u64)]) -> Result<HashSet<u64>, StoreError> {
        Ok(held.iter().map(|&(_, token)| token).collect())
    }

    /// What other processes were heard to have stored since the last call, and when the store has to be polled.
    fn heard(&mut self) -> (Earliest, Option<Instant>) {
        (Earliest::default(), None)
    }

    /// Has `wake` called when another process has stored something.
    fn listen(&mut self, _wake: Wake) {}
}

/// A stored job, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: Id,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) standing: Standing,
    pub(crate) error: Option<String>,
    /// When it died.
    pub(crate) died: Option<Millis>,
    /// Of a recurring job.
    pub(crate) rule: Option<String>,
}

/// Reads beside the store thread.
pub(crate) trait Reader: Send + Sync {
    /// The number of jobs that are not dead.
    fn pending(&self) -> Result<u64, StoreError>;

    /// The same, in constant time.
    fn pending_estimate(&self) -> Result<u64, StoreError> {
        self.pending()
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Row>, StoreError>;

    /// The kinds that have jobs, none of them dead.
    fn kinds(&self) -> Result<Vec<String>, StoreError>;
}

#[cfg(test)]
mod conformance;

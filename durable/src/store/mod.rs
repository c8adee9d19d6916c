//! Where jobs are kept: one trait, one implementation for each engine.
//!
//! A store is used by one thread. It is given everything that waits as one list of operations and makes one durable
//! transaction of it (group commit), so an implementation over a network needs one round trip for many callers. The operations
//! take effect in their order, each sees what those before it did.
//!
//! A job is in exactly one of four places:
//!
//! ```text
//!             schedule                     Finish: Done
//!  ┌─────────────────────► waiting ─► claimed ─────────► gone
//!  │                         ▲ ▲         │ │
//!  │      Finish: Retry, GiveBack        │ └───────────► dead ──► Revive: waiting; Discard: gone
//!  │                         │ └─────────┘ Finish: Dead
//!  │                         │           │
//!  │                interrupted ◄────────┘ recover: the process died
//!  └───────────────── by key: Move, Cancel, Schedule with replace; waiting and interrupted alike
//! ```
//!
//! - *waiting*: in the index of due times, by kind. May hold a key.
//! - *claimed*: a handler runs or will run it. Its key is free. The claim has a token, and only who shows the token can finish
//!   it: a process whose claim was taken over cannot.
//! - *interrupted*: was claimed when its process died. It waits as well, in an index of its own, because it is taken up alone:
//!   [`Op::ClaimAlone`] counts the attempt durably before the handler runs.
//! - *dead*: gave up.
//!
//! # A store that several processes share
//!
//! The trait is made for one, on a database server: every decision that has to be made under a lock is one operation, and nothing else is assumed to
//! stay as it was between two transactions.
//!
//! - [`Op::Claim`] takes what is due and not locked by another process, and gives each claim a lease and a token. The store knows its claims, those that
//!   are not finished, and renews their leases in [`Store::upkeep`]. Before a handler begins, the engine asks [`Leases`] whether it still may.
//! - [`Op::Finish`] is refused if the token is not the current one: the lease has run out and another process has the job.
//! - [`Store::recover`] takes up claims whose lease has run out; [`Store::upkeep`] does the same at any time later.
//! - What opens it also gives the engine a [`WallClock`](crate::time::WallClock): that of the database.
//! - Jobs of other processes show in [`Store::upkeep`], which looks when a notice comes ([`Store::listen`]) and every so often.
//! - A lost connection is an error that passes ([`StoreError::is_passing`]): the engine tells its callers, keeps the outcomes of handlers, and tries again.

mod lease;
pub(crate) mod memory;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod redb;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use self::lease::Leases;
use crate::error::StoreError;
use crate::job::{DeadJob, PendingJob, Scheduled};
use crate::time::Millis;

/// The number of a job. Never given twice by a store.
pub(crate) type Id = u64;

/// The most kinds that a store numbers. Each is kept, in the file and in memory, and a list of them is gone through when it is opened: the name of a kind is part of a
/// program, not of its data.
pub(crate) const MAX_KINDS: usize = 4096;

/// One thing to do in a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Answered by [`Reply::Scheduled`] or [`Reply::TooManyKinds`].
    Schedule {
        kind: String,
        key: Option<String>,
        payload: Vec<u8>,
        due: Millis,
        replace: bool,
    },
    /// Gives the waiting job of this key another due time. [`Reply::Found`].
    Move { key: String, due: Millis },
    /// Removes the waiting job of this key. [`Reply::Found`].
    Cancel { key: String },
    /// Claims waiting jobs of handled kinds that are due at `until` or before, the earliest first. [`Reply::Claimed`].
    Claim {
        until: Millis,
        limit: usize,
        bytes: usize,
    },
    /// Claims the earliest interrupted job of a handled kind that is due at `until` or before, and counts its attempt. [`Reply::Claimed`].
    ClaimAlone { until: Millis },
    /// Ends a claim, if it still has this token. [`Reply::Found`].
    Finish {
        id: Id,
        token: u64,
        verdict: Verdict,
    },
    /// Makes a dead job wait, with no attempt counted. [`Reply::Found`].
    Revive { id: Id, due: Millis },
    /// Removes a dead job. [`Reply::Found`].
    Discard { id: Id },
    /// Counts all that are not dead. [`Reply::Pending`].
    Pending,
    /// Reads jobs that are not dead, of all kinds, the earliest due first. [`Reply::List`].
    List { limit: usize },
    /// Reads dead jobs. [`Reply::Dead`].
    Dead { limit: usize },
}

/// The end of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Done,
    /// Waits until `due`, with so many attempts counted.
    Retry {
        due: Millis,
        attempts: u32,
    },
    Dead {
        attempts: u32,
        error: String,
    },
    /// As if it had not been claimed.
    GiveBack,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Scheduled(Scheduled),
    /// Not stored: it would be one kind more than [`MAX_KINDS`].
    TooManyKinds,
    Found(bool),
    /// The claims, and the due time of the earliest job of the same index that is left.
    Claimed {
        claims: Vec<Claim>,
        next: Option<Millis>,
    },
    Pending(u64),
    List(Vec<PendingJob>),
    Dead(Vec<DeadJob>),
}

/// A claimed job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) id: Id,
    pub(crate) token: u64,
    /// The index of its kind among the handled ones.
    pub(crate) handler: usize,
    pub(crate) key: Option<String>,
    pub(crate) payload: Vec<u8>,
    pub(crate) due: Millis,
    /// The number of this attempt, from 1.
    pub(crate) attempt: u32,
    /// Taken up alone: the attempt is counted already.
    pub(crate) alone: bool,
}

/// The result of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Committed {
    /// One for each operation.
    pub(crate) replies: Vec<Reply>,
    /// False if nothing had to be written.
    pub(crate) written: bool,
    /// The earliest due times of handled kinds that it put into the indexes.
    pub(crate) earliest: Earliest,
}

/// Due times of the earliest jobs of handled kinds.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Earliest {
    pub(crate) waiting: Option<Millis>,
    pub(crate) interrupted: Option<Millis>,
}

/// Takes the earlier one of two due times.
pub(crate) fn earlier(one: Option<Millis>, other: Option<Millis>) -> Option<Millis> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What becomes of a job whose counted attempt was interrupted: given its id and its attempts.
pub(crate) type Judge<'a> = &'a dyn Fn(Id, u32) -> Verdict;

/// Wakes the store thread.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

/// What a shared store has learnt between two transactions.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Due times that were announced or found.
    pub(crate) earliest: Earliest,
    /// `upkeep` has to be called again after so long, at the latest.
    pub(crate) again: Option<Duration>,
}

/// The error of a job that died with its process.
pub(crate) const INTERRUPTED: &str = "interrupted";

pub(crate) trait Store: Send {
    /// Puts every claim of a dead process among the interrupted ones, durably. A claim whose attempt was counted goes where `judge`
    /// says (`Retry` or `Dead`); all others keep due time and attempts. Returns the number of claims found.
    fn recover(&mut self, judge: Judge<'_>) -> Result<usize, StoreError>;

    /// The earliest due times now, of handled kinds.
    fn earliest(&mut self) -> Result<Earliest, StoreError>;

    /// The kinds that have jobs, none of them dead, but no handler.
    fn unhandled(&mut self) -> Result<Vec<String>, StoreError>;

    /// Carries out all operations in one transaction, which is durable when this returns. After an error the store cannot be used, unless the error
    /// [is passing](StoreError::is_passing).
    fn commit(&mut self, ops: &[Op]) -> Result<Committed, StoreError>;

    /// What a shared store has to do between transactions: renew its leases, take up claims that lapsed, hear of jobs that others stored. Called
    /// whenever the store thread wakes, so it returns at once if there is nothing to do.
    fn upkeep(&mut self, _judge: Judge<'_>) -> Upkeep {
        Upkeep::default()
    }

    /// Has `wake` called when another process has stored something: then the store thread calls `upkeep`.
    fn listen(&mut self, _wake: Wake) {}

    /// The leases of its claims; `None` if its claims do not lapse.
    fn leases(&self) -> Option<Arc<Leases>> {
        None
    }
}

#[cfg(test)]
mod conformance;

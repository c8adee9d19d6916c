//! The life of a job: one table, from which every store takes its rules.
//!
//! | from | event | to | attempts |
//! |---|---|---|---|
//! | – | schedule | waiting | 0 |
//! | waiting, suspect | replace | waiting | 0 |
//! | waiting, suspect | move, cancel | the same, gone | the same |
//! | waiting | claim | claimed | the same |
//! | suspect | claim | charged | + 1 |
//! | claimed, charged | done, fail | gone, dead | this one |
//! | claimed, charged | retry | waiting | this one |
//! | claimed, charged | snooze | waiting | before |
//! | claimed, charged | give back | waiting, suspect | before |
//! | claimed | owner lost | suspect | the same |
//! | charged | owner lost | suspect, or dead at the maximum | the same |
//! | dead | revive, discard | waiting, gone | 0 |
//! | any | damaged | dead | the same |
//!
//! *Suspect*: it was claimed when its process died. Suspects are taken up one at a time, and the claim counts the attempt (*charged*) before the handler runs. A claim
//! lets go of the key; every return to waiting or suspect takes it if it is free.
//!
//! The stores in memory and in a file call [`after`]. The statements of PostgreSQL say the same in SQL; the conformance suite compares every row.

use crate::time::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Waiting,
    Suspect,
    /// A handler runs or will run it.
    Claimed,
    /// The same, and the attempt is counted already.
    Charged,
    Dead,
}

impl State {
    /// Does a job in this state hold its key, and stand in an index of due times?
    pub(crate) fn waits(self) -> bool {
        matches!(self, State::Waiting | State::Suspect)
    }

    pub(crate) fn is_claim(self) -> bool {
        matches!(self, State::Claimed | State::Charged)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) state: State,
    pub(crate) due: Millis,
    /// The attempts that were counted.
    pub(crate) attempts: u32,
}

impl Standing {
    /// A job that has just been scheduled.
    pub(crate) fn new(due: Millis) -> Standing {
        Standing {
            state: State::Waiting,
            due,
            attempts: 0,
        }
    }

    /// The number of the attempt that a claim is, from 1.
    pub(crate) fn attempt(self) -> u32 {
        self.attempts + u32::from(self.state == State::Claimed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Replace {
        due: Millis,
    },
    Move {
        due: Millis,
    },
    Cancel,
    Claim,
    Done,
    Fail,
    Retry {
        due: Millis,
    },
    Snooze {
        due: Millis,
    },
    GiveBack,
    /// `again`: when a counted attempt is followed by another one; `None` after the last.
    OwnerLost {
        again: Option<Millis>,
    },
    Revive {
        due: Millis,
    },
    Discard,
    /// Its checksum is wrong.
    Damaged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Is(Standing),
    Gone,
}

/// What an event makes of a job; `None`: nothing, it does not apply.
#[expect(clippy::match_same_arms, reason = "in the order of the table")]
pub(crate) fn after(from: Standing, event: Event) -> Option<After> {
    use State::{Charged, Claimed, Dead, Suspect, Waiting};
    let is = |state, due, attempts| {
        Some(After::Is(Standing {
            state,
            due,
            attempts,
        }))
    };
    let Standing {
        state,
        due,
        attempts,
    } = from;
    let before = attempts - u32::from(state == Charged);
    match (state, event) {
        (Waiting | Suspect, Event::Replace { due }) => is(Waiting, due, 0),
        (Waiting | Suspect, Event::Move { due }) => is(state, due, attempts),
        (Waiting, Event::Claim) => is(Claimed, due, attempts),
        (Suspect, Event::Claim) => is(Charged, due, attempts + 1),
        (Waiting | Suspect, Event::Cancel)
        | (Claimed | Charged, Event::Done)
        | (Dead, Event::Discard) => Some(After::Gone),
        (Claimed | Charged, Event::Fail) => is(Dead, due, from.attempt()),
        (Claimed | Charged, Event::Retry { due }) => is(Waiting, due, from.attempt()),
        (Claimed | Charged, Event::Snooze { due }) => is(Waiting, due, before),
        (Claimed, Event::GiveBack) => is(Waiting, due, before),
        (Charged, Event::GiveBack) => is(Suspect, due, before),
        (Claimed, Event::OwnerLost { .. }) => is(Suspect, due, attempts),
        (Charged, Event::OwnerLost { again: Some(due) }) => is(Suspect, due, attempts),
        (Charged, Event::OwnerLost { again: None }) => is(Dead, due, attempts),
        (Dead, Event::Revive { due }) => is(Waiting, due, 0),
        (_, Event::Damaged) => is(Dead, due, attempts),
        _ => None,
    }
}

//! The life of a job: one table, from which every store takes its rules.
//!
//! | from | event | to | attempts |
//! |---|---|---|---|
//! | – | schedule | waiting | 0 |
//! | – | schedule with a rule | recurring | 0 |
//! | waiting, suspect, recurring | replace | waiting, or recurring with a rule | 0 |
//! | waiting, suspect, recurring | move, cancel | the same, gone | the same |
//! | recurring | advance | the same; gone after the last time | the same |
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
//! *Recurring*: it is never claimed. Each of its times advances it to the next one, and makes a waiting job for this one, the *run*, in the same transaction. The recurring job holds the
//! key; its runs show it and never hold it.
//!
//! The stores in memory and in a file call [`after`]. The statements of PostgreSQL say the same in SQL; the conformance suite compares every row.

use crate::time::Millis;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    Waiting,
    Suspect,
    Recurring,
    /// A handler runs or will run it.
    Claimed,
    /// The same, and the attempt is counted already.
    Charged,
    Dead,
}

impl State {
    /// Does a job in this state hold its key, and stand in an index of due times?
    pub(crate) fn waits(self) -> bool {
        matches!(self, State::Waiting | State::Suspect | State::Recurring)
    }

    pub(crate) fn is_claim(self) -> bool {
        matches!(self, State::Claimed | State::Charged)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    pub(crate) state: State,
    pub(crate) due: Millis,
    /// The attempts that were counted.
    pub(crate) attempts: u32,
}

impl Standing {
    /// A job that has just been scheduled.
    pub(crate) fn new(due: Millis, recurs: bool) -> Standing {
        Standing {
            state: if recurs {
                State::Recurring
            } else {
                State::Waiting
            },
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
        recurs: bool,
    },
    Move {
        due: Millis,
    },
    Cancel,
    /// `None`: that was its last time.
    Advance {
        next: Option<Millis>,
    },
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
    use State::{Charged, Claimed, Dead, Recurring, Suspect, Waiting};
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
        (Waiting | Suspect | Recurring, Event::Replace { due, recurs }) => {
            Some(After::Is(Standing::new(due, recurs)))
        }
        (Recurring, Event::Advance { next: Some(due) }) => is(state, due, attempts),
        (Waiting | Suspect | Recurring, Event::Move { due }) => is(state, due, attempts),
        (Waiting, Event::Claim) => is(Claimed, due, attempts),
        (Suspect, Event::Claim) => is(Charged, due, attempts + 1),
        (Waiting | Suspect | Recurring, Event::Cancel)
        | (Recurring, Event::Advance { next: None })
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

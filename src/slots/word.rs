//! The state word of a slot: due tick, sequence, handles and state in one atomic.
//!
//! ```text
//! bit 63                19 18        8  7   6   5   4   3  2     0
//!     ┌───────────────────┬───────────┬───┬───┬───┬───┬───┬───────┐
//!     │ due: 45           │ seq: 11   │ V │ F │ P │ R │ U │ state │
//!     └───────────────────┴───────────┴───┴───┴───┴───┴───┴───────┘
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | due | the tick it fires at, [`Tick::NEVER`] for none |
//! | seq | the low bits of the stamp of its arming: another timeout in this slot has another word |
//! | V, F, P | its [`Kind`]: the value of a delay queue, a future's, periodic |
//! | R | the handle that `stop` returned exists |
//! | U | the user's handle exists |
//!
//! Every compare-and-swap compares due and state together, so a timeout cannot be claimed for a due tick that it no
//! longer has: it never fires early.

use super::stored_task::Kind;
use crate::time::Tick;
use std::fmt;

/// The low three bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum State {
    /// On a free list, or taken by a call that is about to arm it. No task.
    Free = 0,
    /// Fires at `due`. The task belongs to the winner of the next transition.
    Armed = 1,
    /// Claimed; the runner owns the task. With P it is armed again.
    Running = 2,
    /// With P: cancelled or stopped during its run. The runner ends it.
    /// Without P: a future exchanges its task, and arms it again. It is pending meanwhile: [`Word::is_replacing`].
    CancelRequested = 3,
    /// It has run; no task left.
    Expired = 4,
    /// It will not run; no task left.
    Cancelled = 5,
    /// Claimed by `stop`; the handle that `stop` returned owns the task inside.
    Stopped = 6,
    /// Was Stopped, and the task has been taken out.
    TaskTaken = 7,
}

/// The state of a timeout, as its handles see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// It will fire, or fire again.
    Pending,
    /// Its task runs.
    Running,
    /// It has fired for good.
    Expired,
    /// It was cancelled.
    Cancelled,
    /// Returned by `stop`; its task may have been taken out since.
    Stopped,
}

/// The status of a timeout, read from one load of the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Status {
    pub(crate) phase: Phase,
    pub(crate) due: Tick,
    pub(crate) periodic: bool,
}

/// A value of the word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    const STATE: u64 = 0b111;
    /// The user's handle exists.
    pub(crate) const USER: u64 = 1 << 3;
    /// The handle that `stop` returned exists.
    pub(crate) const RETURNED: u64 = 1 << 4;
    const PERIODIC: u64 = 1 << 5;
    const FUTURE: u64 = 1 << 6;
    const VALUE: u64 = 1 << 7;
    const SEQ_SHIFT: u32 = 8;
    /// The number of bits of `seq`.
    pub(crate) const SEQ_BITS: u32 = Self::DUE_SHIFT - Self::SEQ_SHIFT;
    const SEQ: u64 = (1 << Self::DUE_SHIFT) - (1 << Self::SEQ_SHIFT);
    const DUE_SHIFT: u32 = 64 - Tick::BITS;
    const LOW: u64 = (1 << Self::DUE_SHIFT) - 1;

    /// Added by the runner to end a run: `Running` becomes `Expired`, `CancelRequested` becomes `Cancelled`.
    pub(crate) const END_RUN: u64 = State::Expired as u64 - State::Running as u64;

    /// The word of a slot that has just been armed, with its user's handle.
    pub(crate) fn armed(due: Tick, stamp: u64, kind: Kind) -> Word {
        let kind = match kind {
            Kind::Once => 0,
            Kind::Periodic => Self::PERIODIC,
            Kind::Future => Self::FUTURE,
            Kind::Value => Self::VALUE,
        };
        Word(kind | Self::USER).rearmed(due, stamp)
    }

    /// The word of a slot that is armed again, with the handles that it has.
    pub(crate) fn rearmed(self, due: Tick, stamp: u64) -> Word {
        let seq = stamp << Self::SEQ_SHIFT & Self::SEQ;
        let kept = self.0 & Self::LOW & !(Self::SEQ | Self::STATE);
        Word(due.0 << Self::DUE_SHIFT | seq | kept | State::Armed as u64)
    }

    pub(crate) fn state(self) -> State {
        match self.0 & Self::STATE {
            0 => State::Free,
            1 => State::Armed,
            2 => State::Running,
            3 => State::CancelRequested,
            4 => State::Expired,
            5 => State::Cancelled,
            6 => State::Stopped,
            _ => State::TaskTaken,
        }
    }

    /// For a slot that is not free: the caller has a handle to it, or runs it.
    pub(crate) fn status(self) -> Status {
        let phase = match self.state() {
            State::Free | State::Armed => Phase::Pending,
            State::CancelRequested if self.is_replacing() => Phase::Pending,
            State::Running => Phase::Running,
            State::Expired => Phase::Expired,
            State::CancelRequested | State::Cancelled => Phase::Cancelled,
            State::Stopped | State::TaskTaken => Phase::Stopped,
        };
        Status {
            phase,
            due: self.due(),
            periodic: self.is_periodic(),
        }
    }

    /// Returns `true` if the state is Armed and the timeout not periodic, in one comparison.
    pub(crate) fn is_armed_once(self) -> bool {
        self.0 & (Self::STATE | Self::PERIODIC) == State::Armed as u64
    }

    pub(crate) fn due(self) -> Tick {
        Tick(self.0 >> Self::DUE_SHIFT)
    }

    pub(crate) fn seq(self) -> u64 {
        (self.0 & Self::SEQ) >> Self::SEQ_SHIFT
    }

    pub(crate) fn kind(self) -> Kind {
        match self.0 & (Self::PERIODIC | Self::FUTURE | Self::VALUE) {
            0 => Kind::Once,
            Self::PERIODIC => Kind::Periodic,
            Self::FUTURE => Kind::Future,
            _ => Kind::Value,
        }
    }

    pub(crate) fn is_periodic(self) -> bool {
        self.0 & Self::PERIODIC != 0
    }

    pub(crate) fn has_user(self) -> bool {
        self.0 & Self::USER != 0
    }

    pub(crate) fn has_handle(self) -> bool {
        self.0 & (Self::USER | Self::RETURNED) != 0
    }

    pub(crate) fn has_returned(self) -> bool {
        self.0 & Self::RETURNED != 0
    }

    /// Over, and without handles: the thread that made it so frees the slot.
    pub(crate) fn is_abandoned(self) -> bool {
        self.is_over() && !self.has_handle()
    }

    /// Returns `true` if a handle other than `handle` exists.
    pub(crate) fn has_other_handle(self, handle: u64) -> bool {
        self.0 & (Self::USER | Self::RETURNED) & !handle != 0
    }

    /// A future exchanges the task of its timeout, which is pending all the same.
    pub(crate) fn is_replacing(self) -> bool {
        self.state() == State::CancelRequested && !self.is_periodic()
    }

    /// A thread holds the task and will arm the slot with it: the run of a periodic one that was not cancelled, or an
    /// exchange.
    pub(crate) fn is_to_be_rearmed(self) -> bool {
        self.is_replacing() || self.state() == State::Running && self.is_periodic()
    }

    /// Over for good, with no task inside.
    pub(crate) fn is_over(self) -> bool {
        matches!(
            self.state(),
            State::Expired | State::Cancelled | State::TaskTaken
        )
    }

    pub(crate) fn with_state(self, state: State) -> Word {
        Word(self.0 & !Self::STATE | state as u64)
    }

    pub(crate) fn with_due(self, due: Tick) -> Word {
        Word(self.0 & Self::LOW | due.0 << Self::DUE_SHIFT)
    }

    /// The word with the handle bits `bits` set.
    pub(crate) fn with_handle(self, bits: u64) -> Word {
        Word(self.0 | bits)
    }

    /// The word of a freed slot.
    pub(crate) const FREE: Word = Word(State::Free as u64);
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (state, kind, due, seq) = (self.state(), self.kind(), self.due(), self.seq());
        let (user, returned) = (self.has_user(), self.has_returned());
        write!(
            f,
            "{state:?} ({kind:?}) at {due:?}, seq {seq}, U {user}, R {returned}"
        )
    }
}

#[cfg(test)]
mod tests;

//! The state word of a slot: everything that decides who may touch it, in one atomic.
//!
//! ```text
//! bit 63                19 18        6  5   4   3  2     0
//!     ┌───────────────────┬───────────┬───┬───┬───┬───────┐
//!     │ due: 45           │ seq: 13   │ P │ R │ U │ state │
//!     └───────────────────┴───────────┴───┴───┴───┴───────┘
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | due | the boundary it fires at, [`Tick::NEVER`] for none |
//! | seq | goes up at each arming and with each new entry; an entry with another one is dead |
//! | P | periodic |
//! | R | the handle that `stop` returned exists |
//! | U | the user's handle exists |
//!
//! Because due and state are compared together by every compare-and-swap, a timeout cannot be
//! claimed for a deadline it no longer has: never early, by construction.

use crate::entry::Entry;
use crate::tick::Tick;
use std::fmt;

/// The low three bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum State {
    /// On a free list, or in the hands of a call that is about to arm it. The task bytes are
    /// nobody's.
    Free = 0,
    /// Fires at `due`. The task belongs to whoever moves the word on.
    Armed = 1,
    /// Claimed; the task belongs to the runner. With P it comes back.
    Running = 2,
    /// P only: cancelled or stopped during its run. The runner ends it.
    Ending = 3,
    /// It has run; no task left.
    Expired = 4,
    /// It will not run; no task left.
    Cancelled = 5,
    /// Claimed by `stop`; the task is inside, and belongs to the handle that `stop` returned.
    Stopped = 6,
    /// It was Stopped, and its task has been taken out.
    Dismissed = 7,
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
    const SEQ_SHIFT: u32 = 6;
    const SEQ_MASK: u64 = (1 << Entry::SEQ_BITS) - 1;
    const DUE_SHIFT: u32 = 64 - Tick::BITS;
    const LOW: u64 = (1 << Self::DUE_SHIFT) - 1;

    /// What a runner adds to end a run: `Running` becomes `Expired`, `Ending` becomes `Cancelled`.
    pub(crate) const END_RUN: u64 = State::Expired as u64 - State::Running as u64;

    /// The word of a slot that has just been armed, with its user's handle.
    #[inline]
    pub(crate) fn armed(due: Tick, seq: u16, periodic: bool) -> Word {
        let periodic = if periodic { Self::PERIODIC } else { 0 };
        Word(
            due.0 << Self::DUE_SHIFT
                | u64::from(seq) << Self::SEQ_SHIFT
                | periodic
                | Self::USER
                | State::Armed as u64,
        )
    }

    #[inline]
    pub(crate) fn state(self) -> State {
        match self.0 & Self::STATE {
            0 => State::Free,
            1 => State::Armed,
            2 => State::Running,
            3 => State::Ending,
            4 => State::Expired,
            5 => State::Cancelled,
            6 => State::Stopped,
            _ => State::Dismissed,
        }
    }

    #[inline]
    pub(crate) fn due(self) -> Tick {
        Tick(self.0 >> Self::DUE_SHIFT)
    }

    #[inline]
    pub(crate) fn seq(self) -> u16 {
        (self.0 >> Self::SEQ_SHIFT & Self::SEQ_MASK) as u16
    }

    #[inline]
    pub(crate) fn is_periodic(self) -> bool {
        self.0 & Self::PERIODIC != 0
    }

    #[inline]
    pub(crate) fn has_user(self) -> bool {
        self.0 & Self::USER != 0
    }

    #[inline]
    pub(crate) fn has_returned(self) -> bool {
        self.0 & Self::RETURNED != 0
    }

    /// Over, and no handle looks at it any more: the one who made it so frees the slot.
    #[inline]
    pub(crate) fn is_abandoned(self) -> bool {
        self.is_over() && self.0 & (Self::USER | Self::RETURNED) == 0
    }

    /// Whether a handle other than `handle` exists.
    #[inline]
    pub(crate) fn has_other_handle(self, handle: u64) -> bool {
        self.0 & (Self::USER | Self::RETURNED) & !handle != 0
    }

    /// Over for good, with no task inside.
    #[inline]
    pub(crate) fn is_over(self) -> bool {
        matches!(
            self.state(),
            State::Expired | State::Cancelled | State::Dismissed
        )
    }

    #[inline]
    pub(crate) fn with_state(self, state: State) -> Word {
        Word(self.0 & !Self::STATE | state as u64)
    }

    #[inline]
    pub(crate) fn with_due(self, due: Tick) -> Word {
        Word(self.0 & Self::LOW | due.0 << Self::DUE_SHIFT)
    }

    /// The word with the handle bits `bits` set.
    #[inline]
    pub(crate) fn with_handle(self, bits: u64) -> Word {
        Word(self.0 | bits)
    }

    /// The word that goes with a new entry: the entries of before are dead to it.
    #[inline]
    pub(crate) fn with_next_seq(self) -> Word {
        let seq = u64::from(self.next_seq());
        Word(self.0 & !(Self::SEQ_MASK << Self::SEQ_SHIFT) | seq << Self::SEQ_SHIFT)
    }

    /// `seq` + 1, in its 13 bits.
    #[inline]
    pub(crate) fn next_seq(self) -> u16 {
        ((u64::from(self.seq()) + 1) & Self::SEQ_MASK) as u16
    }

    /// The word of a slot that is given back: only `seq` goes on.
    #[inline]
    pub(crate) fn freed(self) -> Word {
        Word(u64::from(self.seq()) << Self::SEQ_SHIFT)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} at {:?}, seq {}",
            self.state(),
            self.due(),
            self.seq()
        )?;
        let flags = [
            (self.is_periodic(), 'P'),
            (self.has_returned(), 'R'),
            (self.has_user(), 'U'),
        ];
        flags
            .iter()
            .filter(|(set, _)| *set)
            .try_for_each(|(_, name)| write!(f, " {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [State; 8] = [
        State::Free,
        State::Armed,
        State::Running,
        State::Ending,
        State::Expired,
        State::Cancelled,
        State::Stopped,
        State::Dismissed,
    ];

    /// The fields of a word, one by one.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Fields {
        due: u64,
        seq: u16,
        periodic: bool,
        returned: bool,
        user: bool,
        state: State,
    }

    impl Fields {
        /// The layout as the module's head draws it.
        fn word(self) -> Word {
            let flags = u64::from(self.periodic) * 32
                + u64::from(self.returned) * 16
                + u64::from(self.user) * 8;
            Word(self.due * (1 << 19) + u64::from(self.seq) * 64 + flags + self.state as u64)
        }

        /// Every state with every combination of flags, and telling values of the rest.
        fn all() -> impl Iterator<Item = Fields> {
            let numbers = [0, 1, 0x1234_5678_9abc, Tick::NEVER.0]
                .into_iter()
                .flat_map(|due| [0, 1, 0x1555, 0x1fff].map(|seq| (due, seq)));
            numbers.flat_map(|(due, seq)| {
                STATES.into_iter().flat_map(move |state| {
                    (0..8).map(move |flags| Fields {
                        due,
                        seq,
                        periodic: flags & 1 != 0,
                        returned: flags & 2 != 0,
                        user: flags & 4 != 0,
                        state,
                    })
                })
            })
        }
    }

    #[test]
    fn each_field_is_read_from_its_own_bits() {
        for fields in Fields::all() {
            let word = fields.word();
            let read = Fields {
                due: word.due().0,
                seq: word.seq(),
                periodic: word.is_periodic(),
                returned: word.has_returned(),
                user: word.has_user(),
                state: word.state(),
            };
            assert_eq!(read, fields);
            let over = [State::Expired, State::Cancelled, State::Dismissed].contains(&fields.state);
            assert_eq!(word.is_over(), over);
            let abandoned = over && !fields.user && !fields.returned;
            assert_eq!(word.is_abandoned(), abandoned);
            assert_eq!(word.has_other_handle(Word::USER), fields.returned);
            assert_eq!(word.has_other_handle(Word::RETURNED), fields.user);
        }
    }

    #[test]
    fn each_change_leaves_the_other_fields_alone() {
        for fields in Fields::all() {
            let word = fields.word();
            for state in STATES {
                let expected = Fields { state, ..fields };
                assert_eq!(word.with_state(state), expected.word());
            }
            for due in [0, 1, 0x0fed_cba9_8765, Tick::NEVER.0] {
                let expected = Fields { due, ..fields };
                assert_eq!(word.with_due(Tick(due)), expected.word());
            }
            let user = Fields {
                user: true,
                ..fields
            };
            assert_eq!(word.with_handle(Word::USER), user.word());
            let returned = Fields {
                returned: true,
                ..fields
            };
            assert_eq!(word.with_handle(Word::RETURNED), returned.word());
            let seq = (fields.seq + 1) % 0x2000;
            assert_eq!(word.next_seq(), seq);
            assert_eq!(word.with_next_seq(), Fields { seq, ..fields }.word());
            assert_eq!(word.freed(), Word(u64::from(fields.seq) * 64));
        }
    }

    #[test]
    fn a_slot_is_armed_with_its_users_handle() {
        for (due, seq) in [(0, 0), (9, 0x1fff), (Tick::NEVER.0, 0x1555)] {
            for periodic in [false, true] {
                let expected = Fields {
                    due,
                    seq,
                    periodic,
                    returned: false,
                    user: true,
                    state: State::Armed,
                };
                assert_eq!(Word::armed(Tick(due), seq, periodic), expected.word());
            }
        }
    }

    #[test]
    fn a_runner_ends_both_kinds_of_run_with_one_addition() {
        let running = Word::armed(Tick(7), 3, false).with_state(State::Running);
        assert_eq!(
            Word(running.0 + Word::END_RUN),
            running.with_state(State::Expired)
        );
        let ending = running.with_state(State::Ending);
        assert_eq!(
            Word(ending.0 + Word::END_RUN),
            ending.with_state(State::Cancelled)
        );
    }

    #[test]
    fn a_word_is_shown_field_by_field() {
        let word = Word::armed(Tick(7), 3, true);
        assert_eq!(format!("{word:?}"), "Armed at tick 7, seq 3 P U");
        let stopped = word.with_state(State::Stopped).with_handle(Word::RETURNED);
        assert_eq!(format!("{stopped:?}"), "Stopped at tick 7, seq 3 P R U");
        assert_eq!(format!("{:?}", word.freed()), "Free at tick 0, seq 3");
    }
}

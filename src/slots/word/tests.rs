use super::*;

const STATES: [State; 8] = [
    State::Free,
    State::Armed,
    State::Running,
    State::CancelRequested,
    State::Expired,
    State::Cancelled,
    State::Stopped,
    State::TaskTaken,
];

const KINDS: [Kind; 4] = [Kind::Once, Kind::Periodic, Kind::Future, Kind::Value];

/// The fields of a word, one by one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Fields {
    due: u64,
    seq: u64,
    kind: Kind,
    returned: bool,
    user: bool,
    state: State,
}

impl Fields {
    /// The layout as the module's head draws it.
    fn word(self) -> Word {
        let kind = match self.kind {
            Kind::Once => 0,
            Kind::Periodic => 32,
            Kind::Future => 64,
            Kind::Value => 128,
        };
        let flags = kind + u64::from(self.returned) * 16 + u64::from(self.user) * 8;
        Word(self.due * (1 << 19) + self.seq * 256 + flags + self.state as u64)
    }

    /// Every state with every combination of flags, and telling values of the rest.
    fn all() -> impl Iterator<Item = Fields> {
        let numbers = [0, 1, 0x1234_5678_9abc, Tick::NEVER.0]
            .into_iter()
            .flat_map(|due| [0, 1, 0x555, 0x7ff].map(|seq| (due, seq)));
        numbers.flat_map(|(due, seq)| {
            STATES.into_iter().flat_map(move |state| {
                (0..16).map(move |flags: usize| Fields {
                    due,
                    seq,
                    kind: KINDS[flags / 4],
                    returned: flags & 1 != 0,
                    user: flags & 2 != 0,
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
            kind: word.kind(),
            returned: word.has_returned(),
            user: word.has_user(),
            state: word.state(),
        };
        assert_eq!(read, fields);
        assert_eq!(word.is_periodic(), fields.kind == Kind::Periodic);
        let over = [State::Expired, State::Cancelled, State::TaskTaken].contains(&fields.state);
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
        for (due, stamp) in [(0, 0), (9, 0xabc_d123)] {
            let expected = Fields {
                due,
                seq: stamp & 0x7ff,
                state: State::Armed,
                ..fields
            };
            assert_eq!(word.rearmed(Tick(due), stamp), expected.word());
        }
    }
}

#[test]
fn a_slot_is_armed_with_its_users_handle() {
    for (due, stamp) in [(0, 0), (9, 0x1_2fff), (Tick::NEVER.0, 0x555)] {
        for kind in KINDS {
            let expected = Fields {
                due,
                seq: stamp & 0x7ff,
                kind,
                returned: false,
                user: true,
                state: State::Armed,
            };
            assert_eq!(Word::armed(Tick(due), stamp, kind), expected.word());
        }
    }
}

#[test]
fn a_runner_ends_both_kinds_of_run_with_one_addition() {
    let running = Word::armed(Tick(7), 3, Kind::Once).with_state(State::Running);
    assert_eq!(
        Word(running.0 + Word::END_RUN),
        running.with_state(State::Expired)
    );
    let ending = running.with_state(State::CancelRequested);
    assert_eq!(
        Word(ending.0 + Word::END_RUN),
        ending.with_state(State::Cancelled)
    );
}

#[test]
fn a_word_is_shown_field_by_field() {
    let word = Word::armed(Tick(7), 3, Kind::Periodic);
    assert_eq!(
        format!("{word:?}"),
        "Armed (Periodic) at tick 7, seq 3, U true, R false"
    );
    let stopped = word.with_state(State::Stopped).with_handle(Word::RETURNED);
    assert_eq!(
        format!("{stopped:?}"),
        "Stopped (Periodic) at tick 7, seq 3, U true, R true"
    );
    assert_eq!(
        format!("{:?}", Word::FREE),
        "Free (Once) at tick 0, seq 0, U false, R false"
    );
}

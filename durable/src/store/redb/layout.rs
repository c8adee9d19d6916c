//! The tables of the file and the bytes in them.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | `format`: the version of this layout; `last`: no number above it has been given out, for ids and tokens alike; `kinds`: checksum of the next table, if it is there |
//! | `kinds` | name | number |
//! | `bodies` | id | checksum (4 bytes), the length of the key + 1, or 0 without one (2, the highest bit set in a run of a recurring job), both little-endian, key, payload |
//! | `due` | place | attempts in the upper half, checksum in the lower |
//! | `suspects` | place | the same |
//! | `recurring` | place | the same |
//! | `rules` | id of a recurring job | checksum (4 bytes), the text of its rule |
//! | `keys` | key | place, and which table that is in: 0 `due`, 1 `suspects`, 2 `recurring` |
//! | `claims` | id | token, place, attempts, 1 if the attempt is counted, checksum |
//! | `letters` | id | kind, attempts, due time, time of death, last error |
//! | `errors` | id | the reason of the last attempt of a job that is not dead |
//! | `paused` | kind | |
//!
//! A *place* is kind (4 bytes), due time (8) and id (8), big-endian, the due time with its sign bit inverted: bytes sort as (kind, due, id)
//! do. So the due times of one kind lie side by side, and a kind without a handler is never met.
//!
//! The body of a job is written once: claiming moves an entry of 20 bytes from `due` to `claims`, whatever the payload.
//!
//! Format 1 had no checksums and no times of death: `jobs`, `waiting`, `interrupted`, `claimed` and `dead` in the place of the tables here. It is migrated when it is opened.

use std::borrow::Cow;

use ::redb::TableDefinition;

use super::super::Id;
use crate::broken::{self, Defect};
use crate::job::state::{Standing, State};
use crate::time::Millis;

/// Kind, due time and id, as bytes that sort as they do.
pub(super) type Place = [u8; 20];

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const KINDS: TableDefinition<&str, u32> = TableDefinition::new("kinds");
pub(super) const BODIES: TableDefinition<u64, &[u8]> = TableDefinition::new("bodies");
pub(super) const DUE: TableDefinition<&Place, u64> = TableDefinition::new("due");
pub(super) const SUSPECTS: TableDefinition<&Place, u64> = TableDefinition::new("suspects");
pub(super) const RECURRING: TableDefinition<&Place, u64> = TableDefinition::new("recurring");
pub(super) const RULES: TableDefinition<u64, &[u8]> = TableDefinition::new("rules");
pub(super) const KEYS: TableDefinition<&str, &[u8; 21]> = TableDefinition::new("keys");
pub(super) const CLAIMS: TableDefinition<u64, &[u8; 37]> = TableDefinition::new("claims");
pub(super) const LETTERS: TableDefinition<u64, &[u8]> = TableDefinition::new("letters");
pub(super) const PAUSED: TableDefinition<&str, ()> = TableDefinition::new("paused");
pub(super) const ERRORS: TableDefinition<u64, &str> = TableDefinition::new("errors");

/// The indexes of due times. Their places here are the numbers that values of `keys` have.
pub(super) const INDEXES: [(TableDefinition<&Place, u64>, State); 3] = [
    (DUE, State::Waiting),
    (SUSPECTS, State::Suspect),
    (RECURRING, State::Recurring),
];

/// The version of this layout.
pub(super) const FORMAT: u64 = 2;

/// Every table of this format, and how many of them are in every file: others were added later, and are made when such a file is opened. A table that is missing after that, or has
/// another name, is a damaged one, whose rows nobody would miss.
pub(super) const TABLES: [&str; 12] = [
    "meta",
    "kinds",
    "bodies",
    "due",
    "suspects",
    "keys",
    "claims",
    "letters",
    "errors",
    "paused",
    "recurring",
    "rules",
];
pub(super) const FIRST_TABLES: usize = 9;

/// Of format 1.
pub(super) mod old {
    use super::Place;
    use ::redb::TableDefinition;

    pub(in super::super) const FORMAT: u64 = 1;
    pub(in super::super) const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
    pub(in super::super) const WAITING: TableDefinition<&Place, u32> =
        TableDefinition::new("waiting");
    pub(in super::super) const INTERRUPTED: TableDefinition<&Place, u32> =
        TableDefinition::new("interrupted");
    pub(in super::super) const CLAIMED: TableDefinition<u64, &[u8; 33]> =
        TableDefinition::new("claimed");
    pub(in super::super) const DEAD: TableDefinition<u64, &[u8]> = TableDefinition::new("dead");
}

/// A checksum. Every step is a bijection of what it has and of what it adds, so a change within eight bytes shows, but for the fold of 64 bits to 32.
pub(super) fn check(start: u64, bytes: &[u8]) -> u32 {
    let mut sum = start ^ 0x9e37_79b9_7f4a_7c15;
    let mut mix = |word: u64| {
        sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        mix(u64::from_le_bytes(array(word)));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(u64::from_le_bytes(last));
    mix(bytes.len() as u64);
    (sum ^ (sum >> 32)) as u32
}

/// The checksum of the table of kinds.
pub(super) fn check_kinds<'a>(kinds: impl Iterator<Item = (&'a str, u32)>) -> u64 {
    let sums = kinds.map(|(name, number)| check(number.into(), name.as_bytes()));
    sums.fold(0, |all, sum| all ^ u64::from(sum))
}

pub(super) fn place(kind: u32, due: Millis, id: Id) -> Place {
    let mut place = [0; 20];
    place[..4].copy_from_slice(&kind.to_be_bytes());
    place[4..12].copy_from_slice(&(due ^ Millis::MIN).to_be_bytes());
    place[12..].copy_from_slice(&id.to_be_bytes());
    place
}

/// The first bytes of a value.
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[..N]);
    array
}

pub(super) fn kind_of(place: &Place) -> u32 {
    u32::from_be_bytes(array(place))
}

pub(super) fn due_of(place: &Place) -> Millis {
    Millis::from_be_bytes(array(&place[4..])) ^ Millis::MIN
}

pub(super) fn id_of(place: &Place) -> Id {
    Id::from_be_bytes(array(&place[12..]))
}

/// The value of an entry of an index.
pub(super) fn entry(place: &Place, attempts: u32) -> u64 {
    u64::from(attempts) << 32 | u64::from(check(attempts.into(), place))
}

/// The attempts of an entry, and whether its checksum is right.
pub(super) fn read_entry(place: &Place, value: u64) -> (u32, bool) {
    let attempts = (value >> 32) as u32;
    (attempts, entry(place, attempts) == value)
}

/// The value of a key that is held.
pub(super) fn holder(place: &Place, state: State) -> [u8; 21] {
    let number = INDEXES.iter().position(|(_, held)| *held == state);
    let mut value = [0; 21];
    value[..20].copy_from_slice(place);
    value[20] = number.unwrap_or_default() as u8;
    value
}

/// The place of what holds a key, and the state that this means.
pub(super) fn read_holder(value: &[u8; 21]) -> (Place, State) {
    let number = usize::from(value[20]).min(INDEXES.len() - 1);
    (array(value), INDEXES[number].1)
}

/// How the job of an entry stands.
pub(super) fn standing(place: &Place, value: u64, state: State) -> Standing {
    Standing {
        state,
        due: due_of(place),
        attempts: read_entry(place, value).0,
    }
}

/// Marks the length of a key that is shown and not held.
const RUN: u16 = 1 << 15;

/// The value of a job: key and payload. `run`: of a recurring job.
pub(super) fn body(id: Id, key: Option<&str>, run: bool, payload: &[u8]) -> Vec<u8> {
    let key_bytes = key.unwrap_or_default().as_bytes();
    let length = key.map_or(0, |key| key.len() as u16 + 1) | if run { RUN } else { 0 };
    let mut body = Vec::with_capacity(6 + key_bytes.len() + payload.len());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(key_bytes);
    body.extend_from_slice(payload);
    let sum = check(id, &body[4..]);
    body[..4].copy_from_slice(&sum.to_le_bytes());
    body
}

/// What is in the value of a job.
pub(super) struct Body<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) payload: &'a [u8],
    /// It is a run of a recurring job.
    pub(super) run: bool,
    /// Its checksum is right.
    pub(super) sound: bool,
}

pub(super) fn read_body(id: Id, value: &[u8]) -> Body<'_> {
    let sound = value
        .split_first_chunk()
        .is_some_and(|(sum, rest)| u32::from_le_bytes(*sum) == check(id, rest))
        || broken::is(Defect::Unchecked);
    let (key, payload) = parts(value.get(4..).unwrap_or_default());
    Body {
        key,
        payload,
        run: value.get(5).is_some_and(|high| high & 0x80 != 0),
        sound,
    }
}

/// Key and payload, which is also all that format 1 had. A damaged value has neither.
pub(super) fn parts(body: &[u8]) -> (Option<&str>, &[u8]) {
    let Some((length, rest)) = body.split_first_chunk() else {
        return (None, &[]);
    };
    match u16::from_le_bytes(*length) & !RUN {
        0 => (None, rest),
        length => {
            let (key, payload) = rest.split_at(usize::from(length - 1).min(rest.len()));
            (std::str::from_utf8(key).ok(), payload)
        }
    }
}

/// A value of `rules`.
pub(super) fn rule(id: Id, text: &str) -> Vec<u8> {
    let sum = check(id, text.as_bytes()).to_le_bytes();
    [&sum, text.as_bytes()].concat()
}

/// The text of a rule; `None` if its checksum is wrong.
pub(super) fn read_rule(id: Id, value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value.get(4..)?).ok()?;
    (rule(id, text) == value).then_some(text)
}

/// A value of `claims`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claimed {
    pub(super) token: u64,
    pub(super) place: Place,
    pub(super) attempts: u32,
    pub(super) charged: bool,
}

impl Claimed {
    pub(super) fn encode(&self) -> [u8; 37] {
        let mut value = [0; 37];
        value[..8].copy_from_slice(&self.token.to_le_bytes());
        value[8..28].copy_from_slice(&self.place);
        value[28..32].copy_from_slice(&self.attempts.to_le_bytes());
        value[32] = u8::from(self.charged);
        let sum = check(0, &value[..33]);
        value[33..].copy_from_slice(&sum.to_le_bytes());
        value
    }

    /// From the first 33 bytes, which is all that format 1 had.
    pub(super) fn decode(value: &[u8]) -> Claimed {
        Claimed {
            token: u64::from_le_bytes(array(value)),
            place: array(&value[8..]),
            attempts: u32::from_le_bytes(array(&value[28..])),
            charged: value[32] != 0,
        }
    }

    /// Is its checksum right, and is it of this job?
    pub(super) fn is_sound(&self, id: Id, value: &[u8]) -> bool {
        self.encode() == *value && id_of(&self.place) == id
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            state: if self.charged {
                State::Charged
            } else {
                State::Claimed
            },
            due: due_of(&self.place),
            attempts: self.attempts,
        }
    }
}

/// A value of `letters`.
pub(super) struct Letter<'a> {
    pub(super) kind: u32,
    pub(super) attempts: u32,
    pub(super) due: Millis,
    pub(super) died: Millis,
    pub(super) error: Cow<'a, str>,
}

impl<'a> Letter<'a> {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(24 + self.error.len());
        value.extend_from_slice(&self.kind.to_le_bytes());
        value.extend_from_slice(&self.attempts.to_le_bytes());
        value.extend_from_slice(&self.due.to_le_bytes());
        value.extend_from_slice(&self.died.to_le_bytes());
        value.extend_from_slice(self.error.as_bytes());
        value
    }

    /// A damaged value is filled up with zeros.
    pub(super) fn decode(value: &'a [u8]) -> Letter<'a> {
        let mut head = [0; 24];
        let length = value.len().min(24);
        head[..length].copy_from_slice(&value[..length]);
        Letter {
            kind: u32::from_le_bytes(array(&head)),
            attempts: u32::from_le_bytes(array(&head[4..])),
            due: Millis::from_le_bytes(array(&head[8..])),
            died: Millis::from_le_bytes(array(&head[16..])),
            error: String::from_utf8_lossy(&value[length..]),
        }
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            state: State::Dead,
            due: self.due,
            attempts: self.attempts,
        }
    }
}

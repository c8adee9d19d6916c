//! The tables of the file and the bytes in them.
//!
//! | table | key | value |
//! |---|---|---|
//! | `meta` | name | `format`: the version of this layout; `last`: no number above it has been given out, for ids and tokens alike |
//! | `kinds` | name | number |
//! | `jobs` | id | the length of the key + 1, or 0 without one (2 bytes, little-endian), key, payload |
//! | `waiting` | place | attempts |
//! | `interrupted` | place | attempts |
//! | `keys` | key | place, 1 if that is among the interrupted ones |
//! | `claimed` | id | token, place, attempts, 1 if the attempt is counted |
//! | `dead` | id | kind, attempts, last error |
//!
//! A *place* is kind (4 bytes), due time (8) and id (8), big-endian, the due time with its sign bit inverted: bytes sort as (kind, due, id)
//! do. So the due times of one kind lie side by side, and a kind without a handler is never met.
//!
//! The body of a job is written once: claiming moves an entry of 20 bytes from `waiting` to `claimed`, whatever the payload.

use std::borrow::Cow;

use ::redb::TableDefinition;

use super::super::Id;
use crate::time::Millis;

/// Kind, due time and id, as bytes that sort as they do.
pub(super) type Place = [u8; 20];

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const KINDS: TableDefinition<&str, u32> = TableDefinition::new("kinds");
pub(super) const JOBS: TableDefinition<u64, &[u8]> = TableDefinition::new("jobs");
pub(super) const WAITING: TableDefinition<&Place, u32> = TableDefinition::new("waiting");
pub(super) const INTERRUPTIONS: TableDefinition<&Place, u32> = TableDefinition::new("interrupted");
pub(super) const KEYS: TableDefinition<&str, &[u8; 21]> = TableDefinition::new("keys");
pub(super) const CLAIMED: TableDefinition<u64, &[u8; 33]> = TableDefinition::new("claimed");
pub(super) const DEAD: TableDefinition<u64, &[u8]> = TableDefinition::new("dead");

/// The version of this layout.
pub(super) const FORMAT: u64 = 1;

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

/// The value of a job: key and payload.
pub(super) fn body(key: Option<&str>, payload: &[u8]) -> Vec<u8> {
    let key_bytes = key.unwrap_or_default().as_bytes();
    let length = key.map_or(0, |key| key.len() as u16 + 1);
    let mut body = Vec::with_capacity(2 + key_bytes.len() + payload.len());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(key_bytes);
    body.extend_from_slice(payload);
    body
}

/// Key and payload of a value. A damaged one has neither.
pub(super) fn parts(body: &[u8]) -> (Option<&str>, &[u8]) {
    let Some((length, rest)) = body.split_first_chunk() else {
        return (None, &[]);
    };
    match u16::from_le_bytes(*length) {
        0 => (None, rest),
        length => {
            let (key, payload) = rest.split_at(usize::from(length - 1).min(rest.len()));
            (std::str::from_utf8(key).ok(), payload)
        }
    }
}

/// A value of `claimed`.
pub(super) struct Claimed {
    pub(super) token: u64,
    pub(super) place: Place,
    pub(super) attempts: u32,
    /// Taken up alone: the attempt is in `attempts` already.
    pub(super) alone: bool,
}

impl Claimed {
    pub(super) fn encode(&self) -> [u8; 33] {
        let mut value = [0; 33];
        value[..8].copy_from_slice(&self.token.to_le_bytes());
        value[8..28].copy_from_slice(&self.place);
        value[28..32].copy_from_slice(&self.attempts.to_le_bytes());
        value[32] = u8::from(self.alone);
        value
    }

    pub(super) fn decode(value: &[u8; 33]) -> Claimed {
        Claimed {
            token: u64::from_le_bytes(array(value)),
            place: array(&value[8..]),
            attempts: u32::from_le_bytes(array(&value[28..])),
            alone: value[32] != 0,
        }
    }
}

pub(super) fn encode_dead(kind: u32, attempts: u32, error: &str) -> Vec<u8> {
    [
        &kind.to_le_bytes(),
        &attempts.to_le_bytes(),
        error.as_bytes(),
    ]
    .concat()
}

pub(super) fn decode_dead(value: &[u8]) -> Option<(u32, u32, Cow<'_, str>)> {
    let (kind, rest) = value.split_first_chunk()?;
    let (attempts, error) = rest.split_first_chunk()?;
    Some((
        u32::from_le_bytes(*kind),
        u32::from_le_bytes(*attempts),
        String::from_utf8_lossy(error),
    ))
}

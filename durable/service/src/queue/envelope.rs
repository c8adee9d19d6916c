//! A job as it is stored.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::secrets::random_hex;

/// A job as it is stored: where to call, and what to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Envelope {
    /// Sent with every call for it: the receiver can tell a second one by it.
    pub id: String,
    pub callback: String,
    /// A job that comes again: every so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Every>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    pub payload: Box<RawValue>,
}

/// When a job comes again, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Every {
    pub ms: u64,
    /// The first run, since 1970: the others are whole periods later.
    pub first: u64,
}

impl Every {
    /// The first run after this time.
    pub fn next(self, now: u64) -> u64 {
        match now.checked_sub(self.first) {
            None => self.first,
            Some(since) => self.first + (since / self.ms + 1) * self.ms,
        }
    }
}

impl Envelope {
    pub fn new(
        callback: String,
        headers: BTreeMap<String, String>,
        payload: Box<RawValue>,
    ) -> Envelope {
        Envelope {
            id: random_hex::<16>(),
            callback,
            every: None,
            headers,
            payload,
        }
    }

    /// The call of a recurring job that was due at this time, in milliseconds since 1970. Its id is the same however often it is made.
    #[must_use]
    pub fn of_run(&self, due: u64) -> Envelope {
        Envelope {
            id: format!("{}-{due}", self.id),
            every: None,
            ..self.clone()
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Envelope, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("not a job of this service: {error}"))
    }

    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text can be written as JSON")
    }

    /// Does it ask for the same call?
    pub fn asks_the_same(&self, other: &Envelope) -> bool {
        self.callback == other.callback
            && self.headers == other.headers
            && self.every.map(|every| every.ms) == other.every.map(|every| every.ms)
            && self.payload.get() == other.payload.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_keep_their_phase_and_what_was_missed_is_left_out() {
        let every = Every {
            ms: 1000,
            first: 5500,
        };
        for (now, next) in [
            (0, 5500),
            (5499, 5500),
            (5500, 6500),
            (5501, 6500),
            (6499, 6500),
            (99_999, 100_500),
        ] {
            assert_eq!(every.next(now), next, "{now}");
        }
    }
}

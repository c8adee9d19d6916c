//! How long a process may run what it has claimed in a store that it shares.

#![cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "no other store is shared")
)]

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;

use super::Id;

/// The claims that this process holds, by token, and when each lapses. The store thread keeps the list, the handlers' threads ask it.
///
/// The times are on the safe side: counted from before the request was sent that took or renewed the lease, so they end before the lease does.
#[derive(Debug, Default)]
pub(crate) struct Leases(Mutex<HashMap<u64, Held>>);

#[derive(Debug, Clone, Copy)]
struct Held {
    id: Id,
    until: Instant,
}

impl Leases {
    /// May a handler begin? False if the claim has lapsed or was taken over: another process may run the job.
    pub(crate) fn holds(&self, token: u64) -> bool {
        self.0
            .lock()
            .get(&token)
            .is_some_and(|held| Instant::now() < held.until)
    }
}

#[cfg(feature = "postgres")]
impl Leases {
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    pub(super) fn add(&self, id: Id, token: u64, until: Instant) {
        self.0.lock().insert(token, Held { id, until });
    }

    pub(super) fn remove(&self, token: u64) {
        self.0.lock().remove(&token);
    }

    /// Ids and tokens, as two columns.
    pub(super) fn held(&self) -> (Vec<i64>, Vec<i64>) {
        let held = self.0.lock();
        held.iter()
            .map(|(&token, held)| (held.id as i64, token as i64))
            .unzip()
    }

    /// Those among `asked` that were renewed last until then; the others are lost. Returns how many.
    pub(super) fn renewed(&self, asked: &[i64], renewed: &[i64], until: Instant) -> usize {
        let mut held = self.0.lock();
        for token in renewed {
            if let Some(held) = held.get_mut(&(*token as u64)) {
                held.until = until;
            }
        }
        let mut lost = 0;
        for token in asked {
            if !renewed.contains(token) && held.remove(&(*token as u64)).is_some() {
                lost += 1;
            }
        }
        lost
    }
}

//! Jobs of this process that were put off until their turn.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most that are kept in mind. A job beyond that counts as one that has just fallen due, and goes behind the others.
const MOST: usize = 100_000;

/// How long after its turn a job is forgotten that does not come: it was moved or cancelled.
const MISSING: Duration = Duration::from_secs(60);

/// By id, with the turn of each.
#[derive(Debug, Default)]
pub struct PutOff(Mutex<HashMap<String, Instant>>);

impl PutOff {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// False if there are too many.
    pub fn add(&self, id: &str, turn: Instant) -> bool {
        let mut jobs = self.lock();
        if jobs.len() >= MOST {
            let now = Instant::now();
            jobs.retain(|_, turn| *turn + MISSING > now);
        }
        let room = jobs.len() < MOST;
        if room {
            jobs.insert(id.to_owned(), turn);
        }
        room
    }

    /// Was it put off? It is no longer.
    pub fn take(&self, id: &str) -> bool {
        self.lock().remove(id).is_some()
    }

    pub fn has(&self, id: &str) -> bool {
        self.lock().contains_key(id)
    }
}

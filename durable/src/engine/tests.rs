//! The engine against a naive model, on clocks that jump, and with jobs that were interrupted.

mod clock;
mod group;
mod interrupted;
mod model;
mod options;
mod recurring;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hashed_wheel::ManualClock;
use parking_lot::Mutex;

use crate::builder::{kinds, start};
use crate::engine::LEAD;
use crate::error::{Error, StoreError};
use crate::store::memory::MemoryStore;
use crate::store::{
    Call, ClaimRequest, Committed, End, Judge, Polled, Reader, Recovered, Slot, Store,
};
use crate::time::{ManualWall, Millis, WallClock};
use crate::{DurableTimer, DurableTimerBuilder};

impl DurableTimerBuilder {
    /// Over any store and clock, with a lead of its own: for tests of this crate.
    pub(crate) fn open_manual(
        self,
        clock: &ManualClock,
        lead: Duration,
        store: impl FnOnce(&[String]) -> Box<dyn Store>,
    ) -> Result<DurableTimer, Error> {
        let settings = self.settings(lead)?;
        let store = store(&kinds(&settings));
        let wall = Arc::new(ManualWall(clock.clone()));
        start(settings, store, wall, Some(clock))
    }

    /// With threads, over any store and clock: for tests of this crate.
    pub(crate) fn open_with(
        self,
        wall: Arc<dyn WallClock>,
        store: impl FnOnce(&[String]) -> Box<dyn Store>,
    ) -> Result<DurableTimer, Error> {
        let settings = self.settings(LEAD)?;
        let store = store(&kinds(&settings));
        start(settings, store, wall, None)
    }
}

/// A store in memory with something done before each commit: for tests of the engine.
pub(crate) trait Wrapped: Send {
    fn inner(&self) -> MemoryStore;

    fn before_commit(&mut self, _: &[Call], _: &[End]) -> Result<(), StoreError> {
        Ok(())
    }
}

impl<W: Wrapped> Store for W {
    fn recover(&mut self, judge: Judge<'_>, now: Millis) -> Result<Recovered, StoreError> {
        self.inner().recover(judge, now)
    }

    fn commit(
        &mut self,
        calls: &[Call],
        ends: &[End],
        claim: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Committed, StoreError> {
        self.before_commit(calls, ends)?;
        self.inner().commit(calls, ends, claim, deadline)
    }

    fn poll(&mut self, judge: Judge<'_>, room: &[usize]) -> Result<Polled, StoreError> {
        self.inner().poll(judge, room)
    }

    fn slots(
        &mut self,
        until: Millis,
        limit: usize,
        room: &[usize],
    ) -> Result<Vec<Slot>, StoreError> {
        self.inner().slots(until, limit, room)
    }

    fn reopen(&mut self, held: &HashSet<u64>) -> Result<(), StoreError> {
        self.inner().reopen(held)
    }

    fn reader(&self) -> Arc<dyn Reader> {
        self.inner().reader()
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits for something that has to happen.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{what} does not happen"
        );
        std::thread::sleep(ms(2));
    }
}

/// What handlers note.
struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Notes<T> {
    fn clone(&self) -> Self {
        Notes(Arc::clone(&self.0))
    }
}

impl<T> Notes<T> {
    fn new() -> Self {
        Notes(Arc::default())
    }

    fn add(&self, note: T) {
        self.0.lock().push(note);
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock())
    }

    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

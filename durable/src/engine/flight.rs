//! Claims in memory: parked until they are due, ready for a thread, running.

use std::collections::{HashMap, VecDeque};

use parking_lot::{Condvar, Mutex};

use crate::store::{Claim, Id};

#[derive(Default)]
pub(super) struct Flight {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Not due yet; the wheel has a timeout for each.
    parked: HashMap<Id, Claim>,
    /// Due, in the order in which they fell due.
    ready: VecDeque<Claim>,
    /// Bytes of payload in both.
    bytes: usize,
    running: usize,
    closed: bool,
}

impl Flight {
    /// Claims that have not begun, and their bytes.
    pub(super) fn ahead(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.parked.len() + state.ready.len(), state.bytes)
    }

    pub(super) fn in_memory(&self) -> usize {
        let state = self.state.lock();
        state.parked.len() + state.ready.len() + state.running
    }

    /// Keeps a claim until it is due. Once closed it keeps nothing: false.
    pub(super) fn park(&self, claim: Claim) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        state.bytes += claim.payload.len();
        state.parked.insert(claim.id, claim);
        true
    }

    /// Hands a parked claim to the threads.
    pub(super) fn make_ready(&self, id: Id) {
        let mut state = self.state.lock();
        if let Some(claim) = state.parked.remove(&id) {
            state.ready.push_back(claim);
            self.changed.notify_one();
        }
    }

    /// Takes a parked claim to run it here.
    pub(super) fn take(&self, id: Id) -> Option<Claim> {
        let mut state = self.state.lock();
        let claim = state.parked.remove(&id)?;
        state.bytes -= claim.payload.len();
        state.running += 1;
        Some(claim)
    }

    /// Hands claims that are due to the threads.
    pub(super) fn push(&self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for claim in claims {
            state.bytes += claim.payload.len();
            state.ready.push_back(claim);
            self.changed.notify_one();
        }
    }

    /// The next claim for a thread, which waits for it; `None` at the end.
    pub(super) fn next(&self) -> Option<Claim> {
        let mut state = self.state.lock();
        loop {
            if let Some(claim) = state.ready.pop_front() {
                state.bytes -= claim.payload.len();
                state.running += 1;
                return Some(claim);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// A claim begins on the calling thread.
    pub(super) fn begin(&self) {
        self.state.lock().running += 1;
    }

    /// A run has ended.
    pub(super) fn end(&self) {
        self.state.lock().running -= 1;
    }

    /// After a failed write: lets the threads end, and forgets what has not begun; the store has it as claimed. A claim that was taken up alone is run
    /// all the same, as its attempt is counted already.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.parked.clear();
        state.ready.retain(|claim| claim.alone);
        state.bytes = state.ready.iter().map(|claim| claim.payload.len()).sum();
        self.changed.notify_all();
    }

    /// Lets the threads end, and returns what has not begun.
    pub(super) fn close(&self) -> Vec<Claim> {
        let mut state = self.state.lock();
        state.closed = true;
        state.bytes = 0;
        let ready = std::mem::take(&mut state.ready);
        let parked = std::mem::take(&mut state.parked);
        self.changed.notify_all();
        ready.into_iter().chain(parked.into_values()).collect()
    }
}

#[cfg(test)]
mod tests;

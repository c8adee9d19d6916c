//! The claims of this process: parked until they are due, ready for a thread, running, or ended and not yet stored as such.
//!
//! One list for all that is asked about a claim: whether its lease holds, whether one of them is a suspect, how many of a kind there are.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::LEAD;
use crate::store::{Claim, End, Id};
use crate::time::Moment;

#[derive(Default)]
pub(super) struct Claims {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By token, until the end is stored.
    held: HashMap<u64, Held>,
    /// Not due yet; the wheel has a timeout for each.
    parked: HashMap<u64, Claim>,
    /// Due, in the order in which they fell due, and since when.
    ready: VecDeque<(Instant, Claim)>,
    /// Dead jobs that have to be told of.
    dead: VecDeque<Id>,
    /// Bytes of payload in both.
    bytes: usize,
    running: usize,
    /// The most that run at a time: async ones hold no thread.
    most: usize,
    closed: bool,
    /// Among those held: suspects, and how many of each kind, by handler.
    charged: usize,
    by_kind: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    id: Id,
    handler: usize,
    charged: bool,
    /// `None`: it does not lapse.
    until: Option<Moment>,
}

/// What a thread has to do.
pub(super) enum Task {
    Run(Claim),
    TellDead(Id),
}

/// What the planner has to know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Handlers that run.
    pub(super) running: usize,
    /// Claims whose handlers have not begun, and their bytes.
    pub(super) ahead: usize,
    pub(super) bytes: usize,
    /// Some of these are due, and wait for a thread.
    pub(super) queued: bool,
    /// A suspect has been taken up and has not come to its end.
    pub(super) suspect: bool,
    /// By handler: claims that have not come to their end.
    pub(super) by_kind: Vec<usize>,
}

impl Claims {
    pub(super) fn new(kinds: usize, most: usize) -> Claims {
        let claims = Claims::default();
        {
            let mut state = claims.state.lock();
            state.by_kind = vec![0; kinds];
            state.most = most;
        }
        claims
    }

    /// A transaction has claimed it.
    pub(super) fn add(&self, claim: &Claim, handler: usize, until: Option<Moment>) {
        let held = Held {
            id: claim.id,
            handler,
            charged: claim.charged,
            until,
        };
        let mut state = self.state.lock();
        state.charged += usize::from(claim.charged);
        state.by_kind[handler] += 1;
        state.held.insert(claim.token, held);
    }

    /// Its end is stored.
    pub(super) fn remove(&self, token: u64) {
        self.state.lock().release(token);
    }

    /// As it is when these are stored.
    pub(super) fn load(&self, ends: &[End]) -> Load {
        let state = self.state.lock();
        let mut charged = state.charged;
        let mut by_kind = state.by_kind.clone();
        for held in ends.iter().filter_map(|end| state.held.get(&end.token)) {
            charged -= usize::from(held.charged);
            by_kind[held.handler] -= 1;
        }
        Load {
            running: state.running,
            ahead: state.parked.len() + state.ready.len(),
            bytes: state.bytes,
            queued: !state.ready.is_empty(),
            suspect: charged > 0,
            by_kind,
        }
    }

    /// Claimed, and running or about to.
    pub(super) fn in_memory(&self) -> usize {
        let state = self.state.lock();
        state.parked.len() + state.ready.len() + state.running
    }

    pub(super) fn running(&self) -> usize {
        self.state.lock().running
    }

    /// May a handler act for this claim? False if it has lapsed or was taken over: another process may run the job.
    pub(super) fn holds(&self, token: u64) -> bool {
        let held = self.state.lock().held.get(&token).copied();
        held.is_some_and(|held| held.until.is_none_or(|until| Moment::now() < until))
    }

    pub(super) fn held(&self) -> Vec<(Id, u64)> {
        let state = self.state.lock();
        let held = state.held.iter();
        held.map(|(&token, held)| (held.id, token)).collect()
    }

    /// Of those that were asked for, these were renewed; the others are lost, and do not begin. Their number.
    pub(super) fn renewed(
        &self,
        asked: &[(Id, u64)],
        renewed: &HashSet<u64>,
        until: Moment,
    ) -> usize {
        let mut state = self.state.lock();
        let mut lost = 0;
        for &(_, token) in asked {
            if renewed.contains(&token) {
                if let Some(held) = state.held.get_mut(&token) {
                    held.until = Some(until);
                }
            } else if state.release(token) {
                lost += 1;
                if let Some(claim) = state.parked.remove(&token) {
                    state.bytes -= claim.payload.len();
                }
            }
        }
        lost
    }

    /// Keeps a claim until it is due. Once closed it keeps nothing, and gives it back.
    pub(super) fn park(&self, claim: Claim) -> Result<(), Claim> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(claim);
        }
        state.bytes += claim.payload.len();
        state.parked.insert(claim.token, claim);
        Ok(())
    }

    /// Hands a parked claim to the threads. True if it is the first one for which no thread is free: it may have to be given back.
    pub(super) fn make_ready(&self, token: u64) -> bool {
        let mut state = self.state.lock();
        let Some(claim) = state.parked.remove(&token) else {
            return false;
        };
        state.ready.push_back((Instant::now(), claim));
        self.changed.notify_one();
        state.running + state.ready.len() == state.most + 1
    }

    /// Hands claims that are due to the threads.
    pub(super) fn push(&self, claims: Vec<Claim>) {
        if claims.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        let now = Instant::now();
        for claim in claims {
            state.bytes += claim.payload.len();
            state.ready.push_back((now, claim));
            self.changed.notify_one();
        }
    }

    /// The next task of a thread, which waits for it; `None` at the end.
    pub(super) fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.begin(Some(Instant::now())) {
                return Some(task);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// The next task on a manual clock, if there is one.
    pub(super) fn try_next(&self) -> Option<Task> {
        self.state.lock().begin(None)
    }

    pub(super) fn tell_dead(&self, ids: &[Id]) {
        self.state.lock().dead.extend(ids);
        self.changed.notify_all();
    }

    /// A run has ended. `tell` tells the store thread so, before the run stops counting: a store thread that is stopping and sees no run has been
    /// told of every end.
    pub(super) fn ended(&self, tell: impl FnOnce()) {
        let mut state = self.state.lock();
        tell();
        if state.running >= state.most && !state.ready.is_empty() {
            self.changed.notify_one();
        }
        state.running -= 1;
    }

    /// If something has waited for a thread for so long that it has to be given back: takes that and what is behind it, which would overtake it.
    pub(super) fn overstayed(&self, now: Instant) -> Vec<Claim> {
        let mut state = self.state.lock();
        if !state.is_overstayed(now) {
            return Vec::new();
        }
        let ready = std::mem::take(&mut state.ready);
        let claims: Vec<Claim> = ready.into_iter().map(|(_, claim)| claim).collect();
        state.bytes -= claims
            .iter()
            .map(|claim| claim.payload.len())
            .sum::<usize>();
        claims
    }

    /// How long until something has to be given back.
    pub(super) fn until_overstayed(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        let (since, _) = state.ready.front()?;
        Some((*since + LEAD).saturating_duration_since(now))
    }

    /// Lets the threads end, and returns what has not begun.
    pub(super) fn close(&self) -> Vec<Claim> {
        let mut state = self.state.lock();
        state.closed = true;
        state.bytes = 0;
        let ready = std::mem::take(&mut state.ready);
        let parked = std::mem::take(&mut state.parked);
        self.changed.notify_all();
        let ready = ready.into_iter().map(|(_, claim)| claim);
        ready.chain(parked.into_values()).collect()
    }
}

impl State {
    fn release(&mut self, token: u64) -> bool {
        let Some(held) = self.held.remove(&token) else {
            return false;
        };
        self.charged -= usize::from(held.charged);
        self.by_kind[held.handler] -= 1;
        true
    }

    /// Has a claim waited for a thread for so long that it is given back?
    fn is_overstayed(&self, now: Instant) -> bool {
        let front = self.ready.front();
        front.is_some_and(|(since, _)| now.saturating_duration_since(*since) >= LEAD)
    }

    /// What a thread does at this time. What has overstayed does not begin: the store thread, which may be in a long commit, has to give it back.
    fn begin(&mut self, now: Option<Instant>) -> Option<Task> {
        let over = now.is_some_and(|now| self.is_overstayed(now));
        let next = if self.running < self.most && !over {
            self.ready.pop_front()
        } else {
            None
        };
        let Some((_, claim)) = next else {
            return self.dead.pop_front().map(Task::TellDead);
        };
        self.bytes -= claim.payload.len();
        self.running += 1;
        Some(Task::Run(claim))
    }
}

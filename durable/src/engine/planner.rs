//! What to claim and when to look again: pure, from what the store and the claims say.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::claims::Load;
use crate::policy::scramble;
use crate::stats::Told;
use crate::store::{ClaimRequest, Earliest, earlier};
use crate::time::{Millis, NEVER};

/// The most claims whose handlers have not begun, whatever the pace.
const MOST_AHEAD: usize = 1024;

/// The most bytes of payload in such claims, but for the last of them.
const AHEAD_BYTES: usize = 16 << 20;

/// What was finished within this time says how many claims find a thread within it.
const PACE: Duration = Duration::from_millis(50);

/// The pauses after errors of the store: doubled each time, up to the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

pub(super) struct Planner {
    threads: usize,
    /// How long before it is due a job may be claimed, in milliseconds.
    lead: Millis,
    /// By handler: how many of its kind may be claimed at a time.
    concurrency: Vec<usize>,
    /// By handler: its kind is paused.
    paused: Vec<bool>,
    /// Lower bounds of what is stored.
    next: Earliest,
    /// Runs that have ended, and when that was stored.
    finished: VecDeque<(Instant, usize)>,
    failures: u32,
    told: Told,
    /// Nothing is tried before, unless somebody calls.
    retry: Option<Instant>,
}

impl Planner {
    pub(super) fn new(threads: usize, lead: Millis, concurrency: Vec<usize>) -> Planner {
        Planner {
            threads,
            lead,
            paused: vec![false; concurrency.len()],
            concurrency,
            next: Earliest::default(),
            finished: VecDeque::new(),
            failures: 0,
            told: Told::default(),
            retry: None,
        }
    }

    /// These are paused, by handler. True if that is a change.
    pub(super) fn pause(&mut self, paused: Vec<bool>) -> bool {
        let changed = self.paused != paused;
        self.paused = paused;
        changed
    }

    /// Read by a transaction, or by a poll.
    pub(super) fn set(&mut self, next: Earliest) {
        self.next = next;
    }

    /// Heard of, or about to be stored: there may be something as early as this.
    pub(super) fn learn(&mut self, heard: Earliest) {
        self.next.waiting = earlier(self.next.waiting, heard.waiting);
        self.next.suspect = earlier(self.next.suspect, heard.suspect);
        self.next.recurring = earlier(self.next.recurring, heard.recurring);
    }

    /// So many runs have come to their end.
    pub(super) fn finish(&mut self, now: Instant, many: usize) {
        if many > 0 {
            self.finished.push_back((now, many));
        }
        while self
            .finished
            .front()
            .is_some_and(|(at, _)| now.saturating_duration_since(*at) > PACE)
        {
            self.finished.pop_front();
        }
    }

    /// The store has failed, at this moment. True if that is to be told.
    pub(super) fn fail(&mut self, now: Instant) -> bool {
        let (first, longest) = PAUSES;
        let pause = (first * 2_u32.saturating_pow(self.failures.min(16))).min(longest);
        self.failures = self.failures.saturating_add(1);
        // Between half of it and all: processes that lost the same server do not come back at the same moment.
        let random = scramble(u64::from(self.failures) ^ u64::from(std::process::id()) << 32);
        let jitter = pause.mul_f64((random >> 40) as f64 / (1_u64 << 25) as f64);
        self.retry = Some(now + pause / 2 + jitter);
        self.told.tell(true, now)
    }

    /// The store has answered. True if that is to be told.
    pub(super) fn succeed(&mut self, now: Instant) -> bool {
        self.retry = None;
        self.failures = 0;
        self.told.tell(false, now)
    }

    /// Is the store left alone for now, after an error?
    pub(super) fn is_pausing(&self, now: Instant) -> bool {
        self.retry.is_some_and(|retry| now < retry)
    }

    /// By handler: how many may be claimed.
    pub(super) fn room(&self, load: &Load) -> Vec<usize> {
        let limits = self.concurrency.iter().zip(&self.paused);
        limits
            .zip(&load.by_kind)
            .map(|((&most, &paused), &now)| if paused { 0 } else { most.saturating_sub(now) })
            .collect()
    }

    /// Recurring jobs are looked at again at this time.
    pub(super) fn put_off_slots(&mut self, until: Millis) {
        self.next.recurring = self.next.recurring.map(|due| due.max(until));
    }

    /// How many claims may be made, beside those whose handlers have not begun.
    fn limit(&self, load: &Load) -> usize {
        let free = self.threads.saturating_sub(load.running);
        let finished: usize = self.finished.iter().map(|(_, many)| many).sum();
        let most = (2 * free).max(finished).min(MOST_AHEAD);
        if load.bytes < AHEAD_BYTES {
            most.saturating_sub(load.ahead)
        } else {
            0
        }
    }

    /// Until when and how many recurring jobs have their time now; none while no run of theirs would be claimed.
    pub(super) fn slots(&self, now: Millis, load: &Load) -> Option<(Millis, usize)> {
        let soon = now.saturating_add(self.lead / 2);
        let due = self.next.recurring.is_some_and(|due| due <= soon);
        let limit = self.limit(load);
        (due && limit > 0).then_some((now.saturating_add(self.lead), limit))
    }

    /// The claim to make now. `riding`: a transaction is made anyway, so that a small claim costs no commit of its own.
    pub(super) fn plan(&self, now: Millis, load: &Load, riding: bool) -> ClaimRequest {
        let free = self.threads.saturating_sub(load.running);
        // Woken half the lead ahead, and then claiming all of it: every claim takes several jobs, if they are close together.
        let until = now.saturating_add(self.lead);
        let wanted = if riding {
            until
        } else {
            now.saturating_add(self.lead / 2)
        };
        let due = |next: Option<Millis>, by| next.is_some_and(|due| due <= by && due != NEVER);
        let waiting = due(self.next.waiting, wanted);
        // A suspect is charged by its claim, so it is taken up only if it begins at once.
        let suspect = due(self.next.suspect, now) && !load.suspect && free > 0 && !load.queued;
        ClaimRequest {
            now,
            until,
            limit: if waiting { self.limit(load) } else { 0 },
            bytes: AHEAD_BYTES.saturating_sub(load.bytes),
            suspect: suspect.then_some(now),
            room: self.room(load),
        }
    }

    /// When the next claim should be made, if nobody calls before; `None`: never, or the end of a run comes first.
    pub(super) fn next_claim(&self, load: &Load) -> Option<Millis> {
        let ahead = self.lead / 2;
        let far = self.next.waiting.map(|due| due.saturating_sub(ahead));
        let probe = |at: Millis| {
            let claim = self.plan(at, load, false);
            !claim.is_empty()
        };
        let waiting = far.filter(|&at| probe(at));
        let suspect = self.next.suspect.filter(|&at| probe(at));
        let slot = self.next.recurring.map(|due| due.saturating_sub(ahead));
        let slot = slot.filter(|&at| self.slots(at, load).is_some());
        earlier(earlier(waiting, suspect), slot).filter(|&due| due != NEVER)
    }

    /// When the store is tried again after an error.
    pub(super) fn retry(&self) -> Option<Instant> {
        self.retry
    }
}

#[cfg(test)]
mod tests;

//! The decisions of the engine: when to claim what. Used by one thread at a time.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use super::{AHEAD, AHEAD_BYTES, Engine, millis, panic_text};
use crate::error::{Error, StoreError};
use crate::job::Scheduled;
use crate::stats::count;
use crate::store::{Claim, Earliest, Op, Reply, Store, Verdict, earlier};
use crate::time::{Millis, NEVER};

/// The longest time between two looks at the wall clock while anything is stored: it may be set, and the machine may be suspended.
const LOOK: Duration = Duration::from_secs(1);

/// The time after which outcomes are stored again that could not be.
const RETRY: Duration = Duration::from_millis(200);

/// While more is due than fits, claims are made so many at a time.
const REFILL: usize = 64;

pub(super) struct Core {
    store: Box<dyn Store>,
    /// Lower bounds: a job that was cancelled or moved may have been the earliest. Exact after each claim.
    earliest: Earliest,
    /// A job was cancelled, moved, replaced or not stored since they were read.
    loose: bool,
    /// How long before it is due a job may be claimed, in milliseconds.
    lead: Millis,
    /// Claims that are not finished.
    in_flight: usize,
    /// One of them was taken up alone: nothing else is claimed meanwhile.
    alone: bool,
    /// An interrupted job has had its turn: the next batch is one of waiting ones, if any are due.
    turn_of_waiting: bool,
    /// The store wants its upkeep at this time at the latest.
    upkeep: Option<Instant>,
    /// Outcomes of handlers that could not be stored yet.
    unstored: Vec<Op>,
}

impl Core {
    pub(super) fn new(store: Box<dyn Store>, earliest: Earliest, lead: Duration) -> Core {
        Core {
            store,
            earliest,
            loose: false,
            lead: millis(lead),
            in_flight: 0,
            alone: false,
            turn_of_waiting: false,
            upkeep: None,
            unstored: Vec::new(),
        }
    }

    /// Has the store tell the engine about jobs of other processes.
    pub(super) fn listen(&mut self, engine: &Engine) {
        let me = engine.me.clone();
        self.store.listen(Box::new(move || {
            if let Some(engine) = me.upgrade() {
                engine.inbox.kick();
            }
        }));
    }

    /// Lets the store renew its leases and look for what other processes did.
    pub(super) fn keep_up(&mut self, engine: &Engine) {
        let upkeep = self.store.upkeep(&|id, attempts| {
            engine
                .settings
                .policy
                .interrupted(engine.wall(), id, attempts)
        });
        self.learn(upkeep.earliest);
        self.upkeep = upkeep.again.map(|rest| Instant::now() + rest);
    }

    fn learn(&mut self, found: Earliest) {
        self.earliest.waiting = earlier(self.earliest.waiting, found.waiting);
        self.earliest.interrupted = earlier(self.earliest.interrupted, found.interrupted);
    }

    /// Outcomes that an earlier transaction should have stored.
    pub(super) fn take_unstored(&mut self) -> Vec<Op> {
        std::mem::take(&mut self.unstored)
    }

    /// Keeps the outcomes among operations that failed, for the next transaction.
    pub(super) fn keep_unstored(&mut self, ops: Vec<Op>) {
        self.unstored = ops
            .into_iter()
            .filter(|op| matches!(op, Op::Finish { .. }))
            .collect();
    }

    /// All claims have ended, but their outcomes cannot be stored.
    pub(super) fn is_stuck(&self) -> bool {
        self.in_flight > 0 && self.in_flight == self.unstored.len()
    }

    /// Everything claimed has been finished.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// The claim to make now. `ahead` claims have not begun, with so many bytes of payload; `riding`: a transaction is made anyway, so that a
    /// small claim costs no commit of its own.
    pub(super) fn plan(&self, now: Millis, ahead: usize, bytes: usize, riding: bool) -> Option<Op> {
        if self.alone {
            return None;
        }
        let interrupted = self.earliest.interrupted.is_some_and(|due| due <= now);
        let until = now.saturating_add(self.lead);
        // Woken half the lead ahead, and then claiming all of it: every claim takes several jobs, if they are close together.
        let wanted = if riding {
            until
        } else {
            now.saturating_add(self.lead / 2)
        };
        let waiting = self
            .earliest
            .waiting
            .is_some_and(|due| due <= wanted && due != NEVER);
        if interrupted && !(waiting && self.turn_of_waiting) {
            // Alone: what runs is left to end first.
            return (self.in_flight == 0).then_some(Op::ClaimAlone { until: now });
        }
        if interrupted && self.in_flight > 0 {
            // One batch, then the next interrupted job.
            return None;
        }
        let room = AHEAD.saturating_sub(ahead);
        let enough = riding || ahead == 0 || room >= REFILL;
        (waiting && room > 0 && enough && bytes < AHEAD_BYTES).then(|| Op::Claim {
            until,
            limit: room,
            bytes: AHEAD_BYTES - bytes,
        })
    }

    /// Takes the due times of jobs that are about to be stored into account, so that one which is due at once is claimed by the transaction that
    /// stores it.
    pub(super) fn foresee(&mut self, engine: &Engine, ops: &[Op]) {
        for op in ops {
            if let Op::Schedule { kind, due, .. } = op
                && engine.kinds.contains_key(kind)
            {
                self.earliest.waiting = earlier(self.earliest.waiting, Some(*due));
            }
        }
    }

    /// Reads the earliest due times again, if they may be those of jobs that are gone: nobody is to be woken for these for years.
    pub(super) fn tighten(&mut self) {
        if self.loose {
            match self.store.earliest() {
                Ok(earliest) => {
                    self.earliest = earliest;
                    self.loose = false;
                }
                // The bounds hold; the next transaction meets what is wrong.
                Err(error) => log::warn!("{error}"),
            }
        }
    }

    /// How long nothing has to be looked at, if nobody calls; `None`: for ever.
    pub(super) fn rest(&self, engine: &Engine, stopping: bool) -> Option<Duration> {
        let until = |time: Instant| time.saturating_duration_since(Instant::now());
        let upkeep = self.upkeep.map(until);
        let unstored = (!self.unstored.is_empty()).then_some(RETRY);
        let claim = if stopping {
            None
        } else {
            self.rest_until_claim(engine)
        };
        [claim, upkeep, unstored].into_iter().flatten().min()
    }

    fn rest_until_claim(&self, engine: &Engine) -> Option<Duration> {
        let waiting = self
            .earliest
            .waiting
            .map(|due| due.saturating_sub(self.lead / 2));
        let next = earlier(waiting, self.earliest.interrupted)?;
        Some(if self.in_flight > 0 && next <= engine.wall.now() {
            // Planned already, but there was no room, or something runs alone: the next outcome wakes the thread.
            LOOK
        } else {
            engine.wall.until(next).min(LOOK)
        })
    }

    /// When the engine has to be called on a manual clock.
    pub(super) fn next(&self) -> Option<Millis> {
        let waiting = self
            .earliest
            .waiting
            .map(|due| due.saturating_sub(self.lead / 2));
        earlier(waiting, self.earliest.interrupted).filter(|&due| due != NEVER)
    }

    /// Carries out the operations in one transaction. A claim has to be the last of them; what it claimed is the second result.
    pub(super) fn transact(
        &mut self,
        engine: &Engine,
        ops: &[Op],
    ) -> Result<(Vec<Reply>, Vec<Claim>), Error> {
        let effects: Vec<Effect> = ops.iter().map(Effect::of).collect();
        let claim = effects.last().copied();
        let committed = panic::catch_unwind(AssertUnwindSafe(|| self.store.commit(ops)))
            .unwrap_or_else(|payload| {
                let text = panic_text(&*payload);
                Err(StoreError::new(format!("the store panicked: {text}")))
            })?;
        if committed.written {
            count(&engine.counters.commits);
        }
        self.learn(committed.earliest);
        let mut replies = committed.replies;
        for (effect, reply) in effects.iter().zip(&replies) {
            self.note(engine, *effect, reply);
        }
        let mut claims = Vec::new();
        if matches!(claim, Some(Effect::Claim | Effect::ClaimAlone))
            && let Some(Reply::Claimed { claims: made, next }) = replies.pop()
        {
            let alone = claim == Some(Effect::ClaimAlone);
            if alone {
                self.earliest.interrupted = next;
                self.turn_of_waiting = true;
            } else {
                self.earliest.waiting = next;
                self.turn_of_waiting = false;
            }
            self.in_flight += made.len();
            self.alone = alone && !made.is_empty();
            claims = made;
        }
        Ok((replies, claims))
    }

    fn note(&mut self, engine: &Engine, effect: Effect, reply: &Reply) {
        let counters = &engine.counters;
        match (effect, reply) {
            (Effect::Schedule, Reply::Scheduled(Scheduled::New | Scheduled::Replaced)) => {
                count(&counters.scheduled);
            }
            (Effect::Cancel, Reply::Found(true)) => count(&counters.cancelled),
            (Effect::Retry, Reply::Found(true)) => count(&counters.retried),
            (Effect::Dead, Reply::Found(true)) => count(&counters.dead),
            _ => {}
        }
        // A job that was not stored has been foreseen, too.
        self.loose |= match effect {
            Effect::Schedule => *reply != Reply::Scheduled(Scheduled::New),
            Effect::Cancel | Effect::Other => *reply == Reply::Found(true),
            _ => false,
        };
        if effect.is_finish() {
            self.in_flight -= 1;
            self.alone = false;
        }
    }
}

/// What an operation is, for counting; the operation itself goes to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Schedule,
    Cancel,
    Claim,
    ClaimAlone,
    Finish,
    Retry,
    Dead,
    Other,
}

impl Effect {
    fn of(op: &Op) -> Effect {
        match op {
            Op::Schedule { .. } => Effect::Schedule,
            Op::Cancel { .. } => Effect::Cancel,
            Op::Claim { .. } => Effect::Claim,
            Op::ClaimAlone { .. } => Effect::ClaimAlone,
            Op::Finish {
                verdict: Verdict::Retry { .. },
                ..
            } => Effect::Retry,
            Op::Finish {
                verdict: Verdict::Dead { .. },
                ..
            } => Effect::Dead,
            Op::Finish { .. } => Effect::Finish,
            _ => Effect::Other,
        }
    }

    fn is_finish(self) -> bool {
        matches!(self, Effect::Finish | Effect::Retry | Effect::Dead)
    }
}

//! One step of the engine: a transaction of all that waits, with the next claim in it. Used by one thread at a time, whichever drives.

use std::panic::{self, AssertUnwindSafe};
use std::time::{Duration, Instant};

use super::claims::Load;
use super::inbox::{Request, Taken};
use super::planner::Planner;
use super::{Engine, millis, panic_text};
use crate::broken::{self, Defect};
use crate::error::{Error, StoreError};
use crate::job::{JobFilter, Scheduled};
use crate::recur::{Rule, Turn};
use crate::stats::{add, count};
use crate::store::{
    Call, Claim, ClaimRequest, Committed, Earliest, End, Polled, Recovered, Reply, Store, Verdict,
    earlier, new_jobs,
};
use crate::time::{Millis, Moment};

/// The longest time between two looks at the wall clock while anything is stored: it may be set, and the machine may be suspended.
const LOOK: Duration = Duration::from_secs(1);

/// The time that a call is given at least, however long it has waited for its turn.
const TURN: Duration = Duration::from_millis(500);

/// What met a lock is tried again after so long.
const LOCKED: Duration = Duration::from_millis(100);

/// A step waits for so many locks. After that it takes what is left for locked as well.
const LOCKS: u32 = 6;

/// A recurring job that somebody else advances or moves is looked at again after so many milliseconds.
const AGAIN: Millis = 100;

/// One whose rule is not understood, which a newer version may have stored, after an hour.
const NOT_UNDERSTOOD: Millis = 60 * 60 * 1000;

/// So many callers are many.
const COMPANY: usize = 8;

/// So many dead jobs are removed at a time.
const SWEPT: usize = 100;

/// Between two looks for them pass so many milliseconds, at least and at most.
const MIN_SWEEP: Millis = 10;
const MAX_SWEEP: Millis = 60 * 60 * 1000;

pub(super) struct Core {
    store: Box<dyn Store>,
    planner: Planner,
    /// Outcomes of handlers that could not be stored yet.
    unstored: Vec<End>,
    /// Calls and outcomes that met a lock, when they are tried again, and the locks of this step.
    locked: Vec<Request>,
    locked_ends: Vec<End>,
    locked_until: Instant,
    locks: u32,
    renewal: Option<Instant>,
    poll: Option<Instant>,
    /// An error has not passed: the store has to be opened again.
    broken: bool,
    /// The store has to be polled at once.
    look: bool,
    /// How many calls the last transaction has answered.
    answered: usize,
    /// When dead jobs are looked for that need not be kept any longer.
    sweep: Option<Millis>,
}

impl Core {
    pub(super) fn new(engine: &Engine, store: Box<dyn Store>, polled: &Polled) -> Core {
        let settings = &engine.settings;
        let concurrency = settings.kinds.iter().map(|kind| kind.concurrency).collect();
        let mut planner = Planner::new(settings.threads, millis(settings.lead), concurrency);
        planner.set(polled.next);
        let look = planner.pause(engine.paused(&polled.paused));
        Core {
            store,
            planner,
            unstored: Vec::new(),
            locked: Vec::new(),
            locked_ends: Vec::new(),
            locked_until: Instant::now(),
            locks: 0,
            renewal: None,
            poll: None,
            broken: false,
            look,
            answered: 0,
            sweep: settings.keep_dead.map(|_| engine.wall.now()),
        }
    }

    /// Has the store tell the engine about jobs of other processes.
    pub(super) fn listen(&mut self, engine: &Engine) {
        let me = engine.me.clone();
        self.store.listen(std::sync::Arc::new(move || {
            if let Some(engine) = me.upgrade() {
                engine.inbox.kick();
            }
        }));
    }

    /// Stores what was taken, with the outcomes that are left from before, and claims what `claiming` allows.
    pub(super) fn step(&mut self, engine: &Engine, taken: Taken, claiming: bool) {
        let Taken {
            requests,
            ends,
            stopping,
        } = taken;
        self.answered = 0;
        let ran = |end: &&End| end.verdict != Verdict::GiveBack;
        let fresh = ends.iter().filter(ran).count();
        self.unstored.extend(ends);
        let now = Instant::now();
        self.planner.finish(now, fresh);
        let pausing = self.planner.is_pausing(now) && !stopping;
        if self.broken && (pausing || !self.reopen(engine)) {
            return refuse(engine, requests);
        }
        if !pausing {
            self.keep_up(engine, now);
        }
        self.locks = 0;
        if self.has_locked() && (stopping || self.locked_until <= now) {
            self.try_locked(engine);
        }
        if pausing && requests.is_empty() {
            return;
        }
        let ends = std::mem::take(&mut self.unstored);
        let load = engine.claims.load(&ends);
        let mut advances = Vec::new();
        let claim = if claiming && !stopping && !pausing {
            advances = self.take_slots(engine, &load);
            self.foresee(engine, &requests, &advances);
            let riding = !(requests.is_empty() && ends.is_empty() && advances.is_empty());
            self.planner.plan(engine.wall.now(), &load, riding)
        } else {
            self.no_claim(engine, &ends)
        };
        if !(requests.is_empty() && ends.is_empty() && advances.is_empty() && claim.is_empty()) {
            self.transact(engine, requests, advances, ends, claim);
        }
        if self.look && !self.broken {
            self.keep_up(engine, Instant::now());
        }
        if !stopping && !self.broken && self.sweep.is_some_and(|at| at <= engine.wall.now()) {
            self.sweep(engine);
        }
    }

    fn no_claim(&self, engine: &Engine, ends: &[End]) -> ClaimRequest {
        ClaimRequest {
            now: engine.wall.now(),
            room: self.planner.room(&engine.claims.load(ends)),
            ..ClaimRequest::default()
        }
    }

    /// Removes dead jobs that were kept for long enough.
    fn sweep(&mut self, engine: &Engine) {
        let Some(keep) = engine.settings.keep_dead.map(millis) else {
            return;
        };
        let now = engine.wall.now();
        let old = JobFilter {
            died_before: Some(now.saturating_sub(keep)),
            ..JobFilter::new().dead().limit(SWEPT)
        };
        let rest = (keep / 4).clamp(MIN_SWEEP, MAX_SWEEP);
        self.sweep = Some(now.saturating_add(rest));
        let left = JobFilter::new().dead().limit(1);
        let read = engine
            .reader
            .jobs(&old)
            .and_then(|old| Ok((old, engine.reader.jobs(&left)?)));
        match read {
            Ok((old, _)) if !old.is_empty() => {
                let ids = old.iter().map(|row| row.id).collect();
                let claim = self.no_claim(engine, &[]);
                let deadline = Instant::now() + engine.settings.patience;
                let call = [Call::Discard { ids }];
                match guarded(|| self.store.commit(&call, &[], &claim, deadline)) {
                    Ok(committed) => {
                        self.planner.set(committed.next);
                        self.sweep = Some(now);
                    }
                    Err(error) => self.fail(engine, &error),
                }
            }
            Ok((_, left)) if left.is_empty() => self.sweep = None,
            Ok(_) => {}
            Err(error) => log::warn!("{error}"),
        }
    }

    /// What recurring jobs do whose time has come. No run is made before it can be claimed, so what piles up counts as missed.
    fn take_slots(&mut self, engine: &Engine, load: &Load) -> Vec<Call> {
        let now = engine.wall.now();
        let Some((until, limit)) = self.planner.slots(now, load) else {
            return Vec::new();
        };
        let room = self.planner.room(load);
        let slots = match guarded(|| self.store.slots(until, limit, &room)) {
            Ok(slots) => slots,
            Err(error) => {
                self.fail(engine, &error);
                return Vec::new();
            }
        };
        if slots.is_empty() {
            // Another process was faster: what is next?
            self.look = true;
        }
        let advances = slots.into_iter().map(|slot| {
            let turn = Rule::parse(&slot.rule).map_or_else(
                || {
                    log::error!(
                        "the rule of recurring job {} is not understood: {:?}",
                        slot.id,
                        slot.rule
                    );
                    Turn {
                        next: Some(now.saturating_add(NOT_UNDERSTOOD)),
                        run: false,
                    }
                },
                |rule| rule.turn(slot.due, now),
            );
            Call::Advance { slot, turn }
        });
        advances.collect()
    }

    /// Takes the due times of jobs that are about to be stored into account, so that one which is due at once is claimed by the transaction that
    /// stores it.
    fn foresee(&mut self, engine: &Engine, requests: &[Request], advances: &[Call]) {
        let mut foreseen = Earliest::default();
        for advance in advances {
            if let Call::Advance { slot, turn } = advance
                && turn.run
            {
                foreseen.waiting = earlier(foreseen.waiting, Some(slot.due));
            }
        }
        for new in new_jobs(requests.iter().map(|request| &request.call)) {
            if engine.kinds.contains_key(&*new.kind) {
                let first = if new.rule.is_none() {
                    &mut foreseen.waiting
                } else {
                    &mut foreseen.recurring
                };
                *first = earlier(*first, Some(new.due));
            }
        }
        self.planner.learn(foreseen);
    }

    fn transact(
        &mut self,
        engine: &Engine,
        mut requests: Vec<Request>,
        advances: Vec<Call>,
        ends: Vec<End>,
        claim: ClaimRequest,
    ) {
        let now = Instant::now();
        let patience = engine.settings.patience;
        let oldest = requests.iter().map(|request| request.since).min();
        let deadline = oldest.map_or(now + patience, |since| (since + patience).max(now + TURN));
        let mut calls = Vec::with_capacity(requests.len());
        for request in &mut requests {
            if broken::is(Defect::AckBeforeCommit)
                && let Call::Schedule(new) = &request.call
            {
                let early = vec![Scheduled::New(0); new.len()];
                request.answer.give(Ok(Reply::Scheduled(early)));
            }
            let none = Call::Discard { ids: Vec::new() };
            calls.push(std::mem::replace(&mut request.call, none));
        }
        let advancing = advances.len();
        calls.extend(advances);
        let sent = Moment::now();
        match guarded(|| self.store.commit(&calls, &ends, &claim, deadline)) {
            Ok(committed) => {
                if self.planner.succeed(Instant::now()) {
                    log::info!("the store answers again");
                }
                self.note(engine, &calls, &ends, &committed);
                let Committed {
                    replies, claims, ..
                } = committed;
                self.answered += requests.len();
                for (request, reply) in requests.iter_mut().zip(replies) {
                    request.answer.give(Ok(reply));
                }
                self.dispatch(engine, claims, sent);
            }
            Err(error) if error.is_locked() && advancing + requests.len() + ends.len() > 0 => {
                for (request, call) in requests.iter_mut().zip(calls) {
                    request.call = call;
                }
                if advancing > 0 {
                    // One of the recurring jobs, perhaps.
                    self.transact(engine, requests, Vec::new(), ends, claim);
                    let later = engine.wall.now().saturating_add(AGAIN);
                    return self.planner.put_off_slots(later);
                }
                self.part(engine, requests, ends, claim, &error);
            }
            Err(error) => {
                self.unstored.extend(ends);
                self.fail(engine, &error);
                for (request, call) in requests.iter_mut().zip(calls) {
                    if broken::is(Defect::FailureAcknowledged)
                        && let Call::Schedule(new) = call
                    {
                        let scheduled = vec![Scheduled::New(0); new.len()];
                        request.answer.give(Ok(Reply::Scheduled(scheduled)));
                    }
                    request.answer.give(Err(error.clone().into()));
                }
            }
        }
    }

    /// Somebody holds a lock on one of these, or on all of them. The others do not wait for it.
    fn part(
        &mut self,
        engine: &Engine,
        mut requests: Vec<Request>,
        mut ends: Vec<End>,
        claim: ClaimRequest,
        error: &StoreError,
    ) {
        self.locks += 1;
        let half = usize::midpoint(requests.len(), ends.len());
        if half == 0 || self.locks > LOCKS {
            return self.put_aside(engine, requests, ends, error);
        }
        let other_ends = ends.split_off(half.min(ends.len()));
        let other_requests = requests.split_off(half - ends.len());
        self.transact(engine, requests, Vec::new(), ends, claim);
        if self.locks > LOCKS {
            self.put_aside(engine, other_requests, other_ends, error);
        } else {
            let none = self.no_claim(engine, &other_ends);
            self.transact(engine, other_requests, Vec::new(), other_ends, none);
        }
    }

    /// These are tried again in a moment, calls as long as their callers are patient.
    fn put_aside(
        &mut self,
        engine: &Engine,
        requests: Vec<Request>,
        ends: Vec<End>,
        error: &StoreError,
    ) {
        if engine.inbox.is_stopping() && !ends.is_empty() {
            self.unstored.extend(ends);
            self.fail(engine, error);
        } else {
            self.locked_ends.extend(ends);
        }
        self.locked_until = Instant::now() + LOCKED;
        for mut request in requests {
            if request.since + engine.settings.patience > self.locked_until
                && !engine.inbox.is_stopping()
            {
                self.locked.push(request);
            } else {
                request.answer.give(Err(error.clone().into()));
            }
        }
    }

    fn has_locked(&self) -> bool {
        !(self.locked.is_empty() && self.locked_ends.is_empty())
    }

    fn try_locked(&mut self, engine: &Engine) {
        let mut requests = std::mem::take(&mut self.locked);
        let mut ends = std::mem::take(&mut self.locked_ends);
        // Not the same ones first every time.
        let turn = |many: usize| many.min(LOCKS as usize / 2);
        let (call, end) = (turn(requests.len()), turn(ends.len()));
        requests.rotate_left(call);
        ends.rotate_left(end);
        let none = self.no_claim(engine, &ends);
        self.transact(engine, requests, Vec::new(), ends, none);
    }

    /// The store has failed: it is left alone for a while.
    fn fail(&mut self, engine: &Engine, error: &StoreError) {
        let tell = self.planner.fail(Instant::now());
        if !error.is_passing() {
            self.broken = true;
            engine.inbox.poison(error);
        }
        if tell && !error.is_told() {
            log::warn!("{error}; trying again, after longer and longer pauses");
        }
    }

    /// Opens the store again. False if that fails.
    fn reopen(&mut self, engine: &Engine) -> bool {
        let held = engine.claims.held();
        let tokens = held.iter().map(|&(_, token)| token).collect();
        let reopened = guarded(|| {
            self.store.reopen(&tokens)?;
            self.store.poll(
                &|_, _, _| None,
                &vec![usize::MAX; engine.settings.kinds.len()],
            )
        });
        match reopened {
            Ok(polled) => {
                self.broken = false;
                self.planner.set(polled.next);
                engine.inbox.heal();
                if self.planner.succeed(Instant::now()) {
                    log::warn!("the store has been opened again, and firing goes on");
                }
                true
            }
            Err(error) => {
                self.fail(engine, &error);
                engine.inbox.poison(&error);
                false
            }
        }
    }

    /// Renews leases, and looks for what other processes did.
    fn keep_up(&mut self, engine: &Engine, now: Instant) {
        loop {
            let (heard, poll) = self.store.heard();
            self.planner.learn(heard);
            self.poll = poll;
            if self.renewal.is_some_and(|at| at <= now) {
                self.renew(engine);
            }
            if !std::mem::take(&mut self.look) && self.poll.is_none_or(|at| at > now) {
                return;
            }
            let room = self.planner.room(&engine.claims.load(&[]));
            match guarded(|| {
                self.store
                    .poll(&|kind, id, n| engine.judge(kind, id, n), &room)
            }) {
                Ok(polled) => {
                    if self.planner.succeed(Instant::now()) {
                        log::info!("the store answers again");
                    }
                    self.planner.set(polled.next);
                    // If so, what is earliest depends on it.
                    self.look = self.planner.pause(engine.paused(&polled.paused));
                    note_recovered(engine, &polled.recovered, "of other processes");
                }
                Err(error) => {
                    self.fail(engine, &error);
                    self.poll = self.planner.retry();
                    return;
                }
            }
        }
    }

    /// Renews the leases of all claims. Those that are gone belong to another process.
    fn renew(&mut self, engine: &Engine) {
        self.renewal = None;
        let (Some(lease), held) = (self.store.lease(), engine.claims.held()) else {
            return;
        };
        if held.is_empty() {
            return;
        }
        let (now, sent) = (Instant::now(), Moment::now());
        match guarded(|| self.store.renew(&held)) {
            Ok(renewed) => {
                let lost = engine.claims.renewed(&held, &renewed, sent + lease);
                if lost > 0 {
                    log::warn!(
                        "{lost} leases had run out: other processes have taken these jobs up"
                    );
                }
                self.renewal = Some(now + lease / 3);
            }
            Err(error) => {
                self.fail(engine, &error);
                self.renewal = self.planner.retry();
            }
        }
    }

    /// Counts what a transaction has done.
    fn note(&mut self, engine: &Engine, calls: &[Call], ends: &[End], committed: &Committed) {
        let counters = &engine.counters;
        if committed.written {
            count(&counters.commits);
        }
        self.planner.set(committed.next);
        for (call, reply) in calls.iter().zip(&committed.replies) {
            match (call, reply) {
                (Call::Schedule(_), Reply::Scheduled(scheduled)) => {
                    let kept = |one: &&Scheduled| matches!(one, Scheduled::Kept(_));
                    let new = scheduled.len() - scheduled.iter().filter(kept).count();
                    add(&counters.scheduled, new as u64);
                }
                (Call::Cancel { .. }, Reply::Count(many)) => add(&counters.cancelled, *many),
                (Call::Pause { .. }, _) => self.look = true,
                (Call::Advance { .. }, Reply::Count(0)) => {
                    self.planner
                        .put_off_slots(engine.wall.now().saturating_add(AGAIN));
                }
                _ => {}
            }
        }
        for (end, &ended) in ends.iter().zip(&committed.ended) {
            engine.claims.remove(end.token);
            if !ended {
                log::warn!(
                    "the outcome of job {} is refused: its lease has run out, and another process has taken it up",
                    end.id
                );
            } else if matches!(end.verdict, Verdict::Retry { .. }) {
                count(&counters.retried);
            }
        }
        if !committed.died.is_empty() && self.sweep.is_none() {
            self.sweep = engine.settings.keep_dead.map(|_| engine.wall.now());
        }
        engine.died(&committed.died);
    }

    /// Hands claims to the threads, or to the wheel if they are not due yet.
    fn dispatch(&mut self, engine: &Engine, claims: Vec<Claim>, sent: Moment) {
        if claims.is_empty() {
            return;
        }
        let until = self.store.lease().map(|lease| sent + lease);
        if let (None, Some(lease)) = (self.renewal, self.store.lease()) {
            self.renewal = Some(Instant::now() + lease / 3);
        }
        let now = engine.wall.now();
        let mut due = Vec::with_capacity(claims.len());
        for claim in claims {
            let Some(&handler) = engine.kinds.get(&*claim.kind) else {
                log::error!("job {} was claimed, and there is no handler", claim.id);
                self.unstored.push(claim.end(Verdict::GiveBack));
                continue;
            };
            engine.claims.add(&claim, handler, until);
            if claim.due <= now {
                due.push(claim);
            } else if let Err(claim) = engine.park(claim) {
                self.unstored.push(claim.end(Verdict::GiveBack));
            }
        }
        engine.claims.push(due);
    }

    /// Many callers were answered at once, and most of them will call again in a moment: a transaction over a network is better made with all of them than with the first few.
    pub(super) fn has_company(&self) -> bool {
        self.answered >= COMPANY && self.store.lease().is_some()
    }

    /// Has everything that was claimed come to its end, or is there no way to store the rest?
    pub(super) fn is_finished(&self, engine: &Engine) -> bool {
        if engine.claims.running() > 0 || !engine.inbox.is_empty() {
            return false;
        }
        if self.unstored.is_empty() && !self.has_locked() {
            return true;
        }
        let failed = self.planner.retry().is_some();
        if failed && engine.inbox.poisoned().is_none() {
            let cause = "the outcomes of some jobs could not be stored: these will run again";
            engine.inbox.poison(&StoreError::new(cause));
        }
        failed
    }

    /// How long nothing has to be looked at, if nobody calls; `None`: for ever.
    pub(super) fn rest(&self, engine: &Engine, stopping: bool) -> Option<Duration> {
        let now = Instant::now();
        let until = |time: Instant| time.saturating_duration_since(now);
        let locked = self.has_locked().then(|| until(self.locked_until));
        if self.planner.is_pausing(now) {
            let retry = self.planner.retry().map(until);
            return [retry, locked].into_iter().flatten().min();
        }
        if !self.unstored.is_empty() || self.look {
            return Some(Duration::ZERO);
        }
        let claim = if stopping {
            None
        } else {
            self.next_claim(engine)
        };
        [
            claim.map(|at| engine.wall.until(at).min(LOOK)),
            self.sweep.map(|at| engine.wall.until(at)),
            self.renewal.map(until),
            self.poll.map(until),
            locked,
            engine.claims.until_overstayed(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// When the next claim is to be made, by the wall clock.
    fn next_claim(&self, engine: &Engine) -> Option<Millis> {
        let load = engine.claims.load(&[]);
        self.planner.next_claim(&load)
    }

    /// When something is to be done, by the wall clock.
    pub(super) fn next(&self, engine: &Engine) -> Option<Millis> {
        earlier(self.next_claim(engine), self.sweep)
    }
}

fn refuse(engine: &Engine, requests: Vec<Request>) {
    let cause = engine
        .inbox
        .poisoned()
        .unwrap_or_else(|| StoreError::new("the store is broken"));
    for mut request in requests {
        request.answer.give(Err(Error::Poisoned {
            cause: cause.clone(),
        }));
    }
}

/// Counts and tells what became of claims whose owner is gone.
pub(super) fn note_recovered(engine: &Engine, recovered: &Recovered, whose: &str) {
    if recovered.found > 0 {
        log::warn!(
            "{} claims {whose} have no owner any more: these jobs will be taken up one at a time",
            recovered.found
        );
    }
    engine.died(&recovered.died);
}

/// Makes an error of a panic of the store.
fn guarded<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = panic_text(&*payload);
        Err(StoreError::new(format!("the store panicked: {text}")))
    })
}

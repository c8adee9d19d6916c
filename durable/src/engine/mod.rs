//! The engine: what turns stored jobs into runs of handlers.
//!
//! ```text
//! callers ──► inbox ──► store thread: one transaction of all that waits, with the next claim in it
//!               ▲            │ claims, durable, at most 50 ms before they are due
//!               │            ├─ due ──────────────► ready ──► handler threads
//!               │            └─ not yet ─► wheel ──► ready       │
//!               └──────────── outcome of a run ◄─────────────────┘
//! ```
//!
//! On a manual clock there are no threads: a caller carries out its own transaction, and the thread that advances the clock claims, runs handlers
//! and acknowledges. The decisions are those of [`Core`] in both cases.

mod claims;
mod inbox;
mod manual;
mod planner;
mod reentrancy;
mod run;
mod step;
mod threads;

use std::any::Any;
use std::collections::{HashMap, HashSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use hashed_wheel::{HashedWheelTimer, Lateness, ManualClock};
use parking_lot::{Condvar, Mutex};

use self::claims::Claims;
pub(crate) use self::inbox::Callback;
use self::inbox::{Inbox, Waiter};
use self::manual::Manual;
use self::step::Core;
use crate::error::{Error, StoreError};
use crate::job::{DeadJob, Job, JobFilter, Outcome};
use crate::policy::Policy;
use crate::stats::{Counters, Stats, add};
use crate::store::{Call, Claim, Id, MAX_KINDS, Reader, Reply, Store, Verdict};
use crate::time::{Millis, WallClock};

/// How long before it is due a job may be claimed, and how long it may wait for a thread after that.
pub(crate) const LEAD: Duration = Duration::from_millis(50);

pub(crate) enum Handler {
    /// Called by a thread for handlers.
    Blocking(Box<dyn Fn(&Job) -> Outcome + Send + Sync>),
    /// Its future is run by a runtime, and no thread of ours waits for it.
    #[cfg(feature = "tokio")]
    Async(run::AsyncHandler, tokio::runtime::Handle),
}

impl Handler {
    pub(crate) fn is_async(&self) -> bool {
        !matches!(self, Handler::Blocking(_))
    }
}

/// What is told about dead jobs.
pub(crate) type OnDead = Box<dyn Fn(&DeadJob) + Send + Sync>;

pub(crate) struct Settings {
    pub(crate) threads: usize,
    /// Of kinds without settings of their own, and of those without a handler.
    pub(crate) policy: Policy,
    pub(crate) lead: Duration,
    /// Callers wait so long for the store.
    pub(crate) patience: Duration,
    /// Those with a handler, in the order in which the store knows them.
    pub(crate) kinds: Vec<Kind>,
    pub(crate) on_dead: Option<OnDead>,
    /// Dead jobs are removed after so long.
    pub(crate) keep_dead: Option<Duration>,
}

pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) handler: Handler,
    pub(crate) policy: Policy,
    /// How many may be claimed at a time.
    pub(crate) concurrency: usize,
}

pub(crate) struct Engine {
    settings: Settings,
    /// By kind: the index of its handler.
    kinds: HashMap<String, usize>,
    wall: Arc<dyn WallClock>,
    reader: Arc<dyn Reader>,
    /// Fires what is claimed before it is due; on a manual clock it also wakes the engine.
    wheel: HashedWheelTimer,
    inbox: Inbox,
    claims: Claims,
    counters: Counters,
    /// How late handlers began.
    lateness: Mutex<Lateness>,
    /// Kinds without a handler that have been logged.
    unhandled: Mutex<Vec<String>>,
    /// On a manual clock.
    manual: Option<Manual>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The store is closed.
    closed: Mutex<bool>,
    closing: Condvar,
    /// For the tasks of the wheel, and for the timers that handlers are given.
    me: Weak<Engine>,
}

impl Engine {
    /// Starts an engine with threads, or one that a manual clock drives.
    pub(crate) fn start(
        settings: Settings,
        store: Box<dyn Store>,
        wall: Arc<dyn WallClock>,
        clock: Option<&ManualClock>,
    ) -> Result<Arc<Engine>, Error> {
        let wheel = HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(1))
            .ticks_per_wheel(128);
        let wheel = match clock {
            Some(clock) => wheel.clock(clock),
            None => wheel.thread_name("durable-wheel"),
        };
        let wheel = wheel
            .build()
            .map_err(|error| Error::Config(error.to_string()))?;
        let manual = clock.map(|_| Manual::default());
        let (engine, core) = Engine::new(settings, store, wall, wheel, manual)?;
        engine
            .wheel
            .start()
            .map_err(|error| StoreError::with("cannot start the timer", error))?;
        match &engine.manual {
            Some(manual) => manual.start(&engine, core),
            None => threads::start(&engine, core)?,
        }
        Ok(engine)
    }

    /// Takes up what an earlier process left, and finds the earliest jobs.
    fn new(
        settings: Settings,
        mut store: Box<dyn Store>,
        wall: Arc<dyn WallClock>,
        wheel: HashedWheelTimer,
        manual: Option<Manual>,
    ) -> Result<(Arc<Engine>, Core), Error> {
        let names = settings.kinds.iter().map(|kind| kind.name.clone());
        let kinds: HashMap<String, usize> = names.zip(0..).collect();
        let engine = Arc::new_cyclic(|me| Engine {
            claims: Claims::new(settings.kinds.len(), settings.threads),
            settings,
            kinds,
            wall,
            reader: store.reader(),
            wheel,
            inbox: Inbox::default(),
            counters: Counters::default(),
            lateness: Mutex::default(),
            unhandled: Mutex::default(),
            manual,
            threads: Mutex::default(),
            closed: Mutex::new(false),
            closing: Condvar::new(),
            me: me.clone(),
        });
        let judge = |kind: &str, id, attempts| engine.judge(kind, id, attempts);
        let recovered = store.recover(&judge, engine.wall.now())?;
        step::note_recovered(&engine, &recovered, "of an earlier process");
        let room = vec![usize::MAX; engine.settings.kinds.len()];
        let polled = store.poll(&judge, &room)?;
        for kind in engine.reader.kinds()? {
            engine.note_kind(&kind);
        }
        let core = Core::new(&engine, store, &polled);
        Ok((engine, core))
    }

    pub(crate) fn wall(&self) -> &dyn WallClock {
        &*self.wall
    }

    /// Carries out a call. Durable when this returns.
    pub(crate) fn call(&self, call: Call) -> Result<Reply, Error> {
        let waiter = Waiter::new();
        self.ask(call, waiter.callback());
        waiter.wait()
    }

    /// Has a call carried out, and calls back.
    pub(crate) fn ask(&self, call: Call, callback: Callback) {
        self.inbox.ask(call, callback);
        if let Some(manual) = &self.manual {
            manual.store(self);
        }
    }

    /// Reads beside the store thread.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&dyn Reader) -> Result<T, StoreError>,
    ) -> Result<T, Error> {
        self.inbox.check()?;
        read(&*self.reader).map_err(|error| match self.inbox.check() {
            Err(closed) => closed,
            Ok(()) => error.into(),
        })
    }

    pub(crate) fn holds(&self, token: u64) -> bool {
        self.claims.holds(token)
    }

    /// By handler: is its kind among these?
    fn paused(&self, kinds: &HashSet<String>) -> Vec<bool> {
        let handled = self.settings.kinds.iter();
        handled.map(|kind| kinds.contains(&kind.name)).collect()
    }

    fn policy(&self, kind: &str) -> &Policy {
        let kind = self.kinds.get(kind).map(|&kind| &self.settings.kinds[kind]);
        kind.map_or(&self.settings.policy, |kind| &kind.policy)
    }

    /// When a job is tried again whose process died in its handler.
    fn judge(&self, kind: &str, id: Id, attempts: u32) -> Option<Millis> {
        self.policy(kind).interrupted(&*self.wall, id, attempts)
    }

    /// Logs a kind that has no handler, once.
    pub(crate) fn note_kind(&self, kind: &str) {
        if self.kinds.contains_key(kind) {
            return;
        }
        let mut logged = self.unhandled.lock();
        if !logged.iter().any(|known| known == kind) && logged.len() < MAX_KINDS {
            logged.push(kind.to_owned());
            drop(logged);
            log::warn!("jobs of kind {kind:?} stay pending: there is no handler for it");
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters
            .snapshot(self.claims.in_memory(), self.lateness.lock().clone())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inbox.is_stopping()
    }

    /// An error in a handler of this engine, which must not wait for itself.
    pub(crate) fn check_outside(&self) -> Result<(), Error> {
        if reentrancy::is_handler_of(self) {
            Err(Error::FromHandler)
        } else {
            Ok(())
        }
    }

    /// Stops, and waits until the store is closed.
    pub(crate) fn stop(&self) -> Result<(), Error> {
        self.stop_within(None).map(|_| ())
    }

    /// Stops, and waits for so long at most. The number of handlers that still run.
    pub(crate) fn stop_within(&self, most: Option<Duration>) -> Result<usize, Error> {
        self.check_outside()?;
        let first = self.inbox.stop();
        match &self.manual {
            Some(manual) => manual.finish(self),
            None => {
                if !threads::join(self, most) {
                    return Ok(self.claims.running());
                }
            }
        }
        let _ = self.wheel.stop();
        match self.inbox.poisoned() {
            Some(cause) if first => Err(Error::Poisoned { cause }),
            _ => Ok(0),
        }
    }

    /// The owner is gone. In a handler nobody waits.
    pub(crate) fn owner_dropped(&self) {
        if reentrancy::is_handler_of(self) {
            self.inbox.stop();
        } else if let Err(error) = self.stop() {
            log::error!("a timer was dropped: {error}");
        }
    }

    /// Has the wheel call `fire` when the job is due. Given back if the timer has been stopped, or if the clock was set back since the claim was planned, so that
    /// this would be for long.
    fn park(&self, claim: Claim) -> Result<(), Claim> {
        let (token, wait) = (claim.token, self.wall.until(claim.due));
        if wait > self.settings.lead {
            return Err(claim);
        }
        self.claims.park(claim)?;
        let me = self.me.clone();
        let armed = self.wheel.new_timeout(
            move |_| {
                if let Some(engine) = me.upgrade() {
                    engine.fire(token);
                }
            },
            wait,
        );
        if armed.is_err() {
            // It runs as long as the engine, so this is our bug. The handler's thread looks at the time again.
            log::error!("the timer refuses a timeout");
            self.fire(token);
        }
        Ok(())
    }

    /// A parked job is due.
    fn fire(&self, token: u64) {
        if self.claims.make_ready(token) {
            self.inbox.kick();
        }
        if let Some(manual) = &self.manual {
            manual.drive(self);
        }
    }

    /// Runs the handler of a claim, if its time has come by the wall clock as it is now, and tells the store thread how it ended.
    fn execute(&self, claim: Claim) {
        let end = claim.end(Verdict::GiveBack);
        let early = self.wall.until(claim.due);
        if !self.claims.holds(claim.token) {
            survive(|| {
                log::warn!(
                    "job {} is not run here: its lease ran out before its handler began",
                    claim.id
                );
            });
        } else if early.is_zero() {
            return self.run(claim);
        } else if early <= self.settings.lead && self.park(claim).is_ok() {
            return self.claims.ended(|| self.inbox.kick());
        }
        self.claims.ended(|| self.inbox.tell(end));
    }

    /// Counts dead jobs, and has them told.
    fn died(&self, ids: &[Id]) {
        add(&self.counters.dead, ids.len() as u64);
        if self.settings.on_dead.is_some() {
            self.claims.tell_dead(ids);
        }
    }

    /// Tells of a dead job, if it is still there.
    fn tell_dead(&self, id: Id) {
        let Some(on_dead) = &self.settings.on_dead else {
            return;
        };
        let filter = JobFilter::new().dead().after(id - 1).limit(1);
        match self.reader.jobs(&filter) {
            Ok(rows) => {
                for dead in rows.into_iter().filter(|row| row.id == id) {
                    let dead = DeadJob::from(dead);
                    let _inside = reentrancy::enter(self);
                    survive(|| on_dead(&dead));
                }
            }
            Err(error) => survive(|| log::warn!("nobody was told of dead job {id}: {error}")),
        }
    }
}

/// Calls what may panic, such as a logger, on a thread that has to go on: `stop` waits for its outcome. What a panic
/// leaves is leaked, as its drop may panic again.
fn survive(call: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(call)) {
        std::mem::forget(payload);
    }
}

/// The message of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

/// A duration in whole milliseconds.
fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX)
}

#[cfg(test)]
mod tests;

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

mod core;
mod flight;
mod inbox;
mod manual;
mod reentrancy;
mod threads;

use std::any::Any;
use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use hashed_wheel::{HashedWheelTimer, Lateness, ManualClock};
use parking_lot::Mutex;

use self::core::Core;
use self::flight::Flight;
use self::inbox::Inbox;
use self::manual::Manual;
use crate::DurableTimer;
use crate::error::{Error, StoreError};
use crate::job::{Job, Outcome};
use crate::policy::Policy;
use crate::stats::{Counters, Stats, count};
use crate::store::{Claim, Leases, MAX_KINDS, Op, Reply, Store, Verdict};
use crate::time::{Millis, WallClock};

/// How long before it is due a job may be claimed.
pub(crate) const LEAD: Duration = Duration::from_millis(50);

/// The most claims whose handlers have not begun.
pub(crate) const AHEAD: usize = 256;

/// The most bytes of payload in such claims, but for the last of them.
const AHEAD_BYTES: usize = 16 << 20;

pub(crate) type Handler = Box<dyn Fn(&Job) -> Outcome + Send + Sync>;

pub(crate) struct Settings {
    pub(crate) threads: usize,
    pub(crate) policy: Policy,
    pub(crate) lead: Duration,
    /// By kind, in the order in which the store knows them.
    pub(crate) handlers: Vec<(String, Handler)>,
}

pub(crate) struct Engine {
    settings: Settings,
    /// By kind: the index of its handler.
    kinds: HashMap<String, usize>,
    wall: Arc<dyn WallClock>,
    /// Of a store that several processes share.
    leases: Option<Arc<Leases>>,
    /// Fires what is claimed before it is due; on a manual clock it also wakes the engine.
    wheel: HashedWheelTimer,
    inbox: Inbox,
    flight: Flight,
    counters: Counters,
    /// How late handlers began.
    lateness: Mutex<Lateness>,
    /// Kinds without a handler that have been logged.
    unhandled: Mutex<Vec<String>>,
    /// On a manual clock.
    manual: Option<Manual>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// For the tasks of the wheel, and for the timers that handlers are given.
    me: Weak<Engine>,
}

impl Engine {
    /// Starts an engine with threads.
    pub(crate) fn start(
        settings: Settings,
        store: Box<dyn Store>,
        wall: Arc<dyn WallClock>,
    ) -> Result<Arc<Engine>, Error> {
        let wheel = HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(1))
            .ticks_per_wheel(128)
            .thread_name("durable-wheel")
            .build()
            .map_err(|error| Error::Config(error.to_string()))?;
        let (engine, core) = Engine::new(settings, store, wall, wheel, None)?;
        threads::start(&engine, core)?;
        Ok(engine)
    }

    /// Makes an engine that a manual clock drives.
    pub(crate) fn start_manual(
        settings: Settings,
        store: Box<dyn Store>,
        wall: Arc<dyn WallClock>,
        clock: &ManualClock,
    ) -> Result<Arc<Engine>, Error> {
        let wheel = HashedWheelTimer::builder()
            .tick_duration(Duration::from_millis(1))
            .ticks_per_wheel(128)
            .clock(clock)
            .build()
            .map_err(|error| Error::Config(error.to_string()))?;
        let (engine, core) = Engine::new(settings, store, wall, wheel, Some(Manual::default()))?;
        engine
            .wheel
            .start()
            .map_err(|error| StoreError::with("cannot start the timer", error))?;
        manual::start(&engine, core);
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
        let policy = settings.policy;
        let counters = Counters::default();
        let found = store.recover(&|id, attempts| {
            let verdict = policy.interrupted(&*wall, id, attempts);
            if matches!(verdict, Verdict::Dead { .. }) {
                count(&counters.dead);
            }
            verdict
        })?;
        if found > 0 {
            log::warn!(
                "{found} jobs were claimed when their process ended: each will be taken up alone"
            );
        }
        let earliest = store.earliest()?;
        let unhandled = store.unhandled()?;
        for kind in &unhandled {
            log::warn!("jobs of kind {kind:?} stay pending: there is no handler for it");
        }
        let kinds = settings
            .handlers
            .iter()
            .enumerate()
            .map(|(n, (kind, _))| (kind.clone(), n))
            .collect();
        let leases = store.leases();
        let core = Core::new(store, earliest, settings.lead);
        let engine = Arc::new_cyclic(|me| Engine {
            settings,
            kinds,
            wall,
            leases,
            wheel,
            inbox: Inbox::default(),
            flight: Flight::default(),
            counters,
            lateness: Mutex::default(),
            unhandled: Mutex::new(unhandled),
            manual,
            threads: Mutex::default(),
            me: me.clone(),
        });
        Ok((engine, core))
    }

    pub(crate) fn wall(&self) -> &dyn WallClock {
        &*self.wall
    }

    /// Carries out an operation of a caller. Durable when this returns.
    pub(crate) fn call(&self, op: Op) -> Result<Reply, Error> {
        match &self.manual {
            Some(manual) => manual.call(self, op),
            None => self.inbox.call(op),
        }
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
            .snapshot(self.flight.in_memory(), self.lateness.lock().clone())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.inbox.is_stopping()
    }

    /// Stops, and waits until the store is closed.
    pub(crate) fn stop(&self) -> Result<(), Error> {
        if reentrancy::is_handler_of(self) {
            return Err(Error::FromHandler);
        }
        let first = self.inbox.stop();
        match &self.manual {
            Some(manual) => manual.finish(self),
            None => threads::join(self),
        }
        let _ = self.wheel.stop();
        if first && self.inbox.is_poisoned() {
            Err(Error::Poisoned)
        } else {
            Ok(())
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

    /// Has the wheel call `fire` when the job is due. False if the timer has been stopped, or if the clock was set back since the claim was planned, so that
    /// this would be for long: then the claim has to be given back.
    fn park(&self, claim: Claim) -> bool {
        let (id, wait) = (claim.id, self.wall.until(claim.due));
        if wait > self.settings.lead || !self.flight.park(claim) {
            return false;
        }
        let me = self.me.clone();
        let armed = self.wheel.new_timeout(
            move |_| {
                if let Some(engine) = me.upgrade() {
                    engine.fire(id);
                }
            },
            wait,
        );
        if armed.is_err() {
            // It runs as long as the engine, so this is our bug. The handler's thread looks at the time again.
            log::error!("the timer refuses a timeout");
            self.fire(id);
        }
        true
    }

    /// A parked job is due.
    fn fire(&self, id: u64) {
        match &self.manual {
            Some(manual) => manual.fire(self, id),
            None => self.flight.make_ready(id),
        }
    }

    /// Runs the handler of a claim, if its time has come by the wall clock as it is now. `None`: it was parked again.
    fn execute(&self, claim: Claim) -> Option<Op> {
        let (id, token) = (claim.id, claim.token);
        let early = self.wall.until(claim.due);
        let verdict = if self
            .leases
            .as_ref()
            .is_some_and(|leases| !leases.holds(token))
        {
            survive(|| {
                log::warn!("job {id} is not run here: its lease ran out before its handler began");
            });
            Verdict::GiveBack
        } else if early.is_zero() {
            self.run(claim)
        } else if early <= self.settings.lead && self.park(claim) {
            self.flight.end();
            return None;
        } else {
            Verdict::GiveBack
        };
        Some(Op::Finish { id, token, verdict })
    }

    fn run(&self, claim: Claim) -> Verdict {
        let Some(me) = self.me.upgrade() else {
            return Verdict::GiveBack;
        };
        count(&self.counters.fired);
        let late = self.wall.since(claim.due);
        self.lateness.lock().record(late);
        let (id, attempt) = (claim.id, claim.attempt);
        let (kind, handler) = &self.settings.handlers[claim.handler];
        let job = Job::new(kind.clone(), claim, DurableTimer::for_handler(me));
        let outcome = {
            let _inside = reentrancy::enter(self);
            panic::catch_unwind(AssertUnwindSafe(|| handler(&job)))
        };
        let outcome = outcome.map_err(|payload| {
            let text = panic_text(&*payload);
            // The payload's drop may panic, too.
            survive(|| {
                log::error!("the handler of {kind:?} panicked: {text}");
                drop(payload);
            });
            text
        });
        self.settings
            .policy
            .verdict(&*self.wall, id, attempt, outcome)
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

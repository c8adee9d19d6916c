//! A clock that stands still until told, and how it drives the timers that are built on it.

use crate::catch_panic::contain;
use crate::shared::Shared;
use crate::shared::launch;
use crate::shared::reentrancy::{self, Activity};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering};
use crate::time::clock::nanos;
use crate::time::tick::Tick;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// A clock that stands still until told: for tests and simulations.
///
/// Timers that are [built on it](crate::HashedWheelTimerBuilder::clock) start no thread. Their tasks
/// run inside [`advance`](ManualClock::advance), on the calling thread, boundary by boundary; all the
/// rest is the code that runs in production. Clones share one time.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
/// let timeout = timer.new_timeout(|_| {}, Duration::from_secs(3600)).unwrap();
/// clock.advance(Duration::from_secs(3599));
/// assert!(!timeout.is_expired());
/// clock.advance(Duration::from_secs(1));
/// assert!(timeout.is_expired());
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Nanoseconds since the clock's creation.
    now: AtomicU64,
    /// The timers that have started on this clock.
    timers: Mutex<Vec<Weak<Shared>>>,
    /// Whether somebody is advancing the clock. Not a lock: tasks run meanwhile.
    advancing: Mutex<bool>,
    advanced: Condvar,
}

impl ManualClock {
    /// A clock that reads zero.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    ///
    /// assert!(ManualClock::new().now().is_zero());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// The time since its creation.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let same_clock = clock.clone();
    /// clock.advance(Duration::from_secs(90));
    /// assert_eq!(same_clock.now(), Duration::from_secs(90));
    /// ```
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.nanos())
    }

    /// Moves the clock forward by `by`, and every timer on it, boundary by boundary, on the calling
    /// thread. When this returns, all that fell due has run.
    ///
    /// While a task runs, the clock reads the boundary that the task was due at. What it schedules is
    /// counted from there, and fires within the same call if it falls due. Several timers take turns
    /// in the order of their boundaries. The clock saturates at 2^64 ns; several threads that advance it take turns.
    ///
    /// ```
    /// use hashed_wheel::{HashedWheelTimer, ManualClock, Period};
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = HashedWheelTimer::builder().clock(&clock).build()?;
    /// let runs = Arc::new(Mutex::new(Vec::new()));
    /// let (noted, now) = (Arc::clone(&runs), clock.clone());
    /// timer.new_periodic(
    ///     move |_| noted.lock().unwrap().push(now.now().as_secs()),
    ///     Duration::from_secs(10),
    ///     Period::FixedRate(Duration::from_secs(20)),
    /// )?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(*runs.lock().unwrap(), [10, 30, 50]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When called by a task of a timer on this clock. Like any task's panic, it is caught and counted.
    pub fn advance(&self, by: Duration) {
        assert!(
            !reentrancy::is_on_clock(self.identity()),
            "ManualClock::advance was called by a task that runs on this clock"
        );
        let _turn = Turn::wait_for(&self.state);
        let target = self.nanos().saturating_add(nanos(by));
        while let Some((moment, boundary, timer)) = self.next_visit(target) {
            self.set(moment);
            timer.visit_manually(boundary);
        }
        self.set(target);
        for timer in self.timers() {
            timer.settle_manually();
        }
    }

    #[inline]
    pub(crate) fn nanos(&self) -> u64 {
        // Acquire, with the Release of `set`: who reads a time also sees what was run up to it.
        self.state.now.load(Ordering::Acquire)
    }

    /// Never backwards: a boundary may already have passed when a timer gets its turn.
    fn set(&self, moment: u64) {
        self.state.now.fetch_max(moment, Ordering::AcqRel);
    }

    /// Tells clocks apart; not 0.
    pub(crate) fn identity(&self) -> usize {
        Arc::as_ptr(&self.state).addr()
    }

    /// Has the timer driven by this clock from now on.
    pub(crate) fn register(&self, shared: &Arc<Shared>) {
        let mut timers = self.state.timers.lock();
        timers.retain(|timer| timer.strong_count() > 0);
        timers.push(Arc::downgrade(shared));
    }

    fn timers(&self) -> Vec<Arc<Shared>> {
        self.state
            .timers
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect()
    }

    /// The earliest boundary up to `target` that any timer has work at.
    fn next_visit(&self, target: u64) -> Option<(u64, Tick, Arc<Shared>)> {
        let now = self.nanos();
        self.timers()
            .into_iter()
            .filter_map(|timer| {
                let (moment, boundary) = timer.next_visit(now)?;
                Some((moment, boundary, timer))
            })
            .filter(|(moment, ..)| *moment <= target)
            // The first of equals: the one that was started first.
            .min_by_key(|(moment, ..)| *moment)
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

/// The right to advance a clock.
struct Turn<'a>(&'a State);

impl Turn<'_> {
    fn wait_for(state: &State) -> Turn<'_> {
        let mut advancing = state.advancing.lock();
        while *advancing {
            state.advanced.wait(&mut advancing);
        }
        *advancing = true;
        Turn(state)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.advancing.lock() = false;
        self.0.advanced.notify_one();
    }
}

/// What a manual clock does with a timer.
impl Shared {
    /// The next boundary that has work, with its moment. `now` is the clock's.
    fn next_visit(&self, now: u64) -> Option<(u64, Tick)> {
        if !self.lifecycle.is_started() {
            return None;
        }
        let mut engine = self.engine.lock();
        let engine = engine.as_mut()?;
        // Boundaries before now had no work. One that lies at this very moment may get some.
        let elapsed = now.saturating_sub(self.lifecycle.started_at());
        engine.pass(self, self.scale.passed(elapsed.saturating_sub(1)));
        let boundary = engine.next_boundary(self)?;
        Some((self.moment(boundary)?, boundary))
    }

    /// Processes a boundary that the clock has come to.
    fn visit_manually(self: &Arc<Self>, boundary: Tick) {
        self.with_engine(|engine| {
            self.worker_tally.wakeups.add(1);
            engine.visit(self, boundary);
            while engine.sweep(self) {}
        });
    }

    /// Counts all boundaries up to now as processed.
    fn settle_manually(self: &Arc<Self>) {
        self.with_engine(|engine| {
            engine.pass(self, self.passed());
            while engine.sweep(self) {}
        });
    }

    /// Runs the engine on this thread, which is the timer thread meanwhile. Nothing is locked, so
    /// that a task may do what it likes; if the timer is stopped meanwhile, this ends it.
    fn with_engine(self: &Arc<Self>, drive: impl FnOnce(&mut dyn crate::worker::engine::Drive)) {
        if !self.lifecycle.is_started() {
            return;
        }
        let taken = self.engine.lock().take();
        let Some(mut engine) = taken else { return };
        let _driving = self.enter(Activity::Driving);
        if contain("the timer", || drive(&mut *engine)) {
            // What foreign code does is contained where it is called: this is a defect of ours. Nobody
            // shall wait for a timer that is dead.
            self.lifecycle.close(true);
        }
        *self.engine.lock() = Some(engine);
        // Whoever stopped it either finds the engine there or is seen here.
        if self.lifecycle.is_shutdown() {
            let taken = self.engine.lock().take();
            if let Some(engine) = taken {
                launch::finish(self, engine);
            }
        }
    }
}

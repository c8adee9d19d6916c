//! What the integration tests share: both timers behind one type, recorders, waits with a watchdog.
//!
//! No test waits for a length of time and then expects something to have happened. It waits for the
//! event itself, on a channel, and [`WATCHDOG`] only turns a hang into a failure.

#![allow(dead_code, unused_macros, unused_imports)] // every test file uses its own part

use std::any::Any;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use hashed_wheel::{
    ConfigError, HashedWheelTimer, HashedWheelTimerBuilder, HierarchicalWheelTimer,
    HierarchicalWheelTimerBuilder, Job, ManualClock, Timeout, TimerDriver, TimerHandle,
};

pub(crate) mod logs;
pub(crate) mod poll;
pub(crate) mod shrink;

/// After this time something hangs. It is no bound on lateness.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

/// A delay that no test lives to see in real time.
pub(crate) const FAR: Duration = Duration::from_secs(100 * 60);

/// Keeps a value for ever. It stays known, so that a leak checker does not take it for a leak.
pub(crate) fn for_ever<T: Send + Sync + 'static>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Any + Send + Sync)>> = Mutex::new(Vec::new());
    let kept: &T = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(kept);
    kept
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Makes two tests, one a timer, of each function that takes a [`Kind`].
macro_rules! on_both_timers {
    ($($name:ident),+ $(,)?) => {
        mod hashed {
            $(#[test] fn $name() { super::$name(crate::common::Kind::Hashed); })+
        }
        mod hierarchical {
            $(#[test] fn $name() { super::$name(crate::common::Kind::Hierarchical); })+
        }
    };
}
pub(crate) use on_both_timers;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Hashed,
    Hierarchical,
}

impl Kind {
    /// A builder with eight slots a wheel, so that short schedules turn it, and a tick of 10 ms.
    pub(crate) fn builder(self) -> Builder {
        let builder = match self {
            Kind::Hashed => Builder::Hashed(HashedWheelTimer::builder()),
            Kind::Hierarchical => Builder::Hierarchical(HierarchicalWheelTimer::builder()),
        };
        builder.buckets(8).tick(ms(10))
    }

    /// A timer of 10 ms ticks on this clock.
    pub(crate) fn on(self, clock: &ManualClock) -> Timer {
        self.builder().clock(clock).build()
    }

    /// A timer of this tick with a thread of its own.
    pub(crate) fn real(self, tick: Duration) -> Timer {
        self.builder().tick(tick).build()
    }
}

/// Either builder, with the settings that both have.
pub(crate) enum Builder {
    Hashed(HashedWheelTimerBuilder),
    Hierarchical(HierarchicalWheelTimerBuilder),
}

macro_rules! forward {
    ($self:ident, $builder:ident => $call:expr) => {
        match $self {
            Builder::Hashed($builder) => Builder::Hashed($call),
            Builder::Hierarchical($builder) => Builder::Hierarchical($call),
        }
    };
}

impl Builder {
    pub(crate) fn buckets(self, n: usize) -> Self {
        match self {
            Builder::Hashed(b) => Builder::Hashed(b.ticks_per_wheel(n)),
            Builder::Hierarchical(b) => Builder::Hierarchical(b.wheel_size(n)),
        }
    }

    pub(crate) fn tick(self, tick: Duration) -> Self {
        forward!(self, b => b.tick_duration(tick))
    }

    pub(crate) fn clock(self, clock: &ManualClock) -> Self {
        forward!(self, b => b.clock(clock))
    }

    pub(crate) fn max_pending(self, max: usize) -> Self {
        forward!(self, b => b.max_pending_timeouts(max))
    }

    pub(crate) fn max_transfers(self, max: usize) -> Self {
        forward!(self, b => b.max_transfers_per_tick(max))
    }

    pub(crate) fn thread_name(self, name: &str) -> Self {
        forward!(self, b => b.thread_name(name))
    }

    pub(crate) fn executor(self, run: impl Fn(Job) + Send + Sync + 'static) -> Self {
        forward!(self, b => b.executor(run))
    }

    pub(crate) fn thread_factory(
        self,
        spawn: impl Fn(Job) -> std::io::Result<JoinHandle<()>> + Send + Sync + 'static,
    ) -> Self {
        forward!(self, b => b.thread_factory(spawn))
    }

    pub(crate) fn slow_task(self, limit: Duration) -> Self {
        forward!(self, b => b.slow_task(limit))
    }

    pub(crate) fn fine_ticks(self, fine: bool) -> Self {
        forward!(self, b => b.fine_ticks(fine))
    }

    pub(crate) fn try_build(self) -> Result<Timer, ConfigError> {
        Ok(Timer::new(match self {
            Builder::Hashed(b) => Owner::Hashed(b.build()?),
            Builder::Hierarchical(b) => Owner::Hierarchical(b.build()?),
        }))
    }

    /// A timer without a thread.
    pub(crate) fn build_driven(self) -> (Timer, TimerDriver) {
        let (owner, driver) = match self {
            Builder::Hashed(b) => {
                let (owner, driver) = b.build_driven().expect("the settings are allowed");
                (Owner::Hashed(owner), driver)
            }
            Builder::Hierarchical(b) => {
                let (owner, driver) = b.build_driven().expect("the settings are allowed");
                (Owner::Hierarchical(owner), driver)
            }
        };
        (Timer::new(owner), driver)
    }

    pub(crate) fn build(self) -> Timer {
        self.try_build().expect("the settings are allowed")
    }
}

/// The owner of either timer; its calls go through a handle. Dropping it drops the owner.
#[derive(Debug)]
pub(crate) struct Timer {
    handle: TimerHandle,
    owner: Owner,
}

impl Timer {
    fn new(owner: Owner) -> Timer {
        let handle = match &owner {
            Owner::Hashed(t) => t.handle(),
            Owner::Hierarchical(t) => t.handle(),
        };
        Timer { handle, owner }
    }
}

#[derive(Debug)]
enum Owner {
    Hashed(HashedWheelTimer),
    Hierarchical(HierarchicalWheelTimer),
}

impl Deref for Timer {
    type Target = TimerHandle;

    fn deref(&self) -> &TimerHandle {
        &self.handle
    }
}

impl Timer {
    /// Ends it without waiting.
    pub(crate) fn shutdown_background(self) {
        match self.owner {
            Owner::Hashed(t) => t.shutdown_background(),
            Owner::Hierarchical(t) => t.shutdown_background(),
        }
    }
}

/// A list that tasks write to.
#[derive(Debug)]
pub(crate) struct Record<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Record(Arc::clone(&self.0))
    }
}

impl<T> Record<T> {
    pub(crate) fn new() -> Self {
        Record(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn push(&self, item: T) {
        self.0.lock().unwrap().push(item);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A task that notes `label` and the time in ms at which it runs.
pub(crate) fn noting<T: Send + 'static>(
    record: &Record<(T, u64)>,
    clock: &ManualClock,
    label: T,
) -> impl FnOnce(&Timeout) + Send + use<T> {
    let (record, clock) = (record.clone(), clock.clone());
    move |_| record.push((label, now_ms(&clock)))
}

pub(crate) fn now_ms(clock: &ManualClock) -> u64 {
    u64::try_from(clock.now().as_millis()).unwrap()
}

/// A number that tasks count up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// A task that counts its run.
    pub(crate) fn task(&self) -> impl FnOnce(&Timeout) + Send + use<> {
        let count = self.clone();
        move |_| {
            count.add();
        }
    }
}

/// Notes the thread on which it is dropped.
#[derive(Debug)]
pub(crate) struct Guard(Record<ThreadId>);

impl Guard {
    pub(crate) fn new() -> (Guard, Record<ThreadId>) {
        let drops = Record::new();
        (Guard(drops.clone()), drops)
    }

    /// Another guard that writes to the same list.
    pub(crate) fn on(drops: &Record<ThreadId>) -> Guard {
        Guard(drops.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.push(thread::current().id());
    }
}

/// Receives, or fails when the watchdog's time is over.
pub(crate) fn recv<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(WATCHDOG).expect("the event came")
}

/// Runs `f` on its own thread, so that a hang of it is a failure of [`recv`] and not of the run.
pub(crate) fn in_thread<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
    let (done, result) = mpsc::channel();
    thread::spawn(move || {
        let _ = done.send(f());
    });
    result
}

/// Looks again and again until the condition holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < WATCHDOG, "never came true: {what}");
        thread::sleep(ms(1));
    }
}

/// The law of counting, which holds whenever the timer is at rest.
#[track_caller]
pub(crate) fn assert_counts_add_up(timer: &TimerHandle) {
    let s = timer.stats();
    let accounted = s.expired + s.cancelled + s.unprocessed + s.pending;
    assert_eq!(s.scheduled, accounted, "{s:?}");
    assert_eq!(s.pending, timer.pending_timeouts() as u64, "{s:?}");
}

/// A small random number generator (splitmix64): the same seed, the same test.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The message of a caught panic.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

//! The protocols of the crate in every interleaving, as far as loom goes: run by
//!
//! ```sh
//! RUSTFLAGS="--cfg hashed_wheel_loom" cargo test --release -p hashed-wheel --lib loom
//! ```
//!
//! and, for the long run, with `LOOM_MAX_PREEMPTIONS=3` in front. A run is interrupted twice at most,
//! at places that matter; three times in the long run.
//!
//! A test is a model, a closure that [`explore`] calls once for each interleaving of its threads,
//! and the list of its legal *ends*. Every run must come to one of them, and over all runs each must
//! have been reached: so a model that by mistake explores nothing fails, and so does a list that is
//! longer than the truth.
//!
//! | file | what is modelled |
//! |---|---|
//! | [`slot`], [`periodic`] | the transitions of one slot |
//! | [`cache`] | slots and shards that change hands between threads |
//! | [`queue`] | the pending queue: push against take, and against `stop` |
//! | [`place`] | where the timer thread finds an armed slot: armings and resets against its number and its entry |
//! | [`sleep`] | the word that the worker sleeps under, and how it finds what is new |
//! | [`memory`] | who gives a timer's memory back; the set of free indices |
//! | [`delay_queue`] | values and consumers of delay queues |
//! | [`driver`] | the caller's own loop: the hook against `next_due` and `stop` |
//! | [`fire`], [`start`], [`stop`], [`executor`], [`future`] | the whole timer, by its public methods |
//!
//! The whole timer is the production code: worker, engine, wheel, slots, thread-local caches. What
//! differs is in `sync`, and in a few sizes. Time stands still until the worker sleeps until a
//! boundary, and then jumps there.
//!
//! When a run fails, the first panic tells why; the process may abort after it, because the
//! model's threads are thrown away half-way.

mod cache;
mod delay_queue;
mod driver;
mod executor;
mod fire;
mod future;
mod memory;
mod periodic;
mod place;
mod queue;
mod sleep;
mod slot;
mod start;
mod stop;

use crate::entry::{Lane, SlotId};
use crate::slots::{self, Arming, Label, Place, Vacant};
use crate::sync::{Condvar, Mutex};
use crate::time::Tick;
use crate::{HashedWheelTimer, HashedWheelTimerBuilder, Period, Stats, TimerHandle};
use loom::thread::ThreadId;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::thread;
use std::time::{Duration, Instant};

/// Slots and tasks here are given nothing.
type Slot = slots::Slot<()>;
type StoredTask = slots::StoredTask<()>;

/// Preemptions of a run, unless the environment says otherwise.
const PREEMPTIONS: usize = 2;
/// Steps of a run beyond which it is taken to spin without end.
const STEPS: usize = 10_000;
/// The tick of the timers here.
const TICK: Duration = Duration::from_millis(1);

/// Runs `model` in every interleaving. What it returns is how the run ended.
fn explore<E, const N: usize>(ends: [E; N], model: impl Fn() -> E + Send + Sync + 'static)
where
    E: Debug + Eq + Hash + Clone + Send + Sync + 'static,
{
    let builder = loom::model::Builder::new();
    let bound = builder.preemption_bound.unwrap_or(PREEMPTIONS);
    explore_within(bound, ends, model);
}

/// As [`explore`], for a model that is too long for more preemptions than these.
fn explore_within<E, const N: usize>(
    preemptions: usize,
    ends: [E; N],
    model: impl Fn() -> E + Send + Sync + 'static,
) where
    E: Debug + Eq + Hash + Clone + Send + Sync + 'static,
{
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = STEPS;

    let seen = Arc::new(StdMutex::new(HashMap::<E, usize>::new()));
    let begun = Instant::now();
    let (counts, legal) = (Arc::clone(&seen), ends.clone());
    builder.check(move || {
        let end = model();
        assert!(legal.contains(&end), "not a legal end: {end:?}");
        *counts.lock().unwrap().entry(end).or_default() += 1;
    });

    let seen = seen.lock().unwrap();
    let runs: usize = seen.values().sum();
    println!(
        "{}: {runs} runs in {:.1?}: {seen:?}",
        thread::current().name().unwrap_or_default(),
        begun.elapsed()
    );
    assert!(runs > 1, "nothing was explored");
    for end in ends {
        assert!(seen.contains_key(&end), "no run ended so: {end:?}");
    }
}

/// Does something of which one interleaving is enough: setting up and clearing away. The threads that
/// it starts are explored from where they are when it is done.
fn unexplored<R>(code: impl FnOnce() -> R) -> R {
    loom::stop_exploring();
    let result = code();
    loom::explore();
    result
}

/// Counts what becomes of one task. The counters are no part of the model: they order nothing.
#[derive(Clone, Default, Debug)]
struct Probe(Arc<Counts>);

#[derive(Default, Debug)]
struct Counts {
    runs: AtomicUsize,
    drops: AtomicUsize,
    dropped_on: StdMutex<Option<ThreadId>>,
}

/// The captures of a task.
struct Held(Probe);

impl Drop for Held {
    fn drop(&mut self) {
        let counts = &self.0.0;
        counts.drops.fetch_add(1, Ordering::Relaxed);
        *counts.dropped_on.lock().unwrap() = Some(loom::thread::current().id());
    }
}

impl Probe {
    /// A closure to capture in a task that is given to a timer: to be called when it runs.
    fn hold(&self) -> impl Fn() + Send + 'static {
        let held = Held(self.clone());
        move || {
            held.0.0.runs.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn task(&self) -> StoredTask {
        let held = self.hold();
        StoredTask::once(move |()| held())
    }

    fn periodic(&self) -> StoredTask {
        let held = self.hold();
        StoredTask::periodic(move |()| held(), Period::FixedDelay(TICK))
    }

    fn runs(&self) -> usize {
        self.0.runs.load(Ordering::Relaxed)
    }

    fn drops(&self) -> usize {
        self.0.drops.load(Ordering::Relaxed)
    }

    /// Returns `true` if that thread has dropped the task.
    fn dropped_on(&self, thread: ThreadId) -> bool {
        *self.0.dropped_on.lock().unwrap() == Some(thread)
    }

    /// Returns `true` if the task is gone; it must not have gone twice.
    fn is_gone(&self) -> bool {
        assert!(self.drops() <= 1, "dropped {} times", self.drops());
        self.drops() == 1
    }
}

/// A slot that was never used.
fn free_slot() -> Slot {
    Slot::new()
}

/// Arms a slot, which must be free and known to no other thread. Returns its place and its stamp.
fn arm_number(slot: &Slot, task: StoredTask, due: u64, lane: Lane) -> (Place, u64) {
    // SAFETY: as said.
    let vacant = unsafe { Vacant::new(SlotId::from_number(0)) };
    // Each arming has another.
    static STAMPS: AtomicU64 = AtomicU64::new(0);
    let stamp = STAMPS.fetch_add(1, Ordering::Relaxed);
    let arming = Arming {
        kind: task.kind(),
        label: Label::NONE,
        stamp,
        due: Tick(due),
        lane,
        early: 0,
    };
    (slot.arm(vacant, task, arming), stamp)
}

/// The same. Returns its stamp.
fn arm(slot: &Slot, task: StoredTask, due: u64) -> u64 {
    arm_number(slot, task, due, Lane::Soon).1
}

/// A small timer, with a thread.
fn builder() -> HashedWheelTimerBuilder {
    HashedWheelTimer::builder()
        .tick_duration(TICK)
        .ticks_per_wheel(2)
}

/// One that has started, with its worker on the way to its first sleep.
fn timer() -> HashedWheelTimer {
    unexplored(|| {
        let timer = builder().build().unwrap();
        timer.start().unwrap();
        timer
    })
}

/// The boundary that has passed, of a timer that was started before time went on.
fn now() -> u64 {
    let now = crate::sync::Instant::note();
    (now.as_nanos() / TICK.as_nanos()) as u64
}

/// Checks that the figures of a timer agree with each other, and that nothing was caught that should
/// have failed the test.
fn check_figures(timer: &TimerHandle) -> Stats {
    let stats = timer.stats();
    let over = stats.expired + stats.cancelled + stats.unprocessed;
    assert_eq!(stats.scheduled, over + stats.pending, "{stats:?}");
    assert_eq!(stats.panicked, 0);
    stats
}

/// Something that one thread sets and another waits for.
struct Latch<T> {
    value: Mutex<Option<T>>,
    set: Condvar,
}

impl<T> Latch<T> {
    fn new() -> Arc<Latch<T>> {
        Arc::new(Latch {
            value: Mutex::new(None),
            set: Condvar::default(),
        })
    }

    fn set(&self, value: T) {
        *self.value.lock() = Some(value);
        self.set.notify_all();
    }

    fn wait(&self) -> T {
        let mut value = self.value.lock();
        loop {
            match value.take() {
                Some(value) => return value,
                None => self.set.wait(&mut value),
            }
        }
    }
}

//! The memory of one timer, shared by its owner, its handles and its worker: everything that is
//! reached from any thread. What only the timer thread touches is in the [engine](crate::worker::engine).

pub(crate) mod launch;
pub(crate) mod lifecycle;
pub(crate) mod reentrancy;
#[expect(unsafe_code, reason = "as in this module")]
pub(crate) mod retired;
#[expect(unsafe_code, reason = "a handle points to its timer without counting")]
pub(crate) mod timeout;

use self::reentrancy::Activity;
use crate::entry::Entry;
use crate::error::RejectReason;
use crate::metrics::histogram::Recorder;
use crate::metrics::stats::{Counter, Sources, Stats, Tally, WorkerTally};
use crate::queue::pending::{Lane, Pushed, Surroundings};
use crate::queue::sleep::Sleep;
use crate::shared::lifecycle::Lifecycle;
use crate::shared::timeout::Timeout;
use crate::slots::Slab;
use crate::slots::local::{self, Counters, Depot};
use crate::slots::slot::{Slot, Vacant};
use crate::slots::stored_task::{Kind, StoredTask};
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicU8, AtomicUsize, Mutex, Ordering, fence};
use crate::time::clock::{Clock, FOREVER, Scale, nanos};
use crate::time::manual::ManualClock;
use crate::time::tick::Tick;
use crate::worker::engine::Drive;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What a timer is built with, beside its wheel.
pub(crate) struct Settings {
    /// What it is called, in logs and as its thread's default name.
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    /// `usize::MAX` for no limit.
    pub(crate) max_pending: usize,
    pub(crate) max_transfers: usize,
    pub(crate) factory: Option<launch::Factory>,
    pub(crate) thread_name: Option<String>,
}

pub(crate) struct Shared {
    // Read by every call and hardly ever written.
    /// Never used twice in a process.
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    max_pending: usize,
    pub(crate) max_transfers: usize,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) slab: Slab,
    pub(crate) depot: Arc<Depot>,
    /// A power of two of them.
    pub(crate) lanes: Box<[Lane]>,

    // Written by many, each on lines of its own.
    pub(crate) sleep: Sleep,
    limited: Limited,
    pub(crate) tally: Tally,
    pub(crate) worker_tally: WorkerTally,
    pub(crate) lateness: Recorder,
    /// The last boundary whose tasks have begun to run.
    pub(crate) processed: Counter,

    // For starting and stopping.
    pub(crate) launcher: Mutex<Option<launch::Launcher>>,
    /// Here while nobody runs it: before the start, and between the boundaries of a manual clock.
    pub(crate) engine: Mutex<Option<Box<dyn Drive>>>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    /// What `stop` is to return, once the timer has come to its end.
    pub(crate) leftovers: Mutex<Vec<Timeout>>,
    /// The owner was dropped by the thread factory, which could not wait for itself.
    pub(crate) orphaned: AtomicBool,
    /// The owner and the engine: the last of them to leave sees to the memory.
    keepers: AtomicU8,
}

/// The number of pending timeouts, counted only if it is limited.
#[repr(align(128))]
struct Limited(AtomicUsize);

/// When a timeout is due.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// This long after the call.
    After(Duration),
    /// At this moment of the timer's clock.
    At(u64),
}

impl Shared {
    pub(crate) fn new(settings: Settings, engine: Box<dyn Drive>) -> Arc<Shared> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: any distinct number will do.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            id,
            name: settings.name,
            scale: settings.scale,
            clock: settings.clock,
            max_pending: settings.max_pending,
            max_transfers: settings.max_transfers,
            lifecycle: Lifecycle::new(),
            slab: Slab::new(),
            depot: Depot::new(id),
            lanes: Lane::all(),
            sleep: Sleep::new(),
            limited: Limited(AtomicUsize::new(0)),
            tally: Tally::default(),
            worker_tally: WorkerTally::default(),
            lateness: Recorder::new(),
            processed: Counter::default(),
            launcher: Mutex::new(Some(launch::Launcher::new(
                settings.factory,
                settings
                    .thread_name
                    .unwrap_or_else(|| format!("{}-{id}", settings.name)),
            ))),
            engine: Mutex::new(Some(engine)),
            thread: Mutex::new(None),
            leftovers: Mutex::new(Vec::new()),
            orphaned: AtomicBool::new(false),
            keepers: AtomicU8::new(2),
        });
        if let Some(engine) = &*shared.engine.lock() {
            engine.tell(&shared);
        }
        shared
    }

    // ── scheduling ────────────────────────────────────────────────────────────────────────────

    /// Takes a task: arms a slot, pushes its entry, and looks whether the timer has stopped meanwhile.
    ///
    /// Inlined, so that the task is written to its slot from where it is; what it calls is not.
    #[inline(always)]
    #[expect(
        clippy::inline_always,
        reason = "as said; it is worth a tenth of the call"
    )]
    pub(crate) fn schedule(
        self: &Arc<Self>,
        task: StoredTask,
        when: When,
    ) -> Result<Timeout, (StoredTask, RejectReason)> {
        let vacant = match self.vacancy() {
            Ok(vacant) => vacant,
            Err(reason) => return Err((task, *reason)),
        };
        let periodic = task.kind() == Kind::Periodic;
        let (due, deadline) = self.deadline(when);
        let number = vacant.slot();
        let entry = self.slot(number).arm(vacant, task, due, deadline, periodic);
        let timeout = Timeout::of_user(self, number);
        self.submit(entry);
        // A stop that this look misses has not begun its scan when the entry was pushed, and will
        // find the slot armed: see `launch::finish`.
        if self.lifecycle.is_shutdown() {
            if let Some(task) = self.withdraw(number) {
                return Err((task, RejectReason::Stopped));
            }
        }
        Ok(timeout)
    }

    /// A slot for a timeout that is taken, and counted. The reason is boxed to keep the answer small.
    fn vacancy(self: &Arc<Self>) -> Result<Vacant, Box<RejectReason>> {
        if let Err(reason) = self.admit() {
            self.tally.rejected.add(1);
            return Err(Box::new(reason));
        }
        Ok(local::with_cache(&self.depot, |cache| {
            let vacant = cache.take(&self.slab);
            // Before it is armed, so that nobody counts its end before its beginning.
            cache.counters().scheduled.add(1);
            vacant
        }))
    }

    /// Makes room for one more and sees to it that the timer runs.
    #[inline]
    fn admit(self: &Arc<Self>) -> Result<(), RejectReason> {
        if !self.lifecycle.is_started() {
            launch::start(self)?;
        }
        if self.max_pending == usize::MAX {
            Ok(())
        } else {
            self.admit_one()
        }
    }

    #[cold]
    fn admit_one(&self) -> Result<(), RejectReason> {
        // Relaxed: the counter guards no data. One update, never add and undo: the limit holds at
        // every moment.
        self.limited
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |pending| {
                (pending < self.max_pending).then_some(pending + 1)
            })
            .map(drop)
            .map_err(|_| RejectReason::TooManyPending {
                max: self.max_pending,
            })
    }

    /// The counterpart of [`Shared::admit_one`], when a timeout is over.
    #[inline]
    pub(crate) fn release_one(&self) {
        if self.max_pending != usize::MAX {
            self.limited.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The boundary and the deadline, counted from the timer's start.
    #[inline]
    pub(crate) fn deadline(&self, when: When) -> (Tick, u64) {
        let at = match when {
            When::After(delay) => self.clock.now().saturating_add(nanos(delay)),
            When::At(moment) => moment,
        };
        let deadline = match at {
            FOREVER => FOREVER,
            at => at.saturating_sub(self.lifecycle.started_at()),
        };
        let due = self.scale.due(deadline);
        // A manual clock may stand on the very boundary whose tasks are running.
        let coming = self.clock.manual().map_or(0, |_| self.processed.get() + 1);
        (due.max(Tick(coming)), deadline)
    }

    /// Puts an entry into this thread's lane and wakes the worker if it would be late for it.
    pub(crate) fn submit(&self, entry: Entry) {
        if entry.due() == Tick::NEVER {
            // No entry: nothing will ever have to be done about it, until `stop` scans the slots.
            // The fence stands where a push has its sequentially consistent addition.
            return fence(Ordering::SeqCst);
        }
        let lane = &self.lanes[local::thread_number() & (self.lanes.len() - 1)];
        let pushed = lane.push(entry, self);
        let crowded = pushed == Pushed::Crowded;
        self.sleep.wake_for(entry.due(), crowded, || self.passed());
    }

    /// The timer stopped while this call was scheduling: the slot's word decides whether the scan of
    /// `stop` has seen it. If not, the task is taken back.
    #[cold]
    fn withdraw(&self, number: u32) -> Option<StoredTask> {
        let task = self.slot(number).disarm()?;
        self.count(|counters| counters.scheduled.take_back(1));
        self.release_one();
        self.tally.rejected.add(1);
        Some(task)
    }

    /// The timer stopped while a future's timeout was in its owner's hands, so that the scan of `stop` may
    /// have passed it over: then it is counted here.
    #[cold]
    pub(crate) fn abandon(&self, slot: &Slot) {
        if let Some(task) = slot.disarm() {
            self.tally.unprocessed.add(1);
            self.release_one();
            drop(task);
        }
    }

    // ── slots ─────────────────────────────────────────────────────────────────────────────────

    /// The slot of a number that came from this timer: every number in an entry or a handle does.
    #[inline]
    pub(crate) fn slot(&self, number: u32) -> &Slot {
        // SAFETY: numbers are made by `Cache::take` alone, from this timer's slab, and travel to
        // other threads with an entry or a handle, which orders the two calls.
        unsafe { self.slab.slot(number) }
    }

    /// Frees a slot that was found [`Left::Abandoned`](crate::slots::slot::Left).
    ///
    /// Unless an `Arc` is held, the timer's memory must not be touched after this.
    #[inline]
    pub(crate) fn free(&self, number: u32) {
        let slot = self.slot(number);
        let (id, stopped) = (self.id, self.lifecycle.is_shutdown());
        local::with_cache(&self.depot, |cache| cache.put(number, slot));
        // `self` may dangle from here on.
        if stopped {
            retired::look(id);
        }
    }

    /// Counts something on this thread's own counters.
    #[inline]
    pub(crate) fn count(&self, count: impl FnOnce(&Counters)) {
        local::with_cache(&self.depot, |cache| count(cache.counters()));
    }

    /// The owner or the engine lets go of the timer.
    pub(crate) fn leave(self: &Arc<Self>) {
        if self.keepers.fetch_sub(1, Ordering::AcqRel) == 1 {
            retired::release(Arc::clone(self));
        }
    }

    // ── what is asked from outside ────────────────────────────────────────────────────────────

    /// The boundary that the clock has passed. Only of a timer that has started.
    pub(crate) fn passed(&self) -> Tick {
        self.scale
            .passed(self.clock.now().saturating_sub(self.lifecycle.started_at()))
    }

    /// The moment of a boundary on the timer's clock.
    pub(crate) fn moment(&self, boundary: Tick) -> Option<u64> {
        self.scale
            .moment(boundary)?
            .checked_add(self.lifecycle.started_at())
    }

    pub(crate) fn pending(&self) -> u64 {
        let unprocessed = self.tally.unprocessed.get();
        let sums = self.depot.sums();
        let over = sums.expired + sums.cancelled + unprocessed;
        sums.scheduled.saturating_sub(over)
    }

    pub(crate) fn pending_timeouts(&self) -> usize {
        // A call that is about to find the timer stopped may have counted its timeout already.
        if self.is_done() {
            return 0;
        }
        if self.max_pending != usize::MAX {
            // One counter, so that not even a reading exceeds the limit.
            return self.limited.0.load(Ordering::Relaxed);
        }
        self.pending() as usize
    }

    fn is_done(&self) -> bool {
        self.lifecycle.is_shutdown() && self.lifecycle.is_done()
    }

    pub(crate) fn stats(&self) -> Stats {
        let lanes: usize = self.lanes.iter().map(Lane::bytes).sum();
        let sources = Sources {
            tally: &self.tally,
            worker: &self.worker_tally,
            lateness: &self.lateness,
            queued: self.lanes.iter().map(Lane::len).sum(),
            bytes: self.slab.bytes() + lanes,
            done: self.is_done(),
        };
        Stats::collect(sources, || self.depot.sums())
    }

    /// Marks this thread as doing something for this timer.
    pub(crate) fn enter(&self, activity: Activity) -> reentrancy::Entered {
        reentrancy::enter(activity, self.id, self.clock_identity())
    }

    /// Whether this thread is the timer's.
    pub(crate) fn is_driven_here(&self) -> bool {
        reentrancy::is_driving(self.id, self.clock_identity())
    }

    fn clock_identity(&self) -> usize {
        self.clock.manual().map_or(0, ManualClock::identity)
    }
}

impl Surroundings for Shared {
    fn now(&self) -> u64 {
        self.clock.now()
    }

    #[inline]
    fn prefetch(&self, entry: Entry) {
        self.slot(entry.slot()).prefetch();
    }

    #[inline]
    fn is_dead(&self, entry: Entry) -> bool {
        self.slot(entry.slot()).is_dead(entry)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.depot.close();
    }
}

//! The memory of one timer, shared by its owner, its handles and its worker. The state of the timer thread alone is in
//! the [`Driver`].

#[forbid(unsafe_code)]
mod driver;
#[forbid(unsafe_code)]
mod handle;
#[forbid(unsafe_code)]
mod instances;
#[forbid(unsafe_code)]
mod lifecycle;
#[forbid(unsafe_code)]
mod reentrancy;
#[expect(unsafe_code, reason = "as in this module")]
mod retired;
#[forbid(unsafe_code)]
mod schedule;
#[forbid(unsafe_code)]
mod shutdown;
#[forbid(unsafe_code)]
mod startup;
#[forbid(unsafe_code)]
mod task;
#[expect(unsafe_code, reason = "a handle points to its timer without counting")]
mod timeout;

pub(crate) use driver::Driver;
pub use handle::TimerHandle;
pub use lifecycle::TimerState;
#[cfg(all(test, hashed_wheel_loom))]
pub(crate) use lifecycle::{Lifecycle, StartDecision, StopDecision};
pub(crate) use reentrancy::Activity;
pub(crate) use schedule::When;
pub(crate) use startup::Factory;
pub use task::{Job, Task};
pub use timeout::Timeout;

use crate::metrics::{Counter, Holdings, Metrics, Stats};
use crate::queue::PendingQueue;
use crate::slots::local::{self, Counters, Depot};
use crate::slots::{Slab, Slot};
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicU8, AtomicUsize, Mutex, Ordering};
use crate::time::{Clock, ManualClock, Scale, Tick};
#[cfg(not(all(test, hashed_wheel_loom)))]
use lifecycle::Lifecycle;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// The settings of a timer, without its wheel.
pub(crate) struct Settings {
    /// In logs, and the default name of the thread.
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    /// `usize::MAX` for no limit.
    pub(crate) max_pending: usize,
    pub(crate) factory: Option<Factory>,
    pub(crate) thread_name: Option<String>,
    pub(crate) has_executor: bool,
}

pub(crate) struct Shared {
    // Read by every call, rarely written.
    /// Unique in the process.
    id: u64,
    name: &'static str,
    scale: Scale,
    clock: Clock,
    max_pending: usize,
    /// The timer thread drops the executor last: see `shutdown::join`.
    has_executor: bool,
    lifecycle: Lifecycle,
    slab: Slab<Timeout>,
    depot: Arc<Depot>,

    // Written by many threads, each part on its own cache lines.
    queue: PendingQueue,
    limited: Limited,
    metrics: Metrics,
    /// The last boundary whose tasks have begun to run.
    processed: Counter,

    // Start and stop.
    spawner: Mutex<Option<startup::ThreadSpawner>>,
    /// `Some` while no thread runs it: before the start, and between the boundaries of a manual clock.
    driver: Mutex<Option<Box<dyn Driver>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The timeouts that `stop` will return, once the timer has ended.
    unprocessed: Mutex<Vec<Timeout>>,
    /// The owner was dropped by the thread factory, which cannot wait for itself.
    orphaned: AtomicBool,
    /// The owner and the driver: the last one retires the memory.
    keepers: AtomicU8,
}

/// The number of pending timeouts, counted only with a limit.
#[repr(align(128))]
struct Limited(AtomicUsize);

impl Shared {
    pub(crate) fn new(settings: Settings, driver: Box<dyn Driver>) -> Arc<Shared> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only distinctness matters.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(Shared {
            id,
            name: settings.name,
            scale: settings.scale,
            clock: settings.clock,
            max_pending: settings.max_pending,
            has_executor: settings.has_executor,
            lifecycle: Lifecycle::new(),
            slab: Slab::new(),
            depot: Depot::new(id),
            queue: PendingQueue::new(),
            limited: Limited(AtomicUsize::new(0)),
            metrics: Metrics::new(),
            processed: Counter::default(),
            spawner: Mutex::new(Some(startup::ThreadSpawner::new(
                settings.factory,
                settings
                    .thread_name
                    .unwrap_or_else(|| format!("{}-{id}", settings.name)),
            ))),
            driver: Mutex::new(Some(driver)),
            thread: Mutex::new(None),
            unprocessed: Mutex::new(Vec::new()),
            orphaned: AtomicBool::new(false),
            keepers: AtomicU8::new(2),
        });
        if let Some(driver) = &*shared.driver.lock() {
            driver.publish_counters(&shared);
        }
        instances::begun();
        shared
    }

    // ── slots ─────────────────────────────────────────────────────────────────────────────────

    /// The slot of a number from this timer, as in every entry and handle.
    #[inline]
    pub(crate) fn slot(&self, number: u32) -> &Slot<Timeout> {
        // SAFETY: only `Cache::take` makes numbers, from this timer's slab. They reach other threads with an entry or a
        // handle, which orders the two calls.
        unsafe { self.slab.slot(number) }
    }

    /// Frees a slot that was found [`ReleaseResult::Abandoned`](crate::slots::ReleaseResult).
    ///
    /// Takes a pointer: this call, or another thread after the slot's last store, may free the timer's memory, and a
    /// `&self` must be valid to the end of the call.
    ///
    /// # Safety
    /// The caller has found the slot abandoned. Unless an `Arc` is held, the timer's memory must not be touched
    /// after this.
    #[inline]
    unsafe fn free(this: *const Shared, number: u32) {
        // SAFETY: a slot that is not free keeps the memory. No reference outlives this block.
        let (slot, depot, id, stopped) = unsafe {
            let shared = &*this;
            let slot: *const Slot<Timeout> = shared.slot(number);
            (
                slot,
                &raw const (*this).depot,
                shared.id,
                shared.lifecycle.is_shutdown(),
            )
        };
        // SAFETY: the depot exists until the slot's last store, which is in `put`; the slot has that number and is
        // abandoned, as the caller says.
        unsafe { local::with_cache_of(depot, |cache| cache.put(number, slot)) };
        // `this` may dangle from here on.
        if stopped {
            retired::try_reclaim(id);
        }
    }

    /// Frees a slot that was found abandoned after a run. The `Arc` keeps the memory.
    #[inline]
    pub(crate) fn free_after_run(self: &Arc<Self>, number: u32) {
        // SAFETY: the slot was found abandoned, and an `Arc` is held.
        unsafe { Shared::free(Arc::as_ptr(self), number) }
    }

    /// Counts on this thread's counters.
    #[inline]
    pub(crate) fn count(&self, count: impl FnOnce(&Counters)) {
        local::with_cache(&self.depot, |cache| count(cache.counters()));
    }

    /// Releases the timer for the owner or the driver.
    pub(crate) fn release_keeper(self: &Arc<Self>) {
        if self.keepers.fetch_sub(1, Ordering::AcqRel) == 1 {
            retired::retire(Arc::clone(self));
        }
    }

    // ── accessors ─────────────────────────────────────────────────────────────────────────────

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    #[cfg(feature = "hyper")]
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Nanoseconds on the timer's clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn scale(&self) -> Scale {
        self.scale
    }

    /// The length of a tick.
    pub(crate) fn tick(&self) -> Duration {
        Duration::from_nanos(self.scale.tick())
    }

    #[inline]
    pub(crate) fn queue(&self) -> &PendingQueue {
        &self.queue
    }

    #[inline]
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn state(&self) -> TimerState {
        self.lifecycle.state()
    }

    /// Returns `true` if the timer has been stopped (sequentially consistent).
    #[inline]
    pub(crate) fn is_shutdown(&self) -> bool {
        self.lifecycle.is_shutdown()
    }

    /// The start time on the timer's clock. Only after the start.
    #[inline]
    pub(crate) fn started_at(&self) -> u64 {
        self.lifecycle.started_at()
    }

    /// Notes that the tasks of a boundary begin to run.
    pub(crate) fn set_processed(&self, boundary: Tick) {
        self.processed.set(boundary.0);
    }

    /// The last boundary that has passed. Only after the start.
    pub(crate) fn passed(&self) -> Tick {
        self.scale
            .passed(self.clock.now().saturating_sub(self.lifecycle.started_at()))
    }

    /// The time of a boundary on the timer's clock.
    pub(crate) fn time_of(&self, boundary: Tick) -> Option<u64> {
        self.scale
            .time_of(boundary)?
            .checked_add(self.lifecycle.started_at())
    }

    pub(crate) fn pending(&self) -> u64 {
        let unprocessed = self.metrics.shared.unprocessed.get();
        let sums = self.depot.sums();
        let over = sums.expired + sums.cancelled + unprocessed;
        sums.scheduled.saturating_sub(over)
    }

    pub(crate) fn pending_timeouts(&self) -> usize {
        // A call that is about to see the stop may have counted its timeout already.
        if self.is_done() {
            return 0;
        }
        if self.max_pending != usize::MAX {
            // One counter, so that no reading exceeds the limit.
            return self.limited.0.load(Ordering::Relaxed);
        }
        self.pending() as usize
    }

    fn is_done(&self) -> bool {
        self.lifecycle.is_shutdown() && self.lifecycle.is_done()
    }

    pub(crate) fn stats(&self) -> Stats {
        let holdings = Holdings {
            queued: self.queue.len(),
            bytes: self.slab.bytes() + self.queue.bytes(),
            done: self.is_done(),
        };
        Stats::collect(&self.metrics, holdings, || self.depot.sums())
    }

    /// Marks this thread as active for this timer.
    pub(crate) fn enter(&self, activity: Activity) -> reentrancy::ActivityGuard {
        reentrancy::enter(activity, self.id, self.clock_identity())
    }

    /// Returns `true` on the timer's thread.
    pub(crate) fn is_driven_here(&self) -> bool {
        reentrancy::is_driving(self.id, self.clock_identity())
    }

    fn clock_identity(&self) -> usize {
        self.clock.manual().map_or(0, ManualClock::identity)
    }
}

#[cfg(test)]
impl Shared {
    pub(crate) fn driver(&self) -> &Mutex<Option<Box<dyn Driver>>> {
        &self.driver
    }

    #[cfg(hashed_wheel_loom)]
    pub(crate) fn used_slots(&self) -> u32 {
        self.slab.used()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.depot.close();
    }
}

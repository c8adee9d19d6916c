//! The memory of one timer, shared by its owner, its handles and its worker. The state of the timer thread alone is in
//! the [`Driver`].

mod driver;
mod handle;
mod inspect;
mod instances;
mod labels;
mod lifecycle;
#[expect(unsafe_code, reason = "a thread's own storage is reached by a pointer")]
mod local;
mod periods;
mod reentrancy;
mod retired;
mod schedule;
mod shutdown;
mod slow_tasks;
mod snapshot;
mod sorted_map;
mod startup;
mod task;
#[expect(unsafe_code, reason = "a handle points to its timer without counting")]
mod timeout;
#[expect(unsafe_code, reason = "a pinned slot is released")]
mod values;
mod waiters;

pub(crate) use driver::{Driver, in_loop, on_manual_clock};
pub use handle::TimerHandle;
pub use inspect::Pending;
pub(crate) use labels::TaskName;
pub(crate) use lifecycle::Lifecycle;
pub use lifecycle::TimerState;
#[cfg(all(test, hashed_wheel_loom))]
pub(crate) use lifecycle::{StartDecision, StopDecision};
pub(crate) use reentrancy::Activity;
pub(crate) use schedule::{Refused, When};
pub(crate) use startup::{Factory, Prepare, named_thread};
pub use task::{Job, Task};
pub use timeout::{CancelOnDrop, Timeout};
use values::{Consumers, Queues};
pub(crate) use waiters::{Ticket, Waiters};

use crate::catch_panic::catch_panic;
use crate::entry::SlotId;
use crate::memory::Table;
use crate::metrics::{Counter, CounterTable, Metrics};
use crate::queue::PendingQueue;
use crate::slots::Slots;
use crate::sync::thread::JoinHandle;
use crate::sync::{AtomicU8, AtomicUsize, CachePadded, Mutex, Ordering};
use crate::time::{Clock, ManualClock, Scale, Tick};
use labels::Labels;
use local::Registry;
use periods::Periods;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

/// The settings of a timer, without its wheel, executor and thread.
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub(crate) struct Settings {
    /// In logs, and the default name of the thread.
    pub(crate) name: &'static str,
    pub(crate) scale: Scale,
    pub(crate) clock: Clock,
    /// Nanoseconds; a timeout of more than this waits in a late lane of the queue. Without end for a timer that has no thread, as its
    /// driver comes when the caller likes, or that may transfer only few slots at a tick.
    pub(crate) soon: u64,
    /// `usize::MAX` for no limit.
    pub(crate) max_pending: usize,
    /// The timer thread drops the executor last: see `shutdown::join`.
    pub(crate) has_executor: bool,
    /// `None` for a timer with a thread.
    pub(crate) without_thread: Option<Prepare>,
    /// The caller's loop drives it.
    pub(crate) is_driven: bool,
    /// The thread asks for the finest timer slack.
    pub(crate) fine_ticks: bool,
    /// Nanoseconds; a task that holds the timer thread for longer is logged.
    pub(crate) slow_task: u64,
    /// It is never stopped.
    pub(crate) is_global: bool,
}

pub(crate) struct Shared {
    // Read by every call, rarely written.
    /// Unique in the process.
    id: u64,
    pub(crate) settings: Settings,
    /// What a glance at the clock may be behind by.
    margin: u64,
    /// The setting `soon`, in ticks or more.
    soon: u64,
    lifecycle: Lifecycle,
    /// The first time on the timer's clock at which a timeout never fires. Written at the start.
    end: AtomicU64,
    slots: Slots<Timeout>,
    /// By the number of a slot: how long before its boundary the deadline lies, if that does not fit in the slot.
    very_early: Table<crate::sync::AtomicU64, 64>,
    registry: Arc<Registry>,
    counters: CounterTable,

    // Written by many threads, each part on its own cache lines.
    queue: PendingQueue,
    /// The number of pending timeouts, counted only with a limit.
    limited: CachePadded<AtomicUsize>,
    metrics: Metrics,
    /// The last boundary processed: its tasks have begun to run, or it had none.
    processed: Counter,

    /// The tick, or the limit of a slow task if that is less.
    least_slow: u64,
    /// The time from which the next one may be logged.
    next_slow_line: AtomicU64,
    /// Periods that were set since the last run, by slot.
    periods: Periods,
    labels: Mutex<Labels>,
    queues: Mutex<Queues>,
    /// Held by the one thread that looks through the values of all queues.
    pins: Mutex<()>,

    // Start and stop.
    /// Starts the timer's thread. `None` when the timer has stopped.
    factory: Mutex<Option<Factory>>,
    /// `Some` while no thread runs it: before the start, between the boundaries of a manual clock, and between the calls of
    /// the caller's loop.
    driver: Mutex<Option<Box<dyn Driver>>>,
    /// The driver of a timer without a thread, after the end: the caller's loop drops it, or the next advance of the clock or
    /// the owner's drop. Locked before `driver`.
    ended: Mutex<Option<Box<dyn Driver>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The timeouts that `stop` will return, once the timer has ended.
    unprocessed: Mutex<Vec<Timeout>>,
    /// The owner was dropped by the thread factory, which cannot wait for itself.
    orphaned: AtomicBool,
    /// The owner and the driver: the last one retires the memory.
    keepers: AtomicU8,
}

impl Shared {
    /// A timer that was not started. Without a factory, its thread has the name of the timer and its number.
    pub(crate) fn new(
        settings: Settings,
        driver: Box<dyn Driver>,
        factory: Option<Factory>,
    ) -> Arc<Shared> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only distinctness matters.
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let default_name = || format!("{}-{id}", settings.name);
        let factory = factory.unwrap_or_else(|| named_thread(default_name()));
        // Allocated before it is made: no code is needed that drops one for want of memory.
        let shared = Arc::new_cyclic(|_| Shared {
            id,
            margin: settings.clock.margin(settings.scale.tick()),
            soon: settings.soon / settings.scale.tick() + 1,
            least_slow: settings.slow_task.min(settings.scale.tick()),
            settings,
            lifecycle: Lifecycle::default(),
            end: AtomicU64::new(0),
            slots: Slots::new(),
            very_early: Table::new(),
            registry: Registry::new(),
            counters: CounterTable::new(),
            queue: PendingQueue::new(),
            limited: CachePadded::new(AtomicUsize::new(0)),
            metrics: Metrics::default(),
            processed: Counter::default(),
            next_slow_line: AtomicU64::new(0),
            periods: Periods::default(),
            labels: Mutex::default(),
            queues: Mutex::new(Some(Vec::new())),
            pins: Mutex::default(),
            factory: Mutex::new(Some(factory)),
            driver: Mutex::new(Some(driver)),
            ended: Mutex::new(None),
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

    /// Runs user code, and catches, logs and counts its panic.
    #[inline]
    pub(crate) fn catch_panic(&self, what: impl fmt::Display, code: impl FnOnce()) {
        if catch_panic(what, code) {
            self.metrics.shared.panicked.add(1);
        }
    }

    /// The same for code of one timeout, whose label is logged. Its slot is not free.
    #[inline]
    pub(crate) fn catch_panic_of(&self, what: &'static str, slot: SlotId, code: impl FnOnce()) {
        self.catch_panic(TaskName(what, self, slot), code);
    }

    /// Releases the timer for the owner or the driver.
    pub(crate) fn release_keeper(self: &Arc<Self>) {
        if self.keepers.fetch_sub(1, Ordering::AcqRel) == 1 {
            retired::retire(Arc::clone(self));
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.settings.name
    }

    #[inline]
    pub(crate) fn clock(&self) -> &Clock {
        &self.settings.clock
    }

    /// Nanoseconds on the timer's clock.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.settings.clock.now()
    }

    /// The time on the timer's clock, about: [`Clock::recent`].
    #[inline]
    pub(crate) fn recent(&self) -> u64 {
        self.settings.clock.recent()
    }

    pub(crate) fn scale(&self) -> Scale {
        self.settings.scale
    }

    /// The length of a tick.
    pub(crate) fn tick(&self) -> Duration {
        Duration::from_nanos(self.settings.scale.tick())
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

    /// Notes that the tasks of a boundary begin to run, or that it had none.
    pub(crate) fn set_processed(&self, boundary: Tick) {
        self.processed.set(boundary.0);
    }

    /// The last boundary processed.
    #[inline]
    pub(crate) fn processed(&self) -> Tick {
        Tick(self.processed.get())
    }

    /// The last boundary that has passed. Only after the start.
    pub(crate) fn passed(&self) -> Tick {
        self.passed_at(self.settings.clock.now())
    }

    /// The boundary that had passed at `now`.
    pub(crate) fn passed_at(&self, now: u64) -> Tick {
        self.settings
            .scale
            .passed(now.saturating_sub(self.lifecycle.started_at()))
    }

    /// The time of a boundary on the timer's clock.
    pub(crate) fn time_of(&self, boundary: Tick) -> Option<u64> {
        self.settings
            .scale
            .time_of(boundary)?
            .checked_add(self.lifecycle.started_at())
    }

    /// Returns `true` only if no timeout is pending that was counted before this call; not always then.
    pub(crate) fn is_idle(&self) -> bool {
        self.counters.all_have_ended()
    }

    /// Slots whose memory is held, in use or not.
    pub(crate) fn held_slots(&self) -> usize {
        self.registry.pool.held()
    }

    /// Gives memory of free slots back to the system, a step from group `at` on. Returns where to go on, `None` at the
    /// end. For the timer thread.
    pub(crate) fn discard_free_slots(&self, at: u32) -> Option<u32> {
        self.registry.pool.discard_free(&self.slots, at)
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
        self.settings
            .clock
            .manual()
            .map_or(0, ManualClock::identity)
    }
}

#[cfg(all(test, hashed_wheel_loom))]
impl Shared {
    pub(crate) fn used_slots(&self) -> u32 {
        self.registry.pool.used_groups()
    }

    /// The calling thread's number.
    #[cfg(hashed_wheel_loom)]
    pub(crate) fn thread_number(&self) -> u32 {
        self.with_local(local::Local::number)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Relaxed: only a hint that locals may be dropped.
        self.registry.closed.store(true, Ordering::Relaxed);
    }
}

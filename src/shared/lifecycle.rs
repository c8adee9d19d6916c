//! The states of a timer, and waiting for a change.
//!
//! ```text
//!           start                  the worker runs
//!   INIT ─────────► STARTING ─────────────────────► STARTED
//!    │ ▲               │                               │
//!    │ └───────────────┘ the thread could not start    │ stop, or the owner's drop
//!    │ stop                                            ▼
//!    └──────────────────────────────────────────► SHUTDOWN ─── the last task is over ──► (done)
//! ```
//!
//! Every arrow is a compare-and-swap with one winner. STARTING reads as [`TimerState::Init`] from outside; calls that
//! need a decision wait for the outcome. SHUTDOWN has two kinds: a thread waits for the unprocessed timeouts, or none
//! does (a task dropped the owner, or `shutdown_background` did), and the thread that ends the timer drops them.

use crate::sync::{AtomicU8, AtomicU64, Condvar, Mutex, Ordering};

/// The state of a timer. It never goes back.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, TimerState};
///
/// let timer = HashedWheelTimer::default();
/// assert_eq!(timer.state(), TimerState::Init);
/// timer.start()?;
/// assert_eq!(timer.state(), TimerState::Started);
/// timer.stop()?;
/// assert_eq!(timer.state(), TimerState::Shutdown);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimerState {
    /// Built, not started. The first timeout starts it.
    Init,
    /// Running.
    Started,
    /// Stopped, for good.
    Shutdown,
}

/// The first: that of a lifecycle by default.
const INIT: u8 = 0;
const STARTING: u8 = 1;
const STARTED: u8 = 2;
/// Stopped; the caller waits for the unprocessed timeouts.
const SHUTDOWN: u8 = 3;
/// Stopped by an owner's drop that does not wait.
const SHUTDOWN_DETACHED: u8 = 4;

#[derive(Default)]
pub(crate) struct Lifecycle {
    /// One of the constants above. Sequentially consistent where the sleep and stop protocols say so.
    state: AtomicU8,
    /// The start time on the timer's clock. Written before STARTED.
    started_at: AtomicU64,
    /// The stop time on the timer's clock. Written before any slot is Stopped.
    stopped_at: AtomicU64,
    progress: Mutex<Progress>,
    /// Signalled when `progress` changes, and when `state` leaves STARTING.
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// The thread factory has returned.
    spawned: bool,
    /// The timer has ended: nothing of it will run any more.
    done: bool,
}

/// The decision for a call of `start`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartDecision {
    /// This call has won STARTING and starts the timer.
    Starting,
    /// Nothing: it is started.
    Started,
    /// Nothing: it has stopped.
    Stopped,
}

/// The decision for a call of `stop`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopDecision {
    /// Not started: this call ends the timer.
    BeforeStart,
    /// Started: this call ends the timer, or waits for the worker to.
    Running,
    /// Another call has stopped it.
    Already,
}

impl Lifecycle {
    pub(crate) fn state(&self) -> TimerState {
        match self.state.load(Ordering::Acquire) {
            INIT | STARTING => TimerState::Init,
            STARTED => TimerState::Started,
            _ => TimerState::Shutdown,
        }
    }

    /// Returns `true` if entries may be pushed; if so, the start time can be read.
    #[inline]
    pub(crate) fn is_started(&self) -> bool {
        self.state.load(Ordering::Acquire) == STARTED
    }

    /// Returns `true` if the timer has been stopped. Sequentially consistent: the last step of a push, and
    /// part of the worker's last look before it sleeps.
    #[inline]
    pub(crate) fn is_shutdown(&self) -> bool {
        self.state.load(Ordering::SeqCst) >= SHUTDOWN
    }

    /// Returns `true` if nobody waits for the unprocessed timeouts.
    pub(crate) fn is_detached(&self) -> bool {
        self.state.load(Ordering::Acquire) == SHUTDOWN_DETACHED
    }

    #[inline]
    pub(crate) fn started_at(&self) -> u64 {
        // Relaxed: whoever asks has seen STARTED or later with Acquire.
        self.started_at.load(Ordering::Relaxed)
    }

    pub(crate) fn stopped_at(&self) -> u64 {
        // Relaxed: whoever asks has seen a slot in the state Stopped with Acquire.
        self.stopped_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_stopped_at(&self, now: u64) {
        self.stopped_at.store(now, Ordering::Relaxed);
    }

    /// INIT → STARTING, or waits for the outcome of another thread's.
    pub(crate) fn begin_start(&self) -> StartDecision {
        loop {
            match self.change(INIT, STARTING) {
                Ok(_) => return StartDecision::Starting,
                Err(STARTING) => self.wait_while_starting(),
                Err(STARTED) => return StartDecision::Started,
                Err(_) => return StartDecision::Stopped,
            }
        }
    }

    /// STARTING → STARTED.
    pub(crate) fn started(&self, now: u64) {
        self.started_at.store(now, Ordering::Relaxed);
        self.leave_starting(STARTED);
    }

    /// STARTING → INIT: waiting calls may try.
    pub(crate) fn start_failed(&self) {
        self.leave_starting(INIT);
    }

    fn leave_starting(&self, to: u8) {
        let _lock = self.progress.lock();
        let left = self.change(STARTING, to);
        debug_assert!(left.is_ok(), "left STARTING from {left:?}");
        self.changed.notify_all();
    }

    /// INIT or STARTED → SHUTDOWN, by one caller.
    pub(crate) fn request_stop(&self, detached: bool) -> StopDecision {
        let shutdown = if detached {
            SHUTDOWN_DETACHED
        } else {
            SHUTDOWN
        };
        loop {
            if self.change(STARTED, shutdown).is_ok() {
                return StopDecision::Running;
            }
            match self.change(INIT, SHUTDOWN) {
                Ok(_) => return StopDecision::BeforeStart,
                Err(STARTING) => self.wait_while_starting(),
                // It has started or failed to start in between: look again.
                Err(INIT | STARTED) => {}
                Err(_) => return StopDecision::Already,
            }
        }
    }

    fn change(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.state
            .compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst)
    }

    fn wait_while_starting(&self) {
        self.wait_until(|_| self.state.load(Ordering::Acquire) != STARTING);
    }

    /// Notes that the thread factory has returned, so that the thread can be joined.
    pub(crate) fn set_spawned(&self) {
        self.progress.lock().spawned = true;
        self.changed.notify_all();
    }

    /// Notes that the timer has ended: nothing of it will run any more.
    pub(crate) fn set_done(&self) {
        self.progress.lock().done = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.progress.lock().done
    }

    /// Waits for the end.
    pub(crate) fn wait_done(&self) {
        self.wait_until(|progress| progress.done);
    }

    /// Waits for [`Lifecycle::set_spawned`].
    pub(crate) fn wait_spawned(&self) {
        self.wait_until(|progress| progress.spawned);
    }

    fn wait_until(&self, reached: impl Fn(&Progress) -> bool) {
        let mut progress = self.progress.lock();
        while !reached(&progress) {
            self.changed.wait(&mut progress);
        }
    }
}

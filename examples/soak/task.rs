//! One task, from its making to its end: what it captures, and the handle on it.

use crate::life::Life;
use crate::{ms, nanos};
use hashed_wheel::{Timeout, TimerState};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread;
use std::time::Duration;

/// What has become of a task, or of a future's wait. All of it is told by somebody who has seen it.
#[derive(Default)]
pub(crate) struct Mark {
    pub(crate) flags: AtomicU32,
    /// When the task ran, in nanoseconds of the world. Of a future: the number of its last waker.
    pub(crate) ran_at: AtomicU64,
    /// It must not run before.
    pub(crate) not_before: AtomicU64,
    /// Its deadline is not later. The same, but for handles that several threads may reset.
    pub(crate) due_by: AtomicU64,
}

pub(crate) const RAN: u32 = 1;
/// Run by the one who stopped its timer.
pub(crate) const BY_HAND: u32 = 1 << 1;
/// Its timeout's `cancel` has returned `true`.
pub(crate) const CANCELLED: u32 = 1 << 2;
/// It was given back by `new_timeout`.
pub(crate) const REJECTED: u32 = 1 << 3;
pub(crate) const DROPPED: u32 = 1 << 4;
/// It was dropped when its timer had not been told to end.
pub(crate) const EARLY: u32 = 1 << 5;
pub(crate) const PERIODIC: u32 = 1 << 6;
/// A periodic task that is running.
pub(crate) const INSIDE: u32 = 1 << 7;
/// The wait of a future, which has taken a timeout.
pub(crate) const FUTURE: u32 = 1 << 8;
/// The last waker of a future was woken.
pub(crate) const RUNG: u32 = 1 << 9;

thread_local! {
    /// This thread runs tasks that `stop` has returned.
    pub(crate) static RUNS_BY_HAND: Cell<bool> = const { Cell::new(false) };
}

/// Captured by every task: it sees the task run and sees it dropped.
pub(crate) struct Token {
    pub(crate) life: &'static Life,
    pub(crate) generation: u32,
    pub(crate) id: u32,
}

impl Token {
    pub(crate) fn mark(&self) -> &'static Mark {
        &self.life.marks[self.id as usize]
    }

    pub(crate) fn fail(&self, what: &str) {
        let Token { generation, id, .. } = self;
        let flags = self.mark().flags.load(SeqCst);
        let life = self.life.describe();
        let text =
            format!("task {id} of generation {generation} {what} (flags {flags:#b}; {life})");
        self.life.world().fail(&text);
    }

    pub(crate) fn check_generation(&self) {
        if self.generation != self.life.generation.load(SeqCst) {
            self.fail("outlived its timer");
        }
    }

    /// To be called first by a task that runs once.
    pub(crate) fn ran(&self) {
        let world = self.life.world();
        self.mark().ran_at.store(world.now(), SeqCst);
        self.check_generation();
        let by_hand = RUNS_BY_HAND.get();
        let flag = if by_hand { BY_HAND } else { RAN };
        let before = self.mark().flags.fetch_or(flag, SeqCst);
        if before & (RAN | BY_HAND) != 0 {
            self.fail("ran twice");
        }
        if before & DROPPED != 0 {
            self.fail("ran after it was dropped");
        }
        if before & CANCELLED != 0 {
            self.fail("ran although its cancel had returned true");
        }
        if !by_hand {
            self.life.tally.standing.fetch_sub(1, SeqCst);
            world.done.fired.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.check_generation();
        let early = if self.life.ending.load(SeqCst) {
            0
        } else {
            EARLY
        };
        let before = self.mark().flags.fetch_or(DROPPED | early, SeqCst);
        if before & DROPPED != 0 {
            self.fail("was dropped twice");
        }
        self.life.tally.dropped.fetch_add(1, SeqCst);
    }
}

/// The payload of a panic that is meant: the hook says nothing about it.
pub(crate) struct OnPurpose;

/// Panics when it is dropped, after the token in it.
pub(crate) struct Bomb(pub(crate) Option<Token>);

impl Drop for Bomb {
    fn drop(&mut self) {
        let life = self.0.take().map(|token| token.life);
        if let (Some(life), false) = (life, thread::panicking()) {
            life.tally.panics.fetch_add(1, SeqCst);
            panic_any(OnPurpose);
        }
    }
}

/// Runs code whose panics, which are meant, are this thread's own and not the timer's.
pub(crate) fn on_our_account<R>(life: &Life, code: impl FnOnce() -> R) -> Option<R> {
    let result = catch_unwind(AssertUnwindSafe(code));
    if result.is_err() {
        life.tally.panics.fetch_sub(1, SeqCst);
    }
    result.ok()
}

/// A handle, and which task it belongs to.
pub(crate) struct Held {
    pub(crate) timeout: Timeout,
    pub(crate) life: &'static Life,
    pub(crate) generation: u32,
    pub(crate) id: u32,
    pub(crate) periodic: bool,
    /// Several threads may use it, so that a reset of this one may be followed by a reset of another.
    pub(crate) shared: bool,
}

impl Held {
    pub(crate) fn mark(&self) -> &'static Mark {
        &self.life.marks[self.id as usize]
    }

    pub(crate) fn fail(&self, what: &str) {
        let flags = self.mark().flags.load(SeqCst);
        let (id, life) = (self.id, self.life.describe());
        let text = format!("the timeout of task {id} {what} (flags {flags:#b}; {life})");
        self.life.world().fail(&text);
    }

    /// Only while its timer's life is entered.
    pub(crate) fn cancel(&self) {
        let tally = &self.life.tally;
        tally.standing.fetch_sub(1, SeqCst);
        // A bomb has exploded after it was cancelled.
        if !on_our_account(self.life, || self.timeout.cancel()).unwrap_or(true) {
            tally.standing.fetch_add(1, SeqCst);
            if !self.timeout.is_expired() && !self.timeout.is_cancelled() {
                self.fail("could neither be cancelled nor was over");
            }
            return;
        }
        let before = self.mark().flags.fetch_or(CANCELLED, SeqCst);
        if before & CANCELLED != 0 {
            self.fail("was cancelled twice");
        }
        if !self.periodic && before & (RAN | BY_HAND) != 0 {
            self.fail("was cancelled although its task had run");
        }
        if !self.periodic && before & DROPPED == 0 {
            self.fail("was cancelled before its task was dropped");
        }
        if !self.timeout.is_cancelled() || self.timeout.is_expired() {
            self.fail("does not know that it was cancelled");
        }
        self.life.world().done.cancelled.fetch_add(1, Relaxed);
    }

    /// Only while its timer's life is entered.
    pub(crate) fn reset(&self, delay: Duration) {
        let (world, mark) = (self.life.world(), self.mark());
        let not_before = world.now().saturating_add(nanos(delay));
        if self.shared {
            // Whichever of the resets comes last, the earliest and the latest of all are bounds.
            mark.not_before.fetch_min(not_before, SeqCst);
            mark.due_by.fetch_max(not_before, SeqCst);
        }
        if self.timeout.reset(delay) {
            if self.periodic {
                self.fail("was reset although it is periodic");
            }
            if !self.shared {
                mark.not_before.store(not_before, SeqCst);
                mark.due_by.store(not_before, SeqCst);
            }
            world.done.reset.fetch_add(1, Relaxed);
        }
    }

    /// Of a timer that has ended.
    pub(crate) fn check_afterlife(&self) {
        let timeout = &self.timeout;
        if timeout.cancel() || timeout.reset(ms(1)) {
            self.fail("was cancelled or reset after its timer had ended");
        }
        if timeout.is_cancelled() == timeout.is_expired() || self.periodic && timeout.is_expired() {
            self.fail("must be either cancelled or expired");
        }
        if timeout.timer().state() != TimerState::Shutdown {
            self.fail("says that its timer runs, which has ended");
        }
    }
}

/// The runs of a periodic task.
pub(crate) struct Runs {
    pub(crate) token: Token,
    pub(crate) not_before: u64,
    pub(crate) period: u64,
    pub(crate) fixed_rate: bool,
    pub(crate) after_cancel: u32,
}

impl Runs {
    /// Whether it is run by hand.
    pub(crate) fn begin(&mut self) -> bool {
        let now = self.token.life.world().now();
        self.token.check_generation();
        if RUNS_BY_HAND.get() {
            self.token.mark().flags.fetch_or(BY_HAND, SeqCst);
            return true;
        }
        let before = self.token.mark().flags.fetch_or(INSIDE, SeqCst);
        if before & INSIDE != 0 {
            self.token.fail("overlaps itself");
        }
        // A run that had begun when it was cancelled may not have come to this line.
        self.after_cancel += u32::from(before & CANCELLED != 0);
        if before & DROPPED != 0 || self.after_cancel > 1 {
            self.token.fail("ran again after it had ended");
        }
        if now < self.not_before {
            self.token.fail("ran again too early");
        }
        if self.fixed_rate {
            self.not_before = self.not_before.saturating_add(self.period);
        }
        self.token.life.tally.periodic_runs.fetch_add(1, SeqCst);
        false
    }

    pub(crate) fn end(&mut self) {
        let world = self.token.life.world();
        self.token.mark().flags.fetch_and(!INSIDE, SeqCst);
        if !self.fixed_rate {
            self.not_before = world.now().saturating_add(self.period);
        }
        world.done.fired.fetch_add(1, Relaxed);
    }
}

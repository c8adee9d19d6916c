//! A place in which one timer lives after the other, and what is scheduled there.

use crate::settings::{Owner, Settings};
use crate::task::{
    Bomb, Held, Mark, OnPurpose, PERIODIC, REJECTED, RUNS_BY_HAND, Runs, Token, on_our_account,
};
use crate::{PLACES, REGISTER, Random, World, lock, ms, nanos};
use hashed_wheel::{Period, RejectReason, Rejected, StopError, Timeout, TimerHandle};
use std::panic::panic_any;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// A place, in which one timer lives after the other.
pub(crate) struct Life {
    pub(crate) world: OnceLock<&'static World>,
    pub(crate) place: usize,
    /// Moves on when a timer has ended and all its tasks are accounted for.
    pub(crate) generation: AtomicU32,
    /// Threads may come in.
    pub(crate) open: AtomicBool,
    /// Threads that are in.
    pub(crate) users: AtomicUsize,
    /// The timer has been told to end.
    pub(crate) ending: AtomicBool,
    pub(crate) timer: Mutex<Option<(TimerHandle, Settings)>>,
    /// From its settings, to be read often.
    pub(crate) max_pending: AtomicUsize,
    pub(crate) on_timer_thread: AtomicBool,
    pub(crate) owner: Mutex<Option<Owner>>,
    /// What has become of each task, and how many there are.
    pub(crate) marks: Vec<Mark>,
    pub(crate) made: AtomicUsize,
    pub(crate) periodic_made: AtomicUsize,
    pub(crate) tally: Tally,
    /// What its keeper is doing since when, for the one who looks whether it hangs.
    pub(crate) phase: Mutex<(&'static str, Instant)>,
}

/// What was seen in the life of a timer, from outside.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) accepted: AtomicU64,
    pub(crate) rejected: AtomicU64,
    /// Tasks that were made, and those that were dropped, however they ended.
    pub(crate) tasks: AtomicUsize,
    pub(crate) dropped: AtomicUsize,
    /// Accepted, and neither run nor about to be cancelled.
    pub(crate) standing: AtomicI64,
    /// Futures that have taken a timeout.
    pub(crate) armed: AtomicU64,
    /// Panics that the timer has to contain.
    pub(crate) panics: AtomicI64,
    pub(crate) periodic_runs: AtomicU64,
    pub(crate) dropped_jobs: AtomicU64,
}

impl Tally {
    pub(crate) fn clear(&self) {
        self.accepted.store(0, SeqCst);
        self.rejected.store(0, SeqCst);
        self.tasks.store(0, SeqCst);
        self.dropped.store(0, SeqCst);
        self.standing.store(0, SeqCst);
        self.armed.store(0, SeqCst);
        self.panics.store(0, SeqCst);
        self.periodic_runs.store(0, SeqCst);
        self.dropped_jobs.store(0, SeqCst);
    }
}

/// A thread in the life of a timer, which is not over before it has left.
pub(crate) struct Visit {
    pub(crate) life: &'static Life,
    pub(crate) generation: u32,
    pub(crate) timer: TimerHandle,
    pub(crate) settings: Settings,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.life.users.fetch_sub(1, SeqCst);
    }
}

impl Life {
    pub(crate) fn new(place: usize) -> Life {
        Life {
            world: OnceLock::new(),
            place,
            generation: AtomicU32::new(0),
            open: AtomicBool::new(false),
            users: AtomicUsize::new(0),
            ending: AtomicBool::new(false),
            timer: Mutex::new(None),
            max_pending: AtomicUsize::new(0),
            on_timer_thread: AtomicBool::new(false),
            owner: Mutex::new(None),
            marks: (0..REGISTER).map(|_| Mark::default()).collect(),
            made: AtomicUsize::new(0),
            periodic_made: AtomicUsize::new(0),
            tally: Tally::default(),
            phase: Mutex::new(("beginning", Instant::now())),
        }
    }

    pub(crate) fn world(&self) -> &'static World {
        self.world.get().expect("set before any thread was started")
    }

    pub(crate) fn describe(&self) -> String {
        match &*lock(&self.timer) {
            Some((_, settings)) => format!("place {}, {settings:?}", self.place),
            None => format!("place {}", self.place),
        }
    }

    pub(crate) fn fail(&self, what: &str) {
        self.world().fail(&format!("{what} ({})", self.describe()));
    }

    pub(crate) fn enter(&'static self) -> Option<Visit> {
        self.users.fetch_add(1, SeqCst);
        let inside = if self.open.load(SeqCst) {
            lock(&self.timer).clone()
        } else {
            None
        };
        let Some((timer, settings)) = inside else {
            self.users.fetch_sub(1, SeqCst);
            return None;
        };
        Some(Visit {
            life: self,
            generation: self.generation.load(SeqCst),
            timer,
            settings,
        })
    }

    /// A mark for one more, unless the register is full.
    pub(crate) fn mark(&'static self, flags: u32, not_before: u64) -> Option<u32> {
        if self.is_full() {
            return None;
        }
        let id = self.made.fetch_add(1, SeqCst);
        let mark = self.marks.get(id)?;
        mark.ran_at.store(0, SeqCst);
        mark.not_before.store(not_before, SeqCst);
        mark.due_by.store(not_before, SeqCst);
        mark.flags.store(flags, SeqCst);
        Some(id as u32)
    }

    pub(crate) fn token(&'static self, flags: u32, not_before: u64) -> Option<Token> {
        let id = self.mark(flags, not_before)?;
        self.tally.tasks.fetch_add(1, SeqCst);
        Some(Token {
            life: self,
            generation: self.generation.load(SeqCst),
            id,
        })
    }

    pub(crate) fn is_full(&self) -> bool {
        self.made.load(Relaxed) >= REGISTER
    }

    /// The marks that are in use.
    pub(crate) fn register(&self) -> &[Mark] {
        &self.marks[..self.made.load(SeqCst).min(REGISTER)]
    }

    pub(crate) fn accepted(
        &'static self,
        timer: &TimerHandle,
        timeout: Timeout,
        id: u32,
        periodic: bool,
    ) -> Held {
        self.tally.accepted.fetch_add(1, SeqCst);
        let standing = self.tally.standing.fetch_add(1, SeqCst) + 1;
        let max_pending = self.max_pending.load(SeqCst);
        if max_pending != usize::MAX {
            // Right after it was taken: that is when one too many would be seen.
            let pending = timer.pending_timeouts();
            // One may have fired, which makes room, and not have begun to run; on an executor, many.
            let most = max_pending as u64 + 1;
            let overshot = self.on_timer_thread.load(SeqCst)
                && u64::try_from(standing).is_ok_and(|standing| standing > most);
            if pending > max_pending || overshot {
                self.fail(&format!("{pending} told and {standing} seen to be pending"));
            }
        }
        Held {
            timeout,
            life: self,
            generation: self.generation.load(SeqCst),
            id,
            periodic,
            shared: false,
        }
    }

    pub(crate) fn rejected<F>(&self, rejected: Rejected<F>, id: u32) {
        self.check_reason(&rejected.reason);
        self.marks[id as usize].flags.fetch_or(REJECTED, SeqCst);
        on_our_account(self, || drop(rejected.task));
    }

    pub(crate) fn check_reason(&self, reason: &RejectReason) {
        self.tally.rejected.fetch_add(1, SeqCst);
        let allowed = match reason {
            RejectReason::Stopped => self.ending.load(SeqCst),
            RejectReason::TooManyPending { max } => self.max_pending.load(SeqCst) == *max,
            _ => false,
        };
        if !allowed {
            self.fail(&format!("rejected for no reason: {reason}"));
        }
    }

    /// Schedules what `task` makes of a token.
    pub(crate) fn schedule<F: FnOnce(&Timeout) + Send + 'static>(
        &'static self,
        timer: &TimerHandle,
        delay: Duration,
        task: impl FnOnce(Token) -> F,
    ) -> Option<Held> {
        let not_before = self.world().now().saturating_add(nanos(delay));
        let token = self.token(0, not_before)?;
        let id = token.id;
        match timer.new_timeout(task(token), delay) {
            Ok(timeout) => Some(self.accepted(timer, timeout, id, false)),
            Err(rejected) => {
                self.rejected(rejected, id);
                None
            }
        }
    }

    /// Schedules a task of a kind that chance decides.
    pub(crate) fn schedule_any(
        &'static self,
        timer: &TimerHandle,
        random: &mut Random,
    ) -> Option<Held> {
        let delay = random.delay();
        let dice = random.next();
        match dice % 100 {
            0..60 => self.schedule(timer, delay, |token| move |_: &Timeout| token.ran()),
            60..70 => self.schedule(timer, delay, |token| {
                // Too large for its slot.
                let cargo = [dice; 9];
                move |_: &Timeout| {
                    token.ran();
                    if cargo.iter().any(|&word| word != dice) {
                        token.fail("has lost its cargo");
                    }
                }
            }),
            70..75 => self.schedule(timer, delay, |token| {
                move |_: &Timeout| {
                    token.ran();
                    token.life.tally.panics.fetch_add(1, SeqCst);
                    panic_any(OnPurpose);
                }
            }),
            75..79 => self.schedule(timer, delay, |token| {
                let bomb = Bomb(Some(token));
                move |_: &Timeout| bomb.0.iter().for_each(Token::ran)
            }),
            79..95 => self.schedule(timer, delay, |token| {
                move |timeout: &Timeout| {
                    token.ran();
                    schedule_from_a_task(&token, timeout, dice);
                }
            }),
            95..99 => self.schedule(timer, delay, |token| {
                move |timeout: &Timeout| {
                    token.ran();
                    call_from_a_task(&token, timeout);
                }
            }),
            _ => self.schedule(timer, delay, |token| {
                move |_: &Timeout| {
                    token.ran();
                    if dice >> 32 & 15 < 2 {
                        thread::sleep(Duration::from_micros(dice >> 40 & 0x3FFF));
                    }
                }
            }),
        }
    }

    /// Schedules a periodic task.
    pub(crate) fn schedule_periodic(
        &'static self,
        timer: &TimerHandle,
        random: &mut Random,
    ) -> Option<Held> {
        if self.periodic_made.fetch_add(1, SeqCst) >= 24 {
            return None;
        }
        let (delay, period) = (ms(random.below(20)), ms(random.below(30)));
        let fixed_rate = random.below(2) == 0;
        let panics = random.below(4) == 0;
        let not_before = self.world().now().saturating_add(nanos(delay));
        let token = self.token(PERIODIC, not_before)?;
        let id = token.id;
        let mut runs = Runs {
            token,
            not_before,
            period: nanos(period),
            fixed_rate,
            after_cancel: 0,
        };
        let task = move |_: &Timeout| {
            let ending = runs.begin();
            thread::yield_now();
            if panics && !ending {
                runs.end();
                runs.token.life.tally.panics.fetch_add(1, SeqCst);
                panic_any(OnPurpose);
            }
            runs.end();
        };
        let period = if fixed_rate {
            Period::FixedRate(period)
        } else {
            Period::FixedDelay(period)
        };
        match timer.new_periodic(task, delay, period) {
            Ok(timeout) => Some(self.accepted(timer, timeout, id, true)),
            Err(rejected) => {
                self.rejected(rejected, id);
                None
            }
        }
    }
}

/// A task that schedules: its successor, and something in another place that it may cancel.
pub(crate) fn schedule_from_a_task(token: &Token, timeout: &Timeout, dice: u64) {
    if RUNS_BY_HAND.get() {
        return;
    }
    let life = token.life;
    let mut random = Random(dice);
    if !life.is_full() && random.below(2) == 0 {
        let delay = random.delay();
        let _ = life.schedule(&timeout.timer(), delay, |token| {
            move |_: &Timeout| token.ran()
        });
    }
    let other = &life.world().lives[random.below(PLACES as u64) as usize];
    if let Some(visit) = other.enter() {
        let held = other.schedule_any(&visit.timer, &mut random);
        if let (Some(held), 0) = (held, random.below(2)) {
            held.cancel();
        }
    }
}

/// A task that does to itself what cannot be done.
pub(crate) fn call_from_a_task(token: &Token, timeout: &Timeout) {
    if RUNS_BY_HAND.get() {
        return;
    }
    if !timeout.is_expired() || timeout.is_cancelled() || timeout.cancel() || timeout.reset(ms(1)) {
        token.fail("does not see that it is running");
    }
    let on_timer_thread = token.life.on_timer_thread.load(SeqCst);
    if on_timer_thread && !matches!(timeout.timer().stop(), Err(StopError::FromTimerThread)) {
        token.fail("has stopped its own timer");
    }
}

//! The keeper of a place: it makes timers, ends them in many ways, and accounts for all their tasks.

use crate::life::Life;
use crate::settings::{Settings, Tasks};
use crate::task::{
    BY_HAND, CANCELLED, DROPPED, EARLY, FUTURE, PERIODIC, RAN, REJECTED, RUNG, RUNS_BY_HAND, Token,
    on_our_account,
};
use crate::{FAR, PATIENCE, Random, lock, ms};
use hashed_wheel::{RejectReason, Rejected, Stats, Timeout, TimerHandle, TimerState};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// Lets one timer after the other live in its place.
pub(crate) fn keep(life: &'static Life) {
    let world = life.world();
    let mut random = Random(world.seed ^ 0xBEEF << 16 ^ life.place as u64);
    while !world.is_over() {
        let settings = Settings::random(&mut random);
        begin(life, &settings);
        // In the first place, timers come and go.
        let span = if life.place == 0 {
            ms(random.below(50))
        } else {
            ms(200 + random.below(3000))
        };
        life.phase("living");
        live(life, span, &mut random);
        life.phase("ending");
        let returned = end(life, &mut random);
        life.phase("being accounted for");
        account(life, returned);
        world.done.timers.fetch_add(1, Relaxed);
    }
}

impl Life {
    pub(crate) fn phase(&self, phase: &'static str) {
        *lock(&self.phase) = (phase, Instant::now());
    }

    pub(crate) fn handle(&self) -> TimerHandle {
        let timer = lock(&self.timer);
        timer.as_ref().expect("it lives").0.clone()
    }

    /// Something that some last steps of other threads may still be missing to.
    pub(crate) fn must_hold(
        &self,
        patience: Duration,
        mut check: impl FnMut() -> Result<(), String>,
    ) {
        let since = Instant::now();
        while let Err(problem) = check() {
            if since.elapsed() > patience {
                return self.fail(&problem);
            }
            thread::sleep(ms(2));
        }
    }

    /// Keeps others out, and waits for those who are in.
    pub(crate) fn close(&self) {
        self.open.store(false, SeqCst);
        self.world()
            .eventually("all threads have left a timer", || {
                self.users.load(SeqCst) == 0
            });
    }
}

pub(crate) fn begin(life: &'static Life, settings: &Settings) {
    life.made.store(0, SeqCst);
    life.periodic_made.store(0, SeqCst);
    life.tally.clear();
    life.ending.store(false, SeqCst);
    life.max_pending.store(settings.max_pending, SeqCst);
    let on_timer_thread = settings.tasks == Tasks::OnTheTimerThread;
    life.on_timer_thread.store(on_timer_thread, SeqCst);
    let owner = settings.build(life);
    *lock(&life.timer) = Some((owner.handle(), settings.clone()));
    *lock(&life.owner) = Some(owner);
    life.open.store(true, SeqCst);
}

/// Some time passes, with a moment of rest now and then at which all must add up.
pub(crate) fn live(life: &'static Life, span: Duration, random: &mut Random) {
    let world = life.world();
    let since = Instant::now();
    let mut next_rest = span / 2 + ms(random.below(200));
    while since.elapsed() < span && !life.is_full() && !world.is_over() {
        thread::sleep(ms(1).min(span));
        if since.elapsed() > next_rest {
            life.phase("at rest");
            life.close();
            life.must_hold(PATIENCE, || at_rest(life));
            life.open.store(true, SeqCst);
            life.phase("living");
            next_rest = since.elapsed() + span / 2 + ms(200);
        }
    }
}

/// While nobody schedules or cancels: all that is due has run, and the counts add up.
pub(crate) fn at_rest(life: &Life) -> Result<(), String> {
    let timer = life.handle();
    let now = life.world().now();
    let mut standing = 0;
    for (id, mark) in life.register().iter().enumerate() {
        let flags = mark.flags.load(SeqCst);
        let over = if flags & FUTURE != 0 {
            flags & (DROPPED | RUNG) != 0
        } else {
            flags & DROPPED != 0
        };
        if !over {
            standing += 1;
            if flags & PERIODIC == 0 && mark.due_by.load(SeqCst) < now {
                return Err(format!("{id} is due and does not run (flags {flags:#b})"));
            }
        }
    }
    let (stats, tally) = (timer.stats(), &life.tally);
    check_law(&stats)?;
    let taken = tally.accepted.load(SeqCst) + tally.armed.load(SeqCst);
    equal("scheduled", stats.scheduled, taken)?;
    equal("pending", stats.pending, standing)?;
    equal("pending", timer.pending_timeouts() as u64, standing)
}

pub(crate) fn check_law(stats: &Stats) -> Result<(), String> {
    let accounted = stats.expired + stats.cancelled + stats.unprocessed + stats.pending;
    equal("the law of counting", stats.scheduled, accounted)
}

pub(crate) fn equal(what: &str, told: u64, seen: u64) -> Result<(), String> {
    if told == seen {
        Ok(())
    } else {
        Err(format!("{what}: the timer tells {told}, seen were {seen}"))
    }
}

/// Ends the timer in one of many ways; how many timeouts `stop` has returned, if it was asked.
pub(crate) fn end(life: &'static Life, random: &mut Random) -> Option<usize> {
    let world = life.world();
    let timer = life.handle();
    life.ending.store(true, SeqCst);
    let take_owner = || lock(&life.owner).take();
    let mut returned = None;
    match random.below(7) {
        0 | 1 => {
            let left = stop(life, &timer);
            returned = Some(left.len());
            dispose(life, left, random);
        }
        2 => {
            let both = thread::scope(|scope| {
                let stops = [0, 1].map(|_| scope.spawn(|| stop(life, &timer)));
                stops.map(|stop| stop.join().unwrap_or_default())
            });
            returned = Some(both.iter().map(Vec::len).sum());
            if both.iter().all(|left| !left.is_empty()) {
                life.fail("two stops have both returned timeouts");
            }
            for left in both {
                dispose(life, left, random);
            }
        }
        3 => drop(take_owner()),
        4 => {
            // In its own task; if it does not take one more, here.
            let dropping = life.schedule(&timer, ms(random.below(3)), |token| {
                move |_: &Timeout| {
                    token.ran();
                    let owner = lock(&token.life.owner).take();
                    drop(owner);
                }
            });
            if dropping.is_some() {
                let gone = || timer.state() == TimerState::Shutdown;
                let forgotten = || life.tally.dropped_jobs.load(SeqCst) > 0;
                world.eventually("a task has dropped the owner", || gone() || forgotten());
            }
            drop(take_owner());
        }
        5 => {
            let owner = take_owner();
            let task = move |_: &Timeout| drop(owner);
            if let Err(rejected) = world.undertaker.new_timeout(task, ms(random.below(3))) {
                world.fail(&format!("another timer has ended: {rejected}"));
            }
        }
        _ => {
            // In the drop of its own task, which is cancelled here.
            let owner = take_owner();
            let task = |token: Token| {
                move |_: &Timeout| {
                    token.ran();
                    drop(owner);
                }
            };
            if let Some(held) = life.schedule(&timer, FAR, task) {
                held.cancel();
            }
        }
    }
    world.eventually("a timer is told to end", || {
        timer.state() == TimerState::Shutdown
    });
    // Another stop waits until it has.
    if !stop(life, &timer).is_empty() {
        life.fail("a second stop has returned timeouts");
    }
    drop(take_owner());
    returned
}

pub(crate) fn stop(life: &Life, timer: &TimerHandle) -> Vec<Timeout> {
    timer.stop().unwrap_or_else(|error| {
        life.fail(&format!("stop failed: {error}"));
        Vec::new()
    })
}

/// Runs some of what `stop` returned, drops some tasks, and leaves the rest to the handles.
pub(crate) fn dispose(life: &Life, left: Vec<Timeout>, random: &mut Random) {
    for timeout in &left {
        if !timeout.is_cancelled() || timeout.is_expired() || timeout.cancel() {
            life.fail("stop has returned a timeout that is not cancelled");
        }
        match random.below(4) {
            0 => {
                if let Some(task) = timeout.take_task() {
                    RUNS_BY_HAND.set(true);
                    on_our_account(life, || task(timeout));
                    RUNS_BY_HAND.set(false);
                }
            }
            1 => {
                let task = timeout.take_task();
                on_our_account(life, || drop(task));
                if timeout.take_task().is_some() {
                    life.fail("a task was taken twice");
                }
            }
            _ => {}
        }
    }
    drop(left);
}

/// Waits until all tasks of a timer that has ended are gone, and checks how each of them ended.
pub(crate) fn account(life: &'static Life, returned: Option<usize>) {
    let world = life.world();
    life.close();
    let (made, dropped) = (&life.tally.tasks, &life.tally.dropped);
    world.eventually("each task has run or was dropped", || {
        dropped.load(SeqCst) >= made.load(SeqCst)
    });
    let ends = Ends::of(life);
    // Some of it is counted when the task is gone already.
    life.must_hold(ms(10_000), || ends.check(life, returned));
    check_ended(life);
    life.generation.fetch_add(1, SeqCst);
}

/// How the tasks of a timer have ended.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) ran: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    pub(crate) by_hand: u64,
    /// Dropped when its timer had ended.
    pub(crate) left: u64,
    /// Dropped before that, for no other reason.
    pub(crate) lost: u64,
}

impl Ends {
    pub(crate) fn of(life: &'static Life) -> Ends {
        let mut ends = Ends::default();
        for (id, mark) in life.register().iter().enumerate() {
            let flags = mark.flags.load(SeqCst);
            if flags & FUTURE != 0 {
                if flags & (RUNG | DROPPED) == 0 {
                    life.fail("a future was not woken when its timer ended");
                }
                continue;
            }
            let counter = match flags & (RAN | BY_HAND | CANCELLED | REJECTED) {
                RAN => &mut ends.ran,
                CANCELLED => &mut ends.cancelled,
                REJECTED => &mut ends.rejected,
                BY_HAND => &mut ends.by_hand,
                0 if flags & EARLY != 0 => &mut ends.lost,
                0 => &mut ends.left,
                _ => {
                    life.fail(&format!("task {id} ended in two ways (flags {flags:#b})"));
                    continue;
                }
            };
            *counter += 1;
            if flags & DROPPED == 0 {
                life.fail(&format!("task {id} was never dropped (flags {flags:#b})"));
            }
            let (ran_at, not_before) = (mark.ran_at.load(SeqCst), mark.not_before.load(SeqCst));
            if flags & RAN != 0 && ran_at < not_before {
                let early = Duration::from_nanos(not_before - ran_at);
                life.fail(&format!("task {id} ran {early:?} before its deadline"));
            }
        }
        ends
    }

    /// What the timer has counted is what was seen. What it has counted beyond that are futures, and these
    /// have all ended too.
    pub(crate) fn check(&self, life: &Life, returned: Option<usize>) -> Result<(), String> {
        let (timer, tally) = (life.handle(), &life.tally);
        let stats = timer.stats();
        check_law(&stats)?;
        equal("pending", stats.pending, 0)?;
        equal(
            "dropped jobs",
            stats.dropped_jobs,
            tally.dropped_jobs.load(SeqCst),
        )?;
        let dropped_jobs = stats.dropped_jobs;
        // A job may be forgotten after its timer has ended.
        let uncaused = self.left + self.lost;
        if self.lost > dropped_jobs || uncaused < dropped_jobs {
            let lost = self.lost.abs_diff(dropped_jobs);
            return Err(format!("{lost} tasks were dropped for no reason: {self:?}"));
        }
        let unprocessed = uncaused - dropped_jobs + self.by_hand;
        if let Some(returned) = returned {
            equal("returned by stop", returned as u64, unprocessed)?;
        }
        equal("rejected", stats.rejected, tally.rejected.load(SeqCst))?;
        let panics = u64::try_from(tally.panics.load(SeqCst)).unwrap_or(u64::MAX);
        equal("panicked", stats.panicked, panics)?;
        let runs = tally.periodic_runs.load(SeqCst);
        equal("periodic runs", stats.periodic_runs, runs)?;
        let (accepted, armed) = (tally.accepted.load(SeqCst), tally.armed.load(SeqCst));
        equal("scheduled", stats.scheduled, accepted + armed)?;
        let tasks = self.ran + dropped_jobs + self.cancelled + unprocessed;
        equal("accepted", accepted, tasks)?;
        let mut futures = 0;
        for (what, told, seen) in [
            ("expired", stats.expired, self.ran + dropped_jobs),
            ("cancelled", stats.cancelled, self.cancelled),
            ("unprocessed", stats.unprocessed, unprocessed),
        ] {
            let Some(beyond) = told.checked_sub(seen) else {
                return equal(what, told, seen);
            };
            futures += beyond;
        }
        equal("futures that have ended", futures, armed)
    }
}

/// What a timer says of itself that has ended.
pub(crate) fn check_ended(life: &'static Life) {
    let timer = life.handle();
    if timer.state() != TimerState::Shutdown || timer.pending_timeouts() != 0 {
        life.fail("a timer that has ended says that it has not");
    }
    match timer.new_timeout(|_| {}, ms(1)) {
        Err(Rejected {
            reason: RejectReason::Stopped,
            ..
        }) => {}
        _ => life.fail("a timer that has ended has accepted a timeout"),
    }
    if !timer.stop().is_ok_and(|left| left.is_empty()) {
        life.fail("a timer that has ended has returned something");
    }
}

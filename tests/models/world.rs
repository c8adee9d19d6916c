//! A real timer with a model beside it: everything is done to the timer, noted, and held against the
//! model.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hashed_wheel::{
    ManualClock, Period, RejectReason, Rejected, Stats, StopError, Timeout, TimerHandle, TimerState,
};

use super::action::{Action, Answer, Event, Looks, Which, duration};
use super::case::TimerSettings;
use super::common::{Kind, Timer};
use super::model::{Model, ensure};

thread_local! {
    /// What all the timers of this thread have done, added up.
    static REACHED: Cell<Reached> = Cell::default();
}

/// What the random cases have come by.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Reached {
    pub(crate) expired: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    pub(crate) panicked: u64,
    pub(crate) unprocessed: u64,
    pub(crate) periodic_runs: u64,
    pub(crate) resets: u64,
    pub(crate) passed_over: u64,
    pub(crate) cascaded: u64,
    pub(crate) swept: u64,
    /// Runs that came a boundary or more after their own, for want of transfers.
    pub(crate) held_up: u64,
    pub(crate) most_levels: u64,
}

impl Reached {
    pub(crate) fn so_far() -> Reached {
        REACHED.get()
    }

    /// Whether nothing has been left out.
    pub(crate) fn is_everything(&self) -> bool {
        let often = [
            self.expired,
            self.cancelled,
            self.rejected,
            self.panicked,
            self.unprocessed,
            self.periodic_runs,
            self.resets,
            self.passed_over,
            self.cascaded,
            self.swept,
            self.held_up,
        ];
        often.iter().all(|&times| times > 500) && self.most_levels > 20
    }

    fn add(mut self, stats: &Stats, model: &Model) -> Reached {
        self.expired += stats.expired;
        self.cancelled += stats.cancelled;
        self.rejected += stats.rejected;
        self.panicked += stats.panicked;
        self.unprocessed += stats.unprocessed;
        self.periodic_runs += stats.periodic_runs;
        self.resets += model.counts.resets;
        self.passed_over += stats.passed_over;
        self.cascaded += stats.cascaded;
        self.swept += stats.swept;
        self.held_up += model.counts.held_up;
        self.most_levels = self.most_levels.max(stats.levels);
        self
    }
}

/// What the tasks of a timer share with its driver.
struct Shared {
    clock: ManualClock,
    timer: TimerHandle,
    /// The user's handles, by number.
    handles: Mutex<Vec<Option<Arc<Timeout>>>>,
    /// What `stop` returned.
    left: Mutex<Vec<Timeout>>,
    events: Mutex<Vec<Event>>,
    /// Tasks that are called now were taken out, and only say so.
    by_hand: AtomicBool,
}

/// A timer and its model.
pub(crate) struct World {
    settings: TimerSettings,
    owner: Option<Timer>,
    shared: Arc<Shared>,
    pub(crate) model: Model,
    last_stats: Stats,
}

/// Notes when it is dropped.
struct Captured {
    id: usize,
    shared: Arc<Shared>,
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.shared.note(Event::Dropped(self.id));
    }
}

fn looks(timeout: &Timeout) -> Looks {
    Looks {
        expired: timeout.is_expired(),
        cancelled: timeout.is_cancelled(),
        remaining: timeout.remaining(),
    }
}

impl Captured {
    /// What a task does when it runs for the `run`th time.
    fn run(&self, script: &[Action], run: u64, timeout: &Timeout) {
        let (id, shared) = (self.id, &self.shared);
        let looks = looks(timeout);
        if shared.by_hand.load(Ordering::Relaxed) {
            return shared.note(Event::ByHand { id, looks });
        }
        shared.note(Event::Ran {
            id,
            now: shared.now(),
            pending: shared.timer.pending_timeouts(),
            looks,
        });
        for mut action in script {
            if let Action::Every(nth, inner) = action {
                if run % nth != 0 {
                    continue;
                }
                action = inner;
            }
            if *action == Action::Panic {
                shared.note(Event::Panics(id));
                resume_unwind(Box::new("on purpose"));
            }
            shared.perform(action, Some((id, timeout)));
        }
        shared.note(Event::End(id));
    }
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).expect("the clock saturates")
    }

    /// The moment so far ahead, for every other action: it means the same as the delay.
    fn moment_in(&self, delay: u64) -> Option<Instant> {
        let by_moment = self.handles.lock().unwrap().len() % 2 == 1;
        let moment = self.timer.now().checked_add(duration(delay));
        moment.filter(|_| by_moment)
    }

    fn note(&self, event: Event) {
        self.events.lock().unwrap().push(event);
    }

    fn perform(self: &Arc<Self>, action: &Action, this: Option<(usize, &Timeout)>) {
        self.note(Event::Doing {
            action: Arc::new(action.clone()),
            this: this.map(|(id, _)| id),
        });
        let answer = self.act(action, this);
        self.note(Event::Did(answer));
    }

    fn act(self: &Arc<Self>, action: &Action, this: Option<(usize, &Timeout)>) -> Answer {
        match action {
            Action::Once { delay, script } => {
                let (captured, script) = (self.captured(), script.clone());
                let task = move |t: &Timeout| captured.run(&script, 1, t);
                self.keep(match self.moment_in(*delay) {
                    Some(moment) => self.timer.new_timeout_at(task, moment),
                    None => self.timer.new_timeout(task, duration(*delay)),
                })
            }
            Action::Periodic {
                first,
                period,
                fixed_rate,
                script,
            } => {
                let (captured, script) = (self.captured(), script.clone());
                let mut runs = 0;
                let task = move |t: &Timeout| {
                    runs += 1;
                    captured.run(&script, runs, t);
                };
                let period = match fixed_rate {
                    true => Period::FixedRate(duration(*period)),
                    false => Period::FixedDelay(duration(*period)),
                };
                self.keep(self.timer.new_periodic(task, duration(*first), period))
            }
            Action::Cancel(which) => self.with_handle(*which, this, Timeout::cancel),
            Action::Reset(which, delay) => {
                self.with_handle(*which, this, |t| match self.moment_in(*delay) {
                    Some(moment) => t.reset_at(moment),
                    None => t.reset(duration(*delay)),
                })
            }
            Action::Take(which) => self.with_handle(*which, this, |t| self.call_by_hand(t)),
            Action::Forget(which) => {
                let handle = self.resolve(*which, this);
                drop(handle.and_then(|id| self.handles.lock().unwrap()[id].take()));
                Answer::None
            }
            Action::Start => Answer::Is(self.timer.start().is_ok()),
            Action::Stop => match self.timer.stop() {
                Ok(left) => {
                    let mut times: Vec<_> = left.iter().map(Timeout::remaining).collect();
                    times.sort_unstable();
                    self.left.lock().unwrap().extend(left);
                    Answer::Left(times)
                }
                Err(StopError::FromTimerThread) => Answer::FromTimerThread,
                Err(error) => panic!("{error}"),
            },
            Action::Advance(by) => {
                let advance = AssertUnwindSafe(|| self.clock.advance(duration(*by)));
                catch_unwind(advance).map_or(Answer::Panicked, |()| Answer::None)
            }
            Action::TakeLeft(nth) => {
                let left = self.left.lock().unwrap();
                match left.get(nth % left.len().max(1)) {
                    Some(timeout) => Answer::Is(self.call_by_hand(timeout)),
                    None => Answer::None,
                }
            }
            Action::DropLeft(nth) => {
                let mut left = self.left.lock().unwrap();
                let nth = nth % left.len().max(1);
                drop((nth < left.len()).then(|| left.remove(nth)));
                Answer::None
            }
            other => panic!("{other:?} is made of others"),
        }
    }

    /// What the next timeout's task captures.
    fn captured(self: &Arc<Self>) -> Captured {
        Captured {
            id: self.handles.lock().unwrap().len(),
            shared: Arc::clone(self),
        }
    }

    fn keep<F>(&self, made: Result<Timeout, Rejected<F>>) -> Answer {
        let (handle, answer) = match made {
            Ok(timeout) => (Some(Arc::new(timeout)), Answer::Scheduled),
            Err(rejected) => {
                let reason = rejected.reason;
                drop(rejected.task);
                let answer = match reason {
                    RejectReason::Stopped => Answer::Stopped,
                    RejectReason::TooManyPending { max } => Answer::TooManyPending { max },
                    other => panic!("{other}"),
                };
                (None, answer)
            }
        };
        self.handles.lock().unwrap().push(handle);
        answer
    }

    fn resolve(&self, which: Which, this: Option<(usize, &Timeout)>) -> Option<usize> {
        let last = self.handles.lock().unwrap().len().checked_sub(1)?;
        Some(match which {
            Which::This => this.map_or(last, |(id, _)| id),
            Which::Back(back) => last - back % (last + 1),
        })
    }

    fn with_handle(
        &self,
        which: Which,
        this: Option<(usize, &Timeout)>,
        ask: impl FnOnce(&Timeout) -> bool,
    ) -> Answer {
        if let (Which::This, Some((_, timeout))) = (which, this) {
            return Answer::Is(ask(timeout));
        }
        let handle = self.resolve(which, this);
        let handle = handle.and_then(|id| self.handles.lock().unwrap()[id].clone());
        handle.map_or(Answer::None, |timeout| Answer::Is(ask(&timeout)))
    }

    fn call_by_hand(&self, timeout: &Timeout) -> bool {
        let task = timeout.take_task();
        self.by_hand.store(true, Ordering::Relaxed);
        let has_task = task.is_some();
        if let Some(task) = task {
            task(timeout);
        }
        self.by_hand.store(false, Ordering::Relaxed);
        has_task
    }
}

impl World {
    pub(crate) fn new(settings: &TimerSettings, clock: &ManualClock) -> World {
        let mut builder = settings
            .kind
            .builder()
            .tick(Duration::from_nanos(settings.tick))
            .buckets(settings.slots)
            .clock(clock);
        if let Some(max) = settings.max_pending {
            builder = builder.max_pending(max);
        }
        if let Some(max) = settings.max_transfers {
            builder = builder.max_transfers(max);
        }
        if settings.executor {
            builder = builder.executor(|job| job());
        }
        let owner = builder.build();
        let shared = Arc::new(Shared {
            clock: clock.clone(),
            timer: owner.handle(),
            handles: Mutex::default(),
            left: Mutex::default(),
            events: Mutex::default(),
            by_hand: AtomicBool::new(false),
        });
        World {
            settings: settings.clone(),
            model: Model::new(settings, shared.now()),
            last_stats: owner.stats(),
            owner: Some(owner),
            shared,
        }
    }

    /// Does it to the timer, and holds what happened against the model.
    pub(crate) fn step(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Burst { count, delay, step } => {
                for n in 0..*count {
                    let delay = delay.saturating_add(n * step);
                    let script = Vec::new();
                    self.perform(&Action::Once { delay, script });
                }
            }
            Action::CancelMany { count, keep } => {
                let count = self.model.len().min(*count as usize);
                for back in 0..count {
                    let which = Which::Back(back);
                    if back as u64 % keep != 0 {
                        self.perform(&Action::Cancel(which));
                    }
                    self.perform(&Action::Forget(which));
                }
            }
            // Here it is left open whether the reset keeps its place in the queue; with a small cap
            // that would decide at which boundary it fires.
            Action::Reset(which, 0)
                if self.model.has_small_cap() && self.model.is_on_boundary() =>
            {
                self.perform(&Action::Reset(*which, 1));
            }
            Action::DropOwner => self.drop_owner(),
            action => self.perform(action),
        }
        self.check()
    }

    fn perform(&self, action: &Action) {
        self.shared.perform(action, None);
    }

    /// For an advance of the clock that several timers are on.
    pub(crate) fn note(&self, event: Event) {
        self.shared.note(event);
    }

    fn drop_owner(&mut self) {
        self.note(Event::Doing {
            action: Arc::new(Action::DropOwner),
            this: None,
        });
        self.owner = None;
        self.note(Event::Did(Answer::None));
    }

    /// Holds all that was noted, and all that can be asked, against the model.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.compare()
            .map_err(|why| format!("{:?}: {why}", self.settings))
    }

    fn compare(&mut self) -> Result<(), String> {
        let events = std::mem::take(&mut *self.shared.events.lock().unwrap());
        for event in &events {
            self.model.see(event)?;
        }
        let now = self.shared.now();
        ensure!(
            self.model.now == now,
            "the clock is at {now} ns instead of {}",
            self.model.now
        );
        let handles = self.shared.handles.lock().unwrap();
        ensure!(
            handles.len() == self.model.len(),
            "{} timeouts were asked for",
            handles.len()
        );
        for (id, handle) in handles.iter().enumerate() {
            let (seen, right) = (handle.as_deref().map(looks), self.model.looks(id));
            ensure!(
                seen == right,
                "the handle of {id} says {seen:?} instead of {right:?}"
            );
        }
        drop(handles);
        let left = self.shared.left.lock().unwrap();
        ensure!(
            left.iter().all(|t| t.is_cancelled() && !t.is_expired()),
            "a returned timeout is not cancelled"
        );
        drop(left);
        self.compare_stats()
    }

    fn compare_stats(&mut self) -> Result<(), String> {
        let (timer, model) = (&self.shared.timer, &self.model);
        let right = match (model.is_stopped(), model.is_started()) {
            (true, _) => TimerState::Shutdown,
            (false, true) => TimerState::Started,
            (false, false) => TimerState::Init,
        };
        ensure!(timer.state() == right, "{:?}, not {right:?}", timer.state());
        let (stats, counts) = (timer.stats(), &model.counts);
        let pending = model.pending();
        ensure!(
            timer.pending_timeouts() == pending,
            "{} are pending instead of {pending}",
            timer.pending_timeouts()
        );
        for (name, seen, right) in [
            ("scheduled", stats.scheduled, counts.scheduled),
            ("expired", stats.expired, counts.expired),
            ("cancelled", stats.cancelled, counts.cancelled),
            ("rejected", stats.rejected, counts.rejected),
            ("panicked", stats.panicked, counts.panicked),
            ("unprocessed", stats.unprocessed, counts.unprocessed),
            ("periodic_runs", stats.periodic_runs, counts.periodic_runs),
            ("pending", stats.pending, pending as u64),
            ("dropped_jobs", stats.dropped_jobs, 0),
            ("slow_tasks", stats.slow_tasks, 0),
            (
                "lateness.count()",
                stats.lateness.count(),
                counts.expired + counts.periodic_runs,
            ),
            ("resets", stats.resets, counts.resets),
        ] {
            ensure!(seen == right, "{name} is {seen} instead of {right}");
        }
        let ends = stats.expired + stats.cancelled + stats.unprocessed + stats.pending;
        ensure!(
            stats.scheduled == ends,
            "the counts do not add up: {stats:?}"
        );
        let latest = Duration::from_nanos(counts.max_lateness);
        ensure!(
            stats.max_lateness == latest && stats.longest_task.is_zero(),
            "max_lateness is {:?} instead of {latest:?}, longest_task {:?}",
            stats.max_lateness,
            stats.longest_task
        );
        self.compare_work(&stats)?;
        self.last_stats = stats;
        Ok(())
    }

    /// What the wheel has done is not more than it has to.
    fn compare_work(&self, stats: &Stats) -> Result<(), String> {
        let (counts, last) = (&self.model.counts, &self.last_stats);
        // A timeout in a slot that the wheel looks at in time has nothing to be transferred.
        let most = counts.transferred + counts.unsure_transfers;
        ensure!(
            stats.transferred <= most,
            "transferred is {} and not at most {most}",
            stats.transferred
        );
        // Every filing costs a visit at most, and on the hierarchy one for each step down.
        let filings = stats.transferred + counts.resets + counts.periodic_runs;
        let visits = counts.pushes + counts.resets + filings + stats.cascaded + stats.swept;
        ensure!(
            stats.wakeups <= visits,
            "more than {visits} visits: {stats:?}"
        );
        let levels = match self.settings.kind {
            Kind::Hashed => 1,
            Kind::Hierarchical => self.levels_needed(),
        };
        ensure!(
            (1..=levels).contains(&stats.levels) && stats.levels >= last.levels,
            "{} levels, {levels} would do: {stats:?}",
            stats.levels
        );
        ensure!(
            stats.cascaded <= filings * (stats.levels - 1),
            "more than once a level: {stats:?}"
        );
        for (name, before, after) in [
            ("wakeups", last.wakeups, stats.wakeups),
            ("bucket_visits", last.bucket_visits, stats.bucket_visits),
            ("passed_over", last.passed_over, stats.passed_over),
            ("cascaded", last.cascaded, stats.cascaded),
            ("swept", last.swept, stats.swept),
        ] {
            ensure!(
                before <= after,
                "{name} has fallen from {before} to {after}"
            );
        }
        let (held, stopped) = (stats.queued + stats.filed, self.model.is_stopped());
        let with_entry = stats.pending - self.model.pending_for_ever() as u64;
        ensure!(
            held >= with_entry && !(stopped && held > 0),
            "{held} entries of {with_entry} timeouts: {stats:?}"
        );
        ensure!(
            stats.dead == held.saturating_sub(stats.pending),
            "{} entries are dead: {stats:?}",
            stats.dead
        );
        Ok(())
    }

    /// A level more for each power of the wheel's size up to the last boundary that was ever asked for.
    fn levels_needed(&self) -> u64 {
        let furthest = self.model.counts.furthest;
        let size = self.settings.slots as u64;
        let mut levels = 1;
        let mut span = size;
        while span <= furthest {
            levels += 1;
            span = span.saturating_mul(size);
        }
        levels
    }

    /// Drops the owner, the user's handles and what `stop` returned, in one of the possible orders.
    pub(crate) fn end(mut self, order: usize) -> Result<(), String> {
        let orders = [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ];
        for part in orders[order % orders.len()] {
            match part {
                0 => self.drop_owner(),
                1 => {
                    for back in 0..self.model.len() {
                        self.perform(&Action::Forget(Which::Back(back)));
                    }
                }
                _ => {
                    while !self.shared.left.lock().unwrap().is_empty() {
                        self.perform(&Action::DropLeft(0));
                    }
                }
            }
            self.check()?;
        }
        REACHED.set(REACHED.get().add(&self.last_stats, &self.model));
        self.model.assert_all_gone()
    }
}

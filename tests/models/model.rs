//! A timer so simple that it is evidently right: a list of timeouts that is searched from end to end,
//! and the rules of time, counting, reset, periodic tasks and stop, one after the other.
//!
//! It does not run by itself. It is told what happened to a real timer ([`Event`]) and says whether that
//! was right: so the order within a boundary, which the hierarchical wheel leaves open, may be any.

use std::collections::VecDeque;
use std::time::Duration;

use super::action::{Action, Answer, Event, Looks, Which};
use super::case::TimerSettings;
use super::common::Kind;

/// A moment or a boundary that never comes.
const NEVER: u64 = u64::MAX;

type Checked<T = ()> = Result<T, String>;

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use ensure;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Refused,
    Pending,
    /// A periodic task in the middle of a run.
    Running,
    Expired,
    Cancelled,
    /// Pending when the timer stopped, with so much time left.
    Left(Duration),
}

/// Where the closure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    Inside,
    /// It has to be dropped before anything else happens.
    Leaving,
    Gone,
}

#[derive(Debug, Clone, Copy)]
struct Repeat {
    period: u64,
    fixed_rate: bool,
    /// The deadline of the first run.
    first: u64,
}

#[derive(Debug)]
struct Timeout {
    state: State,
    task: Task,
    /// On the clock; [`NEVER`] if it is saturated.
    deadline: u64,
    /// The boundary it fires at, if it is filed by then.
    due: u64,
    /// The boundary at which the wheel looks at it, if it does.
    filed: Option<u64>,
    /// It waits in the queue or in the backlog.
    waits: bool,
    /// Orders what waits if that is more than may move.
    stamp: u64,
    /// Has lost its place in the order of a boundary, by a reset or because it runs again.
    displaced: bool,
    repeat: Option<Repeat>,
    has_handle: bool,
    shortest_period: Option<u64>,
}

/// What has been counted.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) scheduled: u64,
    pub(crate) expired: u64,
    pub(crate) cancelled: u64,
    pub(crate) rejected: u64,
    pub(crate) panicked: u64,
    pub(crate) unprocessed: u64,
    pub(crate) periodic_runs: u64,
    pub(crate) transferred: u64,
    /// Resets at a moment that may be before or after a boundary, as far as the queue is concerned.
    pub(crate) unsure_transfers: u64,
    pub(crate) pushes: u64,
    pub(crate) resets: u64,
    pub(crate) max_lateness: u64,
    /// Runs after the boundary they were due at.
    pub(crate) held_up: u64,
    /// The highest boundary that anything was due at.
    pub(crate) furthest: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    kind: Kind,
    tick: u64,
    max_pending: usize,
    max_transfers: usize,
    executor: bool,
    pub(crate) now: u64,
    /// Where the clock is being sent.
    target: u64,
    started: Option<u64>,
    stopped: bool,
    /// The last boundary that counts as processed.
    processed: u64,
    /// Its tasks are running.
    inside: bool,
    /// Who ran last at it, of those that keep their order.
    last_in_order: Option<usize>,
    timeouts: Vec<Timeout>,
    /// The numbers of those that are pending or running.
    alive: Vec<usize>,
    /// The numbers of those whose tasks have to be dropped before anything else happens.
    leaving: Vec<usize>,
    /// What waits to be filed.
    queue: Vec<usize>,
    /// What waited when it was more than might move, in its order.
    backlog: VecDeque<usize>,
    stamps: u64,
    running: Option<usize>,
    /// What is going on: the expected answer, if it is known beforehand.
    doing: Vec<(Action, Option<Answer>)>,
    pub(crate) counts: Counts,
}

impl Model {
    pub(crate) fn new(settings: &TimerSettings, now: u64) -> Model {
        Model {
            kind: settings.kind,
            tick: settings.tick,
            max_pending: settings.max_pending.unwrap_or(usize::MAX),
            max_transfers: settings.max_transfers.unwrap_or(usize::MAX),
            executor: settings.executor,
            now,
            target: now,
            started: None,
            stopped: false,
            processed: 0,
            inside: false,
            last_in_order: None,
            timeouts: Vec::new(),
            alive: Vec::new(),
            leaving: Vec::new(),
            queue: Vec::new(),
            backlog: VecDeque::new(),
            stamps: 0,
            running: None,
            doing: Vec::new(),
            counts: Counts::default(),
        }
    }

    // ── what is asked of it ───────────────────────────────────────────────────────────────────

    pub(crate) fn pending(&self) -> usize {
        self.alive.len()
    }

    /// Those that never fire, and so have no entry anywhere.
    pub(crate) fn pending_for_ever(&self) -> usize {
        self.all_pending().filter(|(_, t)| t.due == NEVER).count()
    }

    fn all_pending(&self) -> impl Iterator<Item = (usize, &Timeout)> {
        let alive = self.alive.iter().map(|&id| (id, &self.timeouts[id]));
        alive.filter(|(_, t)| t.state == State::Pending)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started.is_some() && !self.stopped
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(crate) fn len(&self) -> usize {
        self.timeouts.len()
    }

    /// What a handle on this timeout says, if there is one.
    pub(crate) fn looks(&self, id: usize) -> Option<Looks> {
        let timeout = &self.timeouts[id];
        timeout.has_handle.then(|| Looks {
            expired: timeout.state == State::Expired,
            cancelled: matches!(timeout.state, State::Cancelled | State::Left(_)),
            remaining: match timeout.state {
                State::Pending => self.time_to(timeout.deadline),
                State::Left(left) => left,
                _ => Duration::ZERO,
            },
        })
    }

    fn time_to(&self, deadline: u64) -> Duration {
        if deadline == NEVER {
            return Duration::MAX;
        }
        Duration::from_nanos(deadline.saturating_sub(self.now))
    }

    /// How far time may go in one step, so that periodic tasks do not run for ever.
    pub(crate) fn longest_advance(&self) -> u64 {
        const RUNS: u64 = 25;
        let periods = self.all_pending().filter_map(|(_, t)| t.shortest_period);
        let shortest = periods.min();
        shortest.map_or(u64::MAX, |period| {
            RUNS.saturating_mul(period.max(self.tick))
        })
    }

    /// How long it is to a boundary that many after the last one.
    pub(crate) fn time_to_boundary(&self, ahead: u64) -> u64 {
        let boundary = self.processed.saturating_add(ahead);
        self.moment(boundary)
            .map_or(0, |moment| moment.saturating_sub(self.now))
    }

    /// Whether a zero delay now may be taken for this boundary or for the next: the clock stands on
    /// a boundary, and whether that is over depends on work there that nobody sees.
    pub(crate) fn is_on_boundary(&self) -> bool {
        !self.inside && self.moment(self.processed) == Some(self.now)
    }

    pub(crate) fn has_small_cap(&self) -> bool {
        self.max_transfers != usize::MAX
    }

    // ── the rules of time ─────────────────────────────────────────────────────────────────────

    fn start(&self) -> u64 {
        self.started.unwrap_or(self.now)
    }

    /// When a boundary comes, if the clock goes that far.
    fn moment(&self, boundary: u64) -> Option<u64> {
        let moment = u128::from(self.start()) + u128::from(boundary) * u128::from(self.tick);
        u64::try_from(moment).ok()
    }

    fn deadline_after(&self, delay: u64) -> u64 {
        self.now.saturating_add(delay)
    }

    /// The first boundary at or after the deadline that has not been processed.
    fn due(&self, deadline: u64) -> u64 {
        if deadline == NEVER {
            return NEVER;
        }
        let boundary = (deadline - self.start()).div_ceil(self.tick);
        boundary.max(self.processed + 1)
    }

    fn is_live(&self, id: usize) -> bool {
        let timeout = &self.timeouts[id];
        timeout.state == State::Pending && timeout.due != NEVER
    }

    /// It is over: its task goes, now or at the end of its run.
    fn end(&mut self, id: usize, state: State) {
        self.timeouts[id].state = state;
        if let Some(place) = self.alive.iter().rposition(|&alive| alive == id) {
            self.alive.remove(place);
        }
        if self.running != Some(id) {
            self.release(id);
        }
    }

    fn release(&mut self, id: usize) {
        self.timeouts[id].task = Task::Leaving;
        self.leaving.push(id);
    }

    fn set_due(&mut self, id: usize, due: u64) {
        self.timeouts[id].due = due;
        if due != NEVER {
            self.counts.furthest = self.counts.furthest.max(due);
        }
    }

    /// It is armed, and another is armed after it.
    fn arm(&mut self, id: usize) {
        self.stamps += 1;
        self.timeouts[id].stamp = self.stamps;
        self.make_findable(id);
    }

    /// It waits, unless it does already, or the wheel looks at it in time.
    fn make_findable(&mut self, id: usize) {
        let timeout = &mut self.timeouts[id];
        let is_found = timeout.waits || timeout.filed.is_some_and(|at| at <= timeout.due);
        if timeout.due != NEVER && !is_found {
            timeout.waits = true;
            self.counts.pushes += 1;
            self.queue.push(id);
        }
    }

    /// The next boundary at which anything is to be done.
    fn next_boundary(&self) -> Option<u64> {
        if !self.is_started() {
            return None;
        }
        let mut waiting = self.queue.iter().chain(&self.backlog);
        if waiting.any(|&id| self.is_live(id)) {
            return Some(self.processed + 1);
        }
        let filed = self.all_pending().filter_map(|(_, t)| t.filed);
        filed.min().map(|at| at.max(self.processed + 1))
    }

    /// At a boundary so many move from the queue to the wheel; dead ones are not charged. If there are more, what was armed first
    /// moves first.
    fn transfer(&mut self) {
        let mut moved = 0;
        while moved < self.max_transfers {
            if self.backlog.is_empty() {
                let mut waiting = std::mem::take(&mut self.queue);
                waiting.sort_by_key(|&id| self.timeouts[id].stamp);
                self.backlog = waiting.into();
            }
            let Some(id) = self.backlog.pop_front() else {
                break;
            };
            let (live, timeout) = (self.is_live(id), &mut self.timeouts[id]);
            timeout.waits = false;
            let is_found = timeout.filed.is_some_and(|at| at <= timeout.due);
            if live && !is_found {
                timeout.filed = Some(timeout.due);
                moved += 1;
            }
        }
        self.counts.transferred += moved as u64;
    }

    /// What the wheel looks at and is due later is filed anew.
    fn file_anew(&mut self) {
        for &id in &self.alive {
            let timeout = &mut self.timeouts[id];
            if timeout.due > self.processed && timeout.filed.is_some_and(|at| at <= self.processed)
            {
                timeout.filed = (timeout.due != NEVER).then_some(timeout.due);
            }
        }
    }

    /// Who has to run at the boundary whose tasks are running.
    fn unfinished(&self) -> Option<usize> {
        let mut due = self
            .all_pending()
            .filter(|(_, t)| t.filed.is_some_and(|at| at.max(t.due) <= self.processed));
        let first = due.next().map(|(id, _)| id);
        first.filter(|_| self.inside)
    }

    fn leave_boundary(&mut self) -> Checked {
        if let Some(id) = self.unfinished() {
            let (boundary, now) = (self.processed, self.now);
            return Err(format!(
                "timeout {id} did not run at boundary {boundary}, {now} ns: {:?}",
                self.timeouts[id]
            ));
        }
        self.inside = false;
        Ok(())
    }

    /// Goes to the next boundary with work, if the clock gets there before `target`.
    fn enter_boundary(&mut self, target: u64) -> Checked<bool> {
        self.leave_boundary()?;
        let next = self.next_boundary();
        let moment = next.and_then(|boundary| self.moment(boundary));
        let (Some(boundary), Some(moment)) = (next, moment) else {
            return Ok(false);
        };
        if moment > target {
            return Ok(false);
        }
        self.now = moment;
        self.processed = boundary;
        self.inside = true;
        self.last_in_order = None;
        self.transfer();
        self.file_anew();
        Ok(true)
    }

    /// The end of an advance: all boundaries up to now are processed.
    fn arrive(&mut self) -> Checked {
        while self.enter_boundary(self.target)? {}
        self.now = self.target;
        if let Some(started) = self.started {
            self.processed = self.processed.max((self.now - started) / self.tick);
        }
        Ok(())
    }

    // ── what happened ─────────────────────────────────────────────────────────────────────────

    pub(crate) fn see(&mut self, event: &Event) -> Checked {
        match event {
            Event::Doing { action, this } => {
                let expected = self.apply(action, *this)?;
                self.doing.push((Action::clone(action), expected));
                Ok(())
            }
            Event::Did(answer) => self.did(answer),
            Event::Ran {
                id,
                now,
                pending,
                looks,
            } => self.ran(*id, *now, *pending, looks),
            Event::End(id) => self.ended(*id),
            Event::Panics(id) => {
                self.counts.panicked += 1;
                self.ended(*id)
            }
            Event::ByHand { id, looks } => self.called_by_hand(*id, looks),
            Event::Dropped(id) => self.dropped(*id),
        }
    }

    fn did(&mut self, answer: &Answer) -> Checked {
        let Some((action, expected)) = self.doing.pop() else {
            return Err("an answer to nothing".to_owned());
        };
        if let (Action::Advance(_), None) = (&action, self.running) {
            self.arrive()?;
        }
        if let Some(expected) = expected {
            ensure!(
                *answer == expected,
                "{action:?} answered {answer:?} instead of {expected:?}"
            );
        }
        self.all_dropped()
    }

    fn all_dropped(&self) -> Checked {
        ensure!(
            self.leaving.is_empty(),
            "the tasks of {:?} have not been dropped",
            self.leaving
        );
        Ok(())
    }

    fn ran(&mut self, id: usize, now: u64, pending: usize, looks: &Looks) -> Checked {
        let Some((Action::Advance(_), _)) = self.doing.last() else {
            return Err(format!("{id} ran outside of an advance"));
        };
        ensure!(self.running.is_none(), "{id} ran inside of another task");
        self.all_dropped()?;
        let runs_here = |m: &Model| {
            let t = &m.timeouts[id];
            // With a cap it may run earlier: a slot that the wheel looks at in time has not to be moved.
            let is_met = m.has_small_cap() || t.filed.is_some_and(|at| at <= m.processed);
            m.inside && m.now == now && t.state == State::Pending && is_met && t.due <= m.processed
        };
        while !runs_here(self) {
            let is_next = self.enter_boundary(now)?;
            ensure!(
                is_next,
                "timeout {id} ran at {now} ns, boundary {}: {:?}",
                self.processed,
                self.timeouts[id]
            );
        }
        let timeout = &mut self.timeouts[id];
        timeout.filed = None;
        if self.kind == Kind::Hashed && !timeout.displaced {
            let before = self.last_in_order.replace(id);
            ensure!(before < Some(id), "{id} ran after {before:?}");
        }
        self.counts.held_up += u64::from(timeout.due < self.processed);
        let lateness = now - timeout.deadline;
        self.counts.max_lateness = self.counts.max_lateness.max(lateness);
        let expected = Looks {
            expired: timeout.repeat.is_none(),
            cancelled: false,
            remaining: Duration::ZERO,
        };
        self.running = Some(id);
        if timeout.repeat.is_some() {
            timeout.state = State::Running;
            self.counts.periodic_runs += 1;
        } else {
            self.end(id, State::Expired);
            self.counts.expired += 1;
        }
        ensure!(*looks == expected, "the task of {id} saw {looks:?}");
        let right = self.pending();
        ensure!(
            pending == right,
            "the task of {id} saw {pending} pending, not {right}"
        );
        Ok(())
    }

    fn ended(&mut self, id: usize) -> Checked {
        ensure!(
            self.running.take() == Some(id),
            "{id} ended and did not run"
        );
        let timeout = &mut self.timeouts[id];
        if timeout.state != State::Running {
            self.release(id);
            return Ok(());
        }
        timeout.state = State::Pending;
        timeout.displaced = true;
        if let Some(repeat) = timeout.repeat {
            let deadline = self.next_run(repeat);
            self.timeouts[id].deadline = deadline;
            self.set_due(id, self.due(deadline));
            // The timer's own thread files it at once; any other has to go through the queue.
            if self.executor {
                self.arm(id);
            } else {
                let timeout = &mut self.timeouts[id];
                timeout.filed = (timeout.due != NEVER).then_some(timeout.due);
            }
        }
        Ok(())
    }

    /// The deadline of the run after the one at this boundary.
    fn next_run(&self, repeat: Repeat) -> u64 {
        let Repeat {
            period,
            fixed_rate,
            first,
        } = repeat;
        if !fixed_rate {
            return self.now.saturating_add(period);
        }
        // A zero period has a deadline at every moment.
        let period = period.max(1);
        // The first of all first + n × period that is after this boundary.
        let runs = (self.now - first) / period + 1;
        let deadline = u128::from(first) + u128::from(runs) * u128::from(period);
        u64::try_from(deadline).unwrap_or(NEVER)
    }

    fn called_by_hand(&mut self, id: usize, looks: &Looks) -> Checked {
        let timeout = &mut self.timeouts[id];
        let is_left = matches!(timeout.state, State::Left(_)) && timeout.task == Task::Inside;
        ensure!(is_left, "the task of {id} was taken: {timeout:?}");
        let has_handle = std::mem::replace(&mut timeout.has_handle, true);
        let expected = self.looks(id);
        self.release(id);
        self.timeouts[id].has_handle = has_handle;
        ensure!(
            expected == Some(*looks),
            "{id} was called with {looks:?} instead of {expected:?}"
        );
        Ok(())
    }

    fn dropped(&mut self, id: usize) -> Checked {
        let drops_left = matches!(self.doing.last(), Some((Action::DropLeft(_), _)));
        let timeout = &mut self.timeouts[id];
        let is_left = matches!(timeout.state, State::Left(_)) && timeout.task == Task::Inside;
        let may_go = timeout.task == Task::Leaving && self.running != Some(id);
        ensure!(
            may_go || drops_left && is_left,
            "the task of {id} was dropped: {timeout:?}"
        );
        timeout.task = Task::Gone;
        self.leaving.retain(|&leaving| leaving != id);
        Ok(())
    }

    // ── what is done to it ────────────────────────────────────────────────────────────────────

    /// Does it, and says what the answer is, if that is known before it is done.
    fn apply(&mut self, action: &Action, this: Option<usize>) -> Checked<Option<Answer>> {
        let answer = match action {
            Action::Once { delay, .. } => self.schedule(*delay, None, action),
            Action::Periodic {
                first,
                period,
                fixed_rate,
                ..
            } => {
                let repeat = Repeat {
                    period: *period,
                    fixed_rate: *fixed_rate,
                    first: self.deadline_after(*first),
                };
                self.schedule(*first, Some(repeat), action)
            }
            Action::Cancel(which) => self.with_handle(*which, this, Self::cancel),
            Action::Reset(which, delay) => {
                self.with_handle(*which, this, |model, id| model.reset(id, *delay))
            }
            Action::Take(which) => self.with_handle(*which, this, |model, id| {
                let timeout = &model.timeouts[id];
                matches!(timeout.state, State::Left(_)) && timeout.task == Task::Inside
            }),
            Action::Forget(which) => {
                if let Some(id) = self.resolve(*which, this) {
                    self.timeouts[id].has_handle = false;
                }
                Answer::None
            }
            Action::Start => {
                self.start_if_new();
                Answer::Is(!self.stopped)
            }
            Action::Stop if self.running.is_some() => Answer::FromTimerThread,
            Action::Stop => Answer::Left(self.stop()),
            Action::DropOwner => {
                let is_news = !self.stopped;
                self.stop();
                for id in 0..self.timeouts.len() {
                    if is_news && self.timeouts[id].task == Task::Inside {
                        self.release(id);
                    }
                }
                Answer::None
            }
            Action::Advance(_) if self.running.is_some() => Answer::Panicked,
            Action::Advance(by) => {
                self.target = self.now.saturating_add(*by);
                Answer::None
            }
            Action::TakeLeft(_) => return Ok(None),
            Action::DropLeft(_) => Answer::None,
            Action::Panic
            | Action::Every(..)
            | Action::ToBoundary(_)
            | Action::Burst { .. }
            | Action::CancelMany { .. } => {
                return Err(format!("{action:?} is made of others"));
            }
        };
        Ok(Some(answer))
    }

    pub(crate) fn resolve(&self, which: Which, this: Option<usize>) -> Option<usize> {
        let last = self.timeouts.len().checked_sub(1)?;
        Some(match which {
            Which::This => this.unwrap_or(last),
            Which::Back(back) => last - back % (last + 1),
        })
    }

    fn with_handle(
        &mut self,
        which: Which,
        this: Option<usize>,
        act: impl FnOnce(&mut Self, usize) -> bool,
    ) -> Answer {
        match self.resolve(which, this) {
            // A task has its own timeout in hand, whoever else has.
            Some(id) if self.timeouts[id].has_handle || which == Which::This && this.is_some() => {
                Answer::Is(act(self, id))
            }
            _ => Answer::None,
        }
    }

    fn start_if_new(&mut self) {
        if !self.stopped && self.started.is_none() {
            self.started = Some(self.now);
        }
    }

    fn schedule(&mut self, delay: u64, repeat: Option<Repeat>, action: &Action) -> Answer {
        self.start_if_new();
        let refusal = if self.stopped {
            Some(Answer::Stopped)
        } else if self.pending() >= self.max_pending {
            let max = self.max_pending;
            Some(Answer::TooManyPending { max })
        } else {
            None
        };
        let (id, deadline) = (self.timeouts.len(), self.deadline_after(delay));
        let refused = refusal.is_some();
        self.timeouts.push(Timeout {
            state: if refused {
                State::Refused
            } else {
                State::Pending
            },
            task: Task::Inside,
            deadline,
            due: NEVER,
            filed: None,
            waits: false,
            stamp: 0,
            displaced: false,
            repeat,
            has_handle: !refused,
            shortest_period: action.shortest_period(),
        });
        if refused {
            self.release(id);
            self.counts.rejected += 1;
        } else {
            self.alive.push(id);
            self.counts.scheduled += 1;
            self.set_due(id, self.due(deadline));
            self.arm(id);
        }
        refusal.unwrap_or(Answer::Scheduled)
    }

    fn cancel(&mut self, id: usize) -> bool {
        let ends = matches!(self.timeouts[id].state, State::Pending | State::Running);
        if ends {
            self.end(id, State::Cancelled);
            self.counts.cancelled += 1;
        }
        ends
    }

    fn reset(&mut self, id: usize, delay: u64) -> bool {
        let deadline = self.deadline_after(delay);
        let due = self.due(deadline);
        let unsure = self.is_on_boundary() && delay == 0;
        let timeout = &mut self.timeouts[id];
        if timeout.state != State::Pending || timeout.repeat.is_some() {
            return false;
        }
        timeout.deadline = deadline;
        timeout.displaced = true;
        self.set_due(id, due);
        self.counts.resets += 1;
        self.counts.unsure_transfers += u64::from(unsure);
        self.make_findable(id);
        true
    }

    fn stop(&mut self) -> Vec<Duration> {
        if self.stopped {
            return Vec::new();
        }
        self.stopped = true;
        let mut left = Vec::new();
        for id in std::mem::take(&mut self.alive) {
            let time = self.time_to(self.timeouts[id].deadline);
            self.timeouts[id].state = State::Left(time);
            left.push(time);
        }
        self.counts.unprocessed = left.len() as u64;
        left.sort_unstable();
        left
    }

    /// Nothing is left of any task.
    pub(crate) fn assert_all_gone(&self) -> Checked {
        let kept = self.timeouts.iter().position(|t| t.task != Task::Gone);
        kept.map_or(Ok(()), |id| {
            Err(format!(
                "the task of {id} was never dropped: {:?}",
                self.timeouts[id]
            ))
        })
    }
}

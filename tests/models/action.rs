//! What can be done to a timer, what it answers, and what is seen of its tasks.

use std::sync::Arc;
use std::time::Duration;

/// One thing done to a timer, from outside or by a task while it runs. Times are in nanoseconds;
/// [`u64::MAX`] stands for [`Duration::MAX`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    Once {
        delay: u64,
        script: Vec<Action>,
    },
    Periodic {
        first: u64,
        period: u64,
        fixed_rate: bool,
        script: Vec<Action>,
    },
    /// Schedules many, `step` apart.
    Burst {
        count: u64,
        delay: u64,
        step: u64,
    },
    /// Cancels so many of the last ones but for each `keep`th, and drops their handles.
    CancelMany {
        count: u64,
        keep: u64,
    },
    Cancel(Which),
    Reset(Which, u64),
    /// Drops the handle.
    Forget(Which),
    /// Takes the task out of a timeout, and calls it by hand.
    Take(Which),
    Start,
    Stop,
    Advance(u64),
    /// Advances exactly to a boundary of the first timer, so many after the last one.
    ToBoundary(u64),
    /// Ends the task's run by a panic.
    Panic,
    /// Of a periodic task: only in each nth run.
    Every(u64, Box<Action>),
    /// As [`Action::Take`], of one that `stop` returned, in its order.
    TakeLeft(usize),
    /// Drops one that `stop` returned.
    DropLeft(usize),
    DropOwner,
}

/// Which timeout of the timer is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// The one whose task is running; from outside, the last one.
    This,
    /// So many before the last one, going round.
    Back(usize),
}

impl Action {
    /// The shortest period of all the periodic tasks that may come of it.
    pub(crate) fn shortest_period(&self) -> Option<u64> {
        match self {
            Action::Once { script, .. } => shortest_period(script),
            Action::Periodic { period, script, .. } => {
                Some(shortest_period(script).map_or(*period, |inside| inside.min(*period)))
            }
            Action::Every(_, action) => action.shortest_period(),
            _ => None,
        }
    }
}

pub(crate) fn shortest_period(script: &[Action]) -> Option<u64> {
    script.iter().filter_map(Action::shortest_period).min()
}

pub(crate) fn duration(nanos: u64) -> Duration {
    match nanos {
        u64::MAX => Duration::MAX,
        nanos => Duration::from_nanos(nanos),
    }
}

/// What came of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There is nothing to answer, or nothing to do it with.
    None,
    Is(bool),
    Scheduled,
    Stopped,
    TooManyPending {
        max: usize,
    },
    /// What was left of those that `stop` returned, in rising order.
    Left(Vec<Duration>),
    FromTimerThread,
    Panicked,
}

/// What can be asked of one timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks {
    pub(crate) expired: bool,
    pub(crate) cancelled: bool,
    pub(crate) remaining: Duration,
}

/// What happened, in this order. Timeouts are numbered as they were asked for, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// An action begins; `this` is the timeout whose task does it.
    Doing {
        action: Arc<Action>,
        this: Option<usize>,
    },
    Did(Answer),
    /// A task begins to run.
    Ran {
        id: usize,
        now: u64,
        pending: usize,
        looks: Looks,
    },
    /// A run ends.
    End(usize),
    /// A run ends by a panic.
    Panics(usize),
    /// A task that was taken out is called by hand.
    ByHand {
        id: usize,
        looks: Looks,
    },
    /// What a task had captured is dropped.
    Dropped(usize),
}

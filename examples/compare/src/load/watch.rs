//! How late timeouts are, each against its own delay, beyond the rounding to a tick that all have. Watched after the measured stretch, so that nobody is
//! charged for it: while nobody watches, a task reads one flag.

use super::{Figures, LATE, LATE_PERCENT};
use crate::contestant::TICK;
use crate::results::Summary;
use hashed_wheel::ManualClock;
use std::cell::{Cell, RefCell};
use std::time::Duration;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

/// What has been seen on this thread.
struct Watch {
    clock: ManualClock,
    /// Lateness and delay of each timeout that has fired.
    seen: Vec<(Duration, Duration)>,
}

/// A timeout's own times, in nanoseconds: what its task captures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    delay: u64,
    deadline: u64,
}

impl Times {
    #[inline]
    pub(super) fn new(now: Duration, delay: Duration) -> Times {
        let delay = delay.as_nanos() as u64;
        Times {
            delay,
            deadline: now.as_nanos() as u64 + delay,
        }
    }

    /// To be called by the task.
    #[inline]
    pub(super) fn fired(self) {
        std::hint::black_box(self);
        if IS_WATCHED.get() {
            self.note();
        }
    }

    #[cold]
    fn note(self) {
        WATCH.with_borrow_mut(|watch| {
            if let Some(Watch { clock, seen }) = watch {
                let tick = TICK.as_nanos() as u64;
                let late = clock.now().as_nanos() as u64 - self.deadline.next_multiple_of(tick);
                seen.push((Duration::from_nanos(late), Duration::from_nanos(self.delay)));
            }
        });
    }
}

/// Watches what fires on this thread while `run` goes on: the median and the most in ticks, and the median
/// in percent of the delay. Nothing if nothing has fired.
pub(super) fn watched(clock: &ManualClock, run: impl FnOnce()) -> Figures {
    WATCH.set(Some(Watch {
        clock: clock.clone(),
        seen: Vec::new(),
    }));
    IS_WATCHED.set(true);
    run();
    IS_WATCHED.set(false);
    let seen = WATCH.take().map_or(Vec::new(), |watch| watch.seen);
    let ticks = |it: &(Duration, Duration)| it.0.as_secs_f64() / TICK.as_secs_f64();
    let percent = |it: &(Duration, Duration)| 100.0 * it.0.as_secs_f64() / it.1.as_secs_f64();
    let ticks = Summary::of(&seen.iter().map(ticks).collect::<Vec<_>>());
    let percent = Summary::of(&seen.iter().map(percent).collect::<Vec<_>>());
    let (Some(ticks), Some(percent)) = (ticks, percent) else {
        return Vec::new();
    };
    let [p50, most] = LATE;
    vec![
        (p50, ticks.median),
        (most, ticks.most),
        (LATE_PERCENT, percent.median),
    ]
}

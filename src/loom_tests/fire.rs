//! The whole timer: what falls due while somebody schedules, cancels or moves it.

use super::{Latch, Probe, TICK, check_figures, explore, now, timer, unexplored};
use crate::{Timeout, TimerHandle};
use std::sync::Arc;

/// Schedules a timeout that tells when it fires.
fn schedule(timer: &TimerHandle, ticks: u32, fired: &Arc<Latch<u64>>) -> Timeout {
    let fired = Arc::clone(fired);
    let task = move |_: &Timeout| fired.set(now());
    timer.new_timeout(task, ticks * TICK).unwrap()
}

/// A call that asks for something to fire `ticks` from now, and whether it did. If time passed during
/// the call, it may have counted from any moment of that, and may be late already when it returns.
struct Asked {
    called: u64,
    returned: u64,
    ticks: u64,
}

impl Asked {
    fn ask<R>(ticks: u32, call: impl FnOnce() -> R) -> (Asked, R) {
        let called = now();
        let result = call();
        let asked = Asked {
            called,
            returned: now(),
            ticks: ticks.into(),
        };
        (asked, result)
    }

    fn check(&self, fired: u64) -> &'static str {
        let due = self.called + self.ticks;
        if self.called == self.returned {
            assert_eq!(fired, due, "a wake-up was lost, or it was early");
            "on time"
        } else {
            assert!(fired >= due, "early");
            "overtaken"
        }
    }
}

#[test]
fn a_cancel_and_its_firing_exclude_each_other() {
    explore(["cancelled", "fired"], || {
        let (timer, probe) = (timer(), Probe::default());
        let run = probe.hold();
        let timeout = timer.new_timeout(move |_| run(), TICK).unwrap();
        let cancelled = timeout.cancel();
        assert_eq!(timeout.is_cancelled(), cancelled);
        assert_eq!(timeout.is_expired(), !cancelled);
        assert_eq!(timer.stop().unwrap().len(), 0);

        assert!(probe.is_gone());
        assert_eq!(probe.runs(), usize::from(!cancelled));
        let stats = check_figures(&timer.handle());
        assert_eq!((stats.cancelled, stats.pending), (u64::from(cancelled), 0));
        if cancelled { "cancelled" } else { "fired" }
    });
}

#[test]
fn a_push_while_the_worker_is_anywhere_is_fired_on_time() {
    // Time passes during the call only if the worker meets the push half-way.
    explore(["on time", "overtaken"], || {
        let (timer, fired) = (timer(), Latch::new());
        let (asked, _) = Asked::ask(2, || schedule(&timer.handle(), 2, &fired));
        let end = asked.check(fired.wait());
        unexplored(|| drop(timer));
        end
    });
}

/// The worker sleeps until the later one, or is about to, when the earlier one comes.
#[test]
fn an_earlier_push_after_a_later_one_is_fired_on_time() {
    explore(["on time", "overtaken"], || {
        let (timer, fired, later) = (timer(), Latch::new(), Latch::new());
        unexplored(|| schedule(&timer.handle(), 4, &later));
        let (asked, _) = Asked::ask(2, || schedule(&timer.handle(), 2, &fired));
        let end = asked.check(fired.wait());
        unexplored(|| drop(timer));
        end
    });
}

#[test]
fn a_reset_that_was_true_is_obeyed_by_the_worker() {
    /// Moves a timeout from 2 ticks to `ticks` from now.
    fn reset(ticks: u32) -> &'static str {
        let (timer, fired) = (timer(), Latch::new());
        let timeout = unexplored(|| schedule(&timer.handle(), 2, &fired));
        let (asked, moved) = Asked::ask(ticks, || timeout.reset(ticks * TICK));
        let fired = fired.wait();
        unexplored(|| drop(timer));
        if moved {
            asked.check(fired)
        } else {
            "fired before"
        }
    }
    explore(["on time", "overtaken", "fired before"], || reset(4));
    explore(["on time", "overtaken", "fired before"], || reset(1));
}

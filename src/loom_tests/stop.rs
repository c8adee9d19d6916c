//! The whole timer: `stop` against everything that can be under way.

use super::{Probe, TICK, builder, check_figures, explore, timer, unexplored};
use crate::{HashedWheelTimer, ManualClock, RejectReason, Timeout};
use loom::thread;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The end of a timeout that was scheduled while the timer was stopped.
fn schedule_and_stop(timer: &HashedWheelTimer, delay: Duration) -> &'static str {
    unexplored(|| timer.start().unwrap());
    let probe = Probe::default();
    let producer = thread::spawn({
        let (timer, run) = (timer.handle(), probe.hold());
        move || match timer.new_timeout(move |_| run(), delay) {
            Ok(_) => None,
            Err(rejected) => {
                assert!(matches!(rejected.reason, RejectReason::Stopped));
                // At the door, before it had a slot; or taken back from its slot.
                Some((rejected, timer.shared().used_slots() == 0))
            }
        }
    });
    let left = timer.stop().unwrap();
    assert_eq!(timer.pending_timeouts(), 0);
    let rejected = producer.join().unwrap();

    let stats = check_figures(&timer.handle());
    assert_eq!(stats.unprocessed, left.len() as u64);
    assert_eq!(stats.rejected, u64::from(rejected.is_some()));
    let fates = [probe.runs(), left.len(), usize::from(rejected.is_some())];
    assert_eq!(
        fates.iter().sum::<usize>(),
        1,
        "one of the three: {fates:?}"
    );
    assert_eq!(probe.is_gone(), probe.runs() == 1);
    let end = match (&rejected, left.first()) {
        (Some((_, true)), None) => "rejected at the door",
        (Some((_, false)), None) => "taken back",
        (None, None) => "fired",
        (None, Some(timeout)) => {
            assert!(timeout.is_cancelled() && timeout.take_task().is_some());
            "returned"
        }
        odd => panic!("{odd:?}"),
    };
    drop((left, rejected));
    assert!(probe.is_gone());
    end
}

#[test]
fn a_new_timeout_racing_with_stop_is_returned_or_rejected_never_both() {
    explore(
        ["rejected at the door", "taken back", "returned", "fired"],
        || schedule_and_stop(&timer(), TICK),
    );
}

/// It has no entry: the fence in `Shared::submit` stands in for the push.
#[test]
fn a_new_timeout_without_end_racing_with_stop_is_returned_or_rejected_never_both() {
    explore(["rejected at the door", "taken back", "returned"], || {
        schedule_and_stop(&timer(), Duration::MAX)
    });
}

#[test]
fn a_new_timeout_on_a_manual_clock_racing_with_stop_is_returned_or_rejected_never_both() {
    explore(["rejected at the door", "taken back", "returned"], || {
        let clock = ManualClock::new();
        schedule_and_stop(&builder().clock(&clock).build().unwrap(), TICK)
    });
}

#[test]
fn two_stops_return_each_timeout_once() {
    explore(["to the first", "to the second"], || {
        let (timer, probe) = (timer(), Probe::default());
        let run = probe.hold();
        let timeout = timer.new_timeout(move |_| run(), Duration::MAX).unwrap();
        let second = thread::spawn({
            let timer = timer.handle();
            move || {
                let left = timer.stop().unwrap();
                // After the timer has stopped, also for the one who did not stop it.
                assert!(timeout.is_cancelled() && timer.pending_timeouts() == 0);
                left
            }
        });
        let left = timer.stop().unwrap();
        let others = second.join().unwrap();
        assert_eq!((left.len() + others.len(), probe.runs()), (1, 0));
        let end = if left.is_empty() {
            "to the second"
        } else {
            "to the first"
        };
        drop((left, others));
        assert!(probe.is_gone());
        end
    });
}

#[test]
fn a_reset_to_earlier_between_word_and_push_is_still_returned_by_stop() {
    explore(
        ["moved, and returned", "returned before", "moved, and fired"],
        || {
            let (timer, probe) = (timer(), Probe::default());
            let run = probe.hold();
            let timeout = timer.new_timeout(move |_| run(), Duration::MAX).unwrap();
            let user = thread::spawn(move || timeout.reset(TICK));
            let left = timer.stop().unwrap();
            let moved = user.join().unwrap();
            assert_eq!(left.len() + probe.runs(), 1, "returned, or fired");
            check_figures(&timer.handle());
            match (moved, left.len()) {
                (true, 1) => "moved, and returned",
                (false, 1) => "returned before",
                (true, 0) => "moved, and fired",
                odd => panic!("{odd:?}"),
            }
        },
    );
}

/// On a manual clock the engine lies in a drawer, and whoever advances takes it out.
#[test]
fn a_stop_during_an_advance_is_finished_by_one_of_the_two() {
    explore(["fired", "returned"], || {
        let (clock, probe) = (ManualClock::new(), Probe::default());
        let timer = builder().clock(&clock).build().unwrap();
        let run = probe.hold();
        timer.new_timeout(move |_| run(), TICK).unwrap();
        let driver = thread::spawn(move || clock.advance(TICK));
        let left = timer.stop().unwrap();
        driver.join().unwrap();
        assert_eq!(left.len() + probe.runs(), 1);
        check_figures(&timer.handle());
        if left.is_empty() { "fired" } else { "returned" }
    });
}

/// An owner that is dropped by a task cannot wait: the worker ends the timer, and drops what is left.
#[test]
fn an_owner_dropped_by_its_task_leaves_the_end_to_the_worker() {
    let ends = [
        "its drop ended it",
        "the stop ended it",
        "its task never ran",
    ];
    explore(ends, move || {
        let (timer, left) = (timer(), Probe::default());
        let handle = timer.handle();
        let owner = Arc::new(Mutex::new(None));
        unexplored(|| {
            let run = left.hold();
            timer.new_timeout(move |_| run(), Duration::MAX).unwrap();
        });
        // In the drawer before the task can look for it.
        *owner.lock().unwrap() = Some(timer);
        let inside = Arc::clone(&owner);
        let task = move |_: &Timeout| {
            let owner = inside.lock().unwrap().take();
            drop(owner);
        };
        handle.new_timeout(task, TICK).unwrap();
        let returned = handle.stop().unwrap();
        let dropped = owner.lock().unwrap().take().is_none();
        assert_eq!(
            left.is_gone(),
            returned.is_empty(),
            "returned, or dropped by the worker"
        );
        match (returned.len(), dropped) {
            (0, true) => ends[0],
            (1, true) => ends[1],
            (2, false) => ends[2],
            odd => panic!("{odd:?}"),
        }
    });
}

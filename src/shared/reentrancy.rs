//! The activities of the current thread for timers, so that a call that would wait for itself fails instead.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

/// An activity of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// Acts as the timer's thread.
    Driving,
    /// Runs a job of the timer's executor.
    Job,
    /// Runs the timer's thread factory.
    Starting,
}

#[derive(Debug, Clone, Copy)]
struct Frame {
    activity: Activity,
    /// The number of the timer.
    timer: u64,
    /// The identity of the manual clock that the timer runs on; 0 for none.
    clock: usize,
}

crate::sync::thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    /// Those of a thread that is ending, in the destructor of a thread-local that outlives `FRAMES`. It has no destructor,
    /// so that it is there to the end, and holds no memory while nothing is under way.
    static LAST_FRAMES: ManuallyDrop<RefCell<Vec<Frame>>> =
        const { ManuallyDrop::new(RefCell::new(Vec::new())) };
}

/// Gives `use_them` the activities of this thread.
fn with_frames(use_them: impl Fn(&mut Vec<Frame>) -> bool) -> bool {
    let last = |_| {
        LAST_FRAMES.try_with(|frames| {
            let mut frames = frames.borrow_mut();
            let result = use_them(&mut frames);
            if frames.is_empty() {
                *frames = Vec::new();
            }
            result
        })
    };
    let frames = FRAMES.try_with(|frames| use_them(&mut frames.borrow_mut()));
    frames.or_else(last).unwrap_or(false)
}

/// Ends an activity when dropped.
#[must_use]
pub(crate) struct ActivityGuard(());

/// Begins an activity. Activities nest: a task of one timer may advance the clock of another.
pub(crate) fn enter(activity: Activity, timer: u64, clock: usize) -> ActivityGuard {
    let frame = Frame {
        activity,
        timer,
        clock,
    };
    with_frames(|frames| {
        frames.push(frame);
        true
    });
    ActivityGuard(())
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        with_frames(|frames| frames.pop().is_some());
    }
}

fn any(matches: &dyn Fn(&Frame) -> bool) -> bool {
    with_frames(|frames| frames.iter().any(matches))
}

/// Returns `true` on the thread of that timer. A thread that advances a manual clock is the thread of all timers on it.
pub(crate) fn is_driving(timer: u64, clock: usize) -> bool {
    let is_driven = |frame: &Frame| frame.timer == timer || clock != 0 && frame.clock == clock;
    any(&|frame| frame.activity == Activity::Driving && is_driven(frame))
}

/// Returns `true` if this thread is in the thread factory of that timer, and not in a job that the factory runs inline: then
/// the timer has started, and this is its thread.
pub(crate) fn is_starting(timer: u64) -> bool {
    with_frames(|frames| {
        let last = frames.iter().rev().find(|frame| frame.timer == timer);
        last.is_some_and(|frame| frame.activity == Activity::Starting)
    })
}

/// Returns `true` if this thread runs a task of any timer, on its thread or as a job.
pub(crate) fn is_in_task() -> bool {
    any(&|frame| frame.activity != Activity::Starting)
}

/// Returns `true` if this thread runs a task of that timer, on its thread or as a job.
pub(crate) fn is_in_task_of(timer: u64) -> bool {
    any(&|frame| frame.timer == timer && frame.activity != Activity::Starting)
}

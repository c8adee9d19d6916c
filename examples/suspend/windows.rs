//! Windows of time, with a producer suspended or without, and what has to hold in them.

use crate::producer::DOING;
use crate::suspension::{HANDLER, NOT_SENT, RETURNED, SUSPENDED, SUSPENSION, evidence};
use crate::world::{PRODUCERS, World, eventually, ms};
use std::array::from_fn;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The periodic task waits for a suspended thread if it has a gap like this.
const LONGEST_GAP: Duration = ms(SUSPENSION as u64 * 3 / 4);

/// The counters at the beginning or at the end of a window.
struct Look {
    at: Duration,
    runs: u64,
    timer_waited: Duration,
    scheduled: [u64; PRODUCERS],
    short_fired: [u64; PRODUCERS],
    waited: [Duration; PRODUCERS],
}

impl Look {
    fn now(world: &World) -> Look {
        let producer = |index: usize| &world.producers[index];
        Look {
            at: world.now(),
            runs: world.pulse.runs.load(Relaxed),
            timer_waited: schedstat(&world.pulse.thread).0,
            scheduled: from_fn(|i| producer(i).scheduled.load(Relaxed)),
            short_fired: from_fn(|i| producer(i).short_fired.load(Relaxed)),
            waited: from_fn(|i| schedstat(&producer(i).thread).0),
        }
    }
}

/// The windows of one kind.
#[derive(Default)]
pub(crate) struct Windows {
    pub(crate) count: u32,
    runs: u32,
    pub(crate) longest_gap: Duration,
    pub(crate) fewest_scheduled: Option<u64>,
    /// Checks that did not hold because a thread was given no processor.
    pub(crate) excused: u64,
    pub(crate) doing: [u64; DOING.len()],
}

impl Windows {
    /// Judges what happened in a window, in which `suspended` was, if any.
    fn judge(&mut self, world: &World, suspended: Option<usize>, begin: &Look, gap: Duration) {
        let end = Look::now(world);
        let window = end.at.saturating_sub(begin.at);
        self.count += 1;
        self.runs += (end.runs - begin.runs) as u32;
        self.longest_gap = self.longest_gap.max(gap);
        let Some(suspended) = suspended else {
            return;
        };
        let producer = &world.producers[suspended];
        let short = producer.short.load(SeqCst);
        let fired = producer.short_fired.load(SeqCst);
        let doing = producer.doing.load(Relaxed);
        self.doing[usize::from(doing)] += 1;
        // Asked for only if something did not hold: it takes until the thread gets its next turn.
        let timer_waited =
            || waited_for_processor(&world.pulse.thread).saturating_sub(begin.timer_waited);
        let waited = |other: usize| {
            waited_for_processor(&world.producers[other].thread).saturating_sub(begin.waited[other])
        };
        // `excused`: the system gave no processor.
        let mut fail = |excused: bool, what: String| {
            if excused {
                self.excused += 1;
            } else {
                let doing = DOING[usize::from(doing)];
                world.fail(format!("producer {suspended} suspended, {doing}: {what}"));
            }
        };
        if gap >= LONGEST_GAP {
            fail(
                timer_waited() > gap / 2,
                format!("the timer thread stood still for {gap:.1?}"),
            );
        }
        for other in (0..PRODUCERS).filter(|other| *other != suspended) {
            let scheduled = end.scheduled[other] - begin.scheduled[other];
            let fewest = self.fewest_scheduled.unwrap_or(u64::MAX);
            self.fewest_scheduled = Some(fewest.min(scheduled));
            if scheduled == 0 {
                // In a tenth of the time it would have come to something.
                fail(
                    waited(other) > window * 9 / 10,
                    format!("producer {other} scheduled nothing"),
                );
            } else if end.short_fired[other] == begin.short_fired[other] {
                fail(
                    waited(other).max(timer_waited()) > window / 2,
                    format!("no short timeout of producer {other} fired"),
                );
            }
        }
        // Its earlier timeouts have been due for long.
        if short > fired {
            fail(
                timer_waited() > window / 2,
                format!("{} of its short timeouts have not fired", short - fired),
            );
        }
    }

    pub(crate) fn runs_per_window(&self) -> f64 {
        f64::from(self.runs) / f64::from(self.count.max(1))
    }
}

/// A window without a suspension.
pub(crate) fn watch_undisturbed(world: &World, windows: &mut Windows) {
    let begin = Look::now(world);
    world.pulse.begin_window(world.now());
    thread::sleep(ms(SUSPENSION as u64));
    let gap = world.pulse.end_window(world.now());
    windows.judge(world, None, &begin, gap);
}

/// Suspends a producer, and watches the others until shortly before it returns.
pub(crate) fn watch_suspension(
    world: &World,
    threads: &[JoinHandle<()>],
    victim: usize,
    seen: &mut Windows,
) {
    HANDLER.store(NOT_SENT, SeqCst);
    // SAFETY: the thread has not been joined, so its identifier is valid. The handler is installed.
    let sent = unsafe { libc::pthread_kill(threads[victim].as_pthread_t(), libc::SIGUSR1) };
    if sent != 0 || !eventually(|| HANDLER.load(SeqCst) != NOT_SENT) {
        return world.fail(format!("producer {victim} cannot be interrupted: {sent}"));
    }
    let begin = Look::now(world);
    world.pulse.begin_window(world.now());
    thread::sleep(ms(SUSPENSION as u64 * 19 / 20));
    let gap = world.pulse.end_window(world.now());
    if gap >= LONGEST_GAP {
        println!("{}", evidence(world));
    }
    // On a busy machine this thread may be late: then it is not known what happened when.
    if HANDLER.load(SeqCst) == SUSPENDED {
        seen.judge(world, Some(victim), &begin, gap);
    }
    if !eventually(|| HANDLER.load(SeqCst) == RETURNED) {
        world.fail(format!("producer {victim} did not come back"));
    }
}

/// The time that a thread was ready to run and did not, and the number of its turns; zero if the system does not say.
fn schedstat(thread: &AtomicI32) -> (Duration, u64) {
    let thread = thread.load(SeqCst);
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat"));
    let text = text.unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| number.parse().ok());
    let mut next = |skipped| numbers.nth(skipped).flatten().unwrap_or(0);
    (Duration::from_nanos(next(1)), next(0))
}

/// The time that a thread was ready to run and did not, including now: the system counts that when it gets its turn.
fn waited_for_processor(thread: &AtomicI32) -> Duration {
    let (_, turns) = schedstat(thread);
    if turns > 0 {
        eventually(|| schedstat(thread).1 != turns);
    }
    schedstat(thread).0
}

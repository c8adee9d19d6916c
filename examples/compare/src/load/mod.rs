//! The loads on a manual clock: one thread does it all, so work can be counted exactly and CPU time has
//! no gaps. What is timed is the life of a timeout under the whole timer: scheduling, queue, wheel, and
//! firing or cancelling.

pub(crate) mod array;
pub(crate) mod burst;
pub(crate) mod steady;
mod watch;

use crate::contestant::Timer;
use crate::contestant::compared::compared;
use crate::os;
use hashed_wheel::Stats;
use std::time::Duration;

/// The figures of one run: name and value.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// CPU time, in nanoseconds.
pub(crate) const CPU_NS: &str = "cpu_ns";
/// What is counted, and not measured: the same in every run.
pub(crate) const COUNTS: [&str; 7] = [
    WORK,
    "passed_over",
    "moved",
    "compared",
    "bucket_visits",
    WAKEUPS,
    "swept",
];
/// Entries passed over and moved, and keys compared, together: what each design spends its time on.
pub(crate) const WORK: &str = "work";
pub(crate) const WAKEUPS: &str = "wakeups";
/// The median lateness, in percent of the delay.
pub(crate) const LATE_PERCENT: &str = "late_percent";
/// The lateness of all that have fired, in ticks: the median, and the most. On a manual clock it is what goes
/// beyond the first boundary at or after the deadline.
pub(crate) const LATE: [&str; 2] = ["late_p50", "late_most"];

/// Everything that is read before and after.
struct Meter {
    stats: Stats,
    compared: u64,
    cpu: Duration,
}

impl Meter {
    fn read(timer: &Timer) -> Meter {
        Meter {
            stats: timer.handle.stats(),
            compared: compared(),
            cpu: os::thread_cpu(),
        }
    }

    /// What has happened since, for each timeout that has come to its end.
    fn since(timer: &Timer, before: &Meter) -> Figures {
        let cpu = os::thread_cpu().saturating_sub(before.cpu);
        let (then, now) = (&before.stats, timer.handle.stats());
        let ended = (now.expired - then.expired) + (now.cancelled - then.cancelled);
        let passed_over = now.passed_over - then.passed_over;
        let moved = now.cascaded - then.cascaded;
        let compared = compared() - before.compared;
        let counts = [
            passed_over + moved + compared,
            passed_over,
            moved,
            compared,
            now.bucket_visits - then.bucket_visits,
            now.wakeups - then.wakeups,
            now.swept - then.swept,
        ];
        let each = |count: u64| count as f64 / ended.max(1) as f64;
        let counted = COUNTS.into_iter().zip(counts.map(each));
        let cpu = (CPU_NS, cpu.as_nanos() as f64 / ended.max(1) as f64);
        std::iter::once(cpu).chain(counted).collect()
    }
}

/// The lateness of all that a timer has fired, after delays that hardly differ from `delay` ticks.
pub(crate) fn late(stats: &Stats, tick: Duration, delay: f64) -> Figures {
    let ticks = |lateness: Duration| lateness.as_secs_f64() / tick.as_secs_f64();
    let middle = ticks(stats.lateness.p50());
    let [p50, most] = LATE;
    vec![
        (p50, middle),
        (most, ticks(stats.lateness.max())),
        (LATE_PERCENT, 100.0 * middle / delay),
    ]
}

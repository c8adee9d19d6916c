//! More threads than processors, all of them scheduling: does the timer thread still get its turn?
//!
//! A periodic task runs every millisecond beside eight threads a processor that schedule and cancel at full speed on the
//! same timer. What it would get from the system alone is seen beside as many threads that merely spin. Its
//! gaps may be longer beside the callers, who give the timer thread work, but not by more than [`ALLOWED`]: if
//! they were, it would be waiting for callers that are not running.

use crate::{FAR, ms};
use hashed_wheel::{HashedWheelTimer, Period};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer the 99th percentile of the gaps may be.
const ALLOWED: f64 = 3.0;
/// The system's own chance decides much in so short a time: it counts if it is so every time.
const TRIES: usize = 3;

#[derive(Clone, Copy)]
enum Load {
    Spinning,
    Scheduling,
}

/// How the periodic task fared.
struct Fared {
    runs: usize,
    p99: Duration,
    longest: Duration,
}

impl Fared {
    fn of(mut gaps: Vec<Duration>) -> Fared {
        gaps.sort_unstable();
        Fared {
            runs: gaps.len(),
            p99: gaps[(gaps.len() * 99).div_ceil(100) - 1],
            longest: gaps[gaps.len() - 1],
        }
    }
}

/// Measures for so long beside each load; what is wrong, if anything.
pub(crate) fn check(span: Duration) -> Result<(), String> {
    let threads = 8 * thread::available_parallelism().map_or(1, usize::from);
    let mut least = f64::INFINITY;
    for _ in 0..TRIES {
        let spinning = beside(Load::Spinning, threads, span);
        let scheduling = beside(Load::Scheduling, threads, span);
        // A gap of one period is no gap.
        let usual = spinning.p99.max(ms(2));
        let ratio = scheduling.p99.as_secs_f64() / usual.as_secs_f64();
        least = least.min(ratio);
        println!(
            "a task every ms beside {threads} threads: {} runs, p99 of the gaps {:.1} ms, longest {:.1} ms; \
             beside as many that spin: {}, {:.1} ms, {:.1} ms; ratio {ratio:.1}",
            scheduling.runs,
            scheduling.p99.as_secs_f64() * 1e3,
            scheduling.longest.as_secs_f64() * 1e3,
            spinning.runs,
            spinning.p99.as_secs_f64() * 1e3,
            spinning.longest.as_secs_f64() * 1e3,
        );
        if least <= ALLOWED {
            return Ok(());
        }
    }
    Err(format!(
        "a periodic task waits {least:.1} times as long beside threads that schedule as beside threads that spin; \
         at most {ALLOWED} is allowed"
    ))
}

fn beside(load: Load, threads: usize, span: Duration) -> Fared {
    let timer = HashedWheelTimer::new(ms(1), 512);
    let over = AtomicBool::new(false);
    let runs = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&runs);
    let begin = Instant::now();
    timer
        .new_periodic(
            move |_| crate::lock(&noted).push(Instant::now()),
            ms(1),
            Period::FixedRate(ms(1)),
        )
        .expect("a new timer takes it");
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    match load {
                        Load::Spinning => spin_loop(),
                        Load::Scheduling => {
                            let timeout = timer.new_timeout(|_| {}, FAR);
                            timeout.expect("there is no limit").cancel();
                        }
                    }
                }
            });
        }
        thread::sleep(span);
        over.store(true, Relaxed);
    });
    // Up to the end: a task that never came has waited for so long.
    let end = Instant::now();
    let mut moments = std::mem::take(&mut *crate::lock(&runs));
    moments.retain(|moment| *moment < end);
    moments.insert(0, begin);
    moments.push(end);
    Fared::of(moments.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

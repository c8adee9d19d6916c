//! The data that all threads of the program share: the producers' records, the periodic task's, and the failures.

use crate::producer::Producer;
use std::array::from_fn;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const PRODUCERS: usize = 4;
/// After this time something is lost or hangs. It is no bound on lateness.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) born: Instant,
    pub(crate) over: AtomicBool,
    pub(crate) failures: Mutex<Vec<String>>,
    pub(crate) producers: [Producer; PRODUCERS],
    pub(crate) pulse: Pulse,
}

impl World {
    pub(crate) fn new() -> World {
        World {
            born: Instant::now(),
            over: AtomicBool::new(false),
            failures: Mutex::default(),
            producers: from_fn(Producer::new),
            pulse: Pulse::default(),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.born.elapsed()
    }

    /// Notes what went wrong, and ends the run.
    pub(crate) fn fail(&self, what: String) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() < 20 {
            println!("FAILED: {what}");
        }
        failures.push(what);
        self.over.store(true, SeqCst);
    }

    pub(crate) fn sum(&self, counter: impl Fn(&Producer) -> &AtomicU64) -> u64 {
        self.producers
            .iter()
            .map(|p| counter(p).load(Relaxed))
            .sum()
    }
}

/// The runs of the task that is due every millisecond. Times are nanoseconds since the beginning.
#[derive(Default)]
pub(crate) struct Pulse {
    pub(crate) thread: AtomicI32,
    pub(crate) runs: AtomicU64,
    last: AtomicU64,
    /// Gaps count from here on.
    from: AtomicU64,
    longest_gap: AtomicU64,
}

impl Pulse {
    pub(crate) fn beat(&self, now: Duration) {
        if self.thread.load(Relaxed) == 0 {
            // SAFETY: it has no arguments, and cannot fail.
            self.thread.store(unsafe { libc::gettid() }, SeqCst);
        }
        self.note_gap(now);
        self.last.store(now.as_nanos() as u64, Relaxed);
        self.runs.fetch_add(1, Relaxed);
    }

    fn note_gap(&self, now: Duration) {
        let from = self.last.load(Relaxed).max(self.from.load(Relaxed));
        let gap = (now.as_nanos() as u64).saturating_sub(from);
        self.longest_gap.fetch_max(gap, Relaxed);
    }

    pub(crate) fn begin_window(&self, now: Duration) {
        self.from.store(now.as_nanos() as u64, Relaxed);
        self.longest_gap.store(0, Relaxed);
    }

    pub(crate) fn end_window(&self, now: Duration) -> Duration {
        self.note_gap(now);
        Duration::from_nanos(self.longest_gap.load(Relaxed))
    }
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) fn eventually(condition: impl Fn() -> bool) -> bool {
    let since = Instant::now();
    while !condition() {
        if since.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_micros(200));
    }
    true
}

/// Chance that is the same in every run (`SplitMix64`).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.below(N as u64) as usize]
    }
}

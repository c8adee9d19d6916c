//! The time from the processor's time stamp counter, between two readings of the system's clock.
//!
//! On x86-64 Linux makes its clock of that counter, and a reading of the clock takes 20 ns, most of which is a fence that waits for
//! all that the processor has under way. A timeout needs no such order. So a thread reads the system's clock once in
//! [`SPAN`] counts (25 µs at 2.6 GHz), and adds what the counter has counted since.
//!
//! # How wrong it is
//!
//! The reading may be off, in either direction, by
//!
//! - the time between the counter and the clock that an [`Anchor`] was made of, 15 ns here. One that took a quarter longer is not used;
//! - the rate, measured over [`CALIBRATION`]: 20 ppm, and what the system has slewed its clock since, 500 ppm at most by NTP:
//!   13 ns at the end of a span. Each new anchor compares, and a rate that is worse is measured again;
//! - the order: the processor may read the counter before it has completed what comes before in the program, some hundred
//!   nanoseconds earlier if that waits for memory.
//!
//! Together that is far below [`LAG`]. The timer thread takes a boundary as passed only when the system's clock is that far
//! beyond it, so that nothing is early. What a thread reads never goes back by more than that, either.
//!
//! # When it is used
//!
//! Only if the system itself uses the counter for its clock: then it runs at one rate, also in sleep states, and is the same on
//! all processors. If that changes, by a migration or because the system's own watch finds fault with it, the next anchors
//! disagree: after [`FAULTS`] of that the counter is not used any more.

use super::monotonic::source;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nanoseconds that a reading may be behind the system's clock, with a wide margin.
pub(super) const LAG: u64 = 1_000;
/// Counts that an anchor is used for.
const SPAN: u64 = 1 << 16;
/// Attempts to find out how long reading both takes, and counts that are too many.
const ATTEMPTS: usize = 64;
const TRAPPED: u64 = 1 << 10;
/// Nanoseconds over which the rate is measured, at least.
const CALIBRATION: u64 = 5_000_000;
/// Nanoseconds that two anchors may disagree by.
const TOLERANCE: u64 = 200;
/// Rates that are given up.
const FAULTS: u32 = 8;

/// The counter, as all threads know it.
struct Counter {
    /// Counts that the clock may be read after the counter, to be worth an anchor. 0 if the system's clock is not made of it.
    tight: OnceLock<u64>,
    /// Nanoseconds for each count, in units of 2^-32; 0 while that is not known.
    rate: AtomicU64,
    /// Where measuring the rate has begun: counter, then nanoseconds. 0 while it has not. Two threads may mix their pairs,
    /// which are alike; a rate that is wrong is found out.
    base: [AtomicU64; 2],
    faults: AtomicU32,
}

static COUNTER: Counter = Counter::new();

/// What a thread has read last of the system's clock.
struct Anchor {
    count: Cell<u64>,
    nanos: Cell<u64>,
    rate: Cell<u64>,
    /// Counts that it is used for: [`SPAN`], or 0.
    span: Cell<u64>,
}

thread_local! {
    /// It needs no drop, so it is there to the end of the thread.
    static ANCHOR: Anchor = const { Anchor::new() };
}

/// Where a clock that started at `start`, on the system's clock, counts from; `None` if the counter cannot be used.
pub(super) fn origin(start: source::Reading) -> Option<u64> {
    (COUNTER.tight() > 0).then_some(start)
}

/// Nanoseconds on the system's clock, about. Only if there is an [`origin`].
#[inline]
pub(super) fn nanos() -> u64 {
    ANCHOR.with(|anchor| {
        let count = read();
        let passed = count.wrapping_sub(anchor.count.get());
        if passed < anchor.span.get() {
            anchor.after(passed)
        } else {
            anchor.renew(count, &COUNTER)
        }
    })
}

/// The system's clock, and how many counts after `count` that was at most.
fn system_clock(count: u64) -> (u64, u64) {
    let nanos = source::read();
    (nanos, read().wrapping_sub(count))
}

#[inline]
fn read() -> u64 {
    // SAFETY: every x86-64 has it. A process that has forbidden itself to read it could not read the system's clock, either.
    unsafe { std::arch::x86_64::_rdtsc() }
}

impl Anchor {
    const fn new() -> Anchor {
        Anchor {
            count: Cell::new(0),
            nanos: Cell::new(0),
            rate: Cell::new(0),
            span: Cell::new(0),
        }
    }

    /// The time when so many counts have passed, a few spans at most.
    #[inline]
    fn after(&self, passed: u64) -> u64 {
        self.nanos.get() + ((passed * self.rate.get()) >> 32)
    }

    /// Reads the system's clock, and makes that the anchor of the next span. The counter was read just now.
    #[cold]
    fn renew(&self, count: u64, counter: &Counter) -> u64 {
        let (nanos, taken) = system_clock(count);
        if taken > counter.tight() {
            // Interrupted in between.
            return nanos;
        }
        let passed = count.wrapping_sub(self.count.get());
        if self.span.get() != 0 && passed < 4 * SPAN {
            counter.compare(self.rate.get(), self.after(passed), nanos);
        }
        let rate = counter.rate(count, nanos);
        self.count.set(count);
        self.nanos.set(nanos);
        self.rate.set(rate);
        self.span.set(if rate == 0 { 0 } else { SPAN });
        nanos
    }
}

impl Counter {
    const fn new() -> Counter {
        Counter {
            tight: OnceLock::new(),
            rate: AtomicU64::new(0),
            base: [const { AtomicU64::new(0) }; 2],
            faults: AtomicU32::new(0),
        }
    }

    /// A quarter more than it takes to read both undisturbed.
    fn tight(&self) -> u64 {
        *self.tight.get_or_init(|| {
            let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let is_source = std::fs::read(file).is_ok_and(|name| name.trim_ascii() == b"tsc");
            let attempts = (0..ATTEMPTS).map(|_| system_clock(read()).1);
            match attempts.min() {
                Some(least) if is_source && least < TRAPPED => least + least / 4,
                _ => 0,
            }
        })
    }

    /// The rate, or 0. Begins to measure it, or ends that, if need be. Relaxed throughout: any of these values is checked by
    /// what it leads to.
    fn rate(&self, count: u64, nanos: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != 0 || self.faults.load(Ordering::Relaxed) >= FAULTS {
            return rate;
        }
        let [base_count, base_nanos] =
            [0, 1].map(|at: usize| self.base[at].load(Ordering::Relaxed));
        let passed = nanos.saturating_sub(base_nanos);
        if base_nanos == 0 {
            self.base[0].store(count, Ordering::Relaxed);
            self.base[1].store(nanos, Ordering::Relaxed);
        } else if passed >= CALIBRATION {
            let counts = u128::from(count.wrapping_sub(base_count).max(1));
            // A counter is no slower than 100 MHz, and a rate beyond that a fault; so no product overflows.
            let rate = ((u128::from(passed) << 32) / counts).min(10 << 32) as u64;
            self.rate.store(rate, Ordering::Relaxed);
        }
        0
    }

    /// Compares what was expected with the system's clock, and gives the rate up if it was wrong.
    fn compare(&self, rate: u64, expected: u64, nanos: u64) {
        if expected.abs_diff(nanos) <= TOLERANCE {
            return;
        }
        let order = Ordering::Relaxed;
        // Once for a rate, however many threads find out.
        if rate != 0 && self.rate.compare_exchange(rate, 0, order, order).is_ok() {
            self.base[1].store(0, order);
            self.faults.fetch_add(1, order);
        }
    }
}

#[cfg(test)]
mod tests;

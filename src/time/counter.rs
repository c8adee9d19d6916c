//! The time from the processor's time stamp counter, between two readings of the system's clock.
//!
//! On x86-64, Linux derives its clock from that counter. A reading takes 20 ns, most of it for a fence that makes the processor
//! wait for the loads under way. So a thread reads the system's clock once in [`SPAN`] counts (6 µs at 2.6 GHz), and adds what
//! the counter has counted since, which it reads without a fence.
//!
//! # How far a reading may be behind
//!
//! Usually 20 ns, in either direction. A reading that is ahead makes a timeout late. One that is behind could make it early:
//!
//! - *The processor runs ahead*: it may read the counter before earlier loads of the program have completed. If one of these
//!   is a message from another thread that tells the time, the reading may be before that time. After one load it was seen 45 µs
//!   behind, after forty dependent cache misses 10 µs. There is no bound in theory; the loads that one reorder buffer
//!   holds, each a miss of cache and page tables, take about 100 µs. An interrupt in between discards the early reading.
//! - *The rate is wrong*: no reading is before its [`Anchor`], so it is behind by a span at most, which is less than
//!   10 µs as a counter slower than [`SLOWEST`] is not used. With the right rate it is nothing: each new anchor compares, and a rate
//!   that is off by half a percent is measured again.
//! - *A virtual machine moves to a host with a slower counter*: while the system's clock is made of the counter, both slow
//!   down together. If the system changes to another clock, readings are behind by a span at most, and a span is shorter than
//!   [`BEHIND`] on any counter faster than 131 MHz; after it the anchors disagree, and the rate is given up. A counter that is set back ends the
//!   span, as the difference wraps.
//!
//! # Why no timeout is early
//!
//! A reading is taken to be behind by less than [`BEHIND`], an eighth of a tick of 1 ms. A call with the reading *r* and the
//! delay *d* is due at the first boundary at or after *r* + *d*. If that boundary is also at or after *r* + `BEHIND` + *d*, it is the
//! right one, whatever the true time. If not, the due tick is *in doubt*:
//!
//! - The call reads the counter once more, behind a fence ([`fenced`]), which rules out the first cause above. That reading is behind
//!   by a span at most, less than [`BEHIND_FENCED`] on any counter faster than 820 MHz.
//! - If a doubt is left, the call reads the system's clock, which has a fence of its own
//!   ([`Shared::due`](crate::shared::Shared::due)).
//!
//! From a tick of 4 ms on, the [`margin`] is wider than `BEHIND`, up to 1 ms. With a tick below 1 ms the counter is not used.
//!
//! That is how `new_timeout`, `reset` and `DelayQueue` compute a due tick. Futures and the runs of periodic tasks count from the
//! system's clock, moments (`new_timeout_at`, `reset_at`) from none. The timer thread, or the caller's loop, takes the system's clock for
//! what has passed, and the counter for statistics alone.
//!
//! A thread's readings never go back: an anchor that is behind what the last one may have told gives that until it has caught
//! up.
//!
//! # When it is used
//!
//! Only if the system itself uses the counter for its clock: then it runs at one rate, also in sleep states, and is the same on
//! all processors. If it turns out otherwise, anchors disagree: after [`FAULTS`] rates it is not used any more.

use super::monotonic;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nanoseconds that a reading may be behind the system's clock: see the module's head.
pub(super) const BEHIND: u64 = 125_000;
/// Nanoseconds that a reading behind a fence may be behind the system's clock.
pub(super) const BEHIND_FENCED: u64 = 20_000;
/// Nanoseconds that a reading may be ahead of the system's clock. What is further ahead is another clock's.
const AHEAD: u64 = 10_000;
/// Counts that an anchor is used for.
const SPAN: u64 = 1 << 14;
/// The most and the least nanoseconds for each count, in units of 2^-32: 1.67 and 10 GHz.
const SLOWEST: u64 = (6 << 32) / 10;
const FASTEST: u64 = (1 << 32) / 10;
/// Counts after which an anchor tells nothing of the rate any more.
const STALE: u64 = 1 << 26;
/// Nanoseconds over which the rate is measured, at least.
const CALIBRATION: u64 = 5_000_000;
/// Nanoseconds that two anchors may disagree by, and a half percent of what lies between them.
const TOLERANCE: u64 = 100;
/// Rates that are given up.
const FAULTS: u32 = 8;
/// Attempts to find out how long reading both takes, and counts that are too many.
const ATTEMPTS: usize = 64;
const TRAPPED: u64 = 1 << 10;

const _: () = assert!(
    (SPAN * SLOWEST) >> 32 < AHEAD && AHEAD < BEHIND && STALE.checked_mul(SLOWEST).is_some()
);

/// The counter, as all threads know it. Relaxed throughout: any mixture of these values leads to a rate that is right, or is found
/// out.
struct Counter {
    /// Counts that it takes to read counter and clock undisturbed. 0 if the system's clock is not made of it.
    least: OnceLock<u64>,
    /// Nanoseconds for each count, in units of 2^-32; 0 while that is not known.
    rate: AtomicU64,
    /// Where measuring the rate has begun: counter, then nanoseconds, 0 if it has not.
    base: [AtomicU64; 2],
    faults: AtomicU32,
}

static COUNTER: Counter = Counter::new();

/// What a thread has read last of the system's clock.
struct Anchor {
    count: Cell<u64>,
    nanos: Cell<u64>,
    /// The most that was told before it.
    floor: Cell<u64>,
    rate: Cell<u64>,
    /// Counts that it is used for: [`SPAN`], or 0.
    span: Cell<u64>,
}

thread_local! {
    /// It needs no drop, so it is there to the end of the thread.
    static ANCHOR: Anchor = const { Anchor::new() };
    #[cfg(test)]
    static SET_BACK: Cell<u64> = const { Cell::new(0) };
}

/// Returns `true` if the system's clock is made of the counter. The rest is for that case.
pub(super) fn is_usable() -> bool {
    COUNTER.is_usable()
}

/// Nanoseconds on the system's clock, about.
#[inline]
pub(super) fn nanos() -> u64 {
    ANCHOR.with(|anchor| anchor.nanos(&COUNTER))
}

/// Nanoseconds on the system's clock, read from it after everything that comes before in the program. Begins a new
/// span.
pub(super) fn ordered() -> u64 {
    ANCHOR.with(|anchor| anchor.renew(read(), &COUNTER))
}

/// [`nanos`], if the system's clock need not be read for it.
#[inline]
pub(super) fn glance() -> Option<u64> {
    let nanos = ANCHOR.with(|anchor| anchor.glance(read()));
    #[cfg(test)]
    return nanos.map(|nanos| nanos.saturating_sub(SET_BACK.get()));
    #[cfg(not(test))]
    nanos
}

/// [`glance`], with the counter read after everything that comes before in the program. Behind by less than [`BEHIND_FENCED`].
pub(super) fn fenced() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it. Linux relies on it as well to order readings of the counter, and makes AMD's processors wait.
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    ANCHOR.with(|anchor| anchor.glance(read()))
}

/// Nanoseconds that a reading may be behind, on a timer with that tick: a 32nd of it, so that 3 % of the calls are in doubt, but
/// at least [`BEHIND`] and at most 1 ms.
pub(super) fn margin(tick: u64) -> u64 {
    debug_assert!(
        tick >= 8 * BEHIND,
        "the counter is not for a tick of {tick} ns"
    );
    (tick / 32).clamp(BEHIND, 1_000_000)
}

/// Makes the calling thread's glances that much too early from now on.
#[cfg(test)]
pub(crate) fn set_back(by: u64) {
    SET_BACK.set(by);
}

#[inline]
fn read() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has it. A process that has forbidden itself to read it could not read the system's clock, which is
    // made of it, either.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// The system's clock, and how many counts after `count` that was at most.
fn system_clock(count: u64) -> (u64, u64) {
    let nanos = monotonic::read();
    (nanos, read().wrapping_sub(count))
}

impl Anchor {
    const fn new() -> Anchor {
        Anchor {
            count: Cell::new(0),
            nanos: Cell::new(0),
            floor: Cell::new(0),
            rate: Cell::new(0),
            span: Cell::new(0),
        }
    }

    #[inline]
    fn nanos(&self, counter: &Counter) -> u64 {
        let count = read();
        match self.glance(count) {
            Some(nanos) => nanos,
            None => self.renew(count, counter),
        }
    }

    #[inline]
    fn glance(&self, count: u64) -> Option<u64> {
        let passed = count.wrapping_sub(self.count.get());
        (passed < self.span.get()).then(|| self.after(passed).max(self.floor.get()))
    }

    /// The time when so many counts have passed, [`STALE`] at most.
    #[inline]
    fn after(&self, passed: u64) -> u64 {
        self.nanos.get() + ((passed * self.rate.get()) >> 32)
    }

    /// Reads the system's clock, and makes that the anchor of the next span. The counter was read just now.
    #[cold]
    fn renew(&self, count: u64, counter: &Counter) -> u64 {
        let (nanos, taken) = system_clock(count);
        self.renew_at(count, nanos, taken, counter)
    }

    /// The same with a reading of both that has taken so many counts.
    fn renew_at(&self, count: u64, nanos: u64, taken: u64, counter: &Counter) -> u64 {
        let (passed, span) = (count.wrapping_sub(self.count.get()), self.span.get());
        // The most: a clock that is read in the middle of a span has told nothing of the rest.
        let told = self.after(passed.min(span)).max(self.floor.get());
        // Ahead by more: another clock.
        let floor = if told < nanos + AHEAD { told } else { 0 };
        // Four times as long as undisturbed is less than the shortest interruption, and more than a cold cache takes.
        if taken <= 4 * counter.least() {
            if span != 0 && passed < STALE {
                counter.compare(self.rate.get(), passed, self.after(passed), nanos);
            }
            let rate = counter.rate(count, nanos);
            self.count
                .set(count + taken.saturating_sub(counter.least()) / 2);
            self.nanos.set(nanos);
            self.rate.set(rate);
            self.span.set(if rate == 0 { 0 } else { SPAN });
            self.floor.set(floor);
        }
        nanos.max(floor)
    }
}

impl Counter {
    const fn new() -> Counter {
        Counter {
            least: OnceLock::new(),
            rate: AtomicU64::new(0),
            base: [const { AtomicU64::new(0) }; 2],
            faults: AtomicU32::new(0),
        }
    }

    fn is_usable(&self) -> bool {
        self.least() > 0
    }

    fn least(&self) -> u64 {
        *self.least.get_or_init(|| {
            if cfg!(any(miri, hashed_wheel_loom)) {
                return 0;
            }
            let file = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
            let mut source = [0; 4];
            let _ = File::open(file).and_then(|mut file| file.read(&mut source));
            if source != *b"tsc\n" {
                return 0;
            }
            // Some virtual machines make a system call of each reading.
            let attempts = (0..ATTEMPTS).map(|_| system_clock(read()).1);
            attempts.min().filter(|least| *least < TRAPPED).unwrap_or(0)
        })
    }

    /// The rate, or 0. Begins to measure it, or ends that, if need be.
    fn rate(&self, count: u64, nanos: u64) -> u64 {
        let rate = self.rate.load(Ordering::Relaxed);
        if rate != 0 || self.faults.load(Ordering::Relaxed) >= FAULTS {
            return rate;
        }
        let base_count = self.base[0].load(Ordering::Relaxed);
        let base_nanos = self.base[1].load(Ordering::Relaxed);
        let passed = nanos.saturating_sub(base_nanos);
        if base_nanos == 0 {
            self.base[0].store(count, Ordering::Relaxed);
            self.base[1].store(nanos, Ordering::Relaxed);
        } else if passed >= CALIBRATION {
            let counts = u128::from(count.wrapping_sub(base_count).max(1));
            let rate = (u128::from(passed) << 32) / counts;
            if (u128::from(FASTEST)..=u128::from(SLOWEST)).contains(&rate) {
                self.rate.store(rate as u64, Ordering::Relaxed);
            } else {
                self.base[1].store(0, Ordering::Relaxed);
                self.faults.fetch_add(1, Ordering::Relaxed);
            }
        }
        0
    }

    /// Compares what was expected after so many counts with the system's clock, and gives the rate up if it was wrong.
    fn compare(&self, rate: u64, passed: u64, expected: u64, nanos: u64) {
        let allowed = TOLERANCE + ((passed * rate) >> 32) / 200;
        if expected.abs_diff(nanos) > allowed {
            // Before the rate goes: who measures next begins anew.
            self.base[1].store(0, Ordering::Relaxed);
            let order = Ordering::Relaxed;
            // One fault for a rate, however many threads find out.
            if self.rate.compare_exchange(rate, 0, order, order).is_ok() {
                self.faults.fetch_add(1, order);
            }
        }
    }
}

#[cfg(test)]
mod tests;

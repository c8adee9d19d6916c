//! A trial of the first promise: no timeout is early, against any reading of the clock that happens before the call.
//!
//! The timer takes the time of most calls from the processor's counter, without a fence, and a processor that runs ahead
//! may read the counter before an earlier load has completed. This program makes it run ahead as far as it can. One
//! thread keeps telling the time. Another fetches that time behind a chain of cache misses, each of which needs the
//! result of the one before, and schedules a timeout at once, so that its deadline lies just behind a tick boundary: a
//! reading that is behind by more than that little has the timeout due a tick too early.
//!
//! It need not wait for the timeouts to fire: the tick that each is due at tells. The times of the boundaries are found
//! to the nanosecond by scheduling moments around one. Half of the calls are aimed at the middle of a tick, where the
//! counter alone is used; their deadlines show how far it was behind.
//!
//! ```text
//! cargo run --release --example never_early             # half a minute, 2 GiB of memory
//! cargo run --release --example never_early -- --quick  # a second, 64 MiB
//! ```

mod options;

use hashed_wheel::{HashedWheelTimer, TimerHandle};
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: never_early [--quick]

Schedules timeouts behind chains of cache misses, just behind tick boundaries, and checks that none is due
before the time that another thread has told, plus its delay.

  --quick    for a second with 64 MiB of memory, instead of half a minute with 2 GiB";

const TICK: Duration = Duration::from_millis(1);
/// Loads that depend on each other, in front of each call.
const CHAINS: [usize; 5] = [0, 1, 5, 40, 100];
/// Between boundaries and deadlines, in nanoseconds.
const BEHIND_BOUNDARY: u64 = 3_000;

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick(USAGE);
    let (time, words) = if quick {
        (Duration::from_secs(1), 1 << 23)
    } else {
        (Duration::from_secs(30), 1 << 28)
    };
    let timer = HashedWheelTimer::builder().tick_duration(TICK).build()?;
    timer.start()?;
    let base = Instant::now();
    let boundaries = Boundaries::of(&timer, base)?;
    // Every page is written to, so that each has memory of its own.
    let memory = vec![1_u64; words];
    // The second is used.
    let told = [const { AtomicU64::new(0) }; 2];
    let done = AtomicBool::new(false);

    println!("misses      calls   early   behind the told time by up to");
    let mut early = 0;
    thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                told[1].store(nanos(base.elapsed()), Ordering::Release);
            }
        });
        let _stop = StopTelling(&done);
        for misses in CHAINS {
            let until = Instant::now() + time / CHAINS.len() as u32;
            let seen = attack(&timer, base, &boundaries, &memory, &told, misses, until)?;
            println!(
                "{misses:>6} {:>10} {:>7}   {:.1?}",
                seen.calls,
                seen.early,
                Duration::from_nanos(seen.behind),
            );
            early += seen.early;
        }
        Ok(())
    })?;
    if early > 0 {
        return Err(format!("{early} timeouts are due before their time").into());
    }
    println!("no timeout was early");
    Ok(())
}

/// Ends the thread that tells the time, however the attack ends.
struct StopTelling<'a>(&'a AtomicBool);

impl Drop for StopTelling<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The times of the tick boundaries, in nanoseconds after an instant.
struct Boundaries {
    /// A tick, and its time.
    tick: u64,
    time: u64,
}

impl Boundaries {
    /// Finds the last moment that is due at some tick: that is its time.
    fn of(timer: &TimerHandle, base: Instant) -> Result<Boundaries, Box<dyn Error>> {
        let after = |nanos| base + Duration::from_nanos(nanos);
        let far = 3_600_000_000_000;
        let tick = due_tick(timer, after(far))?;
        let (mut at, mut beyond) = (far, far + 2 * nanos(TICK));
        while beyond - at > 1 {
            let middle = at.midpoint(beyond);
            if due_tick(timer, after(middle))? == tick {
                at = middle;
            } else {
                beyond = middle;
            }
        }
        Ok(Boundaries { tick, time: at })
    }

    /// The time of a tick.
    fn time_of(&self, tick: u64) -> u64 {
        self.time + nanos(TICK) * tick - nanos(TICK) * self.tick
    }

    /// The first tick at or after a time.
    fn due(&self, time: u64) -> u64 {
        // The boundary that was found lies far ahead.
        self.tick - (self.time - time) / nanos(TICK)
    }
}

/// The tick that a timeout at that moment is due at.
fn due_tick(timer: &TimerHandle, moment: Instant) -> Result<u64, Box<dyn Error>> {
    let timeout = timer.new_timeout_at(|_| {}, moment)?;
    let due = only_due_tick(timer).ok_or("the moment has passed")?;
    timeout.cancel();
    Ok(due)
}

/// The tick of the only timeout that is pending, if one is.
fn only_due_tick(timer: &TimerHandle) -> Option<u64> {
    let mut due = None;
    timer.for_each_pending(|pending| due = Some(pending.due_tick));
    due
}

#[derive(Default)]
struct Seen {
    calls: u64,
    early: u64,
    /// The most nanoseconds that a call's time was behind the told one.
    behind: u64,
}

fn attack(
    timer: &TimerHandle,
    base: Instant,
    boundaries: &Boundaries,
    memory: &[u64],
    told: &[AtomicU64; 2],
    misses: usize,
    until: Instant,
) -> Result<Seen, Box<dyn Error>> {
    let mut seen = Seen::default();
    let mut place = 0;
    while Instant::now() < until {
        for _ in 0..64 {
            let round = seen.calls;
            // Each address depends on the word before.
            for _ in 0..misses {
                let mixed = (place as u64 + memory[place]).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                place = (mixed >> 20) as usize & (memory.len() - 1);
            }
            // Every word is 1, but the processor knows that when it has the last one, and not before.
            let now = told[memory[place] as usize & 1].load(Ordering::Acquire);
            // Between 8 and 9 ms later: just behind a boundary, or in the middle between two.
            let boundary = boundaries.time_of(boundaries.due(now) + 8);
            let aimed = round % 2 == 0;
            let deadline = if aimed {
                boundary + 1 + round % BEHIND_BOUNDARY
            } else {
                boundary + nanos(TICK) / 4
            };
            let delay = Duration::from_nanos(deadline - now);
            let timeout = timer.new_timeout(|_| {}, delay)?;
            // None if this thread was interrupted, and it has fired.
            if let Some(due) = only_due_tick(timer) {
                seen.early += u64::from(boundaries.time_of(due) < deadline);
            }
            if let (false, Some(shown)) = (aimed, timeout.deadline()) {
                let shown = nanos(shown.duration_since(base));
                seen.behind = seen.behind.max(deadline.saturating_sub(shown));
            }
            timeout.cancel();
            seen.calls += 1;
        }
    }
    Ok(seen)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("less than 584 years")
}

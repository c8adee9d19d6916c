//! A histogram of fixed size for the lateness of tasks.
//!
//! The buckets are log-linear: eight per power of two, so that a bucket is at most an eighth as wide as its values. Finding
//! a bucket takes a count of leading zeroes and two shifts.
//!
//! The [`Recorder`] has one writer at a time: the timer thread, or the thread that advances a manual clock. So it counts
//! by a plain load and a plain store, without a locked instruction.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The resolution: 2^10 ns, about a microsecond.
const UNIT_BITS: u32 = 10;
/// Each power of two is divided into 2^3 buckets.
const PARTS_BITS: u32 = 3;
const PARTS: usize = 1 << PARTS_BITS;
/// Enough for 2^44 ns; the last one also takes all larger values.
const BUCKETS: usize = 256;

/// The bucket of a lateness.
fn bucket_of(nanos: u64) -> usize {
    let units = nanos >> UNIT_BITS;
    // The two lowest powers of two are as fine as the unit: no shift.
    let shift = (units | PARTS as u64).ilog2() - PARTS_BITS;
    let bucket = shift as usize * PARTS + (units >> shift) as usize;
    bucket.min(BUCKETS - 1)
}

/// The largest value of a bucket, in nanoseconds.
fn last_of(bucket: usize) -> u64 {
    let shift = (bucket / PARTS).saturating_sub(1);
    let units = (bucket - shift * PARTS + 1) as u64;
    (units << shift << UNIT_BITS) - 1
}

/// The counters of the histogram.
#[repr(align(128))]
pub(crate) struct Recorder {
    counts: [AtomicU64; BUCKETS],
    /// Nanoseconds.
    max: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            max: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    /// Counts a task that began so many nanoseconds after its deadline. Only for the timer thread.
    pub(crate) fn record(&self, nanos: u64) {
        // Relaxed: statistics with one writer.
        if nanos > self.max.load(Ordering::Relaxed) {
            self.max.store(nanos, Ordering::Relaxed);
        }
        let count = &self.counts[bucket_of(nanos)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Copies the counters, which may change meanwhile.
    pub(crate) fn read(&self, into: &mut Lateness) {
        for (copy, count) in into.counts.iter_mut().zip(&self.counts) {
            *copy = count.load(Ordering::Relaxed);
        }
        into.max = self.max.load(Ordering::Relaxed);
    }
}

/// The distribution of lateness: the time from a task's deadline to its start.
///
/// Part of [`Stats`](crate::Stats). It counts every run since the timer was made: of tasks, of periodic
/// tasks and of futures, the latter when they are woken. With an executor, a task counts when it
/// is handed over, so the wait in the executor's own queue is not in it. As a task fires at the first
/// boundary of a tick at or after its deadline, half a tick is usual and up to one is no delay at all.
///
/// It is a histogram of 256 counters. A quantile is the largest value of the bucket it falls into,
/// but never more than [`max`](Lateness::max), which is exact. So it is **never too small, and too large by
/// less than an eighth, or by less than 1.1 µs** where that is more. Beyond 2^44 ns, which is 4.9 hours,
/// only the maximum is known exactly.
///
/// To chart a minute rather than a life, take the difference of two snapshots: [`since`](Lateness::since).
///
/// ```
/// # use hashed_wheel::{HashedWheelTimer, ManualClock};
/// # use std::time::Duration;
/// let clock = ManualClock::new();
/// let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap(); // a tick of 100 ms
/// timer.start().unwrap();
/// for delay in 1..=100 {
///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
/// }
/// clock.advance(Duration::from_secs(1));
/// let lateness = timer.stats().lateness;
/// assert_eq!(lateness.count(), 100);
/// assert_eq!(lateness.max(), Duration::from_millis(99));
/// assert!((49..=56).contains(&lateness.p50().as_millis()));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lateness {
    counts: [u64; BUCKETS],
    /// Nanoseconds.
    max: u64,
}

impl Lateness {
    /// The difference to an earlier snapshot of the same timer.
    ///
    /// Its [`max`](Lateness::max) is exact if it is the greatest of the timer's life; otherwise it is the bound of the last
    /// bucket that is not empty: never too small, and as close as the quantiles are. What is in `earlier` alone, because it is
    /// of another timer, counts as nothing.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// timer.new_timeout(|_| {}, Duration::from_millis(1)).unwrap(); // 99 ms late: the tick is 100 ms
    /// clock.advance(Duration::from_secs(60));
    /// let first_minute = timer.stats().lateness;
    ///
    /// timer.new_timeout(|_| {}, Duration::from_millis(90)).unwrap(); // 10 ms late
    /// clock.advance(Duration::from_secs(60));
    /// let second_minute = timer.stats().lateness.since(&first_minute);
    /// assert_eq!(second_minute.count(), 1);
    /// assert!((10..12).contains(&second_minute.max().as_millis()));
    /// ```
    #[must_use]
    pub fn since(&self, earlier: &Lateness) -> Lateness {
        let mut since = self.clone();
        for (count, before) in since.counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        since.max = match since.counts.iter().rposition(|count| *count > 0) {
            None => 0,
            Some(_) if self.max > earlier.max => self.max,
            Some(last) => self.latest_in(last),
        };
        since
    }

    /// Adds a run that began so long after its deadline: to collect figures of your own, or to build what a test needs.
    ///
    /// ```
    /// use hashed_wheel::Lateness;
    /// use std::time::Duration;
    ///
    /// let mut lateness = Lateness::default();
    /// for millis in 1..=100 {
    ///     lateness.record(Duration::from_millis(millis));
    /// }
    /// assert_eq!(lateness.count(), 100);
    /// assert_eq!(lateness.max(), Duration::from_millis(100));
    /// ```
    pub fn record(&mut self, lateness: Duration) {
        let nanos = u64::try_from(lateness.as_nanos()).unwrap_or(u64::MAX);
        self.max = self.max.max(nanos);
        let count = &mut self.counts[bucket_of(nanos)];
        *count = count.saturating_add(1);
    }

    /// The number of runs recorded.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert_eq!(lateness.count(), 100);
    /// ```
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Half of the runs were no later than this.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert!((50..57).contains(&lateness.p50().as_millis()));
    /// ```
    pub fn p50(&self) -> Duration {
        self.percentile(50)
    }

    /// Nine in ten runs were no later than this.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert!((89..=99).contains(&lateness.p90().as_millis()));
    /// ```
    pub fn p90(&self) -> Duration {
        self.percentile(90)
    }

    /// Of a hundred runs, 99 were no later than this.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert!((98..=99).contains(&lateness.p99().as_millis()));
    /// ```
    pub fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// The latest that a run has begun, exactly. The same as
    /// [`Stats::max_lateness`](crate::Stats::max_lateness).
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert_eq!(lateness.max(), Duration::from_millis(99));
    /// ```
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// This part of the runs was no later; `0.999` for the 99.9th percentile. Zero if there were none.
    ///
    /// `part` is taken as 0 if it is less or not a number, and as 1 if it is more.
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// assert!((98..=99).contains(&lateness.quantile(0.999).as_millis()));
    /// assert_eq!(lateness.quantile(1.0), lateness.max());
    /// ```
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a rank beyond 2^53 may be off by one; it is not negative"
    )]
    pub fn quantile(&self, part: f64) -> Duration {
        let rank = (part.clamp(0.0, 1.0) * self.count() as f64).ceil();
        self.at_rank(rank as u64)
    }

    /// The buckets that are not empty: the latest that each is made for (inclusive), and how many runs
    /// are in it alone. In rising order; the bound of the last is [`max`](Lateness::max).
    ///
    /// ```
    /// # use hashed_wheel::{HashedWheelTimer, ManualClock};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = HashedWheelTimer::builder().clock(&clock).build().unwrap();
    /// # timer.start().unwrap();
    /// // A tick of 100 ms, and one timeout for each of the first hundred milliseconds.
    /// for delay in 1..=100 {
    ///     timer.new_timeout(|_| {}, Duration::from_millis(delay)).unwrap();
    /// }
    /// clock.advance(Duration::from_secs(1));
    /// let lateness = timer.stats().lateness;
    /// let in_time: u64 = lateness
    ///     .buckets()
    ///     .filter(|(latest, _)| *latest <= Duration::from_millis(50))
    ///     .map(|(_, runs)| runs)
    ///     .sum();
    /// assert!((40..=51).contains(&in_time));
    /// assert_eq!(lateness.buckets().map(|(_, runs)| runs).sum::<u64>(), lateness.count());
    /// ```
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let filled = self.counts.iter().enumerate();
        filled
            .filter(|&(_, &count)| count > 0)
            .map(|(bucket, &count)| (Duration::from_nanos(self.latest_in(bucket)), count))
    }

    fn percentile(&self, percent: u128) -> Duration {
        // At most the count, which fits.
        self.at_rank((u128::from(self.count()) * percent).div_ceil(100) as u64)
    }

    /// The lateness of the run that is in this place of all in rising order, from 1.
    fn at_rank(&self, rank: u64) -> Duration {
        let mut left = rank.max(1);
        for (latest, count) in self.buckets() {
            if left <= count {
                return latest;
            }
            left -= count;
        }
        self.max()
    }

    /// The latest that a bucket is made for, in nanoseconds. The last one has no bound of its own.
    fn latest_in(&self, bucket: usize) -> u64 {
        if bucket == BUCKETS - 1 {
            return self.max;
        }
        last_of(bucket).min(self.max)
    }
}

/// No runs.
impl Default for Lateness {
    fn default() -> Self {
        Lateness {
            counts: [0; BUCKETS],
            max: 0,
        }
    }
}

impl fmt::Debug for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lateness")
            .field("count", &self.count())
            .field("p50", &self.p50())
            .field("p90", &self.p90())
            .field("p99", &self.p99())
            .field("max", &self.max())
            .finish()
    }
}

#[cfg(test)]
mod tests;

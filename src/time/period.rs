//! The period of a periodic task, and the arithmetic of fixed rates.

use super::scale::FOREVER;
use std::time::Duration;

/// The time between the runs of a periodic task.
///
/// A period below one tick runs at every tick. Runs of one timeout never overlap.
///
/// ```
/// use hashed_wheel::{HashedWheelTimer, Period};
/// use std::time::Duration;
///
/// let timer = HashedWheelTimer::default();
/// // Every ten seconds, counted from the first: for what follows the clock.
/// let rate = Period::FixedRate(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("heartbeat"), Duration::ZERO, rate)?;
/// // With ten seconds of rest after each run: for what may take long.
/// let delay = Period::FixedDelay(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("clean up"), Duration::from_secs(60), delay)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Run *n* is due at the first deadline + *n* × period. The phase is kept for ever; what was
    /// missed is skipped.
    FixedRate(Duration),
    /// The next run is due this long after the end of the one before.
    FixedDelay(Duration),
}

/// The deadline of the next run: `last` plus the least multiple of `period` that is after `passed_time`. Missed
/// runs are skipped, and the phase is kept.
pub(crate) fn next_at_fixed_rate(last: u64, period: u64, passed_time: u64) -> u64 {
    if period == 0 {
        return last.max(passed_time).saturating_add(1);
    }
    let missed = passed_time.saturating_sub(last) / period;
    match period.checked_mul(missed + 1) {
        Some(ahead) => last.saturating_add(ahead),
        None => FOREVER,
    }
}

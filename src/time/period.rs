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
/// // Every ten seconds, counted from the first run.
/// let rate = Period::FixedRate(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("heartbeat"), Duration::ZERO, rate)?;
/// // Ten seconds after the end of each run: for tasks that may take long.
/// let delay = Period::FixedDelay(Duration::from_secs(10));
/// timer.new_periodic(|_| println!("clean up"), Duration::from_secs(60), delay)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// Run *n* is due at the first deadline + *n* × period. The phase is kept forever; missed runs are skipped.
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
    let ahead = missed
        .checked_add(1)
        .and_then(|periods| period.checked_mul(periods));
    ahead.map_or(FOREVER, |ahead| last.saturating_add(ahead))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_boundary_of_all_has_no_run_after_it() {
        for period in [1, 2, 3, u64::MAX] {
            assert_eq!(next_at_fixed_rate(0, period, u64::MAX), FOREVER);
            assert_eq!(next_at_fixed_rate(u64::MAX, period, u64::MAX), FOREVER);
        }
        assert_eq!(next_at_fixed_rate(0, 1, u64::MAX - 1), FOREVER);
        assert_eq!(next_at_fixed_rate(0, 3, u64::MAX - 3), FOREVER);
        assert_eq!(next_at_fixed_rate(0, 1, u64::MAX - 2), u64::MAX - 1);
        assert_eq!(next_at_fixed_rate(0, 0, u64::MAX), FOREVER);
    }
}

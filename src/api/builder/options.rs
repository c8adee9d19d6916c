//! The settings that a builder collects, their checks, and the timer built from them.

use crate::error::ConfigError;
use crate::shared::{Factory, Prepare, Settings, Shared, named_thread};
use crate::time::{Clock, ManualClock, Scale, nanos};
use crate::tuning::{LATE_STEP, SOON_NANOS};
use crate::worker::{self, AnyWheel, Executor};
use std::sync::Arc;
use std::time::Duration;

/// The shortest tick; a shorter one is raised to this.
const MIN_TICK: Duration = Duration::from_millis(1);
/// The same with `fine_ticks`.
const MIN_FINE_TICK: Duration = Duration::from_micros(50);

#[derive(Default)]
pub(super) struct Options {
    pub(super) tick_duration: Duration,
    pub(super) buckets: usize,
    pub(super) max_pending: Option<usize>,
    pub(super) max_transfers: usize,
    pub(super) thread_name: Option<String>,
    pub(super) factory: Option<Factory>,
    pub(super) executor: Option<Executor>,
    pub(super) clock: Option<ManualClock>,
    pub(super) without_thread: Option<Prepare>,
    pub(super) fine_ticks: bool,
    pub(super) slow_task: Option<Duration>,
    /// The timer of [`global`](crate::global).
    pub(super) is_global: bool,
}

impl Options {
    pub(super) fn new(tick_duration: Duration, buckets: usize) -> Options {
        Options {
            tick_duration,
            buckets,
            max_transfers: 100_000,
            ..Options::default()
        }
    }

    /// Checks all but the number of buckets by itself.
    pub(super) fn check(&self, is_driven: bool) -> Result<Scale, ConfigError> {
        let (tick, buckets) = (self.tick_duration, self.buckets);
        if tick.is_zero() {
            return Err(ConfigError::ZeroTick);
        }
        if tick.as_nanos() * buckets as u128 > u128::from(u64::MAX) {
            return Err(ConfigError::TickTooLong {
                tick_duration: tick,
                slots: buckets,
            });
        }
        if self.max_pending == Some(0) {
            return Err(ConfigError::ZeroMaxPendingTimeouts);
        }
        if self.max_transfers == 0 {
            return Err(ConfigError::ZeroMaxTransfersPerTick);
        }
        // Only the system's own threads are given the name; they would panic.
        if let (Some(name), None) = (&self.thread_name, &self.factory) {
            if name.as_bytes().contains(&0) && !is_driven {
                let name = name.clone();
                return Err(ConfigError::ThreadName { name });
            }
        }
        let shortest = if self.fine_ticks {
            MIN_FINE_TICK
        } else {
            MIN_TICK
        };
        if tick < shortest {
            log::warn!("a tick of {tick:?} is too short; {shortest:?} is used");
        }
        Ok(Scale::new(nanos(tick.max(shortest))))
    }

    /// Makes the timer.
    pub(super) fn build(
        self,
        scale: Scale,
        in_loop: Option<Prepare>,
        name: &'static str,
        wheel: AnyWheel,
    ) -> Arc<Shared> {
        // Under a small limit, those that were left in the queue could not all be taken in time.
        let takes_many = self.max_transfers >= 16 * LATE_STEP;
        let without_thread = in_loop.or(self.without_thread);
        let has_late_lanes = without_thread.is_none() && takes_many;
        let settings = Settings {
            name,
            scale,
            soon: if has_late_lanes { SOON_NANOS } else { u64::MAX },
            clock: match self.clock {
                Some(clock) => Clock::Manual(clock),
                // A glance may be behind by too much for a short tick.
                None => Clock::system(scale.tick() < nanos(MIN_TICK)),
            },
            max_pending: self.max_pending.unwrap_or(usize::MAX),
            has_executor: self.executor.is_some(),
            without_thread,
            is_driven: in_loop.is_some(),
            fine_ticks: self.fine_ticks,
            slow_task: self.slow_task.map_or(u64::MAX, nanos),
            is_global: self.is_global,
        };
        let driver = worker::driver(wheel, self.executor, self.max_transfers);
        let factory = self.factory.or_else(|| self.thread_name.map(named_thread));
        Shared::new(settings, driver, factory)
    }
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests {
    use super::*;
    use crate::HashedWheelTimer;

    #[test]
    fn late_lanes_are_for_timers_that_have_a_thread_and_transfer_many_slots() {
        let soon = |shared: &Shared| shared.settings.soon;
        let builder = HashedWheelTimer::builder;
        let with_limit = |limit| builder().max_transfers_per_tick(limit).build().unwrap();
        assert_eq!(
            soon(builder().build().unwrap().handle().shared()),
            SOON_NANOS
        );
        let few = 16 * LATE_STEP - 1;
        assert_eq!(soon(with_limit(few + 1).handle().shared()), SOON_NANOS);
        assert_eq!(soon(with_limit(few).handle().shared()), u64::MAX);
        let manual = builder().clock(&ManualClock::new()).build().unwrap();
        assert_eq!(soon(manual.handle().shared()), u64::MAX);
        let (driven, _driver) = builder().build_driven().unwrap();
        assert_eq!(soon(driven.shared()), u64::MAX);
    }
}

//! Other wheels under this crate's timers, for the comparison in `examples/compare` only. It exists with the feature
//! `unstable-wheels` alone. **No stability**: anything here may change or go in any release.
//!
//! A wheel from outside implements [`Wheel`], the contract of the crate's own wheels, and [`timer_on`] builds a timer on
//! it: queue, slots, worker, clock and stop are those of the two timers that the crate is about.

pub use crate::entry::{Entry, Liveness};
pub use crate::metrics::WheelCounters;
pub use crate::time::Tick;
pub use crate::wheel::Wheel;

use crate::error::ConfigError;
use crate::{HashedWheelTimer, HashedWheelTimerBuilder};

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A timer on `wheel`, with the settings of `settings`; its number of buckets means nothing here.
///
/// # Errors
/// As for [`HashedWheelTimerBuilder::build`].
pub fn timer_on(
    settings: HashedWheelTimerBuilder,
    wheel: impl Wheel + 'static,
) -> Result<HashedWheelTimer, ConfigError> {
    settings.build_over(Box::new(wheel))
}

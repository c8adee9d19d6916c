//! Other wheels under this crate's timers, for the comparison in `examples/compare` only. It exists with the feature
//! `unstable-wheels` alone. **No stability**: anything here may change or go in any release.
//!
//! A wheel from outside implements [`Wheel`], the contract of the crate's own wheels in a public form,
//! and [`timer_on`] builds a timer on it: queue, slots, worker, clock and stop are those of the two
//! timers that the crate is about.

use crate::api::HashedWheelTimerBuilder;
use crate::entry;
use crate::error::ConfigError;
use crate::metrics::WheelCounters;
use crate::shared::TimerHandle;
use crate::time::Tick;
use crate::wheel;
use crate::worker::Engine;

/// The version of this crate.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The entry of a wheel: sixteen plain bytes.
#[derive(Clone, Copy, Debug)]
pub struct Entry(entry::Entry);

impl Entry {
    /// The tick that it is due at.
    #[inline]
    pub fn due(self) -> u64 {
        self.0.due().0
    }
}

/// Takes the entries that are due.
#[derive(Debug)]
pub struct Due<'a>(&'a mut Vec<entry::Entry>);

impl Due<'_> {
    /// Hands one entry out.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.0.push(entry.0);
    }
}

/// Decides which entries are dead.
pub trait Liveness {
    /// Announces that `is_dead` will soon be called for this entry.
    fn prefetch(&self, entry: Entry);

    /// Returns `true` if the entry can never fire a timeout.
    fn is_dead(&self, entry: Entry) -> bool;
}

/// The counters of a wheel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Buckets whose entries were looked at.
    pub bucket_visits: u64,
    /// Entries met that were not due.
    pub passed_over: u64,
}

/// A structure over ticks, numbered from 0, which counts as processed when it is made.
pub trait Wheel: Send + 'static {
    /// The last boundary that was processed.
    fn now(&self) -> u64;

    /// The number of entries.
    fn filed(&self) -> usize;

    /// Files an entry under `max(entry.due(), now + 1)`.
    fn insert(&mut self, entry: Entry);

    /// A boundary after `now` that must not be jumped over; the earliest such.
    fn next_expiration(&self) -> Option<u64>;

    /// Processes boundary `to`, which is not after `next_expiration`, and hands out what is due.
    fn advance(&mut self, to: u64, due: &mut Due<'_>);

    /// Looks at some entries, about `limit` if it can, and removes the dead ones. Returns how many
    /// were looked at: 0 only if nothing is filed.
    fn sweep(&mut self, limit: usize, liveness: &impl Liveness) -> usize;

    /// The counters since the wheel was made.
    fn counters(&self) -> Counters;

    /// Bytes held, used or reserved.
    fn bytes(&self) -> usize;
}

/// The owner of a timer on a wheel from outside: dropping it stops the timer.
#[derive(Debug)]
pub struct Owner(TimerHandle);

impl Owner {
    /// A handle, which can do all that an owner can.
    pub fn handle(&self) -> TimerHandle {
        self.0.clone()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.shared().drop_owner(true);
    }
}

/// A timer on `wheel`, with the settings of `settings`; its number of buckets means nothing here.
///
/// # Errors
/// As for [`HashedWheelTimerBuilder::build`].
pub fn timer_on(
    settings: HashedWheelTimerBuilder,
    wheel: impl Wheel,
) -> Result<Owner, ConfigError> {
    let wheel = ExternalWheel(wheel);
    let shared = settings.build_over(|executor, max_transfers| {
        Box::new(Engine::new(wheel, executor, max_transfers))
    })?;
    Ok(Owner(TimerHandle::new(shared)))
}

/// A wheel from outside as one of the crate's own.
struct ExternalWheel<W>(W);

struct Asked<'a, J>(&'a J);

impl<J: entry::Liveness> Liveness for Asked<'_, J> {
    #[inline]
    fn prefetch(&self, entry: Entry) {
        self.0.prefetch(entry.0);
    }

    #[inline]
    fn is_dead(&self, entry: Entry) -> bool {
        self.0.is_dead(entry.0)
    }
}

impl<W: Wheel> wheel::Wheel for ExternalWheel<W> {
    #[inline]
    fn now(&self) -> Tick {
        Tick(self.0.now())
    }

    #[inline]
    fn len(&self) -> usize {
        self.0.filed()
    }

    #[inline]
    fn insert(&mut self, entry: entry::Entry) {
        self.0.insert(Entry(entry));
    }

    #[inline]
    fn next_expiration(&self) -> Option<Tick> {
        self.0.next_expiration().map(Tick)
    }

    fn advance(&mut self, to: Tick, due: &mut Vec<entry::Entry>, _: &impl entry::Liveness) {
        self.0.advance(to.0, &mut Due(due));
    }

    fn sweep(&mut self, limit: usize, liveness: &impl entry::Liveness) -> usize {
        self.0.sweep(limit, &Asked(liveness))
    }

    fn counters(&self) -> WheelCounters {
        let counters = self.0.counters();
        WheelCounters {
            bucket_visits: counters.bucket_visits,
            passed_over: counters.passed_over,
            cascaded: 0,
            levels: 1,
        }
    }

    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

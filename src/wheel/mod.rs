//! The contract of a wheel, and the two that keep it.
//!
//! A wheel is a plain data structure: time is an argument, and no task, thread or clock is inside.
//! It files [`Entry`]s under the boundary they are due at and hands them out when it is moved to
//! that boundary. Whether an entry still means anything is not its business: the caller finds out,
//! and tells it during a sweep.

use crate::entry::Entry;
use crate::metrics::WheelCounters;
use crate::time::Tick;

mod bucket;
mod bucket_array;
pub(crate) mod hashed;
pub(crate) mod hierarchical;
mod min_tree;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

/// What a wheel asks about its entries when it goes through many of them.
pub(crate) trait Liveness {
    /// Says that this entry will be asked about soon.
    fn prefetch(&self, _entry: Entry) {}

    /// Returns `true` if the entry can never fire anything, and is to be dropped.
    fn is_dead(&mut self, entry: Entry) -> bool;
}

/// How many entries ahead a wheel says what it will ask about.
const LOOKAHEAD: usize = 8;

/// Any condition will do as a liveness.
#[cfg(test)]
impl<F: FnMut(Entry) -> bool> Liveness for F {
    fn is_dead(&mut self, entry: Entry) -> bool {
        self(entry)
    }
}

/// A structure of buckets over ticks.
///
/// Rules that hold between the calls:
/// - every entry filed is handed out exactly once by `advance`, unless the wheel was told that it is
///   dead, by a sweep or in a cascade;
/// - `advance(t)` hands out exactly the entries with `due ≤ t`, so an entry is handed out at the
///   first boundary at or after its due tick that had not been processed when it was filed.
pub(crate) trait Wheel: Send {
    /// The last boundary that was processed. Starts at [`Tick::ZERO`].
    fn now(&self) -> Tick;

    /// How many entries are filed.
    fn len(&self) -> usize;

    /// Files an entry under `max(entry.due(), now + 1)`. Its due tick is not [`Tick::NEVER`].
    fn insert(&mut self, entry: Entry);

    /// A boundary after `now` that must not be jumped over, because an entry is due at it (or a
    /// bucket has to be cascaded); the earliest such. `None` when nothing is filed. While a sweep
    /// stands in the midst of a bucket, it may still be that of an entry the sweep has removed.
    fn next_expiration(&self) -> Option<Tick>;

    /// Processes boundary `to`, appending what is due to `due`, in the order of filing where the
    /// wheel keeps it. The caller keeps to `now < to` and `to ≤ next_expiration()`: boundaries in between
    /// have no work and count as processed. An empty `due` may be exchanged for another buffer, so
    /// its capacity is not kept. What is moved within the wheel is dropped if `liveness` says it is dead.
    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, liveness: &mut impl Liveness);

    /// Looks at up to about `limit` entries, going on where the last call ended and starting over
    /// behind the last bucket, and removes the dead ones, keeping the order of the others. Gives
    /// memory back that the removal left unused. Returns how many were looked at: 0 only if the
    /// wheel is empty.
    fn sweep(&mut self, limit: usize, liveness: &mut impl Liveness) -> usize;

    /// What was done so far.
    fn counters(&self) -> WheelCounters;

    /// Bytes held by the buckets, used or reserved.
    fn bytes(&self) -> usize;
}

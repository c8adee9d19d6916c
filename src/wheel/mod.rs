//! The contract of a wheel, and its two implementations.
//!
//! A wheel is a plain data structure: time is an argument, and it knows no task, thread or clock. It stores [`Entry`]s
//! by the boundary they are due at and hands them out when it is advanced to that boundary. It does not know which
//! entries are dead: it asks the caller, through [`Liveness`].

use crate::entry::{Entry, Liveness};
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

/// A structure of buckets over ticks.
///
/// - `advance` hands out every inserted entry exactly once, unless a sweep or a cascade found it dead;
/// - `advance(t)` hands out exactly the entries with `due ≤ t`, so an entry is handed out at the first boundary at or
///   after its due tick that had not been processed when it was inserted.
#[allow(clippy::len_without_is_empty, reason = "nobody asks")]
pub trait Wheel: Send {
    /// The last processed boundary, at first that of the timer's start.
    fn now(&self) -> Tick;

    /// The number of entries.
    fn len(&self) -> usize;

    /// Inserts an entry at `max(entry.due(), now + 1)`. Its due tick is not `Tick::NEVER`.
    fn insert(&mut self, entry: Entry);

    /// The earliest boundary after `now` that must not be skipped, because an entry is due or a bucket cascades. `None` if
    /// the wheel is empty.
    fn next_expiration(&self) -> Option<Tick>;

    /// Processes boundary `to` and appends the due entries to `due`, in the order of insertion if the wheel keeps it. The
    /// caller guarantees `now < to ≤ next_expiration()`: boundaries in between have no work and count as processed. An
    /// empty `due` may be exchanged for another buffer, so its capacity is not kept. Dead entries are not cascaded.
    fn advance(&mut self, to: Tick, due: &mut Vec<Entry>, liveness: &dyn Liveness);

    /// Removes the dead entries of one bucket, the next that has entries after that of the last call, and frees memory
    /// that is left unused. Returns the number of entries that it has looked at: 0 only if the wheel is empty.
    fn sweep_bucket(&mut self, liveness: &dyn Liveness) -> usize;

    /// The counters since the wheel was made.
    fn counters(&self) -> WheelCounters;

    /// Bytes held by the buckets, used or reserved.
    fn bytes(&self) -> usize;
}

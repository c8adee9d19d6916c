//! The constants that were chosen, not derived: each with the reason for its value. They change what the timer costs, and no
//! answer that it gives. Models use smaller ones, so that they get to the end of a block or a cache.

use std::time::Duration;

const MODEL: bool = cfg!(hashed_wheel_loom);

// ── between threads ───────────────────────────────────────────────────────────────────────────

/// Slot numbers in a block of the pending queue: a cache line. `SegQueue::push` locks twice, once for all of them.
pub(crate) const QUEUE_BLOCK: usize = if MODEL { 2 } else { 16 };
/// With every so many pushes the timer thread is woken, if it can do something: filing them takes it a part of a millisecond,
/// so the wake-up is little beside them.
pub(crate) const CROWD: u64 = if MODEL { 4 } else { 4096 };
/// Free slots that a thread keeps: two pages of the pool, so that one that schedules and cancels by turns does not go to the
/// pool each time.
pub(crate) const SLOT_CACHE: usize = if MODEL { 4 } else { 128 };
/// Attempts at sums of all threads' counters that belong together. Under load each attempt fails alike.
pub(crate) const TOTALS_ATTEMPTS: usize = 4;

// ── the timer thread ──────────────────────────────────────────────────────────────────────────

/// How many entries ahead slots are fetched into the cache. A core has 10 to 16 misses under way, and needs some for the rest.
pub(crate) const LOOKAHEAD: usize = 8;
/// Entries that are met between two fences: a fence costs as much as several of them.
pub(crate) const MEET_BATCH: usize = 64;
/// Entries that the buffers for one boundary keep room for: 1 MiB.
pub(crate) const KEPT_DUE: usize = 1 << 16;
/// Dead entries in the wheel that are left alone, however few live ones there are: 64 KiB.
pub(crate) const MAX_DEAD: usize = 4096;
/// Entries that one step of a sweep looks at, at least: short beside a tick of a millisecond.
pub(crate) const SWEEP_STEP: usize = 4096;
/// A wheel of so few entries is swept before a caller's loop sleeps: that costs less than a wake-up for a dead one.
pub(crate) const FEW_FILED: usize = 64;
/// Entries of a bucket, and buckets in the hierarchy's queue, whose memory is not given back: 1 KiB.
pub(crate) const KEPT_BUCKET: usize = 64;

// ── memory that goes back ─────────────────────────────────────────────────────────────────────

/// Slots that are kept however few are in use: a quarter of a megabyte.
pub(crate) const KEPT_SLOTS: usize = 4096;
/// How long few slots must have been in use before memory goes back: a promise of `Stats::bytes`.
pub(crate) const QUIET_NANOS: u64 = 1_000_000_000;
/// Pages that go back between two looks at what is due: 2 MiB, a huge page.
pub(crate) const DISCARDED_AT_ONCE: u32 = 512;

// ── what is told ──────────────────────────────────────────────────────────────────────────────

/// More timers than this in one process are probably a mistake: as in Netty.
pub(crate) const MANY_INSTANCES: usize = 64;
/// The least time between two lines about slow tasks: a log that is read by people.
pub(crate) const SLOW_TASK_PAUSE_NANOS: u64 = 1_000_000_000;

/// When a timer thread that is behind looks again at what is due later. Long enough for the looks to cost little, and short
/// beside the 30 seconds and more of most deadlines.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_secs(4);

//! The constants that were chosen, not derived: each with the reason for its value. They change the timer's costs, not its
//! results. Models use smaller ones, so that they reach the end of a block or a cache.

const MODEL: bool = cfg!(hashed_wheel_loom);

// ── between threads ───────────────────────────────────────────────────────────────────────────

/// Slot numbers in a block of the pending queue: a cache line. The two locked instructions of `SegQueue::push` serve all of them.
pub(crate) const QUEUE_BLOCK: usize = if MODEL { 2 } else { 16 };
/// Every so many pushes to a shard wake the timer thread, if its budget allows transfers: filing them takes a part of a
/// millisecond, so the wake-up costs little in comparison. A caller's loop is not woken.
pub(crate) const CROWD: u64 = if MODEL { 4 } else { 4096 };
/// A timeout that is due later than this waits in a late lane. Most of those are cancelled before; of shorter ones, many fire.
pub(crate) const SOON_NANOS: u64 = 100_000_000;
/// Free slots that a thread keeps: two pages of slots, so that a thread that schedules and cancels by turns does not go to the pool
/// each time.
pub(crate) const SLOT_CACHE: usize = if MODEL { 4 } else { 128 };
/// Free slots that change hands at once: what a full cache spills.
pub(crate) const BATCH: usize = SLOT_CACHE / 2;
/// Batches of free slots that wait for a thread: as many slots as two threads free or schedule in a burst of a thousand each.
pub(crate) const DEPOT_PLACES: usize = if MODEL { 1 } else { 32 };
/// Attempts to read sums of all threads' counters that belong together. Under load, further attempts would fail as well.
pub(crate) const TOTALS_ATTEMPTS: usize = 4;

// ── the timer thread ──────────────────────────────────────────────────────────────────────────

/// How many entries ahead slots are fetched into the cache. A core has 10 to 16 misses under way, and needs some for the rest.
pub(crate) const LOOKAHEAD: usize = 8;
/// Late numbers that the timer thread takes at once, before their time: less than a millisecond's work.
pub(crate) const LATE_STEP: usize = 4096;
/// Entries that are met between two fences: a fence costs as much as several of them.
pub(crate) const MEET_BATCH: usize = 64;
/// Entries that the buffers for one boundary keep room for: 1 MiB.
pub(crate) const KEPT_DUE: usize = 1 << 16;
/// Entries in the wheel that are not swept, even if all are dead: 64 KiB.
pub(crate) const MAX_DEAD: usize = 4096;
/// Entries that one step of a sweep looks at, at least: short beside a tick of a millisecond.
pub(crate) const SWEEP_STEP: usize = 4096;
/// A wheel of at most so many entries is swept before a caller's loop sleeps: that costs less than a wake-up for a dead entry.
pub(crate) const FEW_FILED: usize = 64;
/// Entries of a bucket, and buckets in the hierarchy's queue, up to which memory is not returned: 1 KiB.
pub(crate) const KEPT_BUCKET: usize = 64;

// ── returning memory ──────────────────────────────────────────────────────────────────────────

/// Slots whose memory is kept even if none is in use: a quarter of a megabyte.
pub(crate) const KEPT_SLOTS: usize = 4096;
/// How long few slots must have been in use before memory goes back: a promise of `Stats::bytes`.
pub(crate) const QUIET_NANOS: u64 = 1_000_000_000;
/// Pages that are returned between two looks at the clock: 2 MiB, a huge page.
pub(crate) const DISCARDED_AT_ONCE: u32 = 512;

// ── logging ───────────────────────────────────────────────────────────────────────────────────

/// More timers than this in one process are probably a mistake: as in Netty.
pub(crate) const MANY_INSTANCES: usize = 64;
/// The least time between two log lines about slow tasks: people read them.
pub(crate) const SLOW_TASK_PAUSE_NANOS: u64 = 1_000_000_000;

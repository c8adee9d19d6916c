//! The timer thread's side of one shard.

use super::chunk::Chunks;
use super::position::Position;
use super::reader::{AGE, EntrySink, InsertOutcome, Take};
use super::scan::Pass;
use super::shard::Shard;
use crate::entry::Entry;
use crate::sync::Ordering;
use crate::time::Tick;

/// Attempts to take a chunk against an owner that trims.
pub(super) const ATTEMPTS: usize = 3;
/// Entries that are taken at once rather than looked at twice.
const FEW: usize = if cfg!(hashed_wheel_loom) { 0 } else { 64 };
/// An owner that pushes a part like this of what waits while it ages will soon have dropped what is dead by itself.
const BRISK: usize = 64;
/// How far ahead slots are fetched into the cache.
const LOOKAHEAD: usize = 8;

/// What the timer thread knows of one shard.
pub(super) struct Inlet {
    /// Taken out of the shard; the first `filed` of them are filed.
    pub(super) taken_out: Vec<Entry>,
    pub(super) filed: usize,
    /// Everything before has been taken by this reader.
    pub(super) taken: Position,
    /// Everything before has been scanned, or was gone when its turn came.
    pub(super) scanned: Position,
    /// A lower bound of what is due, has not been scanned, and is not for the pass under way to find.
    pub(super) fresh: Tick,
    /// A lower bound of what is due and was not due soon when it was scanned.
    pub(super) far: Tick,
    /// The scan that is under way: what is due by its tick and lies before `scanned` is in the wheel, or taken out.
    pub(super) pass: Option<Pass>,
    /// Where the shard ended some time ago, and when.
    pub(super) mark: Option<(Position, u64)>,
    /// A drain to here is under way.
    pub(super) draining: Option<Position>,
    /// The tick that had passed when the first of what is there was pushed.
    pub(super) since: Tick,
    /// The shard, or what was taken out, may hold something.
    pub(super) occupied: bool,
    pub(super) active: bool,
}

impl Default for Inlet {
    fn default() -> Self {
        Inlet {
            taken_out: Vec::new(),
            filed: 0,
            taken: Position::START,
            scanned: Position::START,
            fresh: Tick::NEVER,
            far: Tick::NEVER,
            pass: None,
            mark: None,
            draining: None,
            since: Tick::NEVER,
            occupied: false,
            active: false,
        }
    }
}

impl Inlet {
    /// A lower bound of what is due and not in the wheel.
    pub(super) fn earliest(&self) -> Tick {
        let under_way = self.pass.map_or(Tick::NEVER, |pass| pass.earliest);
        self.fresh.min(self.far).min(under_way)
    }

    /// Moves what is wanted, as far as the budget goes. Returns `true` if some of it is left.
    pub(super) fn serve(
        &mut self,
        take: Take,
        shard: &Shard,
        chunks: &Chunks,
        budget: &mut Budget,
        sink: &mut impl EntrySink,
    ) -> bool {
        if !self.occupied {
            return false;
        }
        let tail = Position(shard.owner().tail.load(Ordering::SeqCst));
        if let Take::Soon { due, near, now } = take {
            let (mark, marked_at) = self.mark.unwrap_or((tail, now));
            if self.draining.is_some() || shard.len() <= FEW {
                self.draining.get_or_insert(tail);
            } else if now.saturating_sub(marked_at) >= AGE {
                self.mark = Some((tail, now));
                if mark.distance(tail).saturating_mul(BRISK) >= shard.len() && self.earliest() > due
                {
                    return false;
                }
                self.draining = Some(mark);
            } else {
                return !self.scan([due, near], shard, chunks, tail, budget, sink);
            }
        } else {
            self.draining = Some(tail);
        }
        let end = self.draining.unwrap_or(tail);
        if !self.drain(shard, chunks, end, budget, sink) {
            return true;
        }
        self.draining = None;
        // A shard that is drained need not be scanned for days, and serial numbers might wrap in between.
        self.scanned = self.taken.or_later(self.scanned);
        if end == tail {
            // All that was seen is filed. What has come since is announced anew.
            self.occupied = false;
            self.mark = None;
            self.since = Tick::NEVER;
            (self.fresh, self.far, self.pass) = (Tick::NEVER, Tick::NEVER, None);
            self.taken_out.shrink_to(FEW);
            return false;
        }
        // What is left may still be due soon.
        match take {
            Take::Everything => false,
            Take::Soon { due, near, .. } => {
                !self.scan([due, near], shard, chunks, tail, budget, sink)
            }
        }
    }

    /// Entries that were taken out and not filed yet.
    pub(super) fn backlog(&self) -> usize {
        self.taken_out.len() - self.filed
    }

    pub(super) fn file(&mut self, budget: &mut Budget, sink: &mut impl EntrySink) {
        let mut left = self.taken_out[self.filed..].iter();
        while !budget.is_used_up() {
            let Some(&entry) = left.next() else {
                break;
            };
            if let Some(&ahead) = left.as_slice().get(LOOKAHEAD) {
                sink.prefetch(ahead);
            }
            budget.stretch -= 1;
            budget.quota -= usize::from(sink.insert(entry) == InsertOutcome::Inserted);
        }
        self.filed = self.taken_out.len() - left.len();
        if left.len() == 0 {
            self.taken_out.clear();
            self.filed = 0;
        }
    }
}

/// How far a drain or a scan goes.
#[derive(Clone, Copy)]
pub(super) struct End {
    pub(super) tail: Position,
    pub(super) announced: u64,
}

impl End {
    pub(super) fn new(shard: &Shard, tail: Position) -> End {
        End {
            tail,
            announced: shard.overflow.announced(),
        }
    }

    /// Batches have come since, which are older than what is at the head now.
    pub(super) fn is_outdated(self, shard: &Shard) -> bool {
        shard.overflow.announced() > self.announced
    }
}

/// What a transfer may still do.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Entries that may go into the wheel.
    pub(super) quota: usize,
    /// Entries that may be met.
    pub(super) stretch: usize,
}

impl Budget {
    pub(super) fn is_used_up(self) -> bool {
        self.quota == 0 || self.stretch == 0
    }

    /// One of `count` equal shares, rounded up.
    pub(super) fn share(self, count: usize) -> Budget {
        Budget {
            quota: self.quota.div_ceil(count),
            stretch: self.stretch.div_ceil(count),
        }
    }
}

//! The steps of the timer thread: entries from the queue to the wheel, due entries to their tasks, dead entries out. The
//! [loop](super) takes these steps on a system clock, and again for a manual clock.
//!
//! # Boundaries
//!
//! The wheel's `now` is the last processed boundary. The next one is the very next while the queue holds entries,
//! otherwise the wheel's next expiration: so no boundary is skipped that a queued entry might be due at. Processing a
//! boundary moves entries from the queue to the wheel, at most `max_transfers`, and fires what is due.
//!
//! On a system clock the worker also transfers *before* a boundary, because it must know what is due before it sleeps.
//! Those entries are charged to the coming boundary (the transfer budget). After a sleep, the boundaries that have passed
//! count as processed, except for as many as are needed to take in what has been waiting: those are caught up like any
//! missed boundary.

mod looped;
mod memory;
mod sweep;

use super::execute::{self, Executor};
use crate::catch_panic::catch_panic;
use crate::entry::{Entry, Liveness};
use crate::queue::{EntrySink, InsertOutcome, Reader, Take};
use crate::shared::Shared;
use crate::slots::{ClaimResult, Kind};
use crate::time::Tick;
use crate::wheel::Wheel;
use memory::MemoryBack;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;
use sweep::Round;

/// The time to move an entry to the wheel, an upper estimate of the average.
const MOVE_NANOS: u64 = 100;
/// How far beyond what has to leave the queue now a scan looks. Less than the reader's age, so that it has fired by then.
const NEAR_NANOS: u64 = 100_000_000;
/// How long a transfer goes on before the timer thread looks what is due.
const TRANSFER_NANOS: u64 = 4_000_000;
/// The distance at which slots are prefetched when firing.
const LOOKAHEAD: usize = 8;
/// The capacity that the buffer of due entries keeps.
const KEPT_DUE: usize = 1 << 16;

/// The timer thread's own state.
pub(crate) struct Engine<W> {
    wheel: W,
    reader: Reader,
    /// Entries that may be moved to the wheel at one boundary.
    max_transfers: usize,
    /// Entries that may still be moved to the wheel before the next boundary.
    transfer_budget: usize,
    /// The entries due at the current boundary; kept for its memory.
    due: Vec<Entry>,
    executor: Option<Executor>,
    /// The tick until which the caller's loop sleeps, if it does.
    planned: Option<Tick>,
    /// Due at the boundary `held_at`, which `next_due` of the caller's loop has come to; `turn` fires them.
    held: Vec<Entry>,
    held_at: Tick,
    /// Tasks run or handed over.
    pub(super) fired: u64,
    transferred: u64,
    swept: u64,
    /// `transferred` at the last step of a sweep.
    swept_at: u64,
    round: Round,
    memory_back: MemoryBack,
    /// The number of entries in the wheel when its bytes were last counted.
    weighed: Cell<usize>,
}

impl<W: Wheel> Engine<W> {
    pub(crate) fn new(wheel: W, executor: Option<Executor>, max_transfers: usize) -> Engine<W> {
        Engine {
            wheel,
            reader: Reader::default(),
            max_transfers,
            transfer_budget: max_transfers,
            due: Vec::new(),
            executor,
            planned: None,
            held: Vec::new(),
            held_at: Tick::ZERO,
            fired: 0,
            transferred: 0,
            swept: 0,
            swept_at: 0,
            round: Round::default(),
            memory_back: MemoryBack::default(),
            // Not counted yet: even an empty wheel has a table.
            weighed: Cell::new(usize::MAX),
        }
    }

    /// Moves entries from the queue to the wheel, within the budget of the coming boundary: on a manual clock all of
    /// them, otherwise those that are due soon.
    fn move_entries(&mut self, shared: &Shared) {
        let now = shared.now();
        self.reader.look(shared.queue(), now);
        let take = if shared.is_on_manual_clock() {
            Take::Everything
        } else {
            let coming = shared.passed_at(now).max(self.wheel.now()).0;
            let due = Tick(coming + self.lead(shared));
            let near = Tick(due.0 + NEAR_NANOS.div_ceil(shared.scale().tick()));
            Take::Soon { due, near, now }
        };
        let mut sink = WheelSink {
            shared,
            wheel: &mut self.wheel,
        };
        loop {
            let moved = self
                .reader
                .transfer(shared.queue(), take, self.transfer_budget, &mut sink);
            self.transferred += moved as u64;
            self.transfer_budget -= moved;
            // What is due comes first, and is looked at when this has taken its time.
            if !self.reader.is_interrupted() || shared.now() - now > TRANSFER_NANOS {
                break;
            }
        }
    }

    /// How many ticks before it is due an entry has to leave the queue: one, and what it takes to move all that
    /// waits.
    fn lead(&self, shared: &Shared) -> u64 {
        let waiting = self.reader.waiting(shared.queue()) as u64;
        let ticks = waiting * MOVE_NANOS / shared.scale().tick();
        1 + waiting / self.max_transfers as u64 + ticks
    }

    /// Fires what is due at `boundary`, until the timer is stopped. Returns how many have fired.
    fn fire(&mut self, shared: &Arc<Shared>, boundary: Tick, due: &[Entry]) -> usize {
        let mut now = shared.recent();
        // Counted rather than those that fire: those are the many.
        let mut skipped = 0;
        for (place, &entry) in due.iter().enumerate() {
            if let Some(ahead) = due.get(place + LOOKAHEAD) {
                shared.slot(ahead.slot()).prefetch_for_claim();
            }
            if shared.is_shutdown() {
                // The scan of `stop` finds the rest.
                return place - skipped;
            }
            match shared.slot(entry.slot()).claim(entry, boundary) {
                ClaimResult::Dead | ClaimResult::Later(Tick::NEVER) => skipped += 1,
                ClaimResult::Later(tick) => {
                    skipped += 1;
                    self.wheel.insert(entry.at(tick));
                }
                ClaimResult::Due(running, task) => {
                    note_lateness(shared, entry, now);
                    let kind = task.kind();
                    if kind != Kind::Periodic {
                        execute::count_expired(shared);
                    }
                    match &self.executor {
                        Some(executor) if kind != Kind::Future => {
                            execute::dispatch(shared, executor, running, task);
                            now = shared.recent();
                        }
                        _ => {
                            let (again, after) = execute::run(shared, running, task, now, |_| ());
                            now = after;
                            if let Some(again) = again {
                                self.wheel.insert(again);
                            }
                        }
                    }
                }
            }
        }
        due.len() - skipped
    }

    /// The next boundary that has work. On a system clock, entries that are due soon have been moved to the wheel.
    pub(super) fn next_tick(&mut self, shared: &Shared) -> Option<Tick> {
        let waits = if shared.is_on_manual_clock() {
            self.reader.look(shared.queue(), shared.now());
            !self.reader.is_drained()
        } else {
            self.move_entries(shared);
            self.reader.is_cut()
        };
        if waits {
            Some(self.wheel.now().next())
        } else {
            self.wheel.next_expiration()
        }
    }

    /// The tick until which the worker may sleep: the wheel's next expiration, early enough for what waits in the
    /// queue; or the next boundary if the queue holds more than the budget allowed.
    pub(super) fn next_wakeup(&self, shared: &Shared) -> Tick {
        let next = self.wheel.now().next();
        if self.reader.is_cut() {
            return next;
        }
        let wakeup = self.wheel.next_expiration().unwrap_or(Tick::NEVER);
        match self.reader.earliest() {
            Tick::NEVER => wakeup,
            earliest => wakeup.min(Tick(earliest.0.saturating_sub(self.lead(shared))).max(next)),
        }
    }

    /// The last check before the worker sleeps until `wakeup`, which it has announced: transfers what has been pushed, and
    /// returns `true` if the worker must wake earlier.
    pub(super) fn transfer_and_recheck(&mut self, shared: &Shared, wakeup: Tick) -> bool {
        // No entry can be due before the next boundary.
        if wakeup == self.wheel.now().next() {
            return false;
        }
        self.transfer(shared);
        self.next_wakeup(shared) < wakeup
    }

    /// Returns `true` if the worker, woken before `wakeup`, could transfer entries.
    pub(super) fn can_transfer_before(&self, wakeup: Tick) -> bool {
        // A boundary before `wakeup` brings a new budget.
        self.transfer_budget > 0 || wakeup > self.wheel.now().next()
    }

    /// Transfers what the queue holds, charged to the coming boundary.
    pub(super) fn transfer(&mut self, shared: &Shared) {
        self.move_entries(shared);
        self.publish_counters(shared);
    }

    /// Accounts for a sleep during which nothing was due up to `idle`. Of the boundaries slept through, as many are
    /// caught up with as it takes to move what has been waiting.
    pub(super) fn account_for_sleep(&mut self, shared: &Shared, idle: Tick) {
        self.reader.look(shared.queue(), shared.now());
        let needed = (self.reader.waiting(shared.queue()) / self.max_transfers) as u64;
        let since = self.reader.waiting_since().unwrap_or(idle);
        let waited = idle.0.saturating_sub(since.0);
        self.skip_idle_ticks(shared, Tick(idle.0 - needed.min(waited)));
    }

    /// Counts the boundaries up to `passed` as processed, up to the first that has work.
    pub(super) fn skip_idle_ticks(&mut self, shared: &Shared, passed: Tick) {
        if !self.held.is_empty() {
            // None comes before the tasks of `held_at` have begun to run.
            return;
        }
        let work = self.wheel.next_expiration().unwrap_or(Tick::NEVER);
        let idle = passed.min(work.min(self.reader.earliest()).previous());
        if idle > self.wheel.now() {
            self.wheel.advance(idle, &mut self.due, shared);
            debug_assert!(
                self.due.is_empty(),
                "a boundary without work had something due"
            );
            self.transfer_budget = self.max_transfers;
            shared.set_processed(idle);
        }
    }

    /// Processes `boundary`, which is the one that [`Engine::next_tick`] named.
    pub(super) fn process_tick(&mut self, shared: &Arc<Shared>, boundary: Tick) {
        // A queued entry may be due at any boundary after the wheel's. If others lie between, the queue was empty when
        // this one was chosen, and what has been pushed since can wait for the next.
        if shared.is_on_manual_clock() && boundary == self.wheel.now().next() {
            self.move_entries(shared);
        }
        let mut due = mem::take(&mut self.due);
        self.wheel.advance(boundary, &mut due, &**shared);
        self.transfer_budget = self.max_transfers;
        self.fire_all(shared, boundary, &mut due);
        self.due = due;
    }

    /// Fires what is due at `boundary`, and leaves the buffer empty.
    fn fire_all(&mut self, shared: &Arc<Shared>, boundary: Tick, due: &mut Vec<Entry>) {
        // A boundary counts as processed from its first task on.
        shared.set_processed(boundary);
        self.publish_counters(shared);
        self.fired += self.fire(shared, boundary, due) as u64;
        due.clear();
        due.shrink_to(KEPT_DUE);
        // Periodic tasks have been inserted again.
        self.publish_counters(shared);
    }

    /// The next boundary up to `passed` that the wheel has work at, if the queue need not be looked at before.
    pub(super) fn next_filed_tick(&self, passed: Tick) -> Option<Tick> {
        if self.reader.is_cut() {
            return None;
        }
        self.wheel.next_expiration().filter(|next| *next <= passed)
    }

    /// Returns `true` if entries are waiting that a transfer can go on with at once.
    pub(super) fn is_transferring(&self) -> bool {
        self.reader.is_interrupted()
    }

    /// Publishes the counters.
    pub(super) fn publish_counters(&self, shared: &Shared) {
        let counters = &shared.metrics().worker;
        counters.publish_wheel(self.wheel.counters());
        counters.transferred.set(self.transferred);
        counters.swept.set(self.swept);
        counters.taken.set(self.reader.backlog() as u64);
        counters.filed.set(self.wheel.len() as u64);
        // Counting bytes walks through the buckets, so only after a large change.
        let len = self.wheel.len();
        if len.abs_diff(self.weighed.get()) > len / 4 + 1000 {
            self.weighed.set(len);
            counters.wheel_bytes.set(self.wheel.bytes() as u64);
        }
    }
}

impl<W> Drop for Engine<W> {
    fn drop(&mut self) {
        let executor = self.executor.take();
        catch_panic("the drop of the executor", || drop(executor));
    }
}

fn note_lateness(shared: &Shared, entry: Entry, now: u64) {
    let slot = shared.slot(entry.slot());
    let deadline = shared.deadline_of(slot, slot.status().due);
    let deadline = deadline.saturating_add(shared.started_at());
    let lateness = now.saturating_sub(deadline);
    shared.metrics().lateness.record(lateness);
}

/// Inserts entries in a wheel, unless they are dead.
struct WheelSink<'a, W> {
    shared: &'a Shared,
    wheel: &'a mut W,
}

impl<W: Wheel> EntrySink for WheelSink<'_, W> {
    #[inline]
    fn prefetch(&self, entry: Entry) {
        Liveness::prefetch(self.shared, entry);
    }

    #[inline]
    fn insert(&mut self, entry: Entry) -> InsertOutcome {
        match self.shared.slot(entry.slot()).live_due(entry) {
            // A timeout that never fires has no entry.
            None | Some(Tick::NEVER) => InsertOutcome::Dropped,
            Some(due) => {
                self.wheel.insert(entry.at(due));
                InsertOutcome::Inserted
            }
        }
    }
}

#[cfg(test)]
mod tests;

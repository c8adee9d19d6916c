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

use super::execute::{self, Executor};
use crate::catch_panic::catch_panic;
use crate::entry::Entry;
use crate::queue::{EntrySink, InsertOutcome, Reader, Take};
use crate::shared::Shared;
use crate::slots::{ClaimResult, Kind};
use crate::time::Tick;
use crate::wheel::Wheel;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;

/// Dead entries allowed in the wheel, however few live ones there are.
const MAX_DEAD: usize = 4096;
/// The least number of entries in one step of a sweep.
const SWEEP_STEP: usize = 4096;
/// The time to move an entry to the wheel, an upper estimate of the average.
const MOVE_NANOS: u64 = 100;
/// How far beyond what has to leave the queue now a scan looks. Less than the reader's age, so that it has fired by then.
const NEAR_NANOS: u64 = 100_000_000;
/// How long a transfer goes on before the timer thread looks what is due.
const TRANSFER_NANOS: u64 = 4_000_000;
/// The distance at which slots are prefetched when firing.
const LOOKAHEAD: usize = 8;
/// So many entries in the wheel are looked at before the caller's loop is told when to turn again.
const FEW: usize = 64;
/// Slots that are kept however few are in use: a quarter of a megabyte.
const KEPT_SLOTS: usize = 4096;
/// How long few slots must have been in use before memory goes back.
const QUIET_NANOS: u64 = 1_000_000_000;
/// The capacity that the buffer of due entries keeps.
const KEPT_DUE: usize = 1 << 16;

/// One round of a sweep through the wheel.
///
/// More than half of the entries are dead when a round begins, and it looks at each of them, so it removes more than
/// half of what it looks at. Unless `seq` has wrapped within one life: then a dead entry may pass for live.
/// A round that removes less than an eighth is not worth another before the wheel has changed: the next
/// begins when half as many entries have been transferred as it looked at. So sweeping comes to an end, and costs
/// each entry that is transferred a few looks at most, whatever the entries look like.
#[derive(Default)]
struct Round {
    /// Entries that it has yet to look at; 0 between two rounds.
    left: usize,
    looked: usize,
    removed: usize,
    /// None begins before so many have been transferred.
    not_before: u64,
}

impl Round {
    /// Notes a step.
    fn step(&mut self, looked: usize, removed: usize, transferred: u64) {
        self.looked += looked;
        self.removed += removed;
        self.left = self.left.saturating_sub(looked);
        if self.left == 0 {
            if self.removed < self.looked / 8 {
                self.not_before = transferred + self.looked as u64 / 2;
            }
            self.end();
        }
    }

    fn end(&mut self) {
        (self.left, self.looked, self.removed) = (0, 0, 0);
    }
}

/// When the memory of slots that a burst has used goes back to the system.
#[derive(Default)]
struct MemoryBack {
    /// When the slots in use were last seen not to be few, on the timer's clock.
    busy_at: u64,
    /// Where a pass over the slots stands.
    at: Option<u32>,
}

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
    fired: u64,
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
                    match &self.executor {
                        Some(executor) if kind != Kind::Future => {
                            execute::dispatch(shared, executor, running, task);
                            now = shared.recent();
                        }
                        _ => {
                            let (again, after) = execute::run_inline(shared, running, task, now);
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
}

/// For the caller's own loop.
impl<W: Wheel> Engine<W> {
    /// Tasks run or handed over so far.
    pub(super) fn fired(&self) -> u64 {
        self.fired
    }

    /// Goes to the next boundary that has work, if it has passed, and holds what is due there for [`Engine::fire_held`]. A
    /// cascade is done here, so that it wakes nobody who is late for it. Returns `true` if there may be more.
    pub(super) fn hold_next(&mut self, shared: &Shared, next: Option<Tick>) -> bool {
        self.settle_held(shared);
        let Some(boundary) = next.filter(|_| self.held.is_empty()) else {
            return false;
        };
        self.wheel.advance(boundary, &mut self.held, shared);
        self.transfer_budget = self.max_transfers;
        self.held_at = boundary;
        self.settle_held(shared);
        self.held.is_empty()
    }

    /// Keeps of what is held only what is still due.
    fn settle_held(&mut self, shared: &Shared) {
        let (wheel, at) = (&mut self.wheel, self.held_at);
        self.held
            .retain(|&entry| match shared.slot(entry.slot()).live_due(entry) {
                None | Some(Tick::NEVER) => false,
                Some(due) if due > at => {
                    wheel.insert(entry.at(due));
                    false
                }
                Some(_) => true,
            });
    }

    /// After so many transfers all that waits now has been met.
    pub(super) fn transfers_to_go(&mut self, shared: &Shared) -> usize {
        self.reader.look(shared.queue(), shared.now());
        self.reader.transfers_to_go(shared.queue())
    }

    /// Fires what `next_due` has found.
    pub(super) fn fire_held(&mut self, shared: &Arc<Shared>) {
        if !self.held.is_empty() {
            let mut held = mem::take(&mut self.held);
            self.fire_all(shared, self.held_at, &mut held);
            self.held = held;
        }
    }

    /// Announces the tick until which the caller's loop may sleep, and returns it.
    pub(super) fn plan_sleep(&mut self, shared: &Shared) -> Tick {
        let plan = self.plan(shared);
        shared.queue().announce_plan(plan);
        self.planned = Some(plan);
        plan
    }

    /// The last check after a plan was announced: transfers what has been pushed, and returns the tick that would be
    /// announced now.
    pub(super) fn transfer_and_replan(&mut self, shared: &Shared) -> Tick {
        self.transfer(shared);
        self.plan(shared)
    }

    fn plan(&mut self, shared: &Shared) -> Tick {
        // After the transfer: what that has seen is counted as scheduled.
        if shared.is_idle() {
            return Tick::NEVER;
        }
        // A few entries are looked at, so that dead ones wake nobody.
        let mut unseen = self.wheel.len();
        if unseen <= FEW {
            let filed = unseen;
            while unseen > 0 {
                let looked = self.wheel.sweep(FEW, shared);
                unseen = unseen.saturating_sub(looked.max(1));
            }
            self.swept += (filed - self.wheel.len()) as u64;
        }
        if self.held.is_empty() {
            self.next_wakeup(shared)
        } else {
            self.held_at
        }
    }

    /// Accounts for the sleep of the caller's loop, if it has slept.
    pub(super) fn end_planned_sleep(&mut self, shared: &Shared) {
        let Some(plan) = self.planned.take() else {
            return;
        };
        // As after the sleep of a thread: nothing was due before the plan, nor before the push that called the hook.
        let pushed = shared.queue().withdraw_plan();
        let idle = pushed.unwrap_or_else(|| shared.passed());
        self.account_for_sleep(shared, idle.min(plan.previous()));
    }
}

impl<W: Wheel> Engine<W> {
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
        self.move_entries(shared);
        self.publish_counters(shared);
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

    /// Removes some dead entries if there are too many. Returns `true` if there were.
    pub(super) fn sweep(&mut self, shared: &Shared) -> bool {
        let filed = self.wheel.len();
        // A live timeout has at most one live entry. The rest is dead.
        if filed <= MAX_DEAD || filed as u64 <= 2 * shared.pending() + MAX_DEAD as u64 {
            self.round.end();
            return false;
        }
        if self.round.left == 0 {
            if self.transferred < self.round.not_before {
                return false;
            }
            self.round.left = filed;
        }
        // Faster than entries come in.
        let come_in = (self.transferred - self.swept_at) as usize;
        self.swept_at = self.transferred;
        let step = SWEEP_STEP.max(2 * come_in);
        let looked = self.wheel.sweep(step, shared);
        let removed = filed - self.wheel.len();
        self.swept += removed as u64;
        self.round.step(looked, removed, self.transferred);
        self.publish_counters(shared);
        true
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

    /// Begins to give memory back if the slots in use have stayed below a quarter of those held for a second, as far as
    /// this thread has seen.
    pub(super) fn check_memory(&mut self, shared: &Shared) {
        let (held, now) = (shared.held_slots(), shared.now());
        if held <= KEPT_SLOTS || shared.pending() as usize >= held / 4 {
            self.memory_back.busy_at = now;
        } else if now.saturating_sub(self.memory_back.busy_at) >= QUIET_NANOS {
            self.memory_back.busy_at = now;
            self.memory_back.at.get_or_insert(0);
        }
    }

    /// Gives a few megabytes back, if that is under way. Returns `true` if it was.
    pub(super) fn give_memory_back(&mut self, shared: &Shared) -> bool {
        let Some(at) = self.memory_back.at else {
            return false;
        };
        self.memory_back.at = shared.discard_free_slots(at);
        if self.memory_back.at.is_none() {
            shared.queue().discard_free();
        }
        true
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
    shared
        .metrics()
        .lateness
        .record(now.saturating_sub(deadline));
}

/// Inserts entries in a wheel, unless they are dead.
struct WheelSink<'a, W> {
    shared: &'a Shared,
    wheel: &'a mut W,
}

impl<W: Wheel> EntrySink for WheelSink<'_, W> {
    #[inline]
    fn prefetch(&self, entry: Entry) {
        self.shared.slot(entry.slot()).prefetch();
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

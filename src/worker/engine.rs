//! The steps of the timer thread: it files the slots whose numbers wait in the queue, fires those that are due, and removes dead
//! entries. A thread of the timer's own, a caller's loop and a manual clock take the same [steps](Engine::step); they differ in
//! how they [wait](super).
//!
//! # Boundaries
//!
//! The wheel's `now` is the last processed boundary. The [next one with work](Engine::next_tick) is the wheel's next
//! expiration, or `now + 1` while numbers wait in the queue. Processing a boundary transfers slots from the queue to the wheel, at
//! most `max_transfers` for each boundary, and fires the due ones.
//!
//! *Order.* The timer thread reads the clock, looks at the queue, files the slots that it has seen there, and then processes a
//! boundary. So a timeout that it has not seen is due later, or its call has not returned. Slots beyond the budget are filed at
//! the next boundary, and may fire late.
//!
//! Before it sleeps, the timer thread also [transfers](Engine::settle) slots, to know when they are due. They are charged to the
//! budget of the coming boundary. After a sleep, the boundaries that have passed count as processed, except for as many as it
//! takes to transfer the slots that have waited: these are processed one by one, as after any delay.

mod driven;
mod filing;
mod memory;
mod sweep;

use super::AnyWheel;
use super::execute::{self, Executor};
use crate::catch_panic::catch_panic;
use crate::entry::{Entry, Liveness, SlotId};
use crate::queue::Reader;
use crate::shared::Shared;
use crate::slots::{ClaimResult, Kind};
use crate::time::Tick;
use crate::tuning::{KEPT_DUE, LOOKAHEAD};
use memory::MemoryBack;
use std::cell::Cell;
use std::mem;
use std::sync::Arc;

/// A slot that was found armed. The order is by stamp: those that one thread armed are in the order of arming.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Waiting {
    stamp: u64,
    slot: SlotId,
}

/// The timer thread's own state.
pub(crate) struct Engine {
    wheel: AnyWheel,
    reader: Reader,
    /// Slots whose numbers were taken from the queue when more waited than the budget allowed. The lowest stamp is last.
    backlog: Vec<Waiting>,
    /// Slots that may be transferred at one boundary.
    max_transfers: usize,
    /// Slots that may still be transferred before the next boundary.
    transfer_budget: usize,
    /// The entries due at the current boundary; kept for its memory.
    due: Vec<Entry>,
    /// The slots due at the current boundary, in their order; kept for its memory.
    ready: Vec<Waiting>,
    executor: Option<Executor>,
    /// The tick until which the caller's loop sleeps, if it does.
    planned: Option<Tick>,
    /// Tasks run or handed over.
    pub(super) fired: u64,
    transferred: u64,
    swept: u64,
    /// `transferred` at the last step of a sweep.
    swept_at: u64,
    memory_back: MemoryBack,
    /// The number of entries in the wheel when its bytes were last counted.
    weighed: Cell<usize>,
}

impl Engine {
    pub(crate) fn new(wheel: AnyWheel, executor: Option<Executor>, max_transfers: usize) -> Engine {
        Engine {
            wheel,
            reader: Reader::default(),
            backlog: Vec::new(),
            max_transfers,
            transfer_budget: max_transfers,
            due: Vec::new(),
            ready: Vec::new(),
            executor,
            planned: None,
            fired: 0,
            transferred: 0,
            swept: 0,
            swept_at: 0,
            memory_back: MemoryBack::default(),
            // Not counted yet: even an empty wheel has a table.
            weighed: Cell::new(usize::MAX),
        }
    }

    /// Fires the slots of `ready`, until the timer is stopped. Returns how many have fired.
    #[inline(never)]
    fn fire(&mut self, shared: &Arc<Shared>, boundary: Tick, ready: &[Waiting]) -> usize {
        let mut now = shared.recent();
        // Counts the slots that do not fire, which are few.
        let mut skipped = 0;
        for (place, waiting) in ready.iter().enumerate() {
            if let Some(ahead) = ready.get(place + LOOKAHEAD) {
                shared.slot(ahead.slot).prefetch();
            }
            if shared.is_shutdown() {
                // The scan of `stop` finds the others.
                return place - skipped;
            }
            let id = waiting.slot;
            match shared.slot(id).claim(id, waiting.stamp, boundary) {
                ClaimResult::Dead => skipped += 1,
                ClaimResult::Later => {
                    skipped += 1;
                    self.file(shared, id);
                }
                ClaimResult::Due(running, task) => {
                    note_lateness(shared, id, now);
                    let kind = task.kind();
                    if kind != Kind::Periodic {
                        execute::count_expired(shared);
                    }
                    match &self.executor {
                        Some(executor) if kind.is_task() => {
                            executor.dispatch(shared, running, task);
                            now = shared.recent();
                        }
                        _ => {
                            let (again, after) = execute::run(shared, running, task, now);
                            now = after;
                            if again.is_some() {
                                self.file(shared, id);
                            }
                        }
                    }
                }
            }
        }
        ready.len() - skipped
    }

    /// Processes the next boundary that has work, if it is not later than `passed` and the timer has not been stopped.
    /// Returns `false` if there was none.
    pub(super) fn step(&mut self, shared: &Arc<Shared>, passed: Tick) -> bool {
        if shared.is_shutdown() {
            return false;
        }
        let boundary = self.next_tick(shared);
        if boundary > passed {
            return false;
        }
        self.process_tick(shared, boundary, passed);
        // One step per boundary: a thread that is behind has no other time for it.
        self.sweep(shared);
        true
    }

    /// Returns the next boundary that has work, [`Tick::NEVER`] if there is none. Moves nothing.
    pub(super) fn next_tick(&mut self, shared: &Shared) -> Tick {
        self.look(shared, Tick::ZERO);
        if self.waiting() > 0 {
            return self.wheel.now().next();
        }
        self.expiration()
            .min(self.late_at(shared).max(self.wheel.now().next()))
    }

    fn expiration(&self) -> Tick {
        self.wheel.next_expiration().unwrap_or(Tick::NEVER)
    }

    /// The numbers that were seen in the queue and whose slots are not filed yet; some of these slots are not armed.
    fn waiting(&self) -> usize {
        self.backlog.len() + self.reader.waiting()
    }

    /// Returns `true` if the timer thread, woken before `wakeup`, could transfer slots.
    pub(super) fn can_transfer_before(&self, wakeup: Tick) -> bool {
        // A boundary before `wakeup` brings a new budget.
        self.transfer_budget > 0 || wakeup > self.wheel.now().next()
    }

    /// Transfers slots before a sleep, charged to the coming boundary.
    pub(super) fn settle(&mut self, shared: &Shared) {
        self.transfer(shared, Tick::ZERO);
        self.publish_counters(shared);
    }

    /// Accounts for a sleep during which nothing was due up to `idle`. Leaves as many boundaries to be processed as it takes to
    /// transfer the slots that have waited.
    pub(super) fn account_for_sleep(&mut self, shared: &Shared, idle: Tick) {
        self.look(shared, Tick::ZERO);
        let since = self.reader.waiting_since().unwrap_or(idle);
        if self.waiting() <= self.transfer_budget {
            // Filed first, so that no boundary is skipped at which one of them is due.
            self.transfer(shared, Tick::ZERO);
        }
        let needed = (self.waiting() / self.max_transfers) as u64;
        let waited = idle.0.saturating_sub(since.0);
        self.skip_to(shared, Tick(idle.0 - needed.min(waited)));
    }

    /// Counts the boundaries up to `passed` as processed, up to the first that has work.
    pub(super) fn skip_idle_ticks(&mut self, shared: &Shared, passed: Tick) {
        // A slot whose number waits may be due at any of them.
        if self.next_tick(shared) > self.wheel.now().next() {
            self.skip_to(shared, passed);
        }
    }

    /// Counts the boundaries up to `passed` as processed, up to the first at which a slot that was seen may be due.
    fn skip_to(&mut self, shared: &Shared, passed: Tick) {
        let work = self.expiration().min(self.reader.late_due());
        let idle = passed.min(work.previous());
        if idle > self.wheel.now() {
            self.pass(shared, idle);
        }
    }

    /// Passes boundaries without work.
    #[inline(never)]
    fn pass(&mut self, shared: &Shared, idle: Tick) {
        self.wheel.advance(idle, &mut self.due, &InSlots(shared));
        debug_assert!(
            self.due.is_empty(),
            "a boundary without work had something due"
        );
        self.transfer_budget = self.max_transfers;
        shared.set_processed(idle);
    }

    /// Transfers the slots whose numbers wait, and processes one boundary: the wheel's next expiration, or, if that comes later,
    /// the last one that has `passed`, less as many as it takes to transfer the slots that the budget has left in the queue.
    /// `boundary` is the one that [`Engine::next_tick`] returned.
    fn process_tick(&mut self, shared: &Arc<Shared>, boundary: Tick, passed: Tick) {
        self.transfer(shared, passed);
        let needed = self.waiting().div_ceil(self.max_transfers) as u64;
        let idle = Tick(passed.0.saturating_sub(needed)).max(boundary);
        let boundary = self.expiration().min(idle);
        let (mut due, mut ready) = (mem::take(&mut self.due), mem::take(&mut self.ready));
        self.wheel.advance(boundary, &mut due, &InSlots(shared));
        self.transfer_budget = self.max_transfers;
        self.meet(shared, boundary, &mut due, &mut ready);
        due.clear();
        due.shrink_to(KEPT_DUE);
        self.due = due;
        // A boundary counts as processed from its first task on.
        shared.set_processed(boundary);
        self.publish_counters(shared);
        self.fired += self.fire(shared, boundary, &ready) as u64;
        ready.clear();
        ready.shrink_to(KEPT_DUE);
        self.ready = ready;
        // Periodic slots have been filed again.
        self.publish_counters(shared);
    }

    /// Publishes the counters.
    #[inline(never)]
    pub(super) fn publish_counters(&self, shared: &Shared) {
        let counters = &shared.metrics().worker;
        counters.publish_wheel(self.wheel.counters());
        counters.transferred.set(self.transferred);
        counters.swept.set(self.swept);
        counters.taken.set(self.backlog.len() as u64);
        counters.filed.set(self.wheel.len() as u64);
        // Counting bytes walks through the buckets, so only after a large change.
        let len = self.wheel.len();
        if len.abs_diff(self.weighed.get()) > len / 4 + 1000 {
            self.weighed.set(len);
            counters.wheel_bytes.set(self.wheel.bytes() as u64);
        }
    }
}

/// Asks the slots. A type of its own: the table of its methods has no code that drops a whole timer.
struct InSlots<'a>(&'a Shared);

impl Liveness for InSlots<'_> {
    fn remove_dead(&self, entries: &mut Vec<Entry>) {
        self.0.remove_dead(entries);
    }

    fn remove_equal(&self, entries: &mut Vec<Entry>) {
        self.0.remove_equal(entries);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let executor = self.executor.take();
        catch_panic("the drop of the executor", || drop(executor));
    }
}

fn note_lateness(shared: &Shared, id: SlotId, now: u64) {
    let deadline = shared.deadline_of(id, shared.slot(id).status().due);
    let deadline = deadline.saturating_add(shared.started_at());
    let lateness = now.saturating_sub(deadline);
    shared.metrics().lateness.record(lateness);
}

#[cfg(test)]
mod tests;

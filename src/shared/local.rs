//! The state of one thread for one timer: free slots, and a number that is the index of its shard of the pending queue
//! and of its counters. No other thread writes to them while it lives.
//!
//! # What outlives what
//!
//! A [`Local`] may be older or younger than its timer. It is found by the timer's id, which is never used twice, so
//! one of a timer that is gone is never found, and its slots (plain numbers) never used; it is dropped when the thread
//! makes its next one. When a thread ends, its slots and its number go back to the [`Registry`], which it holds a reference
//! to, and a later thread adopts the number, with the shard and the counters that go with it. A thread
//! whose thread-local storage is gone already does all of that within one call: it takes any number that is free, pushes
//! to the shard of that number and gives it back. So what a thread schedules from the destructor of a thread-local of
//! its own may lie in another shard than what it has scheduled before, and no order holds between them.

use super::{Shared, Timeout, retired};
use crate::entry::SlotId;
use crate::memory::FreeSet;
use crate::metrics::ThreadCounters;
use crate::queue::Shard;
use crate::slots::{Slot, SlotCache, SlotPool, Slots, Vacant};
use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The free slots and the free thread numbers of one timer. It may outlive the timer's memory: it holds numbers only.
pub(crate) struct Registry {
    /// The timer's memory is gone.
    pub(super) closed: AtomicBool,
    /// Numbers of threads.
    threads: FreeSet,
    pub(super) pool: SlotPool,
}

impl Registry {
    pub(super) fn new() -> Arc<Registry> {
        Arc::new(Registry {
            closed: AtomicBool::new(false),
            threads: FreeSet::new(),
            pool: SlotPool::new(),
        })
    }
}

/// See the module's head.
pub(crate) struct Local {
    timer: u64,
    /// This thread's alone, among the threads of the timer.
    number: u32,
    slots: SlotCache,
    registry: Arc<Registry>,
    /// Counts what this thread arms. It does not wrap: 2^51 armings take seven years at ten million a second.
    stamp: Cell<u64>,
    /// In the memory of the timer, as long as that is there.
    shard: *const Shard,
    counters: *const ThreadCounters,
}

impl Local {
    fn new(shared: &Shared) -> Local {
        let number = shared.registry.threads.claim_one(0);
        Local {
            timer: shared.id,
            number,
            slots: SlotCache::new(),
            registry: Arc::clone(&shared.registry),
            stamp: Cell::new(0),
            shard: shared.queue.shard(number),
            counters: shared.counters.of_thread(number),
        }
    }

    #[cfg(all(test, hashed_wheel_loom))]
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The stamp of the next timeout that this thread arms.
    #[inline]
    pub(super) fn next_stamp(&self) -> u64 {
        self.stamp.replace(self.stamp.get() + 1)
    }

    /// Puts a free slot into this thread's cache. Touches nothing of the timer but the registry.
    #[inline]
    fn put_slot(&self, id: SlotId) {
        self.slots.put(id, &self.registry.pool);
    }
}

impl Shared {
    /// The slot `id`, which is of this timer.
    #[inline]
    pub(crate) fn slot(&self, id: SlotId) -> &Slot<Timeout> {
        self.slots.get(id)
    }

    #[inline]
    pub(crate) fn slots(&self) -> &Slots<Timeout> {
        &self.slots
    }

    /// This thread's local of this timer, if it is the one that it used last.
    #[inline]
    pub(super) fn last_local(&self) -> Option<&Local> {
        // SAFETY: the timer is there as long as the answer.
        unsafe { last_of(self.id) }
    }

    /// Calls `use_it` with this thread's local of this timer.
    #[inline]
    pub(super) fn with_local<R>(&self, use_it: impl FnOnce(&Local) -> R) -> R {
        match self.last_local() {
            Some(local) => use_it(local),
            None => with_another(self, use_it),
        }
    }

    /// Counts on this thread's counters.
    #[inline]
    pub(crate) fn count(&self, count: impl Fn(&ThreadCounters)) {
        match self.last_local() {
            Some(local) => count(self.counters_of(local)),
            None => self.count_on_another(&count),
        }
    }

    #[cold]
    fn count_on_another(&self, count: &dyn Fn(&ThreadCounters)) {
        with_another(self, |local| count(self.counters_of(local)));
    }

    /// The stamp of the next timeout that this thread arms.
    pub(crate) fn next_stamp(&self) -> u64 {
        self.with_local(Local::next_stamp)
    }

    /// Takes a free slot out of this thread's cache.
    #[inline]
    pub(super) fn take_slot(&self, local: &Local) -> Vacant {
        local.slots.take(&self.registry.pool, &self.slots)
    }

    /// Gives the free slots of this thread's cache back to the pool, so that they hold no memory.
    pub(crate) fn release_free_slots(&self) {
        self.with_local(|local| local.slots.release_all(&self.registry.pool));
    }

    /// Frees a slot that was found [`ReleaseResult::Abandoned`](crate::slots::ReleaseResult).
    ///
    /// Takes a pointer: this call, or another thread after the slot's last store, may free the timer's memory, and a
    /// `&self` must be valid to the end of the call.
    ///
    /// # Safety
    /// `id` is that of `slot`, and the caller has found it abandoned. Unless an `Arc` is held, the timer's memory must not
    /// be touched after this.
    #[inline]
    pub(super) unsafe fn free(this: *const Shared, slot: *const Slot<Timeout>, id: SlotId) {
        // SAFETY: the slot is not free yet, which keeps the memory. No reference outlives this block.
        let (timer, stopped) = unsafe { ((*this).id, (*this).is_shutdown()) };
        // The local is found before the slot is free, and has a reference to the registry of its own: `this` may dangle
        // when it is used.
        // SAFETY: it is used for the length of this call; the caller has found the slot abandoned.
        unsafe {
            match last_of(timer) {
                Some(local) if !stopped => {
                    Slot::free(slot);
                    local.put_slot(id);
                }
                _ => Shared::free_slow(this, slot, id),
            }
        }
    }

    /// The same for a thread that used another timer last, and for a timer that has stopped: this may be the last slot
    /// that keeps its memory.
    #[cold]
    unsafe fn free_slow(this: *const Shared, slot: *const Slot<Timeout>, id: SlotId) {
        // SAFETY: as above.
        unsafe {
            let stopped = (*this).is_shutdown();
            let local = find_another(this);
            Slot::free(slot);
            local.put_slot(id);
            drop(local);
            if stopped {
                retired::reclaim();
            }
        }
    }

    /// Frees a slot that was found abandoned after a run. The `Arc` keeps the memory.
    #[inline]
    pub(crate) fn free_after_run(self: &Arc<Self>, id: SlotId) {
        // SAFETY: the slot was found abandoned, and an `Arc` is held.
        unsafe { Shared::free(Arc::as_ptr(self), self.slot(id), id) }
    }

    /// This thread's counters.
    #[inline]
    pub(super) fn counters_of<'a>(&'a self, local: &Local) -> &'a ThreadCounters {
        debug_assert_eq!(local.timer, self.id);
        // SAFETY: they lie in `self.counters`, which keeps them where they are.
        unsafe { &*local.counters }
    }

    /// This thread's shard of the pending queue.
    #[inline]
    pub(super) fn shard_of<'a>(&'a self, local: &Local) -> &'a Shard {
        debug_assert_eq!(local.timer, self.id);
        // SAFETY: it lies in `self.queue`, which keeps it where it is.
        unsafe { &*local.shard }
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        let this: *const Local = self;
        let _ = LAST.try_with(|last| {
            if last.get() == this {
                last.set(ptr::null());
            }
        });
        self.slots.release_all(&self.registry.pool);
        self.registry.threads.release_one(self.number);
    }
}

crate::sync::thread_local! {
    /// The locals of this thread. They stay where they are.
    static LOCALS: RefCell<Vec<Rc<Local>>> = const { RefCell::new(Vec::new()) };
    /// The one of them that was used last, or null. It has no destructor, so that it is there to the end, and
    /// looking at it takes no check.
    static LAST: Cell<*const Local> = const { Cell::new(ptr::null()) };
}

/// This thread's local of the timer with that id, if it is the one that was used last.
///
/// # Safety
/// The answer is used for the length of a call that began when the timer was there. Only its own thread drops a local: at its
/// end, or when it makes one for another timer, and then only those of timers that are gone.
#[inline]
unsafe fn last_of<'a>(timer: u64) -> Option<&'a Local> {
    let last = LAST.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: null, or one of this thread's: one that is dropped takes itself out of `LAST`.
    unsafe { last.as_ref() }.filter(|local| local.timer == timer)
}

/// Calls `use_it` with this thread's local of a timer, which was not the one that it used last.
#[cold]
pub(super) fn with_another<R>(shared: &Shared, use_it: impl FnOnce(&Local) -> R) -> R {
    // SAFETY: a reference is valid throughout.
    let local = unsafe { find_another(shared) };
    use_it(&local)
}

/// Finds or makes this thread's local of a timer. If the thread is ending and has no storage, it is for the call alone, and
/// goes with it.
///
/// # Safety
/// The timer's memory is there when this is called. It need not be when the answer is used.
#[cold]
unsafe fn find_another(shared: *const Shared) -> Rc<Local> {
    // SAFETY: as the caller says; the reference ends with this call.
    let shared = unsafe { &*shared };
    let found = LOCALS.try_with(|locals| {
        let local = find_or_make(&mut locals.borrow_mut(), shared);
        // Fails only in a model whose thread is ending; then there is none to be found there later.
        let _ = LAST.try_with(|last| last.set(Rc::as_ptr(&local)));
        local
    });
    found.unwrap_or_else(|_| Rc::new(Local::new(shared)))
}

fn find_or_make(locals: &mut Vec<Rc<Local>>, shared: &Shared) -> Rc<Local> {
    if let Some(local) = locals.iter().find(|local| local.timer == shared.id) {
        return Rc::clone(local);
    }
    // Relaxed: a hint.
    let is_closed = |local: &Rc<Local>| local.registry.closed.load(Ordering::Relaxed);
    while let Some(place) = locals.iter().position(is_closed) {
        locals.swap_remove(place);
    }
    let local = Rc::new(Local::new(shared));
    locals.push(Rc::clone(&local));
    local
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

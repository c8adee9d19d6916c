//! Free slots and counters that a thread keeps to itself.
//!
//! A thread that schedules and cancels takes slots from its own cache and gives them back to it,
//! last in first out, so that a slot is still warm when it is used again, and no atomic operation is
//! needed. The cache holds two chains of up to [`CHAIN`] slots; when both are full or both are
//! empty, one is exchanged whole with the timer's [`Depot`], under a lock, so that slots flow from
//! a thread that only frees (the worker) to one that only schedules.
//!
//! The cache also holds this thread's share of the hot counters, written by a plain store and summed up
//! when somebody asks.
//!
//! # What outlives what
//!
//! A cache may be older or younger than its timer. It is found by the timer's number, which is never
//! used twice, so a cache of a timer that is gone is never found, and its chains (plain
//! numbers) never followed; it is thrown away when the thread makes its next cache. When a thread
//! ends, its chains and counters go to the depot, which it holds a reference to. A thread whose
//! thread-local storage is gone already uses the depot directly.
//!
//! No foreign code runs while a cache is in use, so none is thrown away under its user.

use super::Slab;
use super::slot::{Slot, Vacant};
use crate::metrics::Totals;
use crate::sync::Mutex;
use std::cell::{Cell, RefCell};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Slots that a chain holds at most.
const CHAIN: u32 = if cfg!(hashed_wheel_loom) { 2 } else { 64 };
/// How often the counters are read in the hope of a moment's rest.
const TRIES: usize = 4;

/// So many free slots, linked through their own memory from `head` on.
#[derive(Debug, Clone, Copy)]
struct Chain {
    head: u32,
    len: u32,
}

impl Chain {
    const EMPTY: Chain = Chain {
        head: u32::MAX,
        len: 0,
    };
}

/// A thread's share of the counters. Only that thread writes; anybody may read.
///
/// The stores are Release and the loads Acquire, so that who sees an end also sees its beginning.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) scheduled: OwnCounter,
    pub(crate) cancelled: OwnCounter,
    pub(crate) expired: OwnCounter,
}

/// A counter with one writer at a time.
#[derive(Debug, Default)]
pub(crate) struct OwnCounter(AtomicU64);

impl OwnCounter {
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: this thread wrote it last.
        let now = self.0.load(Ordering::Relaxed).wrapping_add(count);
        self.0.store(now, Ordering::Release);
    }

    /// Takes back an addition. On another thread's counter, if need be: only the sum means anything.
    pub(crate) fn take_back(&self, count: u64) {
        self.add(count.wrapping_neg());
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

fn sum<'a>(counters: impl Iterator<Item = &'a OwnCounter>) -> u64 {
    counters.fold(0, |sum, counter| sum.wrapping_add(counter.get()))
}

/// What the threads of one timer exchange. It may outlive the timer's memory: it holds numbers only.
#[derive(Debug)]
pub(crate) struct Depot {
    /// The timer's number, never used twice in a process.
    timer: u64,
    /// The timer's memory is gone.
    closed: AtomicBool,
    chains: Mutex<Vec<Chain>>,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    threads: Vec<Arc<Counters>>,
    /// Of threads that have ended, and of calls from threads without thread-local storage.
    ended: Counters,
}

impl Depot {
    pub(crate) fn new(timer: u64) -> Arc<Depot> {
        Arc::new(Depot {
            timer,
            closed: AtomicBool::new(false),
            chains: Mutex::default(),
            ledger: Mutex::default(),
        })
    }

    /// Says that no slot of this timer will be used again.
    pub(crate) fn close(&self) {
        // Relaxed: only a hint that caches may be thrown away.
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Adds up the counters of all threads. What is counted as ended is also counted as scheduled.
    pub(crate) fn sums(&self) -> Totals {
        let ledger = self.ledger.lock();
        let all = || {
            ledger
                .threads
                .iter()
                .map(|counters| &**counters)
                .chain([&ledger.ended])
        };
        let mut last = Totals::default();
        let ends = || {
            let cancelled = sum(all().map(|counters| &counters.cancelled));
            let expired = sum(all().map(|counters| &counters.expired));
            (cancelled, expired)
        };
        // An end that is seen makes its beginning visible to what is read later, so what is counted as
        // ended is also counted as scheduled. If the ends are the same before and after, the three
        // figures belong together; under load, after a few tries, the later ends come closer.
        let mut before = ends();
        for _ in 0..TRIES {
            let scheduled = sum(all().map(|counters| &counters.scheduled));
            let after = ends();
            let (cancelled, expired) = after;
            let sums = Totals {
                scheduled: scheduled.max(cancelled.wrapping_add(expired)),
                cancelled,
                expired,
            };
            if before == after {
                return sums;
            }
            before = after;
            last = sums;
        }
        last
    }

    fn take_chain<A>(&self, slab: &Slab<A>) -> Chain {
        if let Some(chain) = self.chains.lock().pop() {
            return chain;
        }
        let first = slab.grow(CHAIN);
        for number in first..first + CHAIN {
            // The last one's is never followed: a chain knows its length.
            // SAFETY: the numbers were just given out to this call.
            unsafe { slab.slot(number) }.set_next_free(number + 1);
        }
        Chain {
            head: first,
            len: CHAIN,
        }
    }

    fn put_chain(&self, chain: Chain) {
        if chain.len > 0 {
            self.chains.lock().push(chain);
        }
    }
}

/// What one thread keeps for one timer.
#[derive(Debug)]
pub(crate) struct Cache {
    timer: u64,
    depot: Arc<Depot>,
    counters: Arc<Counters>,
    /// Slots are taken from and given to this one.
    current: Cell<Chain>,
    /// Either empty or full.
    spare: Cell<Chain>,
}

impl Cache {
    fn new(depot: &Arc<Depot>) -> Cache {
        let counters = Arc::new(Counters::default());
        depot.ledger.lock().threads.push(Arc::clone(&counters));
        Cache {
            timer: depot.timer,
            depot: Arc::clone(depot),
            counters,
            current: Cell::new(Chain::EMPTY),
            spare: Cell::new(Chain::EMPTY),
        }
    }

    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a free slot.
    #[inline]
    pub(crate) fn take<A>(&self, slab: &Slab<A>) -> Vacant {
        let mut chain = self.current.replace(Chain::EMPTY);
        if chain.len == 0 {
            chain = self.refill(slab);
        }
        let number = chain.head;
        // SAFETY: numbers on a chain of this timer's were given out by its slab.
        let next = unsafe { slab.slot(number) }.next_free();
        self.current.set(Chain {
            head: next,
            len: chain.len - 1,
        });
        // SAFETY: it was free on this thread's chain, and has just been taken off it.
        unsafe { Vacant::new(number) }
    }

    #[cold]
    fn refill<A>(&self, slab: &Slab<A>) -> Chain {
        let spare = self.spare.replace(Chain::EMPTY);
        if spare.len > 0 {
            spare
        } else {
            self.depot.take_chain(slab)
        }
    }

    /// Frees a slot that the caller has found abandoned.
    ///
    /// # Safety
    /// `slot` is the slot of that number, and the caller has found it abandoned. The timer's memory may be
    /// gone when this returns, and earlier: the caller has no reference to it.
    #[inline]
    pub(crate) unsafe fn put<A>(&self, number: u32, slot: *const Slot<A>) {
        let mut chain = self.current.replace(Chain::EMPTY);
        if chain.len == CHAIN {
            self.depot.put_chain(self.spare.replace(chain));
            chain = Chain::EMPTY;
        }
        // SAFETY: as the caller says.
        unsafe { Slot::free(slot, chain.head) };
        // From here on the timer's memory may be gone: only numbers are touched.
        self.current.set(Chain {
            head: number,
            len: chain.len + 1,
        });
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let this: *const Cache = self;
        let _ = LAST.try_with(|last| {
            if last.get() == this {
                last.set(ptr::null());
            }
        });
        self.depot.put_chain(self.current.replace(Chain::EMPTY));
        self.depot.put_chain(self.spare.replace(Chain::EMPTY));
        let mut ledger = self.depot.ledger.lock();
        ledger
            .threads
            .retain(|counters| !Arc::ptr_eq(counters, &self.counters));
        ledger.ended.scheduled.add(self.counters.scheduled.get());
        ledger.ended.cancelled.add(self.counters.cancelled.get());
        ledger.ended.expired.add(self.counters.expired.get());
    }
}

crate::sync::thread_local! {
    /// The caches of this thread. They stay where they are, and nobody else has a reference.
    static CACHES: RefCell<Vec<Rc<Cache>>> = const { RefCell::new(Vec::new()) };
    /// The one of them that was used last, or null. It has no destructor, so that it is there to the end, and
    /// looking at it takes no check.
    static LAST: Cell<*const Cache> = const { Cell::new(ptr::null()) };
    /// A number for this thread, or `usize::MAX`. Has no destructor either.
    static THREAD_NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// A small number that this thread keeps for life, to choose its lane by.
#[inline]
pub(crate) fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    THREAD_NUMBER.with(|number| {
        if number.get() == usize::MAX {
            // Relaxed: any distinct number will do.
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

/// Gives `use_it` this thread's cache of the timer. It must not run foreign code, nor call this again.
#[inline]
pub(crate) fn with_cache<R>(depot: &Arc<Depot>, use_it: impl FnOnce(&Cache) -> R) -> R {
    // SAFETY: a reference is valid throughout.
    unsafe { with_cache_of(depot, use_it) }
}

/// [`with_cache`] for one who frees a slot: the memory that `depot` points into may go while `use_it` runs.
///
/// # Safety
/// The depot is there when this is called.
#[inline]
pub(crate) unsafe fn with_cache_of<R>(
    depot: *const Arc<Depot>,
    use_it: impl FnOnce(&Cache) -> R,
) -> R {
    let last = LAST.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: it is there, as the caller says, before `use_it` is called; the reference ends here.
    let timer = unsafe { &*depot }.timer;
    // SAFETY: null, or one of this thread's caches: a cache that is dropped takes itself out of `LAST`.
    match unsafe { last.as_ref() } {
        Some(cache) if cache.timer == timer => use_it(cache),
        // SAFETY: as the caller says.
        _ => unsafe { with_another_cache(depot, use_it) },
    }
}

/// # Safety
/// As for [`with_cache_of`].
#[cold]
unsafe fn with_another_cache<R>(depot: *const Arc<Depot>, use_it: impl FnOnce(&Cache) -> R) -> R {
    let found = CACHES.try_with(|caches| {
        // SAFETY: as the caller says; the reference ends before `use_it` is called.
        let cache = find_or_make(&mut caches.borrow_mut(), unsafe { &*depot });
        // Fails only in a model whose thread is ending; then there is none to be found there later.
        let _ = LAST.try_with(|last| last.set(cache));
        cache
    });
    match found {
        // SAFETY: the cache has just been found among this thread's, and only this thread drops it: in
        // the next call of this function, or at its end.
        Ok(cache) => use_it(unsafe { &*cache }),
        // The thread is ending: a cache for this call alone, which its drop settles with the depot.
        // SAFETY: as the caller says; the cache has a count of its own.
        Err(_) => use_it(&Cache::new(unsafe { &*depot })),
    }
}

fn find_or_make(caches: &mut Vec<Rc<Cache>>, depot: &Arc<Depot>) -> *const Cache {
    if let Some(cache) = caches.iter().find(|cache| cache.timer == depot.timer) {
        return Rc::as_ptr(cache);
    }
    caches.retain(|cache| !cache.depot.closed.load(Ordering::Relaxed));
    let cache = Rc::new(Cache::new(depot));
    let place = Rc::as_ptr(&cache);
    caches.push(cache);
    place
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests;

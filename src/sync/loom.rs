//! The loom side of the facade. It makes up for three habits of loom 0.7:
//!
//! - *Sequentially consistent accesses count as acquire and release*: only a fence orders a store
//!   before a later load of something else, and every protocol here that says `SeqCst` relies on
//!   just that. So a `SeqCst` store, and a `SeqCst` exchange that succeeds, is followed by a
//!   `SeqCst` fence. That is what x86 does for them, and more than the language promises: what is not
//!   `SeqCst` is ordered as well. It is tied to the ordering that the source asks for, so that
//!   weakening one there makes the models fail, unless another stands in for it.
//! - *The search remembers one last access of each atomic*: a load by one thread hides that
//!   another has loaded before, and interleavings with that one are never tried. So each load is
//!   preceded by a relaxed exchange on an atomic of its own, which makes loads of the same
//!   atomic depend on each other for the search, and orders nothing for the model.
//! - *A store may be lost to an exchange that has not seen it*: loom leaves open which of the two came last, also for
//!   the exchanges and loads after them, as if an exchange were not one step. So a `SeqCst` store is an exchange,
//!   as it is on x86. What was there before is not looked at.

#![expect(
    dead_code,
    reason = "every atomic has all operations, whichever are in use"
)]

#[cfg(not(hashed_wheel_park))]
mod sleeper;
pub(crate) mod thread;

#[cfg(hashed_wheel_park)]
pub(crate) use super::sleeper::Sleeper;
pub(crate) use loom::cell::UnsafeCell;
pub(crate) use loom::sync::atomic::{Ordering, fence};
#[cfg(not(hashed_wheel_park))]
pub(crate) use sleeper::Sleeper;

use std::fmt;
use std::time::Duration;

/// loom's `thread_local!` does not know constant initializers.
macro_rules! local_keys {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = const $init:block;)*) => {
        loom::thread_local! { $($(#[$attribute])* static $name: $type = $init;)* }
    };
}
pub(crate) use local_keys as thread_local;

macro_rules! read_modify_write {
    ($int:ty: $($operation:ident)*) => {$(
        #[track_caller]
        pub(crate) fn $operation(&self, value: $int, order: Ordering) -> $int {
            let old = self.value.$operation(value, order);
            fence_after(order);
            old
        }
    )*};
}

macro_rules! atomics {
    ($($name:ident: $int:ty),*) => {$(
        pub(crate) struct $name {
            value: loom::sync::atomic::$name,
            loads: loom::sync::atomic::AtomicU8,
        }

        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $int) -> Self {
                Self {
                    value: loom::sync::atomic::$name::new(value),
                    loads: loom::sync::atomic::AtomicU8::new(0),
                }
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $int {
                self.loads.swap(0, Ordering::Relaxed);
                self.value.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $int, order: Ordering) {
                if order == Ordering::SeqCst {
                    self.swap(value, order);
                } else {
                    self.value.store(value, order);
                }
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let result = self.value.compare_exchange(current, new, success, failure);
                if result.is_ok() {
                    fence_after(success);
                }
                result
            }

            /// Never fails for no reason: that would add runs, and no ends.
            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                self.compare_exchange(current, new, success, failure)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut update: impl FnMut($int) -> Option<$int>,
            ) -> Result<$int, $int> {
                let mut value = self.load(fetch);
                while let Some(new) = update(value) {
                    match self.compare_exchange(value, new, set, fetch) {
                        Ok(old) => return Ok(old),
                        Err(now) => value = now,
                    }
                }
                Err(value)
            }

            read_modify_write!($int: swap fetch_add fetch_sub fetch_and fetch_or fetch_max);
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new(0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // Reading the value would be a step of the model.
                f.write_str(stringify!($name))
            }
        }
    )*};
}

atomics!(AtomicU8: u8, AtomicU16: u16, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);

fn fence_after(order: Ordering) {
    if order == Ordering::SeqCst {
        fence(Ordering::SeqCst);
    }
}

/// Time as the models have it: it stands still until a thread sleeps with a limit, and then jumps to
/// the end of that sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instant(Duration);

struct Clock {
    /// Exchanged before time is read and before it goes on, so that the search knows of both.
    reads: loom::sync::atomic::AtomicU8,
    nanos: std::sync::atomic::AtomicU64,
}

loom::lazy_static! {
    static ref CLOCK: Clock = Clock {
        reads: loom::sync::atomic::AtomicU8::new(0),
        nanos: std::sync::atomic::AtomicU64::new(0),
    };
}

impl Instant {
    pub(crate) fn now() -> Instant {
        CLOCK.reads.swap(0, Ordering::Relaxed);
        Instant(Duration::from_nanos(CLOCK.nanos.load(Ordering::Relaxed)))
    }

    pub(crate) fn since_begin(self) -> Duration {
        self.0
    }

    /// The time that has passed in this model, for a test that notes when a call has come back. What
    /// this thread has done up to now is seen by those for whom time goes on: stores do not take
    /// a tick to arrive, though a model would let them.
    pub(crate) fn note() -> Duration {
        CLOCK.reads.swap(0, Ordering::Release);
        Duration::from_nanos(CLOCK.nanos.load(Ordering::Relaxed))
    }
}

/// In place of crossbeam's queue, which loom cannot look into. It makes nothing known to anybody: whoever pops must know by
/// other means that the push has returned. Loom finds the race otherwise. In crossbeam's queue one would wait for the other
/// there.
pub(crate) struct SpscSegQueue<T> {
    places: Box<[UnsafeCell<Option<T>>]>,
    last_push: UnsafeCell<()>,
    last_pop: UnsafeCell<()>,
    pushed: std::sync::atomic::AtomicUsize,
    popped: std::sync::atomic::AtomicUsize,
}

// SAFETY: loom watches the cells.
unsafe impl<T: Send> Sync for SpscSegQueue<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SpscSegQueue<T> {}

/// More than a model pushes.
const PLACES: usize = 8;

impl<T> SpscSegQueue<T> {
    pub(crate) fn new() -> Self {
        SpscSegQueue {
            places: (0..PLACES).map(|_| UnsafeCell::new(None)).collect(),
            last_push: UnsafeCell::new(()),
            last_pop: UnsafeCell::new(()),
            pushed: std::sync::atomic::AtomicUsize::new(0),
            popped: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    #[track_caller]
    pub(crate) fn push(&self, value: T) {
        self.last_push.with_mut(|_| ());
        let place = self.pushed.fetch_add(1, Ordering::Relaxed);
        self.places[place].with_mut(|place| {
            // SAFETY: loom checks that nobody else reads or writes.
            unsafe { *place = Some(value) };
        });
    }

    #[track_caller]
    pub(crate) fn pop(&self) -> Option<T> {
        self.last_pop.with_mut(|_| ());
        let place = self.popped.fetch_add(1, Ordering::Relaxed);
        // SAFETY: loom checks that nobody else reads or writes.
        let value = self.places[place].with_mut(|place| unsafe { (*place).take() });
        assert!(value.is_some(), "empty");
        value
    }
}

/// The same for the queue of a delay queue's due values. Its length is what loom looks into, so that a consumer that must see
/// a push, or the other way round, has to see to that.
pub(crate) struct SegQueue<T> {
    values: std::sync::Mutex<std::collections::VecDeque<T>>,
    len: AtomicUsize,
}

impl<T> SegQueue<T> {
    pub(crate) fn new() -> Self {
        SegQueue {
            values: std::sync::Mutex::default(),
            len: AtomicUsize::new(0),
        }
    }

    #[track_caller]
    pub(crate) fn push(&self, value: T) {
        self.values.lock().unwrap().push_back(value);
        self.len.fetch_add(1, Ordering::Release);
    }

    #[track_caller]
    pub(crate) fn pop(&self) -> Option<T> {
        if self.len() == 0 {
            return None;
        }
        let value = self.values.lock().unwrap().pop_front()?;
        self.len.fetch_sub(1, Ordering::AcqRel);
        Some(value)
    }

    #[track_caller]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    #[track_caller]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

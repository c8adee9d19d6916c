//! The atomics, cells and locks that the protocols are written in: the standard ones, or loom's
//! when the crate is compiled with `--cfg hashed_wheel_loom` to have its interleavings explored. Under Miri,
//! the locks are those of the standard library.

pub(crate) use crossbeam_utils::CachePadded;
#[cfg(not(hashed_wheel_loom))]
pub(crate) use plain::*;

#[cfg(any(miri, hashed_wheel_loom))]
mod lock;
#[cfg(any(miri, hashed_wheel_loom))]
pub(crate) use lock::{Condvar, Mutex};
#[cfg(any(not(hashed_wheel_loom), hashed_wheel_park))]
mod sleeper;

#[cfg(all(test, hashed_wheel_loom))]
#[expect(unsafe_code, reason = "cells that loom watches are shared")]
mod loom;
#[cfg(all(test, hashed_wheel_loom))]
pub(crate) use loom::*;
#[cfg(all(hashed_wheel_loom, not(test)))]
compile_error!("the models are unit tests: cargo test --lib loom");

#[cfg(not(hashed_wheel_loom))]
mod plain {
    pub(crate) use super::sleeper::Sleeper;
    pub(crate) use crossbeam_queue::SegQueue;
    /// For one that pushes and one that pops what it knows to be there.
    pub(crate) use crossbeam_queue::SegQueue as SpscSegQueue;
    #[cfg(not(miri))]
    pub(crate) use parking_lot::{Condvar, Mutex};
    pub(crate) use std::sync::atomic::{
        AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::{thread, thread_local};

    /// `std`'s cell with loom's way of asking for access, so that one source serves both.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        #[inline]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

//! The interface of `parking_lot` over the standard library's locks, for Miri, which does not know the system calls that
//! `parking_lot` makes, and over loom's, for the models. There is no poison: no user code runs under a lock.

#[cfg(hashed_wheel_loom)]
use loom::sync;
use std::ops::{Deref, DerefMut};
#[cfg(not(hashed_wheel_loom))]
use std::sync;
use std::sync::PoisonError;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

/// `None` only inside [`Condvar::wait`].
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(Option<sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    #[cfg(not(hashed_wheel_loom))]
    pub(crate) const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    #[cfg(hashed_wheel_loom)]
    pub(crate) fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("locked")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.0.take().expect("locked");
        guard.0 = Some(self.0.wait(locked).unwrap_or_else(PoisonError::into_inner));
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

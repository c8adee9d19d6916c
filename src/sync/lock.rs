//! The standard library's locks, or loom's for the models, without poison: no user code runs under a lock.

#[cfg(hashed_wheel_loom)]
use loom::sync;
#[cfg(not(hashed_wheel_loom))]
use std::sync;
use std::sync::PoisonError;
use sync::MutexGuard;

#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(sync::Mutex<T>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    /// Waits as long as `waits` returns `true`, which it is asked after each notification.
    #[track_caller]
    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        waits: impl Fn(&T) -> bool,
    ) -> MutexGuard<'a, T> {
        while waits(&guard) {
            guard = self.0.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        guard
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

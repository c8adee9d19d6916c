//! The hook that wakes the caller's loop, on a timer without a thread. A call that schedules a timeout takes no lock for it.
//!
//! Each hook that is set gets a new place in a table, and `latest` names the newest. A place holds a weak reference and is never
//! reused, so the table grows by one with each hook; the hook itself is held until it is replaced or the driver is dropped. A
//! reader that finds the hook gone reads `latest` again, which was changed before.
//!
//! # Calls without a hook
//!
//! If no hook is set when one should be called, the next one is called as soon as it is set. No call is lost or made twice:
//!
//! ```text
//! call                                          set
//! C1  latest names no hook                      S1  latest = the new one
//! C2  missed = true                             S2  missed.swap(false) was true: call it
//! C3  latest names one, and
//!     missed.swap(false) was true: call it
//! ```
//!
//! All are sequentially consistent. If C3 finds no hook, then C2 < C3 < S1 < S2, and S2 finds `missed`. If C3 finds one, S2 may run
//! as well: one of the two swaps reads `true`.

use crate::catch_panic::catch_panic;
use crate::memory::BoxTable;
use crate::sync::{AtomicU8, AtomicU32, Mutex, Ordering};
use std::sync::{Arc, Weak};

/// Called instead of waking a thread.
pub(crate) type Hook = Arc<dyn Fn() + Send + Sync>;

pub(super) struct WakeHook {
    hooks: BoxTable<Weak<dyn Fn() + Send + Sync>>,
    /// One past the index of the newest hook; 0 if there is none.
    latest: AtomicU32,
    /// 1 if a hook should have been called and there was none.
    missed: AtomicU8,
    /// The newest hook. For `set` alone.
    owned: Mutex<Option<Hook>>,
}

impl WakeHook {
    pub(super) fn new() -> WakeHook {
        WakeHook {
            hooks: BoxTable::new(),
            latest: AtomicU32::new(0),
            missed: AtomicU8::new(0),
            owned: Mutex::new(None),
        }
    }

    /// Sets the hook, or removes it. Calls a new one at once if a call was missed. For one thread at a time.
    pub(super) fn set(&self, hook: Option<Hook>) {
        let latest = hook.as_ref().map_or(0, |hook| {
            let index = self.hooks.used();
            self.hooks.get_or_insert(index, || Arc::downgrade(hook));
            index + 1
        });
        self.latest.store(latest, Ordering::SeqCst);
        let old = std::mem::replace(&mut *self.owned.lock(), hook);
        // After `latest` has changed.
        catch_panic("the drop of a wake hook", move || drop(old));
        if latest != 0 {
            self.call_if_missed();
        }
    }

    /// Calls the hook, or notes that there was none.
    pub(super) fn call(&self) {
        if let Some(hook) = self.current() {
            return call(hook);
        }
        self.missed.store(1, Ordering::SeqCst);
        self.call_if_missed();
    }

    /// Forgets a missed call.
    pub(super) fn forget_missed(&self) {
        self.missed.store(0, Ordering::SeqCst);
    }

    fn call_if_missed(&self) {
        if let Some(hook) = self.current() {
            if self.missed.swap(0, Ordering::SeqCst) != 0 {
                call(hook);
            }
        }
    }

    fn current(&self) -> Option<Hook> {
        loop {
            let latest = self.latest.load(Ordering::SeqCst);
            let hook = self.hooks.get(latest.checked_sub(1)?)?.upgrade();
            // If it is gone, it was replaced.
            if hook.is_some() {
                return hook;
            }
        }
    }
}

/// Calls a hook, which is foreign code: no lock is held, and its panic is caught, or that of its drop.
fn call(hook: Hook) {
    catch_panic("the wake hook", move || hook());
}

#[cfg(all(test, not(hashed_wheel_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn counting(calls: &Arc<AtomicUsize>) -> Hook {
        let calls = Arc::clone(calls);
        Arc::new(move || {
            calls.fetch_add(1, Ordering::Relaxed);
        })
    }

    #[test]
    fn a_call_waits_for_no_thread_that_sets_a_hook() {
        let (hook, calls) = (WakeHook::new(), Arc::new(AtomicUsize::new(0)));
        hook.set(Some(counting(&calls)));
        let suspended = hook.owned.lock();
        hook.call();
        hook.forget_missed();
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        drop(suspended);
    }

    #[test]
    fn the_latest_hook_is_called_and_the_others_are_dropped() {
        let hook = WakeHook::new();
        let each: Vec<_> = (0..5).map(|_| Arc::new(AtomicUsize::new(0))).collect();
        hook.call();
        for calls in &each {
            hook.set(Some(counting(calls)));
            hook.call();
        }
        let calls: Vec<_> = each
            .iter()
            .map(|calls| calls.load(Ordering::Relaxed))
            .collect();
        assert_eq!(
            calls,
            [2, 1, 1, 1, 1],
            "the first was told what it has missed"
        );
        let alive: Vec<_> = each
            .iter()
            .map(|calls| Arc::strong_count(calls) - 1)
            .collect();
        assert_eq!(alive, [0, 0, 0, 0, 1]);
        hook.set(None);
        assert_eq!(Arc::strong_count(&each[4]), 1);
        hook.call();
        hook.forget_missed();
        hook.set(Some(counting(&each[0])));
        assert_eq!(each[0].load(Ordering::Relaxed), 2, "forgotten");
    }
}

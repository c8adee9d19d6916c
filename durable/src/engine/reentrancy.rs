//! Which engines the current thread is running a handler for, so that it does not wait for itself.

use std::cell::RefCell;

use super::Engine;

thread_local! {
    /// Addresses of engines; more than one when a handler advances the manual clock of another timer.
    static RUNNING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn address(engine: &Engine) -> usize {
    std::ptr::from_ref(engine).addr()
}

/// Ends with its drop.
pub(super) struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|running| {
            running.pop();
        });
    }
}

/// The current thread runs a handler of this engine until the guard is dropped.
pub(super) fn enter(engine: &Engine) -> Inside {
    RUNNING.with_borrow_mut(|running| running.push(address(engine)));
    Inside
}

pub(super) fn is_handler_of(engine: &Engine) -> bool {
    // A timer may be dropped by the thread's own end, when this is gone already.
    RUNNING
        .try_with(|running| running.borrow().contains(&address(engine)))
        .unwrap_or(false)
}

//! The number of timers in this process.

use crate::tuning::MANY_INSTANCES;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

static INSTANCES: AtomicUsize = AtomicUsize::new(0);

/// Counts a new timer, and logs an error, once, if there are too many.
pub(super) fn begun() {
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    // Relaxed: figures, which order nothing.
    let instances = INSTANCES.fetch_add(1, Ordering::Relaxed) + 1;
    if instances > MANY_INSTANCES && !COMPLAINED.swap(true, Ordering::Relaxed) {
        log::error!(
            "{instances} timers are alive in this process, more than {MANY_INSTANCES}; each has a \
             thread of its own and can hold millions of timeouts, so a few can be shared by all"
        );
    }
}

/// Counts a timer that has been stopped.
pub(super) fn ended() {
    INSTANCES.fetch_sub(1, Ordering::Relaxed);
}

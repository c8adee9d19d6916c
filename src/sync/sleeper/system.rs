//! By the standard library's `park`, on systems whose own call is not used here, under Miri, and with `--cfg hashed_wheel_park`.
//!
//! It keeps less of the promise: a thread that is suspended inside `unpark` may have taken the token and not ended the sleep
//! yet, and no other `unpark` does it then.

use crate::sync::thread::{self, Thread};
use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// See the module above.
pub(crate) struct Sleeper(OnceLock<Thread>);

impl Sleeper {
    pub(crate) fn new() -> Sleeper {
        Sleeper(OnceLock::new())
    }

    /// Names the thread that sleeps: the calling one.
    pub(crate) fn register(&self) {
        self.0.get_or_init(thread::current);
    }

    /// Sleeps while `word` is `value`, for `limit` at most. May return at any time.
    #[expect(clippy::unused_self, reason = "other systems have to be told")]
    pub(crate) fn wait(&self, word: &AtomicU64, value: u64, limit: Option<Duration>) {
        // Relaxed: who changes the word leaves a token as well.
        if word.load(Ordering::Relaxed) != value {
            return;
        }
        match limit {
            None => thread::park(),
            Some(limit) => thread::park_timeout(limit),
        }
    }

    /// Ends a sleep that began before the word was changed.
    pub(crate) fn wake(&self, _word: &AtomicU64) {
        if let Some(thread) = self.0.get() {
            thread.unpark();
        }
    }

    /// The number of calls, for the thread that sleeps.
    #[cfg(hashed_wheel_loom)]
    pub(crate) fn wakes(&self) -> usize {
        self.0.get().map_or(0, Thread::unparks)
    }
}

//! Lets one thread sleep while a word has a value, and others wake it when they have changed the word.
//!
//! Nothing lies between the word and the sleep: a thread that goes to sleep after a change does not sleep, and one that
//! went to sleep before is woken by the next [`Sleeper::wake`], from any thread. So any thread that finds the word changed
//! can wake the sleeper, without relying on the one that changed it.

// Allowed, not expected: only Linux has a call for it.
#[cfg_attr(
    all(
        target_os = "linux",
        target_pointer_width = "64",
        not(any(miri, hashed_wheel_park))
    ),
    path = "sleeper/futex.rs"
)]
#[allow(unsafe_code, reason = "system calls")]
mod system;

pub(crate) use system::Sleeper;

//! Lets one thread sleep while a word has a value, and others wake it when they have changed the word.
//!
//! Nothing lies between the word and the sleep: a thread that goes to sleep after a change does not sleep, and one that
//! went to sleep before is woken by the next [`Sleeper::wake`], from any thread. So any thread that finds the word changed
//! can wake the sleeper, without relying on the one that changed it.

#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(miri, hashed_wheel_park))
))]
#[expect(unsafe_code, reason = "system calls")]
mod futex;
#[cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(miri, hashed_wheel_park))
))]
pub(crate) use futex::Sleeper;

#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(miri, hashed_wheel_park))
)))]
mod park;
#[cfg(not(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(miri, hashed_wheel_park))
)))]
pub(crate) use park::Sleeper;

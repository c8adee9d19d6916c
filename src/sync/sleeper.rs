//! Lets one thread sleep while a word has a value, and others wake it when they have changed the word.
//!
//! Nothing lies between the word and the sleep: who goes to sleep after a change does not sleep, and who has gone to sleep
//! before is woken by the next [`Sleeper::wake`], whoever calls it. So of several threads that find the word changed any can
//! wake the sleeper, and none has to rely on the one that changed it.

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

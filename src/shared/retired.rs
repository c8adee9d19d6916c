//! Retired timers: memory that outlives its timer because handles to its timeouts exist.
//!
//! A [`Timeout`](crate::Timeout) points to its timer's memory without a reference count, which would cost two contended
//! atomic operations per timeout. Its slot takes the place of the count:
//!
//! *While a slot is not free, the owner, the driver or this module holds an `Arc` of the timer's memory.*
//!
//! - The owner holds one while the timer lives, and the thread that runs the driver until the timer has ended. The last
//!   of the two calls [`retire`], which looks through the slots and keeps the `Arc` if one is not free. No slot leaves the
//!   free state any more: a `new_timeout` still under way holds its own `Arc`, finds the timer stopped, and either
//!   takes its slot back or has lost it to the scan of `stop`, which came before.
//! - A thread that frees a slot of a stopped timer calls [`reclaim`]. A cursor in each retired timer rests on the first
//!   group with a slot that is not free and only moves forward, so the call is cheap. When a cursor reaches the end, the
//!   `Arc` is dropped, outside the lock.
//! - The stop may fall between a freeing thread's check of the state and its store. Then that thread does not call `reclaim`,
//!   and the memory is freed by the next call for any timer: later, never too early.
//!
//! A leaked handle (`mem::forget`) leaks its timer's memory, reachable from here.

use super::Shared;
use crate::sync::Mutex;
use std::sync::Arc;

struct Retired {
    shared: Arc<Shared>,
    /// All slots of the groups below are free, and stay so.
    cursor: u32,
}

#[cfg(not(hashed_wheel_loom))]
static RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());
#[cfg(hashed_wheel_loom)]
loom::lazy_static! {
    static ref RETIRED: Mutex<Vec<Retired>> = Mutex::new(Vec::new());
}

impl Retired {
    /// Moves the cursor. Returns `true` if all slots are free.
    fn is_free(&mut self) -> bool {
        let pool = &self.shared.registry.pool;
        while self.cursor < pool.used_groups() {
            let mut claimed = pool.claimed(self.cursor, &self.shared.slots);
            if !claimed.all(|(_, slot)| slot.is_free()) {
                return false;
            }
            self.cursor += 1;
        }
        true
    }
}

/// Takes over the memory of a timer that has ended and whose owner is gone.
pub(crate) fn retire(shared: Arc<Shared>) {
    RETIRED.lock().push(Retired { shared, cursor: 0 });
    reclaim();
}

/// Frees the memory of all retired timers whose slots are free.
#[cold]
pub(crate) fn reclaim() {
    let mut released = Vec::new();
    let mut retired = RETIRED.lock();
    while let Some(place) = retired.iter_mut().position(Retired::is_free) {
        released.push(retired.swap_remove(place));
    }
    drop(retired);
    // Outside the lock: the memory of a timer is large.
    drop(released);
}

#[cfg(test)]
pub(super) mod tests;

//! Who keeps a timer's memory when the timer is gone but handles on its timeouts are not.
//!
//! A [`Timeout`](crate::Timeout) points to its timer's memory without holding a count: that would
//! cost two contended atomic operations a timeout. Instead, its slot is the count:
//!
//! *A slot that is not free implies that the owner, the engine or this module holds an `Arc` of the
//! timer's memory.*
//!
//! - While the timer lives, its owner does; until it has come to its end, so does whoever runs its
//!   engine. The last of the two to leave comes here ([`retire`]) and looks through the slots. If
//!   one is not free, the `Arc` is retired. No slot can leave the free state any more: a
//!   `new_timeout` that is still under way holds its own `Arc`, finds the timer stopped, and either
//!   takes its slot back or has lost it to the scan of `stop`, which came before this one.
//! - Whoever frees a slot of a stopped timer comes here afterwards ([`try_reclaim`]) with nothing but the
//!   timer's number. A cursor rests on the timer's first slot that is not free and only moves on,
//!   so a look is cheap. When it reaches the end, the `Arc` is taken out and dropped, outside the lock.
//! - The stop may fall between a freeing thread's look at the state and its store. Then nobody comes
//!   to look for it, and the memory goes with the next [`retire`] of any timer: later, never too early.
//!
//! A handle that is leaked (`mem::forget`) leaks its timer's memory, reachable from here.

use super::Shared;
use crate::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Retired {
    shared: Arc<Shared>,
    /// All slots below are free for good.
    cursor: u32,
}

#[cfg(not(hashed_wheel_loom))]
static RETIRED: Mutex<BTreeMap<u64, Retired>> = Mutex::new(BTreeMap::new());
#[cfg(hashed_wheel_loom)]
loom::lazy_static! {
    static ref RETIRED: Mutex<BTreeMap<u64, Retired>> = Mutex::new(BTreeMap::new());
}

impl Retired {
    /// Moves the cursor; whether all slots are free.
    fn is_free(&mut self) -> bool {
        let used = self.shared.slab.used();
        while self.cursor < used {
            // SAFETY: the number is below `used`.
            if !unsafe { self.shared.slab.slot(self.cursor) }.is_free() {
                return false;
            }
            self.cursor += 1;
        }
        true
    }
}

/// Takes over the memory of a timer that has come to its end and whose owner is gone.
pub(crate) fn retire(shared: Arc<Shared>) {
    let mut released = Vec::new();
    {
        let mut retired = RETIRED.lock();
        retired.insert(shared.id, Retired { shared, cursor: 0 });
        retired.retain(|_, entry| {
            let free = entry.is_free();
            if free {
                released.push(Arc::clone(&entry.shared));
            }
            !free
        });
    }
    // Here, without the lock: the memory of a timer is large.
    drop(released);
}

/// Gives the memory of a retired timer back if no slot of it is in use any more.
#[cold]
pub(crate) fn try_reclaim(timer: u64) {
    let released = {
        let mut retired = RETIRED.lock();
        match retired.get_mut(&timer).map(Retired::is_free) {
            Some(true) => retired.remove(&timer),
            _ => None,
        }
    };
    drop(released);
}

#[cfg(test)]
mod tests;

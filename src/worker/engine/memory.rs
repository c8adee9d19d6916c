//! Memory that goes back to the system when a burst is over.

use super::Engine;
use crate::shared::Shared;
use crate::tuning::{KEPT_SLOTS, QUIET_NANOS};

/// When the memory of slots that a burst has used goes back to the system.
#[derive(Default)]
pub(super) struct MemoryBack {
    /// When the slots in use were last seen not to be few, on the timer's clock.
    busy_at: u64,
    /// Where a pass over the slots stands.
    at: Option<u32>,
}

impl Engine {
    /// Begins to give memory back if the slots in use have stayed below a quarter of those held for a second, as far as
    /// this thread has seen.
    pub(in crate::worker) fn check_memory(&mut self, shared: &Shared) {
        let (held, now) = (shared.held_slots(), shared.now());
        if held <= KEPT_SLOTS || shared.pending() as usize >= held / 4 {
            self.memory_back.busy_at = now;
        } else if now.saturating_sub(self.memory_back.busy_at) >= QUIET_NANOS {
            self.memory_back.busy_at = now;
            self.memory_back.at.get_or_insert(0);
        }
    }

    /// Gives a few megabytes back, if that is under way. Returns `true` if it was.
    pub(in crate::worker) fn give_memory_back(&mut self, shared: &Shared) -> bool {
        let Some(at) = self.memory_back.at else {
            return false;
        };
        if at == 0 {
            shared.release_free_slots();
            (self.due, self.ready) = (Vec::new(), Vec::new());
        }
        self.memory_back.at = shared.discard_free_slots(at);
        true
    }
}

//! A new period for a periodic timeout. Its task owns the period, and the task is the runner's; so a new one waits here
//! until the end of the next run.

use super::Shared;
use crate::entry::SlotId;
use crate::slots::Phase;
use crate::sync::Mutex;
use crate::time::Period;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(super) struct Periods {
    /// By the number of the slot. One whose timeout has ended stays until the slot is used for another periodic one.
    new: Mutex<Vec<(SlotId, Period)>>,
    is_used: AtomicBool,
}

impl Shared {
    /// Sets the period of a timeout, for the caller of one of its handles. Returns `false` if it is not periodic, or has
    /// ended.
    pub(crate) fn set_period(&self, slot: SlotId, period: Period) -> bool {
        let mut new = self.periods.new.lock();
        let status = self.slot(slot).status();
        let is_alive = matches!(status.phase, Phase::Pending | Phase::Running);
        if !status.periodic || !is_alive {
            return false;
        }
        match new.binary_search_by_key(&slot, |entry| entry.0) {
            Ok(place) => new[place].1 = period,
            Err(place) => new.insert(place, (slot, period)),
        }
        // Relaxed: a run that ends without knowing of this call takes no notice of it.
        self.periods.is_used.store(true, Ordering::Relaxed);
        true
    }

    /// The period that was set since the last call for this slot: at the end of a run, and before a slot is armed with a
    /// periodic task.
    pub(crate) fn take_period(&self, slot: SlotId) -> Option<Period> {
        if !self.periods.is_used.load(Ordering::Relaxed) {
            return None;
        }
        let mut new = self.periods.new.lock();
        let place = new.binary_search_by_key(&slot, |entry| entry.0).ok()?;
        let (_, period) = new.remove(place);
        self.periods
            .is_used
            .store(!new.is_empty(), Ordering::Relaxed);
        Some(period)
    }
}

//! Wall clocks that jump.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use super::interrupted::Kept;
use super::{Notes, Wrapped, eventually, ms};
use crate::error::StoreError;
use crate::store::memory::MemoryStore;
use crate::store::{Call, End};
use crate::time::{SystemWall, WallClock};
use crate::{DurableTimer, Outcome};

const HOUR: i64 = 3_600_000;

/// The system's clock, set wrong by so many milliseconds: for tests of clocks that jump.
#[derive(Default)]
struct ShiftedWall(AtomicI64);

impl WallClock for ShiftedWall {
    fn nanos(&self) -> i128 {
        SystemWall.nanos() + i128::from(self.0.load(Ordering::SeqCst)) * 1_000_000
    }
}

/// A timer whose clock can be set, and what its handler saw: by how many nanoseconds jobs were late.
fn timer() -> (DurableTimer, Arc<ShiftedWall>, Notes<i128>) {
    let wall = Arc::new(ShiftedWall::default());
    let lateness = Notes::new();
    let (notes, clock) = (lateness.clone(), Arc::clone(&wall));
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            let due = i128::from(crate::time::millis_of(job.due())) * 1_000_000;
            notes.add(clock.nanos() - due);
            Outcome::Done
        })
        .open_with(Arc::clone(&wall) as _, |kinds| {
            Box::new(MemoryStore::new(kinds))
        })
        .unwrap();
    (timer, wall, lateness)
}

#[test]
fn a_clock_set_forward_makes_jobs_due() {
    let (timer, wall, lateness) = timer();
    timer.job("mail").after(Duration::from_secs(3600)).unwrap();
    thread::sleep(ms(20));
    assert_eq!(lateness.len(), 0);
    wall.0.store(HOUR, Ordering::SeqCst);
    eventually("the job", || lateness.len() == 1);
    assert!(lateness.take()[0] >= 0);
}

#[test]
fn a_clock_set_back_makes_jobs_wait() {
    let (timer, wall, lateness) = timer();
    timer.job("mail").key("a").after(ms(150)).unwrap();
    wall.0.store(-HOUR, Ordering::SeqCst);
    thread::sleep(ms(400));
    assert_eq!(lateness.len(), 0);
    assert_eq!(timer.pending().unwrap(), 1);
    wall.0.store(0, Ordering::SeqCst);
    eventually("the job", || lateness.len() == 1);
    assert!(lateness.take()[0] >= 0);
}

#[test]
fn a_claim_that_proves_early_is_given_back() {
    let (timer, wall, lateness) = timer();
    // A step that the claim cannot have seen: it is due within 50 ms and claimed at once.
    timer.job("mail").key("a").after(ms(45)).unwrap();
    eventually("the claim", || {
        timer.stats().in_memory == 1 || lateness.len() == 1
    });
    wall.0.store(-HOUR, Ordering::SeqCst);
    eventually("the claim to be given back", || {
        timer.stats().in_memory == 0
    });
    if lateness.len() == 1 {
        // The machine was too slow: it ran before the clock was set.
        assert!(lateness.take()[0] >= 0);
        return;
    }
    // It has its key again, and no attempt is counted.
    eventually("the key", || timer.reschedule("a", ms(60)).unwrap());
    eventually("the job", || lateness.len() == 1);
    assert!(lateness.take()[0] >= 0);
    assert_eq!(timer.stats().retried, 0);
}

/// A store during whose commits the clock is set back by an hour.
struct SetBack(MemoryStore, Arc<ShiftedWall>);

impl Wrapped for SetBack {
    fn inner(&self) -> MemoryStore {
        self.0.clone()
    }

    fn before_commit(&mut self, _: &[Call], _: &[End]) -> Result<(), StoreError> {
        self.1.0.store(-HOUR, Ordering::SeqCst);
        Ok(())
    }
}

#[test]
fn a_clock_set_back_while_a_claim_is_written_does_not_keep_it_claimed() {
    let wall = Arc::new(ShiftedWall::default());
    let inside = Arc::clone(&wall);
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_with(Arc::clone(&wall) as _, move |kinds| {
            Box::new(SetBack(MemoryStore::new(kinds), inside))
        })
        .unwrap();
    // Claimed by the transaction that stores it.
    timer.job("mail").key("a").after(ms(40)).unwrap();
    eventually("the claim to be given back", || {
        timer.reschedule("a", ms(10)).unwrap()
    });
    eventually("the job", || timer.pending().unwrap() == 0);
}

/// The clock is set while the timer is stopped or its process dead.
#[test]
fn a_clock_that_was_set_before_a_restart_makes_nothing_early_and_nothing_late() {
    for claimed in [false, true] {
        for step in [-HOUR, HOUR] {
            let store = Kept::new();
            store.add("job", SystemWall.now() + if claimed { 40 } else { 200 });
            if claimed {
                store.claim_and_die();
            }
            let wall = Arc::new(ShiftedWall::default());
            wall.0.store(step, Ordering::SeqCst);
            let lateness = Notes::new();
            let (notes, clock) = (lateness.clone(), Arc::clone(&wall));
            let timer = DurableTimer::builder()
                .on("mail", move |job| {
                    let due = i128::from(crate::time::millis_of(job.due())) * 1_000_000;
                    notes.add((clock.nanos() - due, job.attempt()));
                    Outcome::Done
                })
                .open_with(Arc::clone(&wall) as _, move |_| Box::new(store))
                .unwrap();
            if step < 0 {
                thread::sleep(ms(400));
                assert_eq!((lateness.len(), timer.pending().unwrap()), (0, 1));
                // Set right again, which is noticed.
                wall.0.store(0, Ordering::SeqCst);
            }
            eventually("the job", || timer.pending().unwrap() == 0);
            let ran = lateness.take();
            assert!(matches!(ran[..], [(0.., 1)]), "{ran:?}");
        }
    }
}

#[test]
fn a_small_step_back_is_waited_for() {
    let (timer, wall, lateness) = timer();
    timer.job("mail").after(ms(40)).unwrap();
    thread::sleep(ms(5));
    wall.0.store(-30, Ordering::SeqCst);
    eventually("the job", || lateness.len() == 1);
    assert!(lateness.take()[0] >= -30_000_000);
    assert_eq!(timer.pending().unwrap(), 0);
}

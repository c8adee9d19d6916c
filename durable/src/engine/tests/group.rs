//! Group commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Wrapped, ms};
use crate::error::StoreError;
use crate::store::memory::MemoryStore;
use crate::store::{Call, End};
use crate::time::SystemWall;
use crate::{DurableTimer, Outcome};

/// A store that takes its time, and notes how many operations a transaction had.
struct Slow {
    store: MemoryStore,
    largest: Arc<AtomicUsize>,
}

impl Wrapped for Slow {
    fn inner(&self) -> MemoryStore {
        self.store.clone()
    }

    fn before_commit(&mut self, calls: &[Call], _: &[End]) -> Result<(), StoreError> {
        self.largest.fetch_max(calls.len(), Ordering::SeqCst);
        thread::sleep(ms(20));
        Ok(())
    }
}

#[test]
fn what_waits_goes_into_one_transaction() {
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    let timer = DurableTimer::builder()
        .open_with(Arc::new(SystemWall), move |kinds| {
            Box::new(Slow {
                store: MemoryStore::new(kinds),
                largest: seen,
            })
        })
        .unwrap();
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..4 {
                    timer.job("mail").after(ms(3_600_000)).unwrap();
                }
            });
        }
    });
    assert_eq!(timer.pending().unwrap(), 64);
    assert!(largest.load(Ordering::SeqCst) >= 4, "{largest:?}");
    assert!(timer.stats().commits < 64, "{}", timer.stats().commits);
}

#[test]
fn a_handler_may_call_every_method_while_the_store_is_slow() {
    let timer = DurableTimer::builder()
        .on("mail", |job| {
            let timer = job.timer();
            timer.job("fax").key("a").after(ms(3_600_000)).unwrap();
            assert!(timer.reschedule("a", ms(7_200_000)).unwrap());
            assert!(timer.cancel("a").unwrap());
            assert_eq!(timer.pending().unwrap(), 1);
            assert!(timer.dead(1).unwrap().is_empty());
            assert!(!timer.revive(1).unwrap() && !timer.discard(1).unwrap());
            assert_eq!(timer.stats().in_memory, 1);
            Outcome::Done
        })
        .threads(1)
        .max_attempts(1)
        .open_with(Arc::new(SystemWall), |kinds| {
            Box::new(Slow {
                store: MemoryStore::new(kinds),
                largest: Arc::default(),
            })
        })
        .unwrap();
    timer.job("mail").after(ms(0)).unwrap();
    super::eventually("the job", || timer.pending().unwrap() == 0);
    assert_eq!(timer.dead(1).unwrap(), []);
}

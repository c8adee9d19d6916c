//! Jobs that were claimed when their process died, and the bounds of claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Notes, eventually, ms};
use crate::error::StoreError;
use crate::store::memory::MemoryStore;
use crate::store::{Committed, Earliest, INTERRUPTED, Judge, Op, Reply, Store, Verdict};
use crate::time::{Millis, SystemWall, WallClock};
use crate::{DurableTimer, Error, Outcome};

/// A store that outlives its timer.
#[derive(Clone)]
pub(super) struct Kept(Arc<parking_lot::Mutex<MemoryStore>>);

impl Kept {
    pub(super) fn new() -> Kept {
        Kept(Arc::new(parking_lot::Mutex::new(MemoryStore::new(&[
            "mail".to_owned(),
        ]))))
    }

    fn one(&self, op: Op) -> Reply {
        self.0.lock().commit(&[op]).unwrap().replies.remove(0)
    }

    pub(super) fn add(&self, payload: &str, due: Millis) {
        self.one(Op::Schedule {
            kind: "mail".to_owned(),
            key: None,
            payload: payload.as_bytes().to_vec(),
            due,
            replace: false,
        });
    }

    /// Claims all that is due, as a process does that then dies.
    pub(super) fn claim_and_die(&self) {
        self.one(Op::Claim {
            until: SystemWall.now() + 50,
            limit: 256,
            bytes: usize::MAX,
        });
    }
}

impl Store for Kept {
    fn recover(&mut self, judge: Judge<'_>) -> Result<usize, StoreError> {
        self.0.lock().recover(judge)
    }

    fn earliest(&mut self) -> Result<Earliest, StoreError> {
        self.0.lock().earliest()
    }

    fn unhandled(&mut self) -> Result<Vec<String>, StoreError> {
        self.0.lock().unhandled()
    }

    fn commit(&mut self, ops: &[Op]) -> Result<Committed, StoreError> {
        self.0.lock().commit(ops)
    }
}

#[test]
fn interrupted_jobs_run_one_at_a_time_with_nothing_beside_them() {
    // Of one alone, the others are only held back while it runs.
    run_beside(1);
    run_beside(20);
}

fn run_beside(interrupted: usize) {
    let store = Kept::new();
    let now = SystemWall.now();
    for number in 0..interrupted {
        store.add(
            &format!("interrupted {number}"),
            now - 1000 + number as Millis,
        );
    }
    store.claim_and_die();
    for number in 0..50 {
        store.add(&format!("waiting {number}"), now - 500 + number);
    }

    let running = Arc::new(AtomicUsize::new(0));
    let notes = Notes::new();
    let (seen, now_running) = (notes.clone(), Arc::clone(&running));
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            let alone = job.payload().starts_with(b"interrupted");
            let beside = now_running.fetch_add(1, Ordering::SeqCst);
            thread::sleep(ms(if alone { 5 } else { 1 }));
            let still = now_running.fetch_sub(1, Ordering::SeqCst);
            seen.add((alone, beside == 0 && still == 1, job.attempt()));
            Outcome::Done
        })
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let notes = notes.take();
    assert_eq!(notes.len(), interrupted + 50);
    assert_eq!(
        notes.iter().filter(|(alone, ..)| *alone).count(),
        interrupted
    );
    for (alone, by_itself, attempt) in notes {
        assert!(
            !alone || by_itself,
            "an interrupted job ran beside another one"
        );
        assert_eq!(attempt, 1, "a bystander was charged");
    }
}

#[test]
fn waiting_jobs_get_their_turn_between_interrupted_ones() {
    let store = Kept::new();
    let now = SystemWall.now();
    for number in 0..10 {
        store.add("interrupted", now - 1000 + number);
    }
    store.claim_and_die();
    store.add("waiting", now - 500);
    let notes = Notes::new();
    let seen = notes.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            seen.add(job.payload().to_vec());
            Outcome::Done
        })
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let place = notes
        .take()
        .iter()
        .position(|payload| payload == b"waiting");
    assert_eq!(place, Some(1));
}

#[test]
fn a_job_that_dies_with_its_process_again_and_again_is_dead_in_the_end() {
    let mut store = Kept::new();
    store.add("poison", SystemWall.now() - 10);
    store.claim_and_die();
    let judge = |_, attempts| {
        if attempts < 3 {
            Verdict::Retry { due: 0, attempts }
        } else {
            Verdict::Dead {
                attempts,
                error: INTERRUPTED.to_owned(),
            }
        }
    };
    for _ in 0..3 {
        store.recover(&judge).unwrap();
        store.one(Op::ClaimAlone {
            until: SystemWall.now(),
        });
    }
    let timer = DurableTimer::builder()
        .on("mail", |_| panic!("it must not run again"))
        .max_attempts(3)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    assert_eq!(timer.pending().unwrap(), 0);
    let dead = timer.dead(10).unwrap();
    assert_eq!(
        (dead[0].attempts, dead[0].last_error.as_str()),
        (3, "interrupted")
    );
    assert_eq!(timer.stats().dead, 1);
}

#[test]
fn a_counted_attempt_that_was_interrupted_waits_for_its_back_off() {
    let mut store = Kept::new();
    store.add("poison", SystemWall.now() - 10);
    store.claim_and_die();
    store
        .recover(&|_, _| unreachable!("nothing is counted yet"))
        .unwrap();
    store.one(Op::ClaimAlone {
        until: SystemWall.now(),
    });
    let runs = Notes::new();
    let seen = runs.clone();
    let before = SystemWall.now();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            seen.add((job.attempt(), SystemWall.now()));
            Outcome::Done
        })
        .backoff(ms(300), ms(300))
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("the second attempt", || timer.pending().unwrap() == 0);
    let (attempt, at) = runs.take()[0];
    assert_eq!(attempt, 2);
    assert!(at >= before + 150, "{at} {before}");
}

#[test]
fn claims_that_have_not_begun_are_given_back_by_stop() {
    let mut store = Kept::new();
    let now = SystemWall.now();
    for _ in 0..30 {
        store.add("job", now - 10);
    }
    let (sender, begun) = std::sync::mpsc::channel();
    let (go, gate) = std::sync::mpsc::channel::<()>();
    let gate = parking_lot::Mutex::new(gate);
    let kept = store.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            sender.send(()).unwrap();
            let _ = gate.lock().recv();
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(kept))
        .unwrap();
    begun.recv().unwrap();
    thread::scope(|scope| {
        let stopping = scope.spawn(|| timer.stop());
        eventually("the stop to begin", || {
            matches!(timer.pending(), Err(Error::Stopped))
        });
        eventually("the claims to be given back", || {
            timer.stats().in_memory == 1
        });
        assert!(!stopping.is_finished());
        go.send(()).unwrap();
        stopping.join().unwrap().unwrap();
    });
    // One is done; the others wait as before, and no claim is left.
    assert_eq!(
        store
            .recover(&|_, _| unreachable!("nothing is claimed"))
            .unwrap(),
        0
    );
    let reply = store.one(Op::Claim {
        until: now,
        limit: 100,
        bytes: usize::MAX,
    });
    let Reply::Claimed { claims, .. } = reply else {
        panic!()
    };
    assert_eq!(claims.len(), 29);
    assert!(
        claims
            .iter()
            .all(|claim| claim.attempt == 1 && !claim.alone)
    );
}

#[test]
fn never_more_than_256_are_claimed_ahead() {
    let store = Kept::new();
    let now = SystemWall.now();
    for number in 0..2000 {
        store.add("job", now - 3000 + number);
    }
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, order) = (Arc::clone(&most), Notes::new());
    let noted = order.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            seen.fetch_max(job.timer().stats().in_memory as usize, Ordering::SeqCst);
            noted.add(crate::time::millis_of(job.due()));
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    // One runs.
    assert!(most.load(Ordering::SeqCst) <= 257, "{most:?}");
    let order = order.take();
    assert_eq!(order.len(), 2000);
    assert!(
        order.is_sorted(),
        "overdue jobs run in the order of their due times"
    );
}

#[test]
fn payloads_in_memory_are_bounded() {
    let store = Kept::new();
    let large = "x".repeat(1 << 20);
    for _ in 0..60 {
        store.add(&large, 0);
    }
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            seen.fetch_max(job.timer().stats().in_memory as usize, Ordering::SeqCst);
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    // 16 MiB ahead, one more that went over, one that runs.
    assert!(most.load(Ordering::SeqCst) <= 18, "{most:?}");
}

#[test]
fn a_kind_without_a_handler_is_not_looked_at() {
    let timer = DurableTimer::builder()
        .on("mail", |_| Outcome::Done)
        .open_with(Arc::new(SystemWall), |kinds| {
            Box::new(MemoryStore::new(kinds))
        })
        .unwrap();
    timer.job("fax").after(Duration::ZERO).unwrap();
    let before = timer.stats();
    thread::sleep(ms(50));
    let after = timer.stats();
    assert_eq!((after.commits, after.fired), (before.commits, 0));
    assert_eq!(timer.pending().unwrap(), 1);
}

/// A store that panics, as an engine may on a damaged file.
struct Panicking(MemoryStore);

impl Store for Panicking {
    fn recover(&mut self, judge: Judge<'_>) -> Result<usize, StoreError> {
        self.0.recover(judge)
    }

    fn earliest(&mut self) -> Result<Earliest, StoreError> {
        self.0.earliest()
    }

    fn unhandled(&mut self) -> Result<Vec<String>, StoreError> {
        self.0.unhandled()
    }

    fn commit(&mut self, _: &[Op]) -> Result<Committed, StoreError> {
        panic!("page 17 makes no sense")
    }
}

#[test]
fn a_store_that_panics_poisons_the_timer() {
    let timer = DurableTimer::builder()
        .open_with(Arc::new(SystemWall), |kinds| {
            Box::new(Panicking(MemoryStore::new(kinds)))
        })
        .unwrap();
    let error = timer.job("mail").after(ms(1)).unwrap_err();
    assert!(
        error.to_string().contains("page 17 makes no sense"),
        "{error}"
    );
    assert!(matches!(
        timer.job("mail").after(ms(1)),
        Err(Error::Poisoned)
    ));
    assert!(matches!(timer.stop(), Err(Error::Poisoned)));
}

//! Jobs that were claimed when their process died, and the bounds of claims.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::{Notes, Wrapped, eventually, ms};
use crate::store::memory::MemoryStore;
use crate::store::{Call, ClaimRequest, Committed, End, Judge, New, Reply, Store};
use crate::time::{Millis, SystemWall, WallClock};
use crate::{DurableTimer, Error, Outcome, StoreError};

/// A store that outlives its timer.
#[derive(Clone)]
pub(super) struct Kept(MemoryStore);

impl Kept {
    pub(super) fn new() -> Kept {
        Kept(MemoryStore::new(&["mail".to_owned()]))
    }

    fn commit(&self, calls: &[Call], claim: &ClaimRequest) -> Committed {
        let mut store = self.0.clone();
        store.commit(calls, &[], claim, Instant::now()).unwrap()
    }

    pub(super) fn add(&self, payload: &str, due: Millis) {
        let new = New {
            kind: "mail".to_owned(),
            key: None,
            payload: payload.as_bytes().to_vec(),
            due,
            replace: false,
            rule: None,
        };
        let claim = ClaimRequest {
            room: vec![0],
            ..ClaimRequest::default()
        };
        self.commit(&[Call::Schedule(vec![new])], &claim);
    }

    fn claim(&self, limit: usize, suspect: bool) -> Committed {
        let now = SystemWall.now();
        let claim = ClaimRequest {
            now,
            until: now + 50,
            limit,
            bytes: usize::MAX,
            suspect: suspect.then_some(now),
            room: vec![usize::MAX],
        };
        self.commit(&[], &claim)
    }

    /// Claims all that is due, as a process does that then dies.
    pub(super) fn claim_and_die(&self) {
        self.claim(1000, false);
    }

    fn recover(&self, judge: Judge<'_>) -> usize {
        self.0.clone().recover(judge, 0).unwrap().found
    }
}

impl Wrapped for Kept {
    fn inner(&self) -> MemoryStore {
        self.0.clone()
    }
}

#[test]
fn suspects_run_one_at_a_time_while_everything_else_goes_on() {
    let store = Kept::new();
    let now = SystemWall.now();
    for number in 0..20 {
        store.add("suspect", now - 1000 + number);
    }
    store.claim_and_die();
    for number in 0..50 {
        store.add("waiting", now - 500 + number);
    }
    let running = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let notes = Notes::new();
    let (seen, now_running) = (notes.clone(), Arc::clone(&running));
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            let suspect = job.payload() == b"suspect";
            let beside = &now_running[usize::from(!suspect)];
            let same = now_running[usize::from(suspect)].fetch_add(1, Ordering::SeqCst);
            thread::sleep(ms(5));
            seen.add((suspect, same, beside.load(Ordering::SeqCst), job.attempt()));
            now_running[usize::from(suspect)].fetch_sub(1, Ordering::SeqCst);
            Outcome::Done
        })
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    let notes = notes.take();
    assert_eq!(notes.len(), 70);
    let suspects: Vec<_> = notes.iter().filter(|(suspect, ..)| *suspect).collect();
    assert_eq!(suspects.len(), 20);
    assert!(
        suspects.iter().all(|(_, same, ..)| *same == 0),
        "two suspects at a time"
    );
    assert!(
        suspects.iter().any(|(_, _, beside, _)| *beside > 0),
        "others waited"
    );
    assert!(
        notes.iter().all(|(.., attempt)| *attempt == 1),
        "a bystander was charged"
    );
}

#[test]
fn a_long_suspect_delays_nobody() {
    let store = Kept::new();
    store.add("suspect", SystemWall.now() - 1000);
    store.claim_and_die();
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = parking_lot::Mutex::new(hold);
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            if job.payload() == b"suspect" {
                let _ = hold.lock().recv();
            }
            Outcome::Done
        })
        .threads(2)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("the suspect", || timer.stats().fired == 1);
    for round in 1..=20 {
        timer.job("mail").after(ms(1)).unwrap();
        eventually("the others", || timer.stats().fired == 1 + round);
    }
    let_go.send(()).unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
}

#[test]
fn a_job_that_dies_with_its_process_again_and_again_is_dead_in_the_end() {
    let store = Kept::new();
    store.add("poison", SystemWall.now() - 10);
    store.claim_and_die();
    for _ in 0..3 {
        store.recover(&|_, _, attempts| (attempts < 3).then_some(0));
        assert_eq!(store.claim(0, true).claims.len(), 1);
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
    let store = Kept::new();
    store.add("poison", SystemWall.now() - 10);
    store.claim_and_die();
    store.recover(&|_, _, _| None);
    assert_eq!(store.claim(0, true).claims.len(), 1);
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
    let store = Kept::new();
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
    assert_eq!(store.recover(&|_, _, _| None), 0);
    let claims = store.claim(100, false).claims;
    assert_eq!(claims.len(), 29);
    assert!(claims.iter().all(|claim| claim.attempt == 1));
}

#[test]
fn no_more_are_claimed_than_find_a_thread() {
    let store = Kept::new();
    let now = SystemWall.now();
    for number in 0..200 {
        store.add("job", now - 3000 + number);
    }
    let most = Arc::new(AtomicUsize::new(0));
    let (seen, order) = (Arc::clone(&most), Notes::new());
    let noted = order.clone();
    let timer = DurableTimer::builder()
        .on("mail", move |job| {
            seen.fetch_max(job.timer().stats().in_memory as usize, Ordering::SeqCst);
            noted.add(crate::time::millis_of(job.due()));
            thread::sleep(ms(10));
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    eventually("some jobs", || timer.stats().fired == 20);
    // One runs; not many more than five end in 50 ms.
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
    timer.stop().unwrap();
    assert!(
        order.take().is_sorted(),
        "overdue jobs run in the order of their due times"
    );
}

#[test]
fn a_claim_that_finds_no_thread_is_given_back_and_can_be_cancelled() {
    let store = Kept::new();
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = parking_lot::Mutex::new(hold);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            let _ = hold.lock().recv();
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    for key in ["a", "b"] {
        timer.job("mail").key(key).after(ms(20)).unwrap();
    }
    eventually("the first", || timer.stats().fired == 1);
    // The other one was claimed with it, and the thread is busy.
    eventually("the other to be given back", || {
        timer.cancel("a").unwrap() || timer.cancel("b").unwrap()
    });
    let_go.send(()).unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    assert_eq!(timer.stats().fired, 1);
}

#[test]
fn a_claim_that_finds_no_thread_is_given_back_though_nobody_calls() {
    let store = Kept::new();
    let other_process = store.clone();
    let (let_go, hold) = std::sync::mpsc::channel::<()>();
    let hold = parking_lot::Mutex::new(hold);
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            let _ = hold.lock().recv_timeout(ms(90_000));
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| Box::new(store))
        .unwrap();
    // Claimed together, and parked until then.
    let due = SystemTime::now() + ms(40);
    let jobs = ["a", "b"].map(|key| timer.job("mail").key(key).due_at(due));
    timer.schedule_all(jobs).unwrap();
    let none = ClaimRequest {
        room: vec![0],
        ..ClaimRequest::default()
    };
    eventually("the first", || timer.stats().fired == 1);
    let cancel = ["a", "b"].map(|key| Call::Cancel {
        key: key.to_owned(),
    });
    eventually("the other to be given back", || {
        let replies = other_process.commit(&cancel, &none).replies;
        replies.contains(&Reply::Count(1))
    });
    let_go.send(()).unwrap();
    eventually("all jobs", || timer.pending().unwrap() == 0);
    assert_eq!(timer.stats().fired, 1);
}

/// A store whose commits of schedules wait until they are let go.
struct Held(Kept, std::sync::mpsc::Receiver<()>);

impl Wrapped for Held {
    fn inner(&self) -> MemoryStore {
        self.0.inner()
    }

    fn before_commit(&mut self, calls: &[Call], _: &[End]) -> Result<(), StoreError> {
        for call in calls {
            if matches!(call, Call::Schedule(_)) {
                self.1.recv().unwrap();
            }
        }
        Ok(())
    }
}

#[test]
fn what_has_waited_for_a_thread_for_too_long_does_not_begin_during_a_commit() {
    let (finish, hold) = std::sync::mpsc::channel::<()>();
    let hold = parking_lot::Mutex::new(hold);
    let (let_go, commits) = std::sync::mpsc::channel::<()>();
    let timer = DurableTimer::builder()
        .on("mail", move |_| {
            let _ = hold.lock().recv();
            Outcome::Done
        })
        .threads(1)
        .open_with(Arc::new(SystemWall), move |_| {
            Box::new(Held(Kept::new(), commits))
        })
        .unwrap();
    let_go.send(()).unwrap();
    let now = SystemTime::now();
    let jobs = ["a", "b"].map(|key| timer.job("mail").key(key).due_at(now));
    timer.schedule_all(jobs).unwrap();
    eventually("the first", || timer.stats().fired == 1);
    // The store thread is in a commit from now on.
    let far = crate::time::NEVER;
    let new = New {
        kind: "mail".to_owned(),
        key: None,
        payload: Vec::new(),
        due: far,
        replace: false,
        rule: None,
    };
    timer.engine.ask(Call::Schedule(vec![new]), Box::new(drop));
    thread::sleep(ms(60));
    finish.send(()).unwrap();
    thread::sleep(ms(20));
    let (sender, cancelled) = std::sync::mpsc::channel();
    for key in ["a", "b"] {
        let sender = sender.clone();
        let answer = move |reply| sender.send(reply).unwrap();
        let cancel = Call::Cancel {
            key: key.to_owned(),
        };
        timer.engine.ask(cancel, Box::new(answer));
    }
    let_go.send(()).unwrap();
    let replies: Vec<_> = (0..2).map(|_| cancelled.recv().unwrap().unwrap()).collect();
    drop(finish);
    assert!(replies.contains(&Reply::Count(1)), "{replies:?}");
    assert_eq!(timer.stats().fired, 1);
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

impl Wrapped for Panicking {
    fn inner(&self) -> MemoryStore {
        self.0.clone()
    }

    fn before_commit(&mut self, _: &[Call], _: &[End]) -> Result<(), StoreError> {
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
    // It is opened again and again, and panics again and again.
    let mut errors = [0, 0];
    for _ in 0..100 {
        match timer.job("mail").after(ms(1)) {
            Err(Error::Poisoned { cause }) => {
                assert!(cause.to_string().contains("page 17"), "{cause}");
                errors[0] += 1;
            }
            Err(Error::Store(_)) => errors[1] += 1,
            other => panic!("{other:?}"),
        }
        thread::sleep(ms(5));
    }
    assert!(errors[0] > 50 && errors[1] < 20, "{errors:?}");
}

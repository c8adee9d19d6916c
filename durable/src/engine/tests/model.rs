//! Random calls against a naive model, on the manual clock, over both stores, with restarts.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use hashed_wheel::ManualClock;

use super::{Notes, ms};
use crate::job::{Job, Outcome, Scheduled};
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::{DurableTimer, DurableTimerBuilder};

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// What a handler does, by the first byte of the payload.
const DONE: u8 = 0;
const RETRY_TWICE: u8 = 1;
const DIE: u8 = 2;
/// Schedules another one under its own key.
const SUCCEED: u8 = 3;
/// The same, and wants to run again itself.
const SUCCEED_AND_RETRY: u8 = 4;

/// A run: when, payload, attempt, key, kind.
type Run = (u64, Vec<u8>, u32, Option<String>, String);

fn handle(job: &Job, clock: &ManualClock, runs: &Notes<Run>) -> Outcome {
    let payload = job.payload().to_vec();
    runs.add((
        clock.now().as_millis() as u64,
        payload.clone(),
        job.attempt(),
        job.key().map(str::to_owned),
        job.kind().to_owned(),
    ));
    let succeed = || {
        let mut child = payload.clone();
        child[0] = DONE;
        let new = job.timer().job(job.kind()).payload(child);
        let new = match job.key() {
            Some(key) => new.key(key),
            None => new,
        };
        new.after(ms(3)).unwrap();
    };
    match payload[0] {
        RETRY_TWICE if job.attempt() < 3 => Outcome::RetryAfter(ms(5)),
        DIE => Outcome::Dead("it wants to".to_owned()),
        SUCCEED => {
            succeed();
            Outcome::Done
        }
        SUCCEED_AND_RETRY if job.attempt() == 1 => {
            succeed();
            Outcome::RetryAfter(ms(7))
        }
        _ => Outcome::Done,
    }
}

fn builder(clock: &ManualClock, runs: &Notes<Run>) -> DurableTimerBuilder {
    let mut builder = DurableTimer::builder();
    for kind in ["mail", "call"] {
        let (clock, runs) = (clock.clone(), runs.clone());
        builder = builder.on(kind, move |job| handle(job, &clock, &runs));
    }
    builder
}

#[derive(Debug, Clone)]
struct Waiting {
    id: u64,
    kind: String,
    key: Option<String>,
    payload: Vec<u8>,
    due: u64,
    attempts: u32,
}

#[derive(Default)]
struct Model {
    now: u64,
    last: u64,
    waiting: Vec<Waiting>,
    dead: usize,
    runs: Vec<Run>,
}

impl Model {
    fn holder(&mut self, key: &str) -> Option<&mut Waiting> {
        self.waiting
            .iter_mut()
            .find(|job| job.key.as_deref() == Some(key))
    }

    fn schedule(
        &mut self,
        kind: &str,
        key: Option<&str>,
        payload: &[u8],
        due: u64,
        replace: bool,
    ) -> &'static str {
        let mut new = Waiting {
            id: self.last + 1,
            kind: kind.to_owned(),
            key: key.map(str::to_owned),
            payload: payload.to_vec(),
            due,
            attempts: 0,
        };
        match key.and_then(|key| self.holder(key)) {
            Some(_) if !replace => "kept",
            Some(old) => {
                new.id = old.id;
                *old = new;
                "replaced"
            }
            None => {
                self.last += 1;
                self.waiting.push(new);
                "new"
            }
        }
    }

    fn advance(&mut self, by: u64) {
        let end = self.now + by;
        loop {
            let next = self
                .waiting
                .iter()
                .filter(|job| job.kind != "fax")
                .map(|job| job.due)
                .min();
            match next {
                // What is due now has to wait for the next tick: time stands still.
                Some(due) if due.max(self.now) <= end && by > 0 => {
                    self.now = self.now.max(due);
                }
                _ => break,
            }
            let now = self.now;
            let (mut batch, rest): (Vec<_>, Vec<_>) = self
                .waiting
                .drain(..)
                .partition(|job| job.kind != "fax" && job.due <= now);
            self.waiting = rest;
            batch.sort_by_key(|job| (job.due, job.id));
            for job in batch {
                self.run(job);
            }
        }
        self.now = end;
    }

    fn run(&mut self, mut job: Waiting) {
        job.attempts += 1;
        self.runs.push((
            self.now,
            job.payload.clone(),
            job.attempts,
            job.key.clone(),
            job.kind.clone(),
        ));
        let (what, now) = (job.payload[0], self.now);
        if what == SUCCEED || (what == SUCCEED_AND_RETRY && job.attempts == 1) {
            let mut child = job.payload.clone();
            child[0] = DONE;
            self.schedule(
                &job.kind.clone(),
                job.key.as_deref(),
                &child,
                now + 3,
                false,
            );
        }
        let again = match what {
            RETRY_TWICE if job.attempts < 3 => 5,
            SUCCEED_AND_RETRY if job.attempts == 1 => 7,
            DIE => {
                self.dead += 1;
                return;
            }
            _ => return,
        };
        job.due = now + again;
        if job
            .key
            .clone()
            .is_some_and(|key| self.holder(&key).is_some())
        {
            job.key = None;
        }
        self.waiting.push(job);
    }
}

/// A store in memory, or in a file that is opened again and again.
enum Place {
    Memory,
    File(PathBuf),
}

fn open(place: &Place, clock: &ManualClock, runs: &Notes<Run>) -> DurableTimer {
    let builder = builder(clock, runs);
    match place {
        Place::Memory => builder
            .open_manual(clock, Duration::ZERO, |kinds| {
                Box::new(MemoryStore::new(kinds))
            })
            .unwrap(),
        Place::File(path) => builder
            .open_manual(clock, Duration::ZERO, |kinds| {
                Box::new(RedbStore::open(path, kinds, false).unwrap())
            })
            .unwrap(),
    }
}

fn check(place: &Place, seed: u64, steps: u64) {
    let mut random = Random(seed);
    let clock = ManualClock::new();
    let runs = Notes::new();
    let mut timer = open(place, &clock, &runs);
    let mut model = Model::default();
    for step in 0..steps {
        let key = format!("k{}", random.below(8));
        // Not at once: that waits for the next tick.
        let delay = 1 + random.below(40);
        let context = format!("seed {seed}, step {step}");
        match random.below(12) {
            0..=4 => {
                let kind = ["mail", "call", "fax"][random.below(3) as usize];
                let key = (random.below(3) > 0).then_some(key.as_str());
                let replace = random.below(2) == 0;
                let payload = [random.below(5) as u8, step as u8, (step >> 8) as u8];
                let new = timer.job(kind).payload(payload);
                let new = if let Some(key) = key {
                    new.key(key)
                } else {
                    new
                };
                let new = if replace { new.replace() } else { new };
                let answer = match new.after(ms(delay)).unwrap() {
                    Scheduled::New(_) => "new",
                    Scheduled::Kept(_) => "kept",
                    Scheduled::Replaced(_) => "replaced",
                };
                let expected = model.schedule(kind, key, &payload, model.now + delay, replace);
                assert_eq!(answer, expected, "{context}");
            }
            5 | 6 => {
                let answer = timer.reschedule(&key, ms(delay)).unwrap();
                let due = model.now + delay;
                let expected = model.holder(&key).map(|job| job.due = due).is_some();
                assert_eq!(answer, expected, "{context}");
            }
            7 => {
                let answer = timer.cancel(&key).unwrap();
                let expected = model.holder(&key).is_some();
                model
                    .waiting
                    .retain(|job| job.key.as_deref() != Some(key.as_str()));
                assert_eq!(answer, expected, "{context}");
            }
            8 if step % 3 == 0 && matches!(place, Place::File(_)) => {
                timer.stop().unwrap();
                timer = open(place, &clock, &runs);
            }
            _ => {
                let by = random.below(15);
                clock.advance(ms(by));
                model.advance(by);
                assert_eq!(runs.take(), std::mem::take(&mut model.runs), "{context}");
                assert_eq!(
                    timer.pending().unwrap(),
                    model.waiting.len() as u64,
                    "{context}"
                );
                assert_eq!(timer.dead(10_000).unwrap().len(), model.dead, "{context}");
            }
        }
    }
}

#[test]
fn random_calls_on_the_memory_store() {
    let cases = std::env::var("HASHED_WHEEL_CASES").map_or(100, |cases| cases.parse().unwrap());
    for seed in 0..cases {
        check(&Place::Memory, seed, 400);
    }
}

#[test]
fn random_calls_on_a_file_with_restarts() {
    for seed in 0..2 {
        let folder =
            std::env::temp_dir().join(format!("durable-model-{}-{seed}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        check(&Place::File(folder.join("store.redb")), seed, 100);
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Claimed 50 ms ahead, jobs still run at their time and once; a call in between has one winner.
#[test]
fn claims_ahead_of_time_change_no_times() {
    let mut refused = 0;
    for seed in 0..100 {
        let mut random = Random(seed);
        let clock = ManualClock::new();
        let runs = Notes::new();
        let timer = builder(&clock, &runs)
            .open_manual(&clock, ms(50), |kinds| Box::new(MemoryStore::new(kinds)))
            .unwrap();
        // Due times by number; none for what was cancelled.
        let mut expected: Vec<Option<u64>> = Vec::new();
        for _ in 0..300 {
            let now = clock.now().as_millis() as u64;
            let delay = 1 + random.below(150);
            let number = random.below(expected.len().max(1) as u64) as usize;
            match random.below(4) {
                0 if !expected.is_empty() => {
                    let moved = timer.reschedule(format!("{number}"), ms(delay)).unwrap();
                    match expected[number] {
                        Some(due) if moved => {
                            assert!(due > now, "seed {seed}: moved after it was due");
                            expected[number] = Some(now + delay);
                        }
                        Some(due) => refused += u32::from(due > now),
                        None => assert!(!moved),
                    }
                }
                1 if !expected.is_empty() => {
                    if timer.cancel(format!("{number}")).unwrap() {
                        assert!(expected[number].take().is_some_and(|due| due > now));
                    }
                }
                2 => {
                    let number = expected.len();
                    let payload = [DONE, number as u8, (number >> 8) as u8];
                    timer
                        .job("mail")
                        .key(format!("{number}"))
                        .payload(payload)
                        .after(ms(delay))
                        .unwrap();
                    expected.push(Some(now + delay));
                }
                _ => clock.advance(ms(random.below(30))),
            }
        }
        clock.advance(ms(1000));
        assert_eq!(timer.pending().unwrap(), 0);
        let mut ran: Vec<Option<u64>> = vec![None; expected.len()];
        for (now, payload, ..) in runs.take() {
            let number = usize::from(payload[1]) + (usize::from(payload[2]) << 8);
            assert_eq!(
                ran[number].replace(now),
                None,
                "seed {seed}: job {number} ran twice"
            );
        }
        assert_eq!(ran, expected, "seed {seed}");
    }
    assert!(refused > 0, "no job was met between its claim and its time");
}

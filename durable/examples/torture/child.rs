//! The process that is killed.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{env, process, thread};

use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Job, Outcome, Scheduled};

use crate::Random;
use crate::journal::{Event, Journal, micros};

/// Set for a child: `work`, `finish` or `poison`.
pub(crate) const ROLE: &str = "TORTURE_ROLE";

/// The attempts that a job has in a round with one that aborts the process.
pub(crate) const POISON_ATTEMPTS: u32 = 3;

/// The number of the job that aborts the process.
pub(crate) const POISON_JOB: u64 = 100;

/// Threads that call the timer.
const CALLERS: u64 = 4;

pub(crate) fn variable(name: &str) -> Result<u64, Box<dyn Error>> {
    Ok(env::var(name)?.parse()?)
}

pub(crate) fn number(job: &Job) -> u64 {
    job.payload()
        .try_into()
        .map_or(u64::MAX, u64::from_le_bytes)
}

pub(crate) fn run(role: &str) -> Result<(), Box<dyn Error>> {
    let store = PathBuf::from(env::var("TORTURE_STORE")?);
    let incarnation = variable("TORTURE_INCARNATION")?;
    let seed = variable("TORTURE_SEED")?;
    let path = PathBuf::from(format!("{}.journal", store.display()));
    let journal = Arc::new(Journal::open(&path)?);
    let poisoned = |builder: DurableTimerBuilder| builder.open(&store);
    match role {
        "poison" => poison(store.exists(), seed, &journal, poisoned),
        _ => work(&store, incarnation, seed, &journal, role == "finish"),
    }
}

fn begin(journal: &Journal, job: &Job) -> u64 {
    let number = number(job);
    journal.write(&Event::Run {
        job: number,
        attempt: job.attempt(),
        now: micros(SystemTime::now()),
        due: micros(job.due()),
        token: job.token(),
    });
    number
}

/// The handler: some jobs take a while, some ask for a retry.
pub(crate) fn handle(journal: &Journal, job: &Job) -> Outcome {
    let number = begin(journal, job);
    let token = job.token();
    if number.is_multiple_of(5) {
        thread::sleep(Duration::from_micros(number % 4000));
    }
    if number.is_multiple_of(7) && job.attempt() == 1 {
        journal.write(&Event::Retry { job: number, token });
        return Outcome::Retry;
    }
    journal.write(&Event::Done { job: number, token });
    Outcome::Done
}

fn work(
    store: &PathBuf,
    incarnation: u64,
    seed: u64,
    journal: &Arc<Journal>,
    finish: bool,
) -> Result<(), Box<dyn Error>> {
    journal.write(&Event::Begin { incarnation });
    let log = Arc::clone(journal);
    let timer = DurableTimer::builder()
        .on("job", move |job| handle(&log, job))
        .backoff(Duration::from_millis(4), Duration::from_millis(30))
        // A kill while it runs alone counts as an attempt, and there are thousands.
        .max_attempts(1000)
        .open(store)?;
    journal.write(&Event::Opened);
    if finish {
        return empty(&timer, journal);
    }
    print!("!");
    io::stdout().flush()?;
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let timer = &timer;
            scope.spawn(move || {
                let random = Random(seed ^ caller);
                call(timer, journal, incarnation * CALLERS + caller, random);
            });
        }
    });
    Ok(())
}

/// Calls the timer until the process is killed.
fn call(timer: &DurableTimer, journal: &Journal, caller: u64, mut random: Random) {
    let mut mine: Vec<u64> = Vec::new();
    for count in 0.. {
        let job = caller << 24 | count;
        let due = SystemTime::now() + Duration::from_micros(random.below(70_000));
        let chosen = (!mine.is_empty()).then(|| mine[random.below(mine.len() as u64) as usize]);
        match (random.below(10), chosen) {
            (0, Some(job)) => {
                journal.write(&Event::Cancel { job });
                let done = timer.cancel(key(job)).expect("it can be cancelled");
                let now = micros(SystemTime::now());
                journal.write(&Event::Cancelled { job, done, now });
                mine.retain(|&other| other != job);
            }
            (1 | 2, Some(job)) => {
                journal.write(&Event::Move {
                    job,
                    due: micros(due),
                });
                let done = timer.reschedule_at(key(job), due).expect("it can be moved");
                journal.write(&Event::Moved { job, done });
            }
            (3, Some(old)) => {
                journal.write(&Event::Replace {
                    job,
                    old,
                    due: micros(due),
                });
                let scheduled = timer
                    .job("job")
                    .key(key(old))
                    .payload(job.to_le_bytes())
                    .replace()
                    .at(due)
                    .expect("it can be replaced");
                journal.write(&Event::Replaced {
                    job,
                    old,
                    new: scheduled == Scheduled::New,
                });
                // Its key is not its number: it is left alone from now on.
                mine.retain(|&other| other != old);
            }
            _ => {
                journal.write(&Event::Schedule {
                    job,
                    due: micros(due),
                });
                let new = timer.job("job").key(key(job)).payload(job.to_le_bytes());
                assert_eq!(new.at(due).expect("it can be scheduled"), Scheduled::New);
                journal.write(&Event::Scheduled { job });
                mine.push(job);
            }
        }
    }
}

pub(crate) fn key(job: u64) -> String {
    format!("job:{job}")
}

/// Waits until all jobs are done, and tells what is dead.
pub(crate) fn empty(timer: &DurableTimer, journal: &Journal) -> Result<(), Box<dyn Error>> {
    while timer.pending()? > 0 {
        thread::sleep(Duration::from_millis(2));
    }
    for dead in timer.dead(1000)? {
        let job = dead
            .payload
            .as_slice()
            .try_into()
            .map_or(u64::MAX, u64::from_le_bytes);
        journal.write(&Event::Dead {
            job,
            attempts: dead.attempts,
        });
    }
    journal.write(&Event::Empty);
    timer.stop()?;
    Ok(())
}

/// A hundred good jobs and one that aborts the process, due at the same moment or a millisecond before. Started again after each abort.
pub(crate) fn poison(
    again: bool,
    seed: u64,
    journal: &Arc<Journal>,
    open: impl FnOnce(DurableTimerBuilder) -> Result<DurableTimer, hashed_wheel_durable::Error>,
) -> Result<(), Box<dyn Error>> {
    let log = Arc::clone(journal);
    let builder = DurableTimer::builder()
        .on("job", move |job| {
            let number = begin(&log, job);
            if number == POISON_JOB {
                process::abort();
            }
            thread::sleep(Duration::from_micros(200));
            let token = job.token();
            log.write(&Event::Done { job: number, token });
            Outcome::Done
        })
        .backoff(Duration::from_millis(1), Duration::from_millis(4))
        .max_attempts(POISON_ATTEMPTS);
    let timer = open(builder)?;
    if !again {
        // Far enough ahead that all are stored before the first is claimed, usually.
        let due = SystemTime::now() + Duration::from_millis(250);
        let mut random = Random(seed);
        let place = random.below(POISON_JOB + 1);
        // In every second round the one that aborts is the first to run: nothing is written between the claim and its handler, so what the claim has
        // left in the store is all that the next process finds.
        let first = Duration::from_millis(random.below(2));
        thread::scope(|scope| {
            for turn in 0..=POISON_JOB {
                let timer = &timer;
                scope.spawn(move || {
                    // The others have the same time; the ids decide their order.
                    let job = match turn {
                        turn if turn == place => POISON_JOB,
                        POISON_JOB => place,
                        turn => turn,
                    };
                    let new = timer.job("job").payload(job.to_le_bytes());
                    let due = if job == POISON_JOB { due - first } else { due };
                    new.at(due).expect("it can be scheduled");
                    journal.write(&Event::Scheduled { job });
                });
            }
        });
        journal.write(&Event::Opened);
    }
    empty(&timer, journal)
}

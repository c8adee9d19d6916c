//! The process that is killed.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{env, process, thread};

use hashed_wheel_durable::{DurableTimer, DurableTimerBuilder, Job, Outcome, Scheduled};

use crate::journal::{Event, Journal, micros};
use crate::{Random, disk};

/// Set for a child: `work`, `finish`, `poison`, `full`, `fill`, `flipped` or `verified`.
pub(crate) const ROLE: &str = "TORTURE_ROLE";

/// The attempts that a job has in a round with one that aborts the process.
pub(crate) const POISON_ATTEMPTS: u32 = 3;

/// The number of the job that aborts the process.
pub(crate) const POISON_JOB: u64 = 100;

/// The kind and the key of the recurring job, its number, and its period. A run of it has the number and the microseconds of its time.
const RECURRING: &str = "recurring";
pub(crate) const SLOTS: u64 = 1 << 60;
pub(crate) const PERIOD: Duration = Duration::from_millis(7);

/// Threads that call the timer.
const CALLERS: u64 = 4;

pub(crate) fn variable(name: &str) -> Result<u64, Box<dyn Error>> {
    Ok(env::var(name)?.parse()?)
}

pub(crate) fn number(job: &Job) -> u64 {
    if job.kind() == RECURRING {
        return SLOTS + micros(job.due()) as u64;
    }
    let number = job.payload().first_chunk();
    number.map_or(u64::MAX >> 1, |&number| u64::from_le_bytes(number))
}

pub(crate) fn run(role: &str) -> Result<(), Box<dyn Error>> {
    let store = PathBuf::from(env::var("TORTURE_STORE")?);
    let incarnation = variable("TORTURE_INCARNATION")?;
    let seed = variable("TORTURE_SEED")?;
    let path = PathBuf::from(format!("{}.journal", store.display()));
    let journal = Arc::new(match role {
        "full" => Journal::stdout()?,
        _ => Journal::open(&path)?,
    });
    let poisoned = |builder: DurableTimerBuilder| builder.open(&store);
    match role {
        "poison" => poison(store.exists(), seed, &journal, poisoned),
        "full" => disk::full(&store, &journal),
        "fill" => disk::fill(&store, &journal),
        "flipped" | "verified" => disk::flipped(&store, role == "verified", &journal),
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

/// The handler: it takes `time`, some jobs a bit longer, and some ask for a retry.
pub(crate) fn handle(journal: &Journal, job: &Job, time: Duration) -> Outcome {
    if job.kind() == RECURRING && job.attempt() > 1 {
        // Its time is that of the attempt, and nothing tells which run it is.
        return Outcome::Done;
    }
    let number = begin(journal, job);
    let token = job.token();
    let more = if number.is_multiple_of(5) {
        number % 4000
    } else {
        0
    };
    let time = time + Duration::from_micros(more);
    if !time.is_zero() {
        thread::sleep(time);
    }
    let now = micros(SystemTime::now());
    if number.is_multiple_of(7) && number < SLOTS && job.attempt() == 1 {
        journal.write(&Event::Retry {
            job: number,
            token,
            now,
        });
        return Outcome::Retry;
    }
    journal.write(&Event::Done {
        job: number,
        token,
        now,
    });
    Outcome::Done
}

/// One of the threads that call the timer, with the jobs that it may still move and cancel.
pub(crate) struct Caller<'a> {
    pub(crate) timer: &'a DurableTimer,
    pub(crate) journal: &'a Journal,
    number: u64,
    count: u64,
    random: Random,
    mine: Vec<u64>,
}

/// What a caller may do next.
pub(crate) struct Turn {
    /// The number of a new job, and a time for it.
    pub(crate) job: u64,
    pub(crate) due: SystemTime,
    /// From 0 to 9.
    pub(crate) die: u64,
    /// One of its jobs.
    pub(crate) chosen: Option<u64>,
}

impl<'a> Caller<'a> {
    /// Numbers of callers are not used twice.
    pub(crate) fn new(
        timer: &'a DurableTimer,
        journal: &'a Journal,
        number: u64,
        random: Random,
    ) -> Caller<'a> {
        Caller {
            timer,
            journal,
            number,
            count: 0,
            random,
            mine: Vec::new(),
        }
    }

    pub(crate) fn turn(&mut self, within: Duration) -> Turn {
        let job = self.number << 24 | self.count;
        self.count += 1;
        let due =
            SystemTime::now() + Duration::from_micros(self.random.below(within.as_micros() as u64));
        let many = self.mine.len() as u64;
        let chosen = (many > 0).then(|| self.mine[self.random.below(many) as usize]);
        Turn {
            job,
            due,
            die: self.random.below(10),
            chosen,
        }
    }

    /// Keeps a job in mind, and at most so many.
    pub(crate) fn keep(&mut self, job: u64, most: usize) {
        self.mine.push(job);
        if self.mine.len() > most {
            self.mine.remove(0);
        }
    }

    pub(crate) fn forget(&mut self, job: u64) {
        self.mine.retain(|&other| other != job);
    }

    pub(crate) fn cancel(&mut self, job: u64) -> Result<(), hashed_wheel_durable::Error> {
        self.forget(job);
        self.journal.write(&Event::Cancel { job });
        let done = self.timer.cancel(key(job))?;
        let now = micros(SystemTime::now());
        self.journal.write(&Event::Cancelled { job, done, now });
        Ok(())
    }
}

fn work(
    store: &PathBuf,
    incarnation: u64,
    seed: u64,
    journal: &Arc<Journal>,
    finish: bool,
) -> Result<(), Box<dyn Error>> {
    journal.write(&Event::Begin { incarnation });
    let (log, slots) = (Arc::clone(journal), Arc::clone(journal));
    let timer = DurableTimer::builder()
        .on("job", move |job| handle(&log, job, Duration::ZERO))
        .on(RECURRING, move |job| handle(&slots, job, Duration::ZERO))
        .backoff(Duration::from_millis(4), Duration::from_millis(30))
        // A kill while it runs alone counts as an attempt, and there are thousands.
        .max_attempts(1000)
        .open(store)?;
    journal.write(&Event::Opened);
    let recurring = SLOTS;
    if finish {
        // It would never be done. Its runs are jobs of their own.
        journal.write(&Event::Cancel { job: recurring });
        let (done, now) = (timer.cancel(RECURRING)?, micros(SystemTime::now()));
        journal.write(&Event::Cancelled {
            job: recurring,
            done,
            now,
        });
        return empty(&timer, journal);
    }
    print!("!");
    io::stdout().flush()?;
    thread::scope(|scope| {
        scope.spawn(|| {
            // Kept, if an earlier child has stored it.
            let new = timer.job(RECURRING).key(RECURRING).every(PERIOD);
            new.expect("it can be scheduled");
            journal.write(&Event::Scheduled { job: recurring });
        });
        for number in 0..CALLERS {
            let random = Random(seed ^ number);
            let caller = Caller::new(&timer, journal, incarnation * CALLERS + number, random);
            scope.spawn(move || call(caller));
        }
    });
    Ok(())
}

/// Calls the timer until the process is killed.
fn call(mut caller: Caller<'_>) {
    let (timer, journal) = (caller.timer, caller.journal);
    loop {
        let Turn {
            job,
            due,
            die,
            chosen,
        } = caller.turn(Duration::from_millis(70));
        match (die, chosen) {
            (0, Some(job)) => caller.cancel(job).expect("it can be cancelled"),
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
                    new: matches!(scheduled, Scheduled::New(_)),
                });
                // Its key is not its number: it is left alone from now on.
                caller.forget(old);
            }
            _ => {
                journal.write(&Event::Schedule {
                    job,
                    due: micros(due),
                });
                let new = timer.job("job").key(key(job)).payload(job.to_le_bytes());
                assert!(matches!(
                    new.at(due).expect("it can be scheduled"),
                    Scheduled::New(_)
                ));
                journal.write(&Event::Scheduled { job });
                caller.keep(job, usize::MAX);
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
            let now = micros(SystemTime::now());
            log.write(&Event::Done {
                job: number,
                token,
                now,
            });
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

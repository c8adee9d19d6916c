//! Faults of the disk.
//!
//! - It is full and has room again, some times in the life of a process that goes on scheduling: a limit on the size of files, which the process lifts again. Every second
//!   one is killed meanwhile. Calls get errors; nothing that was acknowledged is lost, and nothing runs twice without a kill.
//! - A bit of a closed file is flipped. Every job runs with the payload that it was stored with, or is a dead letter that says that it is damaged, or the file is refused by its name:
//!   every second time it is verified when it is opened, and every second time who mends it is killed.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use std::{env, fs, thread};

use hashed_wheel_durable::{DurableTimer, Job, Outcome};

use crate::Random;
use crate::child::{self, Caller, Turn, empty, handle, key, variable};
use crate::journal::{Event, Journal, micros};

/// Jobs of a file in which a bit is flipped, and the bytes of each.
const JOBS: u64 = 200;
const SIZE: usize = 60;

/// How often the disk of a process is full.
const TIMES: u64 = 3;

/// The code of a child whose file was refused, by its name, and of one whose calls get the same error, with its name, again and again: another one verifies it.
const REFUSED: i32 = 7;
pub(crate) const AGAIN: i32 = 8;

/// So many looks at an error, two milliseconds each.
const LOOKS: u32 = 5000;

/// The text of a letter whose job was damaged has this.
const REASON: &str = "damaged";

fn payload(job: u64) -> Vec<u8> {
    let mut payload = job.to_le_bytes().to_vec();
    payload.resize(SIZE, job as u8 | 1);
    payload
}

/// Makes a file with jobs that are due, and closes it.
pub(crate) fn fill(store: &Path, journal: &Journal) -> Result<(), Box<dyn Error>> {
    let timer = DurableTimer::builder().open(store)?;
    let now = SystemTime::now();
    let jobs = (0..JOBS).map(|job| {
        let new = timer.job(["job", "other"][job as usize % 2]);
        let new = new.payload(payload(job));
        if job % 3 == 0 { new.key(key(job)) } else { new }.due_at(now)
    });
    timer.schedule_all(jobs)?;
    for job in 0..JOBS {
        journal.write(&Event::Scheduled { job });
    }
    timer.stop()?;
    Ok(())
}

/// Runs what is in a file in which a bit was flipped.
pub(crate) fn flipped(
    store: &Path,
    verify: bool,
    journal: &Arc<Journal>,
) -> Result<(), Box<dyn Error>> {
    let mut builder = DurableTimer::builder().verify(verify);
    for kind in ["job", "other"] {
        let log = Arc::clone(journal);
        builder = builder.on(kind, move |job| {
            let number = child::number(job);
            // A payload that nobody has stored is a job that nobody has stored.
            let known = job.payload() == payload(number);
            let (job, token) = (if known { number } else { u64::MAX >> 1 }, job.token());
            let now = micros(SystemTime::now());
            log.write(&Event::Done { job, token, now });
            Outcome::Done
        });
    }
    let timer = match builder.open(store) {
        Ok(timer) => timer,
        Err(error) if error.to_string().contains(&store.display().to_string()) => {
            std::process::exit(REFUSED)
        }
        Err(error) => return Err(error.into()),
    };
    let mut looks = 0;
    loop {
        match timer.pending() {
            Ok(0) => break,
            Ok(_) => looks = 0,
            Err(error) => {
                looks += 1;
                // It is mended in a moment, or cannot be.
                if looks > LOOKS && error.to_string().contains(&store.display().to_string()) {
                    std::process::exit(AGAIN)
                }
            }
        }
        thread::sleep(Duration::from_millis(2));
    }
    for dead in timer.dead(1000)? {
        if !dead.last_error.contains(REASON) {
            return Err(format!("dead for another reason: {dead:?}").into());
        }
        let (job, attempts) = (dead.id, dead.attempts);
        journal.write(&Event::Dead { job, attempts });
    }
    journal.write(&Event::Empty);
    timer.stop()?;
    Ok(())
}

/// What became of the jobs of a file in which a bit was flipped.
#[derive(Debug, Default)]
pub(crate) struct Flips {
    pub(crate) refused: u64,
    pub(crate) dead: u64,
    pub(crate) unharmed: u64,
    /// Kills of a child that mended the file: before the new one had its name, and after.
    pub(crate) mending: [u64; 2],
}

impl Flips {
    /// `again`: a second child has finished what a first one began.
    pub(crate) fn note(
        &mut self,
        journal: &Path,
        code: Option<i32>,
        again: bool,
    ) -> Result<(), String> {
        if code == Some(REFUSED) {
            self.refused += 1;
            return Ok(());
        }
        if code != Some(0) {
            return Err(format!("a child whose file has a flipped bit: {code:?}"));
        }
        let text = fs::read_to_string(journal).map_err(|error| error.to_string())?;
        let (mut promised, mut done, mut dead) = (HashSet::new(), HashMap::new(), 0);
        for event in text.lines().filter_map(Event::parse) {
            match event {
                Event::Scheduled { job } => drop(promised.insert(job)),
                Event::Done { job, .. } => *done.entry(job).or_insert(0) += 1,
                Event::Dead { .. } => dead += 1,
                _ => {}
            }
        }
        for (job, times) in &done {
            if !promised.contains(job) {
                return Err("a handler got a damaged payload".into());
            }
            if *times > 1 && !again {
                return Err(format!(
                    "job {job} ran {times} times, and nothing was killed"
                ));
            }
        }
        let gone = promised.len() - done.len();
        if gone > dead {
            return Err(format!(
                "LOST: after a flipped bit {gone} jobs did not run, and {dead} are dead"
            ));
        }
        *(if dead > 0 {
            &mut self.dead
        } else {
            &mut self.unharmed
        }) += 1;
        Ok(())
    }
}

/// Flips a bit of a part of the file that is in use.
pub(crate) fn flip(store: &Path, random: &mut Random) -> Result<(), String> {
    let mut bytes = fs::read(store).map_err(|error| error.to_string())?;
    let at = loop {
        let at = random.below(bytes.len() as u64) as usize;
        let start = at & !0x7f;
        if bytes[start..].iter().take(0x80).any(|&byte| byte != 0) {
            break at;
        }
    };
    bytes[at] ^= 1 << random.below(8);
    fs::write(store, bytes).map_err(|error| error.to_string())
}

/// Works on a disk that is full from time to time, and finishes all jobs in the end.
pub(crate) fn full(store: &Path, journal: &Arc<Journal>) -> Result<(), Box<dyn Error>> {
    let (incarnation, seed) = (variable("TORTURE_INCARNATION")?, variable("TORTURE_SEED")?);
    let mut random = Random(seed);
    journal.write(&Event::Begin { incarnation });
    let log = Arc::clone(journal);
    let timer = DurableTimer::builder()
        .on("job", move |job: &Job| handle(&log, job, Duration::ZERO))
        .backoff(Duration::from_millis(4), Duration::from_millis(30))
        .max_attempts(1000)
        .open(store)?;
    journal.write(&Event::Opened);
    let enough = AtomicBool::new(false);
    thread::scope(|scope| {
        for number in 0..2 {
            let number = incarnation * 4 + number;
            let caller = Caller::new(&timer, journal, number, Random(seed ^ number));
            let enough = &enough;
            scope.spawn(move || call(caller, enough));
        }
        for _ in 0..TIMES {
            thread::sleep(Duration::from_millis(random.below(20)));
            // Some writes succeed: those in the first part of the file.
            limit(Some(4096 * random.below(40)));
            thread::sleep(Duration::from_millis(random.below(40)));
            limit(None);
            // However long the pauses between its attempts are.
            while timer.pending().is_err() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        enough.store(true, Ordering::Relaxed);
    });
    empty(&timer, journal)
}

#[cfg(target_os = "linux")]
fn limit(bytes: Option<u64>) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    setrlimit(Resource::Fsize, limit).expect("its own limit");
}

#[cfg(not(target_os = "linux"))]
fn limit(_: Option<u64>) {}

/// Calls the timer, whatever it answers.
fn call(mut caller: Caller<'_>, enough: &AtomicBool) {
    let (timer, journal) = (caller.timer, caller.journal);
    while !enough.load(Ordering::Relaxed) {
        let Turn {
            job,
            due,
            die,
            chosen,
        } = caller.turn(Duration::from_millis(70));
        let result = match (die, chosen) {
            (0, Some(job)) => caller.cancel(job),
            (1, Some(job)) => {
                let to = micros(due);
                journal.write(&Event::Move { job, due: to });
                timer.reschedule_at(key(job), due).map(|done| {
                    journal.write(&Event::Moved { job, done });
                })
            }
            _ => {
                let to = micros(due);
                journal.write(&Event::Schedule { job, due: to });
                let mut payload = job.to_le_bytes().to_vec();
                payload.resize(8 + (job as usize % 7) * 1000, 7);
                let new = timer.job("job").key(key(job)).payload(payload);
                new.at(due).map(|_| {
                    journal.write(&Event::Scheduled { job });
                    caller.keep(job, 50);
                })
            }
        };
        if result.is_err() {
            // It may have taken place or not: nothing was promised.
            journal.write(&Event::Failed);
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The command of a child whose writes beyond a limit are errors: the signal of it is ignored.
pub(crate) fn command() -> std::io::Result<std::process::Command> {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\""]);
    command.arg(env::current_exe()?);
    Ok(command)
}

//! A process that is killed and stopped.

use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{env, io, thread};

use hashed_wheel_durable::postgres::{Client, NoTls};
use hashed_wheel_durable::{DurableTimer, Job, Outcome};

use super::{LEASE, text};
use crate::Random;
use crate::child::{self, Caller, Turn, handle, key, variable};
use crate::journal::{Event, Journal};

/// Threads of each process that call the timer.
const CALLERS: u64 = 2;

/// A process tries so often to open its timer, with pauses of 50 ms. Attempts are counted, not seconds: all processes may have been stopped together.
const ATTEMPTS: u32 = 400;

/// A caller stores a slow job so often. The others are quick, so that there are many.
const SLOW_EVERY: Duration = Duration::from_secs(10);

/// A caller gives up after so many errors in a row: the database is gone for good.
const ERRORS: u32 = 100;

/// The kind whose handler takes longer than a lease.
pub(super) const SLOW: &str = "slow";

/// The kind and the key of the recurring job, the number of its runs, which are all one job for the account, and its period.
pub(super) const TICK: &str = "tick";
const TICKS: u64 = u64::MAX - 1;
const FIRST: u64 = 8;
pub(super) const PERIOD: Duration = Duration::from_millis(100);

pub(crate) fn run(role: &str) -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("TORTURE_FOLDER")?);
    let url = env::var("TORTURE_URL")?;
    let (incarnation, seed) = (variable("TORTURE_INCARNATION")?, variable("TORTURE_SEED")?);
    if role == "shared-poison" {
        let prefix = env::var("TORTURE_PREFIX")?;
        let journal = Arc::new(Journal::open(&folder.join(format!("{prefix}.poison")))?);
        let again = env::var_os("TORTURE_AGAIN").is_some();
        return child::poison(again, seed, &journal, |builder| {
            let builder = builder.lease(Duration::from_millis(400));
            builder.table_prefix(prefix).open_postgres(&url)
        });
    }
    let journal = Arc::new(Journal::open(
        &folder.join(format!("{incarnation}.journal")),
    )?);
    log::set_logger(Box::leak(Box::new(Refusals(Arc::clone(&journal))))).map_err(text)?;
    log::set_max_level(log::LevelFilter::Warn);
    let timer = open(&url, &journal)?;
    // By the first processes: one that is stored after its end would have other times. Kept, if another has stored it.
    if incarnation <= FIRST && !folder.join("enough").exists() {
        let tick = timer.job(TICK).key(TICK).payload(TICKS.to_le_bytes());
        if let Err(error) = tick.every(PERIOD) {
            log::warn!("the recurring job is not stored: {error}");
        }
    }
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let number = incarnation * CALLERS + number;
            let caller = Caller::new(&timer, &journal, number, Random(seed ^ number));
            let (folder, url) = (&folder, &url);
            scope.spawn(move || call(caller, folder, url));
        }
    });
    // Until the parent is done with us.
    io::stdin().read_to_end(&mut Vec::new())?;
    timer.stop()?;
    Ok(())
}

/// The server may be away, or cut this connection: then it is tried again, as whatever restarts a service does.
fn open(url: &str, journal: &Arc<Journal>) -> Result<DurableTimer, Box<dyn Error>> {
    let mut attempts = 0;
    loop {
        let (quick, slow) = (Arc::clone(journal), Arc::clone(journal));
        let ticks = Arc::clone(journal);
        let timer = DurableTimer::builder()
            .on("job", move |job| handle(&quick, job, Duration::ZERO))
            .on(TICK, move |job| handle(&ticks, job, Duration::ZERO))
            .on(SLOW, move |job: &Job| -> Outcome {
                handle(&slow, job, LEASE + LEASE / 4)
            })
            .backoff(Duration::from_millis(4), Duration::from_millis(30))
            .max_attempts(1_000_000)
            .lease(LEASE)
            .open_postgres(url);
        attempts += 1;
        match timer {
            Err(hashed_wheel_durable::Error::Store(_)) if attempts < ATTEMPTS => {
                thread::sleep(Duration::from_millis(50));
            }
            timer => return Ok(timer?),
        }
    }
}

/// Calls the timer until it is enough.
fn call(mut caller: Caller<'_>, folder: &Path, url: &str) {
    let mut sql = Sql { url, client: None };
    let mut slow = Instant::now() + SLOW_EVERY / 16 * (caller.turn(SLOW_EVERY).die as u32);
    let mut errors = 0;
    for count in 0.. {
        if count % 16 == 0 && folder.join("enough").exists() {
            return;
        }
        let Turn {
            job,
            due,
            die,
            chosen,
        } = caller.turn(Duration::from_millis(300));
        let result = match (die, chosen) {
            (0, Some(job)) => caller.cancel(job).map_err(Some),
            (1, Some(job)) => {
                let moved = caller.timer.reschedule_at(key(job), due);
                moved.map(drop).map_err(Some)
            }
            _ => {
                let (mut kind, mut due) = ("job", due);
                if slow <= Instant::now() {
                    slow = Instant::now() + SLOW_EVERY;
                    // Long overdue: when its process is stopped, it is the first to be taken over.
                    (kind, due) = (SLOW, due - Duration::from_secs(3600));
                }
                let scheduled = if die == 2 {
                    sql.schedule(kind, &key(job), due, &job.to_le_bytes())
                } else {
                    let new = caller.timer.job(kind).key(key(job));
                    new.payload(job.to_le_bytes())
                        .at(due)
                        .map(drop)
                        .map_err(Some)
                };
                if scheduled.is_ok() {
                    caller.journal.write(&Event::Scheduled { job });
                    caller.keep(job, 100);
                }
                scheduled
            }
        };
        match result {
            Ok(()) => errors = 0,
            // It may have taken place or not: nothing was promised.
            Err(None | Some(hashed_wheel_durable::Error::Store(_))) if errors < ERRORS => {
                errors += 1;
                caller.journal.write(&Event::Failed);
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

const SCHEDULE: &str = "SELECT durable_schedule($1, $2, $3, $4, false)";

/// Stores jobs by the function in the database, as other programs do.
struct Sql<'a> {
    url: &'a str,
    client: Option<Client>,
}

impl Sql<'_> {
    /// An error: nobody knows whether it took place.
    fn schedule(
        &mut self,
        kind: &str,
        key: &str,
        due: SystemTime,
        payload: &[u8],
    ) -> Result<(), Option<hashed_wheel_durable::Error>> {
        let mut client = match self.client.take() {
            Some(client) => client,
            None => Client::connect(self.url, NoTls).map_err(|_| None)?,
        };
        client
            .query(SCHEDULE, &[&kind, &key, &due, &payload])
            .map_err(|_| None)?;
        self.client = Some(client);
        Ok(())
    }
}

/// Writes down that an outcome was refused.
struct Refusals(Arc<Journal>);

impl log::Log for Refusals {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.args().to_string().contains("is refused") {
            self.0.write(&Event::Refused);
        }
    }

    fn flush(&self) {}
}

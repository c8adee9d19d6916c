//! The durable timer: jobs are stored here, and handed to [`Deliverer`] when they are due.

mod envelope;
mod list;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hashed_wheel_durable::{
    DurableTimer, Error as TimerError, Job, JobFilter, JobState, Outcome, Scheduled, Stats,
};
use tokio::runtime::Handle;

use crate::deliver::{Deliverer, Due, End};
use crate::options::Options;
use crate::secrets::random_hex;

pub use envelope::{Envelope, Every};
pub use list::{Listed, Wanted};

/// The kind of a job that calls.
const KIND: &str = "call";

/// The kind of a job that makes one of the other kind at each of its times.
const EVERY: &str = "every";

/// The largest payload, in bytes.
pub const MOST_PAYLOAD: usize = 64 << 10;

/// Dead letters that are revived or discarded at a time.
const AT_A_TIME: usize = 32;

/// The longest key, in bytes.
const MOST_KEY: usize = 512;

/// The job of a probe is removed before that.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// When a job is due.
#[derive(Debug, Clone, Copy)]
pub enum When {
    After(Duration),
    At(SystemTime),
}

/// A job to store.
#[derive(Debug)]
pub struct Posted {
    pub key: String,
    pub envelope: Envelope,
    pub when: When,
    pub replace: bool,
}

/// The queue. Its methods wait for the disk.
#[derive(Debug)]
pub struct Queue {
    timer: DurableTimer,
    /// A key that no job has.
    probe: String,
}

impl Queue {
    /// Opens the store; what is overdue is called at once. Calls are made on this runtime, at most `calls` at a time.
    pub fn open(
        options: &Options,
        runtime: Handle,
        deliverer: Arc<Deliverer>,
        calls: usize,
    ) -> Result<Queue, Box<dyn Error>> {
        let (first, most) = options.backoff;
        let builder = DurableTimer::builder()
            .on(KIND, move |job| run(job, &runtime, &deliverer))
            .on(EVERY, repeat)
            .threads(calls)
            .max_attempts(options.attempts)
            .backoff(first, most)
            .lease(options.lease);
        let timer = match &options.postgres {
            None => {
                let timer = builder.open(&options.file)?;
                keep_private(&options.file)?;
                timer
            }
            #[cfg(feature = "postgres")]
            Some(url) => crate::postgres::open(builder, url, options.postgres_ca.as_deref())?,
            #[cfg(not(feature = "postgres"))]
            Some(_) => return Err("--postgres needs the feature `postgres`".into()),
        };
        Ok(Queue {
            timer,
            probe: format!("probe-{}", random_hex::<16>()),
        })
    }

    /// Stores all of these jobs or none.
    pub fn schedule(&self, jobs: &[Posted]) -> Result<Vec<Scheduled>, TimerError> {
        self.timer.schedule_all(jobs.iter().map(|posted| {
            let recurs = posted.envelope.every.is_some();
            let job = self.timer.job(if recurs { EVERY } else { KIND });
            let job = job.key(&*posted.key).payload(posted.envelope.encode());
            let job = if posted.replace { job.replace() } else { job };
            match posted.when {
                When::After(delay) => job.due_in(delay),
                When::At(time) => job.due_at(time),
            }
        }))
    }

    pub fn reschedule(&self, key: &str, when: When) -> Result<bool, TimerError> {
        match when {
            When::After(delay) => self.timer.reschedule(key, delay),
            When::At(time) => self.timer.reschedule_at(key, time),
        }
    }

    pub fn cancel(&self, key: &str) -> Result<bool, TimerError> {
        self.timer.cancel(key)
    }

    pub fn pending(&self) -> Result<u64, TimerError> {
        self.timer.pending()
    }

    /// The earliest jobs that are not dead.
    pub fn earliest(&self, limit: usize) -> Result<Vec<Listed>, TimerError> {
        let jobs = self.timer.pending_jobs(limit)?;
        Ok(jobs.into_iter().map(Listed::from).collect())
    }

    /// A page of jobs in the order of their numbers, and the number after which the next one begins.
    pub fn page(&self, wanted: &Wanted) -> Result<(Vec<Listed>, Option<u64>), TimerError> {
        list::page(&self.timer, wanted)
    }

    /// The job that waits under a key.
    pub fn waiting(&self, key: &str) -> Result<Option<Listed>, TimerError> {
        let filter = JobFilter::new().key(key).state(JobState::Waiting).limit(1);
        Ok(self.timer.jobs(filter)?.pop().map(Listed::from))
    }

    /// Does something with every dead letter that is meant, and counts those that were still there.
    pub fn each_dead(
        &self,
        mut wanted: Wanted,
        work: fn(&Queue, u64) -> Result<bool, TimerError>,
    ) -> Result<u64, TimerError> {
        let mut count = 0;
        loop {
            let (page, next) = self.page(&wanted)?;
            // Several at a time: what waits together is one transaction.
            let results: Vec<Result<u64, TimerError>> = thread::scope(|scope| {
                let parts: Vec<_> = page
                    .chunks(page.len().div_ceil(AT_A_TIME).max(1))
                    .map(|part| {
                        scope.spawn(move || {
                            part.iter().try_fold(0, |count, job| {
                                Ok(count + u64::from(work(self, job.number)?))
                            })
                        })
                    })
                    .collect();
                let ended = parts.into_iter().map(thread::ScopedJoinHandle::join);
                ended.map(|count| count.unwrap_or(Ok(0))).collect()
            });
            for result in results {
                count += result?;
            }
            match next {
                Some(after) => wanted.after = after,
                None => return Ok(count),
            }
        }
    }

    pub fn revive_all(&self) -> Result<u64, TimerError> {
        self.timer.revive_where(JobFilter::new())
    }

    pub fn discard_all(&self) -> Result<u64, TimerError> {
        self.timer.discard_where(JobFilter::new())
    }

    pub fn revive(&self, id: u64) -> Result<bool, TimerError> {
        self.timer.revive(id)
    }

    pub fn discard(&self, id: u64) -> Result<bool, TimerError> {
        self.timer.discard(id)
    }

    pub fn stats(&self) -> Stats {
        self.timer.stats()
    }

    /// Asks the store whether it works: by a look, or by writing the largest payload and removing it. A disk may be too full for that and still have room for a small one.
    pub fn probe(&self, write: bool) -> Result<(), TimerError> {
        if write {
            let job = self.timer.job(KIND).key(&*self.probe);
            job.payload(vec![b' '; MOST_PAYLOAD]).after(FAR)?;
        }
        self.timer.cancel(&self.probe).map(drop)
    }

    pub fn stop(&self) -> Result<(), TimerError> {
        self.timer.stop()
    }
}

/// The file may hold what is nobody else's business.
fn keep_private(file: &Path) -> Result<(), Box<dyn Error>> {
    use std::os::unix::fs::PermissionsExt as _;

    let metadata = std::fs::metadata(file)?;
    if metadata.permissions().mode() & 0o077 != 0 {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| format!("{}: its mode cannot be 0600: {error}", file.display()))?;
    }
    Ok(())
}

/// The handler: on a thread of the durable timer.
fn run(job: &Job, runtime: &Handle, deliverer: &Deliverer) -> Outcome {
    let envelope = match Envelope::decode(job.payload()) {
        Ok(envelope) => envelope,
        Err(problem) => return Outcome::Dead(problem),
    };
    let due = Due {
        envelope,
        key: job.key().map(str::to_owned),
        due: job.due(),
        attempt: job.attempt(),
    };
    match runtime.block_on(deliverer.deliver(due)) {
        End::Done => Outcome::Done,
        End::Failed(reason) => Outcome::retry(reason),
        End::Dead(reason) => Outcome::Dead(reason),
        End::PutOff(delay) => Outcome::Snooze(delay),
    }
}

/// The handler of a recurring job: makes the call of this run, and waits for the next one. It is one job for ever, so that its key moves and cancels it at any time.
fn repeat(job: &Job) -> Outcome {
    let due = unix_millis(job.due());
    let now = unix_millis(SystemTime::now()).max(due);
    let envelope = match Envelope::decode(job.payload()) {
        Ok(envelope) => envelope,
        Err(problem) => return Outcome::Dead(problem),
    };
    let Some(every) = envelope.every else {
        return Outcome::Dead("not a recurring job".to_owned());
    };
    let call = job.timer().job(KIND).payload(envelope.of_run(due).encode());
    // Made once more after a crash, it is kept if it still waits. A key that is too long with its time is left out.
    let call = match job.key().map(|key| format!("{key}@{due}")) {
        Some(key) if key.len() <= MOST_KEY => call.key(key),
        _ => call,
    };
    match call.at(job.due()) {
        Ok(_) => Outcome::Snooze(Duration::from_millis(every.next(now) - now)),
        Err(_) => Outcome::Snooze(Duration::from_secs(1)),
    }
}

/// Milliseconds since 1970.
pub fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

//! A job as its handler sees it, what the handler answers, and dead letters.

mod filter;
pub(crate) mod state;

use std::time::{Duration, SystemTime};

pub use self::filter::{JobFilter, JobInfo, JobState};
use crate::DurableTimer;
use crate::store::{Claim, Row};
use crate::time::time_of;

/// A job that has fallen due, as its handler is given it.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = DurableTimer::builder()
///     .on("close-order", |job| {
///         assert_eq!(job.kind(), "close-order");
///         assert_eq!(job.key(), Some("order:42"));
///         assert_eq!(job.payload(), b"42");
///         assert_eq!(job.attempt(), 1);
///         Outcome::Done
///     })
///     .open_in_memory(&clock)?;
/// timer.job("close-order").key("order:42").payload(b"42").after(Duration::from_secs(1800))?;
/// clock.advance(Duration::from_secs(1800));
/// assert_eq!(timer.stats().fired, 1);
/// assert_eq!(timer.pending()?, 0);
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug)]
pub struct Job {
    claim: Claim,
    timer: DurableTimer,
}

impl Job {
    pub(crate) fn new(claim: Claim, timer: DurableTimer) -> Job {
        Job { claim, timer }
    }

    /// The payload as a value, from JSON. One that cannot be read is what a handler should answer: the job is dead, with the reason.
    ///
    /// # Errors
    /// [`Outcome::Dead`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| match job.json::<u32>() {
    ///         Ok(user) => { println!("mail to {user}"); Outcome::Done }
    ///         Err(dead) => dead,
    ///     })
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").payload("not a number").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(1));
    /// assert!(timer.dead(1)?[0].last_error.starts_with("the payload cannot be read"));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    #[cfg(feature = "serde")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Outcome> {
        serde_json::from_slice(self.payload())
            .map_err(|error| Outcome::Dead(format!("the payload cannot be read as JSON: {error}")))
    }

    /// The kind that it was scheduled under.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| { assert_eq!(job.kind(), "mail"); Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(std::time::Duration::ZERO)?;
    /// # clock.advance(std::time::Duration::from_millis(1));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn kind(&self) -> &str {
        &self.claim.kind
    }

    /// The key that it was scheduled under. The job has let go of it: the same key now makes a new job. `None` also for a job
    /// that was put back for a retry while another one had taken its key.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| { assert_eq!(job.key(), Some("user:7")); Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("mail").key("user:7").after(std::time::Duration::ZERO)?;
    /// # clock.advance(std::time::Duration::from_millis(1));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn key(&self) -> Option<&str> {
        self.claim.key.as_deref()
    }

    /// The bytes that it was scheduled with.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| { assert_eq!(job.payload(), b"hello"); Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("mail").payload(b"hello").after(std::time::Duration::ZERO)?;
    /// # clock.advance(std::time::Duration::from_millis(1));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn payload(&self) -> &[u8] {
        &self.claim.payload
    }

    /// The time at which it was due: never later than now, by the wall clock.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| { assert_eq!(job.due(), UNIX_EPOCH + Duration::from_secs(5)); Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::from_secs(5))?;
    /// clock.advance(Duration::from_secs(10));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn due(&self) -> SystemTime {
        time_of(self.claim.due)
    }

    /// The number of this attempt, from 1.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| if job.attempt() < 3 { Outcome::Retry } else { Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_secs(10));
    /// assert_eq!(timer.stats().fired, 3);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn attempt(&self) -> u32 {
        self.claim.attempt
    }

    /// A number greater than any that this store has given out before: a fencing token. What keeps the greatest token that it has
    /// seen, and refuses a smaller one, cannot be changed by a run that was overtaken.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// # let clock = ManualClock::new();
    /// static NEWEST: AtomicU64 = AtomicU64::new(0);
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| {
    ///         assert!(NEWEST.fetch_max(job.token(), Ordering::SeqCst) < job.token());
    ///         Outcome::Done
    ///     })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn token(&self) -> u64 {
        self.claim.token
    }

    /// May this run still act for the job? False when its lease has run out or another process has taken the job up, which can happen on PostgreSQL to a process that was
    /// stopped or cut off for longer than the [lease](crate::DurableTimerBuilder::lease). A handler that works for long asks before each side effect. Without leases it is always
    /// true. It is a hint from memory, no query; [`token`](Job::token) is what a side effect can be fenced with.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| { assert!(job.holds_lease()); Outcome::Done })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(std::time::Duration::ZERO)?;
    /// # clock.advance(std::time::Duration::from_millis(1));
    /// # assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn holds_lease(&self) -> bool {
        self.timer.holds_lease(self.claim.token)
    }

    /// The timer that runs it. A handler may call every method of it but [`stop`](DurableTimer::stop).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// // Comes again every hour.
    /// let timer = DurableTimer::builder()
    ///     .on("report", |job| {
    ///         match job.timer().job("report").key("hourly").at(job.due() + Duration::from_secs(3600)) {
    ///             Ok(_) => Outcome::Done,
    ///             Err(_) => Outcome::Retry,
    ///         }
    ///     })
    ///     .open_in_memory(&clock)?;
    /// timer.job("report").key("hourly").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_secs(10 * 3600));
    /// assert_eq!(timer.stats().fired, 11);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn timer(&self) -> &DurableTimer {
        &self.timer
    }

    /// The timer that runs it, for an async handler.
    ///
    /// ```
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let folder = std::env::temp_dir().join(format!("durable-doc-async-timer-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("timers.redb");
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let timer = DurableTimer::builder()
    ///     .on_async("order", |job| async move {
    ///         match job.async_timer().job("mail").after(Duration::from_secs(60)).await {
    ///             Ok(_) => Outcome::Done,
    ///             Err(error) => Outcome::retry(error.to_string()),
    ///         }
    ///     })
    ///     .open_async(&path)
    ///     .await?;
    /// timer.job("order").after(Duration::ZERO).await?;
    /// timer.stop().await?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// # }).unwrap();
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    #[cfg(feature = "tokio")]
    pub fn async_timer(&self) -> crate::AsyncDurableTimer {
        crate::AsyncDurableTimer::of(&self.timer)
    }
}

/// What a handler answers.
///
/// A handler that panics has answered `Retry`, with its message as the error.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = DurableTimer::builder()
///     .on("call", |job| match job.payload() {
///         b"busy" if job.attempt() == 1 => Outcome::RetryAfter(Duration::from_secs(60)),
///         b"bad" => Outcome::Dead("no such number".into()),
///         _ => Outcome::Done,
///     })
///     .open_in_memory(&clock)?;
/// for payload in ["good", "busy", "bad"] {
///     timer.job("call").payload(payload).after(Duration::ZERO)?;
/// }
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(timer.pending()?, 1);
/// assert_eq!(timer.dead(10)?[0].last_error, "no such number");
/// clock.advance(Duration::from_secs(60));
/// assert_eq!(timer.pending()?, 0);
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The job is finished and is forgotten.
    Done,
    /// The job is put back, for a time that doubles with each attempt; see
    /// [`backoff`](crate::DurableTimerBuilder::backoff). After the last attempt it is dead.
    Retry,
    /// As `Retry`, with a delay of the handler's own.
    RetryAfter(Duration),
    /// As `Retry`, with a reason; see [`retry`](Outcome::retry).
    RetryBecause(String),
    /// The job is put back and is due so long from now. No attempt is charged, and it takes its key again if that is free: it could not run now, and nothing has failed.
    Snooze(Duration),
    /// The job gives up now, for this reason. Of a longer one the first 4096 bytes are kept, up to the last whole character, the end marked by an ellipsis.
    Dead(String),
}

impl Outcome {
    /// As [`Retry`](Outcome::Retry), with a reason, of which the first 4096 bytes are stored: [`JobInfo::last_error`] has it, and the dead letter if this was the last
    /// attempt.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::retry("the server is busy"))
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(1));
    /// let job = &timer.jobs(JobFilter::new())?[0];
    /// assert_eq!((job.attempts, job.last_error.as_deref()), (1, Some("the server is busy")));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn retry(reason: impl Into<String>) -> Outcome {
        Outcome::RetryBecause(reason.into())
    }
}

/// What became of a job that was scheduled, and its [id](Scheduled::id).
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Scheduled};
/// use std::time::Duration;
///
/// let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// let hour = Duration::from_secs(3600);
/// let id = timer.job("mail").key("user:7").after(hour)?.id();
/// assert_eq!(timer.job("mail").key("user:7").after(hour * 2)?, Scheduled::Kept(id));
/// assert_eq!(timer.job("mail").key("user:7").replace().after(hour * 2)?, Scheduled::Replaced(id));
/// assert_eq!(timer.pending()?, 1);
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheduled {
    /// There is a new job.
    New(u64),
    /// A job with that key is waiting already. It was left as it is.
    Kept(u64),
    /// The waiting job with that key got this kind, payload and time, and its attempts start anew.
    Replaced(u64),
}

impl Scheduled {
    /// The number of the job in the store: that of the job which waits now, whoever made it.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let id = timer.job("mail").after(Duration::from_secs(60))?.id();
    /// assert_eq!(timer.jobs(JobFilter::new())?[0].id, id);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn id(self) -> u64 {
        match self {
            Scheduled::New(id) | Scheduled::Kept(id) | Scheduled::Replaced(id) => id,
        }
    }
}

/// A stored job that is not dead, as [`pending_jobs`](DurableTimer::pending_jobs) found it.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::DurableTimer;
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// timer.job("mail").key("user:7").payload("hello").after(Duration::from_secs(60))?;
/// let job = &timer.pending_jobs(10)?[0];
/// assert_eq!((job.kind.as_str(), job.key.as_deref()), ("mail", Some("user:7")));
/// assert_eq!((job.payload.as_slice(), job.attempts), (b"hello".as_slice(), 0));
/// assert_eq!((job.due, job.claimed), (UNIX_EPOCH + Duration::from_secs(60), false));
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingJob {
    /// Its number in the store.
    pub id: u64,
    /// The kind that it was scheduled under.
    pub kind: String,
    /// Its key. One that is claimed does not hold it: another job may be waiting under it.
    pub key: Option<String>,
    /// The bytes that it was scheduled with.
    pub payload: Vec<u8>,
    /// When it is to run: the time it was scheduled or moved to, or that of its next attempt.
    pub due: SystemTime,
    /// The attempts that were counted.
    pub attempts: u32,
    /// Its handler runs, or is about to.
    pub claimed: bool,
}

/// A dead letter: a job that gave up.
///
/// It stays in the store until it is [revived](DurableTimer::revive) or [discarded](DurableTimer::discard).
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = DurableTimer::builder()
///     .on("mail", |_| panic!("no network"))
///     .max_attempts(3)
///     .open_in_memory(&clock)?;
/// timer.job("mail").key("user:7").payload("hello").after(Duration::ZERO)?;
/// clock.advance(Duration::from_secs(60));
///
/// let dead = timer.dead(10)?;
/// assert_eq!(dead.len(), 1);
/// assert_eq!((dead[0].kind.as_str(), dead[0].key.as_deref()), ("mail", Some("user:7")));
/// assert_eq!((dead[0].payload.as_slice(), dead[0].attempts), (b"hello".as_slice(), 3));
/// assert_eq!(dead[0].last_error, "no network");
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadJob {
    /// Its number in the store, for [`revive`](DurableTimer::revive) and [`discard`](DurableTimer::discard).
    pub id: u64,
    /// The kind that it was scheduled under.
    pub kind: String,
    /// Its key. A dead job does not hold it: another job may be waiting under it.
    pub key: Option<String>,
    /// The bytes that it was scheduled with.
    pub payload: Vec<u8>,
    /// The attempts that were counted.
    pub attempts: u32,
    /// Why the last one failed: the reason of [`Outcome::Dead`], the message of a panic, "the handler asked for a retry", or
    /// "interrupted" if the process ended while it ran. At most 4096 bytes.
    pub last_error: String,
    /// When it died.
    pub died: SystemTime,
}

impl From<Row> for PendingJob {
    fn from(row: Row) -> PendingJob {
        PendingJob {
            id: row.id,
            kind: row.kind,
            key: row.key,
            payload: row.payload,
            due: time_of(row.standing.due),
            attempts: row.standing.attempts,
            claimed: row.standing.state.is_claim(),
        }
    }
}

impl From<Row> for DeadJob {
    fn from(row: Row) -> DeadJob {
        DeadJob {
            id: row.id,
            kind: row.kind,
            key: row.key,
            payload: row.payload,
            attempts: row.standing.attempts,
            last_error: row.error.unwrap_or_default(),
            died: time_of(row.died.unwrap_or_default()),
        }
    }
}

//! The timer and the job that is being made.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::builder::DurableTimerBuilder;
use crate::engine::Engine;
use crate::error::Error;
use crate::job::{DeadJob, JobFilter, JobInfo, PendingJob, Scheduled};
use crate::recur::{CatchUp, Rule};
use crate::stats::Stats;
use crate::store::{Call, Id, MAX_KINDS, New, Reply, Row};
use crate::time::{Millis, millis_of};

#[cfg(feature = "tokio")]
mod future;
#[cfg(feature = "tokio")]
pub use self::future::{AsyncDurableTimer, AsyncNewJob};

/// The longest key and the longest name of a kind, in bytes.
const MAX_KEY: usize = 512;

/// The most jobs that one call stores.
const MAX_JOBS: usize = 10_000;

/// The largest payload, in bytes.
const MAX_PAYLOAD: usize = 1 << 20;

/// A timer whose jobs survive: they are on disk before the call returns.
///
/// Dropping it is [`stop`](DurableTimer::stop). Every method may be called by any thread, and by handlers through [`Job::timer`](crate::Job::timer).
///
/// ```
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// # fn close(_: &[u8]) {}
/// # let folder = std::env::temp_dir().join(format!("durable-doc-timer-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("timers.redb");
/// let timer = DurableTimer::builder()
///     .on("close-order", |job| { close(job.payload()); Outcome::Done })
///     .open(&path)?;
/// timer.job("close-order").key("order:42").payload(b"42").after(Duration::from_secs(1800))?;
/// assert!(timer.reschedule("order:42", Duration::from_secs(60))?);
/// assert!(timer.cancel("order:42")?);
/// timer.stop()?;
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
pub struct DurableTimer {
    pub(crate) engine: Arc<Engine>,
    /// False for the one that handlers are given.
    owner: bool,
}

impl fmt::Debug for DurableTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableTimer")
            .field("stopped", &self.engine.is_stopped())
            .finish_non_exhaustive()
    }
}

impl Drop for DurableTimer {
    fn drop(&mut self) {
        if self.owner {
            self.engine.owner_dropped();
        }
    }
}

impl DurableTimer {
    /// Begins to set up a timer.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    ///
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Done)
    ///     .open_in_memory(&ManualClock::new())?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn builder() -> DurableTimerBuilder {
        DurableTimerBuilder::new()
    }

    pub(crate) fn new(engine: Arc<Engine>) -> DurableTimer {
        DurableTimer {
            engine,
            owner: true,
        }
    }

    /// The same timer once more, not as an owner.
    #[cfg(feature = "tokio")]
    pub(crate) fn share(&self) -> DurableTimer {
        DurableTimer::for_handler(Arc::clone(&self.engine))
    }

    /// Not an owner: its drop stops nothing.
    pub(crate) fn for_handler(engine: Arc<Engine>) -> DurableTimer {
        DurableTimer {
            engine,
            owner: false,
        }
    }

    /// Begins a job of this kind. It is stored by [`after`](NewJob::after) or [`at`](NewJob::at).
    ///
    /// A kind without a handler is accepted: its jobs stay pending until a timer with a handler opens the store. The name has 1 to 512 bytes and no NUL. A file
    /// has at most 4096 kinds, counting those that it has ever had: a kind is the name of a handler, and what differs from job to job belongs into key or payload.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").key("user:7").payload("hello").after(Duration::from_secs(60))?;
    /// assert_eq!(timer.pending()?, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn job(&self, kind: impl Into<String>) -> NewJob<'_> {
        NewJob {
            timer: self,
            kind: kind.into(),
            key: None,
            payload: Vec::new(),
            replace: false,
            catch_up: CatchUp::Once,
            due: None,
            problem: None,
        }
    }

    /// Stores all of these jobs or none, in one transaction: at most 10 000. Each is due at the time that [`due_in`](NewJob::due_in) or [`due_at`](NewJob::due_at) gave it, or at
    /// once. What became of each is in the answer, in their order. Durable when this returns.
    ///
    /// # Errors
    /// Those of [`after`](NewJob::after), and [`Error::Config`] for more than 10 000 jobs or for a job of another timer.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let users = ["ann", "bob", "cy"];
    /// let mails = users.map(|user| timer.job("mail").key(user).due_in(Duration::from_secs(60)));
    /// let scheduled = timer.schedule_all(mails)?;
    /// assert_eq!((scheduled.len(), timer.pending()?), (3, 3));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn schedule_all<'a>(
        &self,
        jobs: impl IntoIterator<Item = NewJob<'a>>,
    ) -> Result<Vec<Scheduled>, Error> {
        match self.check_all(jobs)? {
            none if none.is_empty() => Ok(Vec::new()),
            all => self.schedule(all),
        }
    }

    fn check_all<'a>(&self, jobs: impl IntoIterator<Item = NewJob<'a>>) -> Result<Vec<New>, Error> {
        let mut all = Vec::new();
        for job in jobs {
            if !Arc::ptr_eq(&job.timer.engine, &self.engine) {
                let text = "a job of another timer cannot be stored by this one";
                return Err(Error::Config(text.to_owned()));
            }
            if all.len() == MAX_JOBS {
                return Err(Error::Config(format!(
                    "one call stores at most {MAX_JOBS} jobs: there are more"
                )));
            }
            let due = job.due.unwrap_or_else(|| self.engine.wall().now());
            all.push(job.checked(due)?);
        }
        Ok(all)
    }

    /// Has no job of this kind begin, in any process of the store, until it is [resumed](DurableTimer::resume). What runs is not interrupted, and new jobs are accepted. It is stored: a
    /// restart changes nothing. True if the kind was not paused before.
    ///
    /// # Errors
    /// [`Error::Config`] for the name of the kind, [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder().on("mail", |_| Outcome::Done).open_in_memory(&clock)?;
    /// timer.pause("mail")?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timer.pending()?, 1);
    /// timer.resume("mail")?;
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn pause(&self, kind: impl Into<String>) -> Result<bool, Error> {
        self.set_paused(kind.into(), true)
    }

    /// Lets jobs of a [paused](DurableTimer::pause) kind begin again. True if it was paused.
    ///
    /// # Errors
    /// Those of [`pause`](DurableTimer::pause).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// assert!(timer.pause("mail")?);
    /// assert!(timer.resume("mail")?);
    /// assert!(!timer.resume("mail")?);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn resume(&self, kind: impl Into<String>) -> Result<bool, Error> {
        self.set_paused(kind.into(), false)
    }

    fn set_paused(&self, kind: String, paused: bool) -> Result<bool, Error> {
        check_kind(&kind)?;
        self.found(Call::Pause { kind, paused })
    }

    /// Moves the waiting job of this key, which is then due so long from now. False if there is none: it was never there, was cancelled, or is claimed
    /// to run (which happens up to 50 ms before it is due). Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder().on("expire", |_| Outcome::Done).open_in_memory(&clock)?;
    /// timer.job("expire").key("session:1").after(Duration::from_secs(1800))?;
    /// assert!(timer.reschedule("session:1", Duration::from_secs(60))?);
    /// assert!(!timer.reschedule("session:2", Duration::from_secs(60))?);
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn reschedule(&self, key: impl AsRef<str>, delay: Duration) -> Result<bool, Error> {
        self.move_to(key.as_ref(), self.engine.wall().after(delay))
    }

    /// As [`reschedule`](DurableTimer::reschedule), to a time of the wall clock, rounded up to a millisecond.
    ///
    /// # Errors
    /// Those of [`reschedule`](DurableTimer::reschedule).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder().on("expire", |_| Outcome::Done).open_in_memory(&clock)?;
    /// timer.job("expire").key("session:1").after(Duration::from_secs(1800))?;
    /// assert!(timer.reschedule_at("session:1", UNIX_EPOCH + Duration::from_secs(5))?);
    /// clock.advance(Duration::from_secs(5));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn reschedule_at(&self, key: impl AsRef<str>, time: SystemTime) -> Result<bool, Error> {
        self.move_to(key.as_ref(), millis_of(time))
    }

    fn move_to(&self, key: &str, due: Millis) -> Result<bool, Error> {
        check_key(key)?;
        self.found(Call::Move {
            key: key.to_owned(),
            due,
        })
    }

    /// Removes the waiting job of this key. True for exactly one caller, and then it does not run. False as with [`reschedule`](DurableTimer::reschedule).
    /// Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("expire").key("session:1").after(Duration::from_secs(1800))?;
    /// assert!(timer.cancel("session:1")?);
    /// assert!(!timer.cancel("session:1")?);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn cancel(&self, key: impl AsRef<str>) -> Result<bool, Error> {
        check_key(key.as_ref())?;
        self.found(Call::Cancel {
            key: key.as_ref().to_owned(),
        })
    }

    /// The number of stored jobs that are not dead: waiting, waiting for a retry, claimed, running, without a handler.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").after(Duration::from_secs(60))?;
    /// assert_eq!(timer.pending()?, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn pending(&self) -> Result<u64, Error> {
        self.engine.read(|reader| reader.pending())
    }

    /// About as many as [`pending`](DurableTimer::pending) counts, in constant time. A file knows the exact number. PostgreSQL's is exact up to ten thousand, and beyond that as of the last time that
    /// the database gathered its statistics.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").after(Duration::from_secs(60))?;
    /// assert_eq!(timer.pending_estimate()?, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn pending_estimate(&self) -> Result<u64, Error> {
        self.engine.read(|reader| reader.pending_estimate())
    }

    /// Reads at most so many of the jobs that [`pending`](DurableTimer::pending) counts, the earliest due first. For people who look at a store: it is a copy with all payloads.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").key("later").after(Duration::from_secs(60))?;
    /// timer.job("mail").key("sooner").after(Duration::from_secs(30))?;
    /// let keys: Vec<_> = timer.pending_jobs(100)?.into_iter().filter_map(|job| job.key).collect();
    /// assert_eq!(keys, ["sooner", "later"]);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn pending_jobs(&self, limit: usize) -> Result<Vec<PendingJob>, Error> {
        let filter = JobFilter {
            by_due: true,
            ..JobFilter::new().limit(limit)
        };
        self.list(&filter)
    }

    fn list<T: From<Row>>(&self, filter: &JobFilter) -> Result<Vec<T>, Error> {
        let rows = self.engine.read(|reader| reader.jobs(filter))?;
        Ok(rows.into_iter().map(T::from).collect())
    }

    /// Reads stored jobs, dead ones too, in the order of their ids: those that the filter means. In a file the ones that wait are gone through for each page; in PostgreSQL the
    /// pages are read by an index.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter, JobState};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").after(Duration::from_secs(60))?;
    /// timer.job("call").after(Duration::from_secs(30))?;
    /// let waiting = timer.jobs(JobFilter::new().state(JobState::Waiting).kind("call"))?;
    /// assert_eq!(waiting.len(), 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    #[expect(clippy::needless_pass_by_value, reason = "a contract")]
    pub fn jobs(&self, filter: JobFilter) -> Result<Vec<JobInfo>, Error> {
        self.list(&filter)
    }

    /// Reads at most so many dead letters, the oldest jobs first.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Dead("no such user".into()))
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.dead(100)?[0].last_error, "no such user");
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn dead(&self, limit: usize) -> Result<Vec<DeadJob>, Error> {
        self.dead_where(JobFilter::new().limit(limit))
    }

    /// Reads the dead letters that the filter means, the oldest jobs first.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter};
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// assert!(timer.dead_where(JobFilter::new().kind("mail"))?.is_empty());
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn dead_where(&self, filter: JobFilter) -> Result<Vec<DeadJob>, Error> {
        self.list(&filter.dead())
    }

    /// Revives the dead letters that the filter means, its limit not counted, and returns how many; see [`revive`](DurableTimer::revive). In steps of a thousand: an error leaves those
    /// revived that were.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder()
    /// #     .on("mail", |_| Outcome::Dead("no such user".into()))
    /// #     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.revive_where(JobFilter::new().kind("mail"))?, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn revive_where(&self, filter: JobFilter) -> Result<u64, Error> {
        let due = self.engine.wall().now();
        self.for_dead(filter, |ids| Call::Revive { ids, due })
    }

    /// Removes the dead letters that the filter means, its limit not counted, and returns how many. In steps of a thousand: an error leaves those removed that were.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder()
    /// #     .on("mail", |_| Outcome::Dead("no such user".into()))
    /// #     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.discard_where(JobFilter::new())?, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn discard_where(&self, filter: JobFilter) -> Result<u64, Error> {
        self.for_dead(filter, |ids| Call::Discard { ids })
    }

    fn for_dead(&self, filter: JobFilter, call: impl Fn(Vec<Id>) -> Call) -> Result<u64, Error> {
        let mut filter = filter.dead().limit(1000);
        let mut found = 0;
        loop {
            let rows = self.engine.read(|reader| reader.jobs(&filter))?;
            let Some(last) = rows.last() else {
                return Ok(found);
            };
            filter.after = last.id;
            found += self.count(call(rows.iter().map(|row| row.id).collect()))?;
        }
    }

    /// Makes a dead job wait again: due now, no attempt counted, with its key if that is free. False if there is no dead job of that id.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder()
    /// #     .on("mail", |_| Outcome::Dead("no such user".into()))
    /// #     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// for dead in timer.dead(100)? {
    ///     assert!(timer.revive(dead.id)?);
    /// }
    /// assert_eq!(timer.pending()?, 1);
    /// assert!(timer.dead(100)?.is_empty());
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn revive(&self, id: u64) -> Result<bool, Error> {
        self.found(Call::Revive {
            ids: vec![id],
            due: self.engine.wall().now(),
        })
    }

    /// Removes a dead job. False if there is none of that id.
    ///
    /// # Errors
    /// [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder()
    /// #     .on("mail", |_| Outcome::Dead("no such user".into()))
    /// #     .open_in_memory(&clock)?;
    /// # timer.job("mail").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// for dead in timer.dead(100)? {
    ///     assert!(timer.discard(dead.id)?);
    /// }
    /// assert!(timer.dead(100)?.is_empty());
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn discard(&self, id: u64) -> Result<bool, Error> {
        self.found(Call::Discard { ids: vec![id] })
    }

    /// The counters since it was opened.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").after(Duration::from_secs(60))?;
    /// assert_eq!(timer.stats().scheduled, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn stats(&self) -> Stats {
        self.engine.stats()
    }

    /// Stops: new calls get [`Error::Stopped`], running handlers are waited for and their outcomes stored, claims that have not begun are
    /// given back without counting an attempt, and the file is closed. Everything else stays in the store. A second call is `Ok`.
    ///
    /// # Errors
    /// [`Error::FromHandler`] in a handler of this timer, and nothing changes. [`Error::Poisoned`] if an earlier write had failed: the file is closed,
    /// and the jobs whose outcome could not be stored will run again.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Error};
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.stop()?;
    /// timer.stop()?;
    /// assert!(matches!(timer.pending(), Err(Error::Stopped)));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn stop(&self) -> Result<(), Error> {
        self.engine.stop()
    }

    /// Stops as [`stop`](DurableTimer::stop) does, and waits no longer than this for running handlers. Returns how many still run: they go on, and when the last one has
    /// ended and its outcome is stored, the store is closed. Another call waits on.
    ///
    /// # Errors
    /// Those of [`stop`](DurableTimer::stop).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Error};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// assert_eq!(timer.stop_within(Duration::from_secs(5))?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn stop_within(&self, most: Duration) -> Result<usize, Error> {
        self.engine.stop_within(Some(most))
    }

    pub(crate) fn holds_lease(&self, token: u64) -> bool {
        self.engine.holds(token)
    }

    fn schedule(&self, new: Vec<New>) -> Result<Vec<Scheduled>, Error> {
        self.note_kinds(&new);
        scheduled(self.engine.call(Call::Schedule(new))?)
    }

    fn note_kinds(&self, new: &[New]) {
        for new in new {
            self.engine.note_kind(&new.kind);
        }
    }

    fn count(&self, call: Call) -> Result<u64, Error> {
        Ok(counted(&self.engine.call(call)?))
    }

    fn found(&self, call: Call) -> Result<bool, Error> {
        Ok(self.count(call)? > 0)
    }
}

/// A job that is being made: by [`DurableTimer::job`], until [`after`](NewJob::after) or [`at`](NewJob::at) stores it.
///
/// ```
/// # use hashed_wheel::ManualClock;
/// # use hashed_wheel_durable::{DurableTimer, Scheduled};
/// # use std::time::Duration;
/// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// let new = timer.job("mail").key("user:7").payload("hello");
/// assert!(matches!(new.after(Duration::from_secs(60))?, Scheduled::New(_)));
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a job is stored by `after` or `at`"]
pub struct NewJob<'a> {
    timer: &'a DurableTimer,
    kind: String,
    key: Option<String>,
    payload: Vec<u8>,
    replace: bool,
    catch_up: CatchUp,
    /// For [`schedule_all`](DurableTimer::schedule_all).
    due: Option<Millis>,
    /// Why it cannot be stored.
    problem: Option<Error>,
}

impl NewJob<'_> {
    /// The key that names it while it waits: 1 to 512 bytes, no NUL. At most one job waits under a key.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Scheduled};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let minute = Duration::from_secs(60);
    /// assert!(matches!(timer.job("mail").key("user:7").after(minute)?, Scheduled::New(_)));
    /// assert!(matches!(timer.job("mail").key("user:7").after(minute)?, Scheduled::Kept(_)));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The bytes that its handler is given: at most 1 MiB.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Error};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let refused = timer.job("mail").payload(vec![0; (1 << 20) + 1]).after(Duration::ZERO);
    /// assert!(matches!(refused, Err(Error::PayloadTooLarge { len: 1_048_577, max: 1_048_576 })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = payload.into();
        self
    }

    /// A value as the payload, written as JSON. One that cannot be written is an [`Error::Config`] when the job is stored.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| match job.json::<(u32, String)>() {
    ///         Ok((user, text)) => { assert_eq!((user, text.as_str()), (7, "hello")); Outcome::Done }
    ///         Err(dead) => dead,
    ///     })
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").json(&(7, "hello")).after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(timer.stats().dead, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    #[cfg(feature = "serde")]
    pub fn json<T: serde::Serialize + ?Sized>(mut self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(payload) => self.payload = payload,
            Err(error) => {
                let text = format!("a payload of kind {:?} is no JSON: {error}", self.kind);
                self.problem = Some(Error::Config(text));
            }
        }
        self
    }

    /// Takes the place of the job that waits under the same key, if there is one: that gets this kind, payload and time, and its attempts start anew.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Scheduled};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let minute = Duration::from_secs(60);
    /// assert!(matches!(timer.job("mail").key("user:7").replace().after(minute)?, Scheduled::New(_)));
    /// assert!(matches!(timer.job("mail").key("user:7").replace().after(minute)?, Scheduled::Replaced(_)));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// When it is due, for [`schedule_all`](DurableTimer::schedule_all): so long from now.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.schedule_all([timer.job("mail").due_in(Duration::from_secs(60))])?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn due_in(mut self, delay: Duration) -> Self {
        self.due = Some(self.timer.engine.wall().after(delay));
        self
    }

    /// When it is due, for [`schedule_all`](DurableTimer::schedule_all): at this time of the wall clock.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.schedule_all([timer.job("mail").due_at(UNIX_EPOCH + Duration::from_secs(60))])?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn due_at(mut self, time: SystemTime) -> Self {
        self.due = Some(millis_of(time));
        self
    }

    /// Stores it, due so long from now by the wall clock, rounded up to a millisecond. A delay beyond the range of time never ends. Durable when this returns.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::PayloadTooLarge`], [`Error::Config`] for the name of its kind, [`Error::Stopped`], [`Error::Store`], [`Error::Poisoned`].
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").after(Duration::from_secs(60))?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn after(self, delay: Duration) -> Result<Scheduled, Error> {
        let due = self.timer.engine.wall().after(delay);
        self.store(due)
    }

    /// Stores it, due at this time of the wall clock, rounded up to a millisecond. One that has passed is due at once. Durable when this returns.
    ///
    /// # Errors
    /// Those of [`after`](NewJob::after).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("mail").at(UNIX_EPOCH + Duration::from_secs(3600))?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn at(self, time: SystemTime) -> Result<Scheduled, Error> {
        self.store(millis_of(time))
    }

    /// What becomes of runs of a recurring job that were missed: for [`every`](NewJob::every) and [`cron`](NewJob::cron). [`CatchUp::Once`] unless set.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{CatchUp, DurableTimer};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("poll").key("poll").catch_up(CatchUp::Skip).every(Duration::from_secs(60))?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Stores it as a recurring job, which runs once in every period: first when one has passed, or at the time of [`due_in`](NewJob::due_in) or [`due_at`](NewJob::due_at).
    /// Durable when this returns.
    ///
    /// It needs a key, under which it waits until it is [cancelled](DurableTimer::cancel) or replaced. [`reschedule`](DurableTimer::reschedule) moves its next run and those after it.
    /// Each run is a job of its own, with attempts of its own and this key: it does not hold up the next one, and ending the recurring job does not take back a run that has begun. With any
    /// number of processes there is one run for each of its times.
    ///
    /// A program can do this at every start: a job that waits under the key is kept. With [`replace`](NewJob::replace), one with the same period keeps its next time.
    ///
    /// # Errors
    /// Those of [`after`](NewJob::after); [`Error::Key`] without a key; [`Error::Config`] for a period of less than a millisecond.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// # let timer = DurableTimer::builder().on("report", |_| Outcome::Done).open_in_memory(&clock)?;
    /// timer.job("report").key("hourly").every(Duration::from_secs(3600))?;
    /// clock.advance(Duration::from_secs(10 * 3600));
    /// assert_eq!(timer.stats().fired, 10);
    /// assert!(timer.cancel("hourly")?);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn every(self, period: Duration) -> Result<Scheduled, Error> {
        let rule = Rule::every(period, self.catch_up)?;
        self.recur(&rule)
    }

    /// Stores it as a recurring job, as [`every`](NewJob::every), which runs at the times of a cron expression in a time zone.
    ///
    /// The expression has five fields: minute, hour, day of the month, month, day of the week; or six, with the second in front. Names (`MON-FRI`), `@daily` and the like, `L`, `W` and `#` are
    /// understood. The time zone is a name of the IANA's, like `Europe/Berlin`, or `UTC`. A local time that is skipped when the clock goes forward runs at the first moment after the gap. One that
    /// comes twice, when the clock goes back, runs once, at the first.
    ///
    /// # Errors
    /// Those of [`after`](NewJob::after); [`Error::Key`] without a key; [`Error::Config`] for an expression that cannot be read or never comes, and for an unknown time zone.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, JobFilter};
    /// # use std::time::{Duration, UNIX_EPOCH};
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// timer.job("report").key("daily").cron("0 9 * * MON-FRI", "Europe/Berlin")?;
    /// // 1 January 1970 was a Thursday.
    /// let next = timer.jobs(JobFilter::new())?[0].due;
    /// assert_eq!(next, UNIX_EPOCH + Duration::from_secs(8 * 3600));
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn cron(
        self,
        expression: impl AsRef<str>,
        zone: impl AsRef<str>,
    ) -> Result<Scheduled, Error> {
        let rule = Rule::cron(expression.as_ref(), zone.as_ref(), self.catch_up)?;
        self.recur(&rule)
    }

    fn recur(self, rule: &Rule) -> Result<Scheduled, Error> {
        let timer = self.timer;
        let new = self.recurring(rule)?;
        Ok(timer.schedule(vec![new])?.remove(0))
    }

    fn store(self, due: Millis) -> Result<Scheduled, Error> {
        let timer = self.timer;
        let new = self.checked(due)?;
        Ok(timer.schedule(vec![new])?.remove(0))
    }

    pub(crate) fn checked(self, due: Millis) -> Result<New, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        check_kind(&self.kind)?;
        if let Some(key) = &self.key {
            check_key(key)?;
        }
        if self.payload.len() > MAX_PAYLOAD {
            return Err(Error::PayloadTooLarge {
                len: self.payload.len(),
                max: MAX_PAYLOAD,
            });
        }
        Ok(New {
            kind: self.kind,
            key: self.key,
            payload: self.payload,
            due,
            replace: self.replace,
            rule: None,
        })
    }

    pub(crate) fn recurring(self, rule: &Rule) -> Result<New, Error> {
        if self.key.is_none() {
            return Err(Error::Key("a recurring job needs a key".to_owned()));
        }
        let now = self.timer.engine.wall().now();
        let Some(first) = self.due.or_else(|| rule.after(now, now)) else {
            return Err(Error::Config(format!("there is no next time: {rule}")));
        };
        Ok(New {
            rule: Some(rule.to_string()),
            ..self.checked(first)?
        })
    }
}

/// What became of new jobs.
fn scheduled(reply: Reply) -> Result<Vec<Scheduled>, Error> {
    match reply {
        Reply::Scheduled(scheduled) => Ok(scheduled),
        Reply::TooManyKinds => Err(Error::Config(format!(
            "the store has {MAX_KINDS} kinds already, and can have no more: what differs from job to job belongs into the key or the payload"
        ))),
        Reply::Count(_) => unreachable!("new jobs are answered by what became of them"),
    }
}

/// How many jobs were found.
fn counted(reply: &Reply) -> u64 {
    match reply {
        Reply::Count(count) => *count,
        _ => unreachable!("a condition is answered by how many met it"),
    }
}

fn check_key(key: &str) -> Result<(), Error> {
    check_name("key", key).map_err(Error::Key)
}

pub(crate) fn check_kind(kind: &str) -> Result<(), Error> {
    check_name("kind", kind).map_err(Error::Config)
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_KEY {
        Err(format!(
            "a {what} of {} bytes: it must have 1 to {MAX_KEY}",
            name.len()
        ))
    } else if let Some(at) = name.bytes().position(|byte| byte == 0) {
        Err(format!(
            "the {what} {name:?} has a NUL at byte {at}: it must have none"
        ))
    } else {
        Ok(())
    }
}

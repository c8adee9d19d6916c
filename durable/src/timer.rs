//! The timer and the job that is being made.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::builder::DurableTimerBuilder;
use crate::engine::Engine;
use crate::error::Error;
use crate::job::{DeadJob, PendingJob, Scheduled};
use crate::stats::Stats;
use crate::store::{MAX_KINDS, Op, Reply};
use crate::time::{Millis, millis_of};

/// The longest key and the longest name of a kind, in bytes.
const MAX_KEY: usize = 512;

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
    engine: Arc<Engine>,
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
        }
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
        self.found(Op::Move {
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
        self.found(Op::Cancel {
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
        match self.engine.call(Op::Pending)? {
            Reply::Pending(count) => Ok(count),
            _ => unreachable!("a count is answered by a count"),
        }
    }

    /// Reads at most so many of the jobs that [`pending`](DurableTimer::pending) counts, the earliest due first. For people who look at a store: it is a copy with all payloads,
    /// and no other call is answered while it is read.
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
        match self.engine.call(Op::List { limit })? {
            Reply::List(jobs) => Ok(jobs),
            _ => unreachable!("a list is answered by a list"),
        }
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
        match self.engine.call(Op::Dead { limit })? {
            Reply::Dead(dead) => Ok(dead),
            _ => unreachable!("dead letters are answered by dead letters"),
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
        self.found(Op::Revive {
            id,
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
        self.found(Op::Discard { id })
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

    fn found(&self, op: Op) -> Result<bool, Error> {
        match self.engine.call(op)? {
            Reply::Found(found) => Ok(found),
            _ => unreachable!("a condition is answered by whether it held"),
        }
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
/// assert_eq!(new.after(Duration::from_secs(60))?, Scheduled::New);
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
    /// assert_eq!(timer.job("mail").key("user:7").after(minute)?, Scheduled::New);
    /// assert_eq!(timer.job("mail").key("user:7").after(minute)?, Scheduled::Kept);
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

    /// Takes the place of the job that waits under the same key, if there is one: that gets this kind, payload and time, and its attempts start anew.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Scheduled};
    /// # use std::time::Duration;
    /// # let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
    /// let minute = Duration::from_secs(60);
    /// assert_eq!(timer.job("mail").key("user:7").replace().after(minute)?, Scheduled::New);
    /// assert_eq!(timer.job("mail").key("user:7").replace().after(minute)?, Scheduled::Replaced);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn replace(mut self) -> Self {
        self.replace = true;
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

    fn store(self, due: Millis) -> Result<Scheduled, Error> {
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
        self.timer.engine.note_kind(&self.kind);
        let NewJob {
            timer,
            kind,
            key,
            payload,
            replace,
        } = self;
        match timer.engine.call(Op::Schedule {
            kind,
            key,
            payload,
            due,
            replace,
        })? {
            Reply::Scheduled(scheduled) => Ok(scheduled),
            Reply::TooManyKinds => Err(Error::Config(format!(
                "the store has {MAX_KINDS} kinds already, and can have no more: what differs from job to job belongs into the key or the payload"
            ))),
            _ => unreachable!("a new job is answered by what became of it"),
        }
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

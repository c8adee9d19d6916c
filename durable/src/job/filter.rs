//! Which stored jobs are meant, and how they are shown.

use std::time::SystemTime;

use super::state::{Standing, State};
use crate::store::{Id, Row};
use crate::time::{Millis, millis_of, time_of};

/// Which stored jobs are meant: for [`jobs`](crate::DurableTimer::jobs), [`dead_where`](crate::DurableTimer::dead_where),
/// [`revive_where`](crate::DurableTimer::revive_where) and [`discard_where`](crate::DurableTimer::discard_where).
///
/// Jobs come in the order of their ids, at most [`limit`](JobFilter::limit) of them: the next page begins [`after`](JobFilter::after) the last id of this one.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, JobFilter};
/// use std::time::Duration;
///
/// let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// for kind in ["mail", "call", "mail", "mail"] {
///     timer.job(kind).after(Duration::from_secs(60))?;
/// }
/// let mail = JobFilter::new().kind("mail").limit(2);
/// let page = timer.jobs(mail.clone())?;
/// assert_eq!(page.len(), 2);
/// assert_eq!(timer.jobs(mail.after(page[1].id))?.len(), 1);
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct JobFilter {
    pub(crate) kind: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) state: Option<JobState>,
    pub(crate) due_before: Option<Millis>,
    pub(crate) died_before: Option<Millis>,
    pub(crate) after: Id,
    pub(crate) limit: usize,
    /// The earliest due first, in the place of the order of ids.
    pub(crate) by_due: bool,
}

impl Default for JobFilter {
    fn default() -> JobFilter {
        JobFilter::new()
    }
}

impl JobFilter {
    /// The first 100 jobs of all.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// assert_eq!(JobFilter::new(), JobFilter::default());
    /// ```
    pub fn new() -> JobFilter {
        JobFilter {
            kind: None,
            key: None,
            state: None,
            due_before: None,
            died_before: None,
            after: 0,
            limit: 100,
            by_due: false,
        }
    }

    /// Those of this kind.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// let mail = JobFilter::new().kind("mail");
    /// ```
    pub fn kind(mut self, kind: impl Into<String>) -> JobFilter {
        self.kind = Some(kind.into());
        self
    }

    /// Those that were scheduled under this key, whether they hold it or not.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// let one = JobFilter::new().key("order:42");
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> JobFilter {
        self.key = Some(key.into());
        self
    }

    /// Those in this state.
    ///
    /// ```
    /// # use hashed_wheel_durable::{JobFilter, JobState};
    /// let dead = JobFilter::new().state(JobState::Dead);
    /// ```
    pub fn state(mut self, state: JobState) -> JobFilter {
        self.state = Some(state);
        self
    }

    /// Those that are due before this time.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// let overdue = JobFilter::new().due_before(std::time::SystemTime::now());
    /// ```
    pub fn due_before(mut self, time: SystemTime) -> JobFilter {
        self.due_before = Some(millis_of(time));
        self
    }

    /// Those with a greater id: the next page.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// let next = JobFilter::new().after(1000);
    /// ```
    pub fn after(mut self, id: u64) -> JobFilter {
        self.after = id;
        self
    }

    /// At most so many; 100 unless told.
    ///
    /// ```
    /// # use hashed_wheel_durable::JobFilter;
    /// let page = JobFilter::new().limit(20);
    /// ```
    pub fn limit(mut self, jobs: usize) -> JobFilter {
        self.limit = jobs;
        self
    }

    pub(crate) fn dead(self) -> JobFilter {
        self.state(JobState::Dead)
    }

    /// Can a job in this state be meant?
    pub(crate) fn wants(&self, state: State) -> bool {
        match self.state {
            None => !self.by_due || state != State::Dead,
            Some(JobState::Waiting) => state.waits(),
            Some(JobState::Running) => state.is_claim(),
            Some(JobState::Dead) => state == State::Dead,
        }
    }

    /// Is this job meant, as far as can be said without its key?
    pub(crate) fn means(
        &self,
        id: Id,
        kind: Option<&str>,
        standing: Standing,
        died: Option<Millis>,
    ) -> bool {
        let before = |end: Option<Millis>, time: Option<Millis>| {
            end.is_none_or(|end| time.is_some_and(|time| time < end))
        };
        self.wants(standing.state)
            && id > self.after
            && (self.kind.is_none() || self.kind.as_deref() == kind)
            && before(self.due_before, Some(standing.due))
            && before(self.died_before, died)
    }
}

/// Where a stored job stands.
///
/// ```
/// use hashed_wheel_durable::{JobFilter, JobState};
///
/// let running = JobFilter::new().state(JobState::Running);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobState {
    /// It waits for its due time, for a thread or for a handler.
    Waiting,
    /// It is claimed: its handler runs or is about to.
    Running,
    /// It gave up.
    Dead,
}

/// A stored job, as [`jobs`](crate::DurableTimer::jobs) found it.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, JobFilter, JobState};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// timer.job("mail").key("user:7").payload("hello").after(Duration::from_secs(60))?;
/// let job = &timer.jobs(JobFilter::new().kind("mail"))?[0];
/// assert_eq!((job.key.as_deref(), job.payload.as_slice()), (Some("user:7"), b"hello".as_slice()));
/// assert_eq!((job.state, job.attempts), (JobState::Waiting, 0));
/// assert_eq!(job.due, UNIX_EPOCH + Duration::from_secs(60));
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobInfo {
    /// Its number in the store.
    pub id: u64,
    /// The kind that it was scheduled under.
    pub kind: String,
    /// Its key. Only a job that waits holds it.
    pub key: Option<String>,
    /// The bytes that it was scheduled with.
    pub payload: Vec<u8>,
    /// When it is or was to run.
    pub due: SystemTime,
    /// The attempts that were counted.
    pub attempts: u32,
    /// Where it stands.
    pub state: JobState,
    /// Why its last attempt failed, if it said so.
    pub last_error: Option<String>,
    /// Of a recurring job, its rule: `every 60000 ms` or `cron 0 9 * * * Europe/Berlin`, with `skip` in front if missed runs are left out. It waits for its next time, and each of its
    /// runs is a job of its own.
    pub rule: Option<String>,
}

impl From<Row> for JobInfo {
    fn from(row: Row) -> JobInfo {
        let state = row.standing.state;
        JobInfo {
            id: row.id,
            kind: row.kind,
            key: row.key,
            payload: row.payload,
            due: time_of(row.standing.due),
            attempts: row.standing.attempts,
            state: if state.waits() {
                JobState::Waiting
            } else if state.is_claim() {
                JobState::Running
            } else {
                JobState::Dead
            },
            last_error: row.error,
            rule: row.rule,
        }
    }
}

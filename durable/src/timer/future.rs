//! The timer for async code.

use std::fmt;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::{DurableTimer, NewJob, check_key, check_kind, counted, scheduled};
use crate::error::{Error, StoreError};
use crate::job::{DeadJob, JobFilter, JobInfo, Scheduled};
use crate::recur::{CatchUp, Rule};
use crate::stats::Stats;
use crate::store::{Call, New, Reply};
use crate::time::{Millis, millis_of};

/// A [`DurableTimer`] for async code: the same calls as futures, which never block a thread of the runtime. Made by
/// [`open_async`](crate::DurableTimerBuilder::open_async) and `open_postgres_async`; handlers may be async, too:
/// [`on_async`](crate::DurableTimerBuilder::on_async).
///
/// A call is sent to the store when its future is first polled. Dropping the future after that does not undo it. Dropping the timer inside a runtime
/// [stops](AsyncDurableTimer::stop) it on a thread of its own, and nobody waits for that.
///
/// ```
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// # let folder = std::env::temp_dir().join(format!("durable-doc-async-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("timers.redb");
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let timer = DurableTimer::builder().on("mail", |_| Outcome::Done).open_async(&path).await?;
/// timer.job("mail").key("user:7").payload("hello").after(Duration::from_secs(60)).await?;
/// assert!(timer.reschedule("user:7", Duration::from_secs(30)).await?);
/// assert!(timer.cancel("user:7").await?);
/// timer.stop().await?;
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// # }).unwrap();
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
pub struct AsyncDurableTimer {
    /// `None` while it is dropped.
    timer: Option<DurableTimer>,
}

impl fmt::Debug for AsyncDurableTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncDurableTimer")
            .field(self.sync())
            .finish()
    }
}

impl Drop for AsyncDurableTimer {
    fn drop(&mut self) {
        if let Some(timer) = self.timer.take()
            && timer.owner
            && Handle::try_current().is_ok()
        {
            // Its end waits for handlers, which may need this very thread.
            std::thread::spawn(move || drop(timer));
        }
    }
}

impl AsyncDurableTimer {
    /// Of a timer that a handler is given.
    pub(crate) fn of(timer: &DurableTimer) -> AsyncDurableTimer {
        AsyncDurableTimer {
            timer: Some(timer.share()),
        }
    }

    pub(crate) async fn open(
        open: impl FnOnce() -> Result<DurableTimer, Error> + Send + 'static,
    ) -> Result<AsyncDurableTimer, Error> {
        let timer = Some(blocking(open).await?);
        Ok(AsyncDurableTimer { timer })
    }

    /// The same timer for code that is not async.
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) {
    /// println!("{:?}", timer.sync().stats());
    /// # }
    /// ```
    #[expect(clippy::missing_panics_doc, reason = "it is there until the drop")]
    pub fn sync(&self) -> &DurableTimer {
        self.timer
            .as_ref()
            .expect("it is there until it is dropped")
    }

    async fn call(&self, call: Call) -> Result<Reply, Error> {
        let (sender, answer) = oneshot::channel();
        let callback = Box::new(move |reply| drop(sender.send(reply)));
        self.sync().engine.ask(call, callback);
        match answer.await {
            Ok(reply) => reply,
            Err(_) => Err(StoreError::new("the store thread has ended").into()),
        }
    }

    async fn send(&self, new: New) -> Result<Scheduled, Error> {
        let new = vec![new];
        self.sync().note_kinds(&new);
        let reply = self.call(Call::Schedule(new)).await?;
        Ok(scheduled(reply)?.remove(0))
    }

    async fn found(&self, call: Call) -> Result<bool, Error> {
        Ok(counted(&self.call(call).await?) > 0)
    }

    /// Does on a thread for blocking work what waits for the store.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DurableTimer) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let timer = self.sync().share();
        blocking(move || work(&timer)).await
    }

    /// Begins a job, as [`DurableTimer::job`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").key("user:7").after(std::time::Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    pub fn job(&self, kind: impl Into<String>) -> AsyncNewJob<'_> {
        AsyncNewJob {
            timer: self,
            new: self.sync().job(kind),
        }
    }

    /// As [`DurableTimer::schedule_all`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::schedule_all`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.schedule_all(["ann", "bob"].map(|user| timer.job("mail").key(user))).await?;
    /// # Ok(()) }
    /// ```
    pub async fn schedule_all<'a>(
        &self,
        jobs: impl IntoIterator<Item = AsyncNewJob<'a>>,
    ) -> Result<Vec<Scheduled>, Error> {
        let new = self.sync().check_all(jobs.into_iter().map(|job| job.new))?;
        if new.is_empty() {
            return Ok(Vec::new());
        }
        self.sync().note_kinds(&new);
        scheduled(self.call(Call::Schedule(new)).await?)
    }

    /// As [`DurableTimer::reschedule`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::reschedule`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.reschedule("user:7", std::time::Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn reschedule(&self, key: impl AsRef<str>, delay: Duration) -> Result<bool, Error> {
        let due = self.sync().engine.wall().after(delay);
        self.move_to(key.as_ref(), due).await
    }

    /// As [`DurableTimer::reschedule_at`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::reschedule_at`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.reschedule_at("user:7", std::time::SystemTime::now()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn reschedule_at(
        &self,
        key: impl AsRef<str>,
        time: SystemTime,
    ) -> Result<bool, Error> {
        self.move_to(key.as_ref(), millis_of(time)).await
    }

    async fn move_to(&self, key: &str, due: Millis) -> Result<bool, Error> {
        check_key(key)?;
        let key = key.to_owned();
        self.found(Call::Move { key, due }).await
    }

    /// As [`DurableTimer::cancel`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::cancel`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.cancel("user:7").await?;
    /// # Ok(()) }
    /// ```
    pub async fn cancel(&self, key: impl AsRef<str>) -> Result<bool, Error> {
        check_key(key.as_ref())?;
        let key = key.as_ref().to_owned();
        self.found(Call::Cancel { key }).await
    }

    /// As [`DurableTimer::pause`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::pause`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.pause("mail").await?;
    /// # Ok(()) }
    /// ```
    pub async fn pause(&self, kind: impl Into<String>) -> Result<bool, Error> {
        let (kind, paused) = (kind.into(), true);
        check_kind(&kind)?;
        self.found(Call::Pause { kind, paused }).await
    }

    /// As [`DurableTimer::resume`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::resume`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.resume("mail").await?;
    /// # Ok(()) }
    /// ```
    pub async fn resume(&self, kind: impl Into<String>) -> Result<bool, Error> {
        let (kind, paused) = (kind.into(), false);
        check_kind(&kind)?;
        self.found(Call::Pause { kind, paused }).await
    }

    /// As [`DurableTimer::revive`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::revive`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.revive(42).await?;
    /// # Ok(()) }
    /// ```
    pub async fn revive(&self, id: u64) -> Result<bool, Error> {
        let (ids, due) = (vec![id], self.sync().engine.wall().now());
        self.found(Call::Revive { ids, due }).await
    }

    /// As [`DurableTimer::discard`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::discard`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.discard(42).await?;
    /// # Ok(()) }
    /// ```
    pub async fn discard(&self, id: u64) -> Result<bool, Error> {
        self.found(Call::Discard { ids: vec![id] }).await
    }

    /// As [`DurableTimer::revive_where`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::revive_where`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.revive_where(hashed_wheel_durable::JobFilter::new().kind("mail")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn revive_where(&self, filter: JobFilter) -> Result<u64, Error> {
        self.read(move |timer| timer.revive_where(filter)).await
    }

    /// As [`DurableTimer::discard_where`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::discard_where`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.discard_where(hashed_wheel_durable::JobFilter::new().kind("mail")).await?;
    /// # Ok(()) }
    /// ```
    pub async fn discard_where(&self, filter: JobFilter) -> Result<u64, Error> {
        self.read(move |timer| timer.discard_where(filter)).await
    }

    /// As [`DurableTimer::pending`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::pending`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// println!("{}", timer.pending().await?);
    /// # Ok(()) }
    /// ```
    pub async fn pending(&self) -> Result<u64, Error> {
        self.read(DurableTimer::pending).await
    }

    /// As [`DurableTimer::pending_estimate`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::pending_estimate`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// println!("{}", timer.pending_estimate().await?);
    /// # Ok(()) }
    /// ```
    pub async fn pending_estimate(&self) -> Result<u64, Error> {
        self.read(DurableTimer::pending_estimate).await
    }

    /// As [`DurableTimer::jobs`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::jobs`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// println!("{:?}", timer.jobs(hashed_wheel_durable::JobFilter::new()).await?);
    /// # Ok(()) }
    /// ```
    pub async fn jobs(&self, filter: JobFilter) -> Result<Vec<JobInfo>, Error> {
        self.read(move |timer| timer.jobs(filter)).await
    }

    /// As [`DurableTimer::dead`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::dead`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// println!("{:?}", timer.dead(100).await?);
    /// # Ok(()) }
    /// ```
    pub async fn dead(&self, limit: usize) -> Result<Vec<DeadJob>, Error> {
        self.read(move |timer| timer.dead(limit)).await
    }

    /// As [`DurableTimer::dead_where`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::dead_where`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// println!("{:?}", timer.dead_where(hashed_wheel_durable::JobFilter::new().kind("mail")).await?);
    /// # Ok(()) }
    /// ```
    pub async fn dead_where(&self, filter: JobFilter) -> Result<Vec<DeadJob>, Error> {
        self.read(move |timer| timer.dead_where(filter)).await
    }

    /// As [`DurableTimer::stats`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) {
    /// println!("{}", timer.stats().fired);
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        self.sync().stats()
    }

    /// As [`DurableTimer::stop`]. Dropped before its end, the stop goes on.
    ///
    /// # Errors
    /// Those of [`DurableTimer::stop`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.stop().await?;
    /// # Ok(()) }
    /// ```
    pub async fn stop(&self) -> Result<(), Error> {
        self.sync().engine.check_outside()?;
        self.read(DurableTimer::stop).await
    }

    /// As [`DurableTimer::stop_within`].
    ///
    /// # Errors
    /// Those of [`DurableTimer::stop`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// let running = timer.stop_within(std::time::Duration::from_secs(5)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn stop_within(&self, most: Duration) -> Result<usize, Error> {
        self.sync().engine.check_outside()?;
        self.read(move |timer| timer.stop_within(most)).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(error) => Err(StoreError::with("the runtime has ended", error).into()),
        },
    }
}

/// A job that is being made: by [`AsyncDurableTimer::job`], until [`after`](AsyncNewJob::after) or [`at`](AsyncNewJob::at) stores it. See [`NewJob`].
///
/// ```no_run
/// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
/// timer.job("mail").key("user:7").payload("hello").replace().after(std::time::Duration::from_secs(60)).await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "a job is stored by `after` or `at`"]
pub struct AsyncNewJob<'a> {
    timer: &'a AsyncDurableTimer,
    new: NewJob<'a>,
}

impl<'a> AsyncNewJob<'a> {
    fn with(mut self, change: impl FnOnce(NewJob<'a>) -> NewJob<'a>) -> Self {
        self.new = change(self.new);
        self
    }

    /// As [`NewJob::key`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").key("user:7").after(std::time::Duration::ZERO).await?;
    /// # Ok(()) }
    /// ```
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|new| new.key(key))
    }

    /// As [`NewJob::payload`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").payload("hello").after(std::time::Duration::ZERO).await?;
    /// # Ok(()) }
    /// ```
    pub fn payload(self, payload: impl Into<Vec<u8>>) -> Self {
        self.with(|new| new.payload(payload))
    }

    /// As [`NewJob::json`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").json(&7).after(std::time::Duration::ZERO).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "serde")]
    pub fn json<T: serde::Serialize + ?Sized>(self, value: &T) -> Self {
        self.with(|new| new.json(value))
    }

    /// As [`NewJob::replace`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").key("user:7").replace().after(std::time::Duration::ZERO).await?;
    /// # Ok(()) }
    /// ```
    pub fn replace(self) -> Self {
        self.with(NewJob::replace)
    }

    /// As [`NewJob::due_in`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.schedule_all([timer.job("mail").due_in(std::time::Duration::from_secs(60))]).await?;
    /// # Ok(()) }
    /// ```
    pub fn due_in(self, delay: Duration) -> Self {
        self.with(|new| new.due_in(delay))
    }

    /// As [`NewJob::due_at`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.schedule_all([timer.job("mail").due_at(std::time::SystemTime::now())]).await?;
    /// # Ok(()) }
    /// ```
    pub fn due_at(self, time: SystemTime) -> Self {
        self.with(|new| new.due_at(time))
    }

    /// As [`NewJob::after`].
    ///
    /// # Errors
    /// Those of [`NewJob::after`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").after(std::time::Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn after(self, delay: Duration) -> Result<Scheduled, Error> {
        let due = self.timer.sync().engine.wall().after(delay);
        self.store(due).await
    }

    /// As [`NewJob::at`].
    ///
    /// # Errors
    /// Those of [`NewJob::after`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("mail").at(std::time::SystemTime::now()).await?;
    /// # Ok(()) }
    /// ```
    pub async fn at(self, time: SystemTime) -> Result<Scheduled, Error> {
        self.store(millis_of(time)).await
    }

    /// As [`NewJob::catch_up`].
    ///
    /// ```no_run
    /// # use hashed_wheel_durable::CatchUp;
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("poll").key("poll").catch_up(CatchUp::Skip).every(std::time::Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        self.with(|new| new.catch_up(catch_up))
    }

    /// As [`NewJob::every`].
    ///
    /// # Errors
    /// Those of [`NewJob::every`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("report").key("hourly").every(std::time::Duration::from_secs(3600)).await?;
    /// # Ok(()) }
    /// ```
    pub async fn every(self, period: Duration) -> Result<Scheduled, Error> {
        let rule = Rule::every(period, self.new.catch_up)?;
        self.timer.send(self.new.recurring(&rule)?).await
    }

    /// As [`NewJob::cron`].
    ///
    /// # Errors
    /// Those of [`NewJob::cron`].
    ///
    /// ```no_run
    /// # async fn example(timer: hashed_wheel_durable::AsyncDurableTimer) -> Result<(), hashed_wheel_durable::Error> {
    /// timer.job("report").key("daily").cron("0 9 * * *", "Europe/Berlin").await?;
    /// # Ok(()) }
    /// ```
    pub async fn cron(
        self,
        expression: impl AsRef<str>,
        zone: impl AsRef<str>,
    ) -> Result<Scheduled, Error> {
        let rule = Rule::cron(expression.as_ref(), zone.as_ref(), self.new.catch_up)?;
        self.timer.send(self.new.recurring(&rule)?).await
    }

    async fn store(self, due: Millis) -> Result<Scheduled, Error> {
        self.timer.send(self.new.checked(due)?).await
    }
}

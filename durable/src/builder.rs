//! Settings, and opening a timer.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hashed_wheel::ManualClock;

use crate::engine::{Engine, Handler, Kind, LEAD, OnDead, Settings};
use crate::error::Error;
#[cfg(feature = "postgres")]
use crate::error::StoreError;
use crate::job::{DeadJob, Job, Outcome};
use crate::policy::Policy;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::time::{ManualWall, SystemWall, WallClock};
#[cfg(feature = "tokio")]
use crate::timer::AsyncDurableTimer;
use crate::timer::{DurableTimer, check_kind};

/// The most threads that handlers can run on.
const MAX_THREADS: usize = 1024;

/// The most handlers at a time, if all are async.
const MAX_TASKS: usize = 65_536;

/// The least time that a call can be given.
const SHORTEST_PATIENCE: Duration = Duration::from_millis(100);

/// The settings of a [`DurableTimer`]. Made by [`DurableTimer::builder`].
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let timer = DurableTimer::builder()
///     .on("mail", |_| Outcome::Done)
///     .on("report", |_| Outcome::Done)
///     .threads(2)
///     .max_attempts(5)
///     .backoff(Duration::from_secs(10), Duration::from_secs(600))
///     .open_in_memory(&ManualClock::new())?;
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct DurableTimerBuilder {
    handlers: Vec<(String, Handler)>,
    threads: usize,
    max_attempts: u32,
    backoff: (Duration, Duration),
    horizon: Duration,
    lease: Duration,
    patience: Duration,
    verify: bool,
    kinds: HashMap<String, KindOptions>,
    on_dead: Option<OnDead>,
    keep_dead: Option<Duration>,
    /// Why it cannot be opened.
    problem: Option<Error>,
    #[cfg(feature = "postgres")]
    prefix: String,
}

impl fmt::Debug for DurableTimerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self
            .handlers
            .iter()
            .map(|(kind, _)| kind.as_str())
            .collect();
        let mut text = f.debug_struct("DurableTimerBuilder");
        text.field("kinds", &kinds)
            .field("threads", &self.threads)
            .field("max_attempts", &self.max_attempts)
            .field("backoff", &self.backoff)
            .field("horizon", &self.horizon)
            .field("lease", &self.lease)
            .field("patience", &self.patience);
        #[cfg(feature = "postgres")]
        text.field("table_prefix", &self.prefix);
        text.finish_non_exhaustive()
    }
}

impl DurableTimerBuilder {
    pub(crate) fn new() -> DurableTimerBuilder {
        DurableTimerBuilder {
            handlers: Vec::new(),
            threads: 4,
            max_attempts: 25,
            backoff: (Duration::from_secs(1), Duration::from_secs(3600)),
            horizon: Duration::from_secs(30),
            lease: Duration::from_secs(30),
            patience: Duration::from_secs(10),
            verify: false,
            kinds: HashMap::new(),
            on_dead: None,
            keep_dead: None,
            problem: None,
            #[cfg(feature = "postgres")]
            prefix: crate::store::postgres::PREFIX.to_owned(),
        }
    }

    /// Has jobs of this kind run by this handler.
    ///
    /// A job may run more than once: when the process dies before its outcome is stored, it runs again. So handlers have to be idempotent.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use std::time::Duration;
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    ///
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("greet", |job| {
    ///         println!("hello {}", String::from_utf8_lossy(job.payload()));
    ///         Outcome::Done
    ///     })
    ///     .open_in_memory(&clock)?;
    /// # timer.job("greet").payload("you").after(Duration::ZERO)?;
    /// # clock.advance(Duration::from_millis(1));
    /// # assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn on(
        mut self,
        kind: impl Into<String>,
        handler: impl Fn(&Job) -> Outcome + Send + Sync + 'static,
    ) -> Self {
        self.handlers
            .push((kind.into(), Handler::Blocking(Box::new(handler))));
        self
    }

    /// The number of threads that handlers run on, and how many run at a time: 4 unless set, 1 to 1024.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// use hashed_wheel_durable::{DurableTimer, Error};
    ///
    /// let refused = DurableTimer::builder().threads(0).open_in_memory(&ManualClock::new());
    /// assert!(matches!(refused, Err(Error::Config(_))));
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// The attempts after which a job is dead: 25 unless set, at least 1. With 1, a process that is killed in the moment before a handler begins may cost
    /// a job its only attempt: see the [design](crate::docs::design).
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use std::time::Duration;
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    ///
    /// # let clock = ManualClock::new();
    /// let timer =
    ///     DurableTimer::builder().on("mail", |_| Outcome::Retry).max_attempts(3).open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(timer.dead(10)?[0].attempts, 3);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// The delay before a job is tried again: `first` after the first attempt, twice as long after each further one, never more than
    /// `most`. Each is shortened at random, by up to a half. 1 s and 1 h unless set.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use std::time::Duration;
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    ///
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |job| if job.attempt() == 1 { Outcome::Retry } else { Outcome::Done })
    ///     .backoff(Duration::from_secs(10), Duration::from_secs(60))
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(4999));
    /// assert_eq!(timer.pending()?, 1);
    /// clock.advance(Duration::from_secs(6));
    /// assert_eq!(timer.pending()?, 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.backoff = (first, most);
        self
    }

    /// The longest time before it is due that a job may be taken into memory: 30 s unless set, not zero. The embedded store needs 50 ms, so that only
    /// a shorter one makes a difference; see the [design](crate::docs::design). On PostgreSQL, a job that is due within this time is announced to the other processes.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use std::time::Duration;
    /// use hashed_wheel_durable::{DurableTimer, Error};
    ///
    /// let refused = DurableTimer::builder().horizon(Duration::ZERO).open_in_memory(&ManualClock::new());
    /// assert!(matches!(refused, Err(Error::Config(_))));
    /// ```
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.horizon = horizon;
        self
    }

    /// The time after which another process may take over a claim that is not renewed: 30 s unless set, not zero. Only a store that several
    /// processes share uses it (PostgreSQL, which needs at least 100 ms); the embedded one belongs to one process. A process renews what it has claimed when a third of the
    /// time has passed. With less than 30 s, each process looks at the table so often, rather than twice a minute.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use std::time::Duration;
    /// use hashed_wheel_durable::{DurableTimer, Error};
    ///
    /// let refused = DurableTimer::builder().lease(Duration::ZERO).open_in_memory(&ManualClock::new());
    /// assert!(matches!(refused, Err(Error::Config(_))));
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// As [`on`](DurableTimerBuilder::on), with a handler that is async. It runs in the tokio runtime inside which this is called, as a task: no thread waits for it. As many
    /// handlers run at a time as [`threads`](DurableTimerBuilder::threads) says, async or not; where all are async, that may be up to 65 536, and one thread begins them. A run whose
    /// runtime ends is a retry.
    ///
    /// # Errors
    /// Outside a runtime it is an [`Error::Config`] when the timer is opened.
    ///
    /// ```
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let folder = std::env::temp_dir().join(format!("durable-doc-on-async-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("timers.redb");
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(async {
    /// let timer = DurableTimer::builder()
    ///     .on_async("mail", |job| async move {
    ///         tokio::time::sleep(Duration::from_millis(1)).await;
    ///         println!("{:?}", job.payload());
    ///         Outcome::Done
    ///     })
    ///     .open_async(&path)
    ///     .await?;
    /// timer.job("mail").payload("hello").after(Duration::ZERO).await?;
    /// timer.stop().await?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// # }).unwrap();
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    #[cfg(feature = "tokio")]
    pub fn on_async<F>(
        mut self,
        kind: impl Into<String>,
        handler: impl Fn(Job) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let kind = kind.into();
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let handler = Handler::Async(Box::new(move |job| Box::pin(handler(job))), runtime);
                self.handlers.push((kind, handler));
            }
            Err(error) => {
                let text = format!("the handler of {kind:?} is async: {error}");
                self.problem = Some(Error::Config(text));
            }
        }
        self
    }

    /// As [`open`](DurableTimerBuilder::open), for async code.
    ///
    /// # Errors
    /// Those of [`open`](DurableTimerBuilder::open).
    ///
    /// ```
    /// # use hashed_wheel_durable::DurableTimer;
    /// # let folder = std::env::temp_dir().join(format!("durable-doc-open-async-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("timers.redb");
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let timer = DurableTimer::builder().open_async(&path).await?;
    /// # timer.stop().await?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// # }).unwrap();
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    #[cfg(feature = "tokio")]
    pub async fn open_async(self, path: impl AsRef<Path>) -> Result<AsyncDurableTimer, Error> {
        let path = path.as_ref().to_owned();
        AsyncDurableTimer::open(move || self.open(path)).await
    }

    /// As [`open_postgres`](DurableTimerBuilder::open_postgres), for async code.
    ///
    /// # Errors
    /// Those of [`open_postgres`](DurableTimerBuilder::open_postgres).
    ///
    /// ```no_run
    /// # use hashed_wheel_durable::DurableTimer;
    /// # async fn example() -> Result<(), hashed_wheel_durable::Error> {
    /// let timer = DurableTimer::builder().open_postgres_async("postgres://app:secret@db.example/shop").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "tokio", feature = "postgres"))]
    pub async fn open_postgres_async(self, url: &str) -> Result<AsyncDurableTimer, Error> {
        let url = url.to_owned();
        AsyncDurableTimer::open(move || self.open_postgres(&url)).await
    }

    /// Settings of one kind, in the place of those for all.
    ///
    /// # Errors
    /// Those of a kind without a handler are [`Error::Config`] when the timer is opened.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// use hashed_wheel_durable::{DurableTimer, KindOptions, Outcome};
    /// use std::time::Duration;
    ///
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Done)
    ///     .kind("mail", KindOptions::default().max_attempts(3).concurrency(2))
    ///     .open_in_memory(&ManualClock::new())?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn kind(mut self, kind: impl Into<String>, options: KindOptions) -> Self {
        self.kinds.insert(kind.into(), options);
        self
    }

    /// How long a call waits for the database: 10 s unless told, at least 100 ms. After that it is an error, which says whether the call may have taken place. It is the limit of a
    /// statement as well. For PostgreSQL; a file answers or fails.
    ///
    /// ```
    /// # use hashed_wheel_durable::DurableTimer;
    /// # use std::time::Duration;
    /// let builder = DurableTimer::builder().patience(Duration::from_secs(2));
    /// ```
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Reads and checks all of the file when it is opened, which takes as long as reading it does. A job that is damaged is among the dead afterwards, with that reason.
    ///
    /// If redb finds a damaged page, the jobs are copied to a new file, which takes the name of the damaged one; that is kept as `NAME.damaged`. A file in which not every job can be
    /// found any more, because the pages that lead to them are damaged, is refused as a whole: [`Error::Store`] names it and says so.
    ///
    /// Without this every job is checked when it is claimed, and the index of due times once after the opening, in the background. If anything does not fit, calls get
    /// [`Error::Poisoned`] for a moment, and the file is opened again as with `verify(true)`.
    ///
    /// ```
    /// # use hashed_wheel_durable::DurableTimer;
    /// # let folder = std::env::temp_dir().join(format!("durable-doc-verify-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("timers.redb");
    /// let timer = DurableTimer::builder().verify(true).open(&path)?;
    /// assert!(timer.dead(100)?.is_empty());
    /// # drop(timer);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }

    /// Removes dead letters when they have been dead for so long; without this they are kept until they are revived or discarded.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Dead("no such user".into()))
    ///     .keep_dead(Duration::from_secs(7 * 24 * 3600))
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_secs(24 * 3600));
    /// assert_eq!(timer.dead(10)?.len(), 1);
    /// clock.advance(Duration::from_secs(8 * 24 * 3600));
    /// assert_eq!(timer.dead(10)?.len(), 0);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn keep_dead(mut self, time: Duration) -> Self {
        self.keep_dead = Some(time);
        self
    }

    /// Has this called for every job that dies here, once its death is stored, on a thread of the handlers. It is a hint for people: a process that is killed in between
    /// does not call it, and [`dead`](DurableTimer::dead) has all of them.
    ///
    /// ```
    /// # use hashed_wheel::ManualClock;
    /// # use hashed_wheel_durable::{DurableTimer, Outcome};
    /// # use std::time::Duration;
    /// # let clock = ManualClock::new();
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Dead("no such user".into()))
    ///     .on_dead(|dead| println!("{} gave up: {}", dead.kind, dead.last_error))
    ///     .open_in_memory(&clock)?;
    /// timer.job("mail").after(Duration::ZERO)?;
    /// clock.advance(Duration::from_millis(1));
    /// # assert_eq!(timer.stats().dead, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn on_dead(mut self, tell: impl Fn(&DeadJob) + Send + Sync + 'static) -> Self {
        self.on_dead = Some(Box::new(tell));
        self
    }

    /// Opens the store in this file, and makes it if it is not there. What is overdue runs at once.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting out of its range; [`Error::InUse`] if the file is open already; [`Error::Store`] if it is no
    /// store, is damaged, read-only, of a newer version, or cannot be made. Then nothing has been overwritten.
    ///
    /// ```
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    /// use std::sync::mpsc;
    /// use std::time::Duration;
    ///
    /// # let folder = std::env::temp_dir().join(format!("durable-doc-open-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// # let path = folder.join("timers.redb");
    /// let timer = DurableTimer::builder().open(&path)?;
    /// timer.job("greet").payload("you").after(Duration::from_millis(20))?;
    /// drop(timer);
    ///
    /// // Later, perhaps in another process:
    /// let (sender, greeted) = mpsc::channel();
    /// let timer = DurableTimer::builder()
    ///     .on("greet", move |job| {
    ///         sender.send(job.payload().to_vec()).unwrap();
    ///         Outcome::Done
    ///     })
    ///     .open(&path)?;
    /// assert_eq!(greeted.recv().unwrap(), b"you");
    /// timer.stop()?;
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn open(self, path: impl AsRef<Path>) -> Result<DurableTimer, Error> {
        let verify = self.verify;
        let settings = self.settings(LEAD)?;
        let store = RedbStore::open(path.as_ref(), &kinds(&settings), verify)?;
        start(settings, Box::new(store), Arc::new(SystemWall), None)
    }

    /// Opens the store in a PostgreSQL database, and makes its table if that is not there. Any number of processes may share it; each job is run by one of
    /// them. The [page on PostgreSQL](crate::docs::postgres) has the table, the leases, and what happens when the network fails.
    ///
    /// `url` is a connection string as in libpq: `postgres://user:password@host:port/database`, or pairs as in `host=/run/postgresql user=app dbname=app`. The connection
    /// is not encrypted; see [`open_postgres_with`](Self::open_postgres_with). May be called inside an async runtime.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting out of its range or a connection string that cannot be read; [`Error::Store`] if the database cannot be reached or refuses
    /// something, if its table is of a newer version, or if its encoding is not UTF-8.
    ///
    /// ```no_run
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    /// use std::time::Duration;
    ///
    /// let timer = DurableTimer::builder()
    ///     .on("close-order", |job| { println!("{:?}", job.payload()); Outcome::Done })
    ///     .open_postgres("postgres://app:secret@db.example/shop")?;
    /// timer.job("close-order").key("order:42").payload("42").after(Duration::from_secs(1800))?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    #[cfg(feature = "postgres")]
    pub fn open_postgres(self, url: &str) -> Result<DurableTimer, Error> {
        let config = crate::store::postgres::parse(url)?;
        let connect = crate::store::postgres::connector(::postgres::NoTls);
        self.open_table(connect, config)
    }

    /// As [`open_postgres`](Self::open_postgres), with a configuration and a choice of TLS: a connector of `postgres-native-tls`, `postgres-openssl` or
    /// `tokio-postgres-rustls`. The crate [`postgres`](crate::postgres) is exported, so that its types are of the right version.
    ///
    /// # Errors
    /// Those of [`open_postgres`](Self::open_postgres).
    ///
    /// ```no_run
    /// use hashed_wheel_durable::postgres::{Config, NoTls};
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    ///
    /// let mut config = Config::new();
    /// config.host("db.example").user("app").password("secret").dbname("shop");
    /// let timer = DurableTimer::builder()
    ///     .on("mail", |_| Outcome::Done)
    ///     .open_postgres_with(config, NoTls)?;
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    #[cfg(feature = "postgres")]
    #[expect(clippy::needless_pass_by_value, reason = "a contract")]
    pub fn open_postgres_with<T>(
        self,
        config: ::postgres::Config,
        tls: T,
    ) -> Result<DurableTimer, Error>
    where
        T: ::postgres::tls::MakeTlsConnect<::postgres::Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as ::postgres::tls::TlsConnect<::postgres::Socket>>::Future: Send,
    {
        use crate::store::postgres::{connector, translate};

        self.open_table(connector(tls), translate(&config))
    }

    #[cfg(feature = "postgres")]
    fn open_table(
        self,
        connect: crate::store::postgres::Connect,
        config: tokio_postgres::Config,
    ) -> Result<DurableTimer, Error> {
        use crate::store::postgres::{ConnectOptions, PostgresStore};

        let options = ConnectOptions {
            connect,
            config,
            prefix: self.prefix.clone(),
            lease: self.lease,
            horizon: self.horizon,
            patience: self.patience,
        };
        let settings = self.settings(LEAD)?;
        // The client has a runtime of its own, which cannot be used inside another one.
        on_a_thread(move || {
            let store = PostgresStore::open(options, &kinds(&settings))?;
            let clock = store.clock();
            start(settings, Box::new(store), clock, None)
        })
    }

    /// The beginning of the names of the table and its indexes, for several timers in one database: 1 to 40 of a-z, 0-9 and `_`, not beginning with a
    /// digit. `durable_` unless set, which makes the table `durable_jobs`.
    ///
    /// ```
    /// use hashed_wheel_durable::{DurableTimer, Error};
    ///
    /// let refused = DurableTimer::builder().table_prefix("my jobs;").open_postgres("host=db.example");
    /// assert!(matches!(refused, Err(Error::Config(_))));
    /// ```
    #[cfg(feature = "postgres")]
    pub fn table_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Opens a store in memory on a manual clock, for tests: the same rules without disk, threads and waiting. Wall time is
    /// `UNIX_EPOCH + clock.now()`.
    ///
    /// Handlers run inside [`advance`](ManualClock::advance), on its thread. When it returns, all that fell due is acknowledged. Jobs are claimed
    /// when they are due, not before, so that they can be cancelled until then. If the clock is not at a whole millisecond when the timer is opened, they run up
    /// to a millisecond after their time.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    ///
    /// ```
    /// use hashed_wheel::ManualClock;
    /// use hashed_wheel_durable::{DurableTimer, Outcome};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let timer = DurableTimer::builder().on("expire", |_| Outcome::Done).open_in_memory(&clock)?;
    /// timer.job("expire").key("session:1").after(Duration::from_secs(1800))?;
    /// clock.advance(Duration::from_secs(1799));
    /// assert!(timer.reschedule("session:1", Duration::from_secs(1800))?);
    /// clock.advance(Duration::from_secs(1799));
    /// assert_eq!(timer.stats().fired, 0);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!(timer.stats().fired, 1);
    /// # Ok::<(), hashed_wheel_durable::Error>(())
    /// ```
    pub fn open_in_memory(self, clock: &ManualClock) -> Result<DurableTimer, Error> {
        let settings = self.settings(Duration::ZERO)?;
        let store = MemoryStore::new(&kinds(&settings));
        let wall = Arc::new(ManualWall(clock.clone()));
        start(settings, Box::new(store), wall, Some(clock))
    }

    pub(crate) fn settings(self, lead: Duration) -> Result<Settings, Error> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        for (number, (kind, _)) in self.handlers.iter().enumerate() {
            check_kind(kind)?;
            if self.handlers[..number]
                .iter()
                .any(|(other, _)| other == kind)
            {
                return Err(Error::Config(format!("the kind {kind:?} has two handlers")));
            }
        }
        let all_async = self.handlers.iter().all(|(_, handler)| handler.is_async());
        let most = if all_async && !self.handlers.is_empty() {
            MAX_TASKS
        } else {
            MAX_THREADS
        };
        if self.threads == 0 || self.threads > most {
            return Err(Error::Config(format!(
                "threads is {}: it must be 1 to {most}",
                self.threads
            )));
        }
        let policy = Policy::new(self.max_attempts, self.backoff)?;
        for (name, value) in [("horizon", self.horizon), ("lease", self.lease)] {
            if value < Duration::from_millis(1) {
                return Err(Error::Config(format!(
                    "{name} is {value:?}: it must be at least 1 ms"
                )));
            }
        }
        if self.patience < SHORTEST_PATIENCE {
            return Err(Error::Config(format!(
                "patience is {:?}: it must be at least {SHORTEST_PATIENCE:?}",
                self.patience
            )));
        }
        let mut options = self.kinds;
        let mut kinds = Vec::with_capacity(self.handlers.len());
        for (name, handler) in self.handlers {
            let options = options.remove(&name).unwrap_or_default();
            let concurrency = options.concurrency.unwrap_or(usize::MAX);
            if concurrency == 0 {
                return Err(Error::Config(format!(
                    "the concurrency of the kind {name:?} is 0: it must be at least 1"
                )));
            }
            kinds.push(Kind {
                policy: Policy::new(
                    options.max_attempts.unwrap_or(self.max_attempts),
                    options.backoff.unwrap_or(self.backoff),
                )?,
                name,
                handler,
                concurrency,
            });
        }
        if let Some(kind) = options.into_keys().next() {
            return Err(Error::Config(format!(
                "the kind {kind:?} has settings and no handler"
            )));
        }
        Ok(Settings {
            threads: self.threads,
            policy,
            lead: lead.min(self.horizon),
            patience: self.patience,
            kinds,
            on_dead: self.on_dead,
            keep_dead: self.keep_dead,
        })
    }
}

/// Settings of one kind; what is not set is as for all. For [`DurableTimerBuilder::kind`].
///
/// ```
/// use hashed_wheel_durable::KindOptions;
/// use std::time::Duration;
///
/// let options = KindOptions::default()
///     .max_attempts(3)
///     .backoff(Duration::from_secs(10), Duration::from_secs(600))
///     .concurrency(2);
/// ```
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct KindOptions {
    max_attempts: Option<u32>,
    backoff: Option<(Duration, Duration)>,
    concurrency: Option<usize>,
}

impl KindOptions {
    /// As [`DurableTimerBuilder::max_attempts`].
    ///
    /// ```
    /// # use hashed_wheel_durable::KindOptions;
    /// let options = KindOptions::default().max_attempts(3);
    /// ```
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }

    /// As [`DurableTimerBuilder::backoff`].
    ///
    /// ```
    /// # use hashed_wheel_durable::KindOptions;
    /// # use std::time::Duration;
    /// let options = KindOptions::default().backoff(Duration::from_secs(10), Duration::from_secs(600));
    /// ```
    pub fn backoff(mut self, first: Duration, most: Duration) -> Self {
        self.backoff = Some((first, most));
        self
    }

    /// How many jobs of the kind this process runs at once, at least 1; without it, as many as there are threads.
    ///
    /// ```
    /// # use hashed_wheel_durable::KindOptions;
    /// let one_at_a_time = KindOptions::default().concurrency(1);
    /// ```
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.concurrency = Some(jobs);
        self
    }
}

pub(crate) fn kinds(settings: &Settings) -> Vec<String> {
    settings
        .kinds
        .iter()
        .map(|kind| kind.name.clone())
        .collect()
}

/// Runs something on a thread of its own, and waits for it.
#[cfg(feature = "postgres")]
fn on_a_thread<T: Send>(work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("durable-open".to_owned())
            .spawn_scoped(scope, work)
            .map_err(|error| StoreError::with("cannot start a thread", error))?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub(crate) fn start(
    settings: Settings,
    store: Box<dyn Store>,
    wall: Arc<dyn WallClock>,
    clock: Option<&ManualClock>,
) -> Result<DurableTimer, Error> {
    Ok(DurableTimer::new(Engine::start(
        settings, store, wall, clock,
    )?))
}

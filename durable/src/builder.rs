//! Settings, and opening a timer.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hashed_wheel::ManualClock;

use crate::engine::{Engine, Handler, LEAD, Settings};
use crate::error::Error;
#[cfg(feature = "postgres")]
use crate::error::StoreError;
use crate::job::{Job, Outcome};
use crate::policy::Policy;
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redb::RedbStore;
use crate::time::{ManualWall, SystemWall, WallClock};
use crate::timer::{DurableTimer, check_kind};

/// The most threads that handlers can run on.
const MAX_THREADS: usize = 1024;

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
            .field("lease", &self.lease);
        #[cfg(feature = "postgres")]
        text.field("table_prefix", &self.prefix);
        text.finish()
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
        self.handlers.push((kind.into(), Box::new(handler)));
        self
    }

    /// The number of threads that handlers run on: 4 unless set, 1 to 1024.
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
        let settings = self.settings(LEAD)?;
        let store = RedbStore::open(path.as_ref(), &kinds(&settings))?;
        start(settings, Box::new(store), Arc::new(SystemWall))
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
        self.open_postgres_with(config, ::postgres::NoTls)
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
    pub fn open_postgres_with<T>(
        self,
        config: ::postgres::Config,
        connector: T,
    ) -> Result<DurableTimer, Error>
    where
        T: ::postgres::tls::MakeTlsConnect<::postgres::Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as ::postgres::tls::TlsConnect<::postgres::Socket>>::Future: Send,
    {
        use crate::store::postgres::{Place, PostgresStore};

        let place = Place {
            connect: Arc::new(move |config| config.connect(connector.clone())),
            config,
            prefix: self.prefix.clone(),
            lease: self.lease,
            horizon: self.horizon,
        };
        let settings = self.settings(LEAD)?;
        // The client has a runtime of its own, which cannot be used inside another one.
        on_a_thread(move || {
            let store = PostgresStore::open(place, &kinds(&settings))?;
            let clock = store.clock();
            start(settings, Box::new(store), clock)
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
        Ok(DurableTimer::new(Engine::start_manual(
            settings,
            Box::new(store),
            wall,
            clock,
        )?))
    }

    /// Over any store and clock, with a lead of its own: for tests of this crate.
    #[cfg(test)]
    pub(crate) fn open_manual(
        self,
        clock: &ManualClock,
        lead: Duration,
        store: impl FnOnce(&[String]) -> Box<dyn Store>,
    ) -> Result<DurableTimer, Error> {
        let settings = self.settings(lead)?;
        let store = store(&kinds(&settings));
        let wall = Arc::new(ManualWall(clock.clone()));
        Ok(DurableTimer::new(Engine::start_manual(
            settings, store, wall, clock,
        )?))
    }

    /// With threads, over any store and clock: for tests of this crate.
    #[cfg(test)]
    pub(crate) fn open_with(
        self,
        wall: Arc<dyn WallClock>,
        store: impl FnOnce(&[String]) -> Box<dyn Store>,
    ) -> Result<DurableTimer, Error> {
        let settings = self.settings(LEAD)?;
        let store = store(&kinds(&settings));
        start(settings, store, wall)
    }

    fn settings(self, lead: Duration) -> Result<Settings, Error> {
        for (number, (kind, _)) in self.handlers.iter().enumerate() {
            check_kind(kind)?;
            if self.handlers[..number]
                .iter()
                .any(|(other, _)| other == kind)
            {
                return Err(Error::Config(format!("the kind {kind:?} has two handlers")));
            }
        }
        if self.threads == 0 || self.threads > MAX_THREADS {
            return Err(Error::Config(format!(
                "threads is {}: it must be 1 to {MAX_THREADS}",
                self.threads
            )));
        }
        if self.max_attempts == 0 {
            return Err(Error::Config(
                "max_attempts is 0: it must be at least 1".to_owned(),
            ));
        }
        let (first, most) = self.backoff;
        if first > most {
            return Err(Error::Config(format!(
                "the first delay of the back-off is {first:?}: it must be at most its longest, {most:?}"
            )));
        }
        for (name, value) in [("horizon", self.horizon), ("lease", self.lease)] {
            if value < Duration::from_millis(1) {
                return Err(Error::Config(format!(
                    "{name} is {value:?}: it must be at least 1 ms"
                )));
            }
        }
        Ok(Settings {
            threads: self.threads,
            policy: Policy {
                max_attempts: self.max_attempts,
                first,
                most,
            },
            lead: lead.min(self.horizon),
            handlers: self.handlers,
        })
    }
}

fn kinds(settings: &Settings) -> Vec<String> {
    settings
        .handlers
        .iter()
        .map(|(kind, _)| kind.clone())
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

fn start(
    settings: Settings,
    store: Box<dyn Store>,
    wall: Arc<dyn WallClock>,
) -> Result<DurableTimer, Error> {
    Ok(DurableTimer::new(Engine::start(settings, store, wall)?))
}

//! The connection that writes, and what becomes of a transaction when something fails.
//!
//! All statements of a transaction are sent at once, and COMMIT when they are answered: two round trips. Whatever fails before COMMIT is sent has not taken place. After any error of
//! COMMIT (the server's, a lost connection, no answer in time) nobody knows. But every transaction that writes also notes its number in the row of this process. That row is read: if
//! it has the number, the transaction took place, and the answers hold; else it is carried out again. So nothing is stored twice, and nothing is taken for stored that is not. Only
//! when the row cannot be read in time is the caller told that nobody knows.
//!
//! The server's own ids of transactions would not do (`pg_xact_status`): after a crash the server may give the id of a transaction that was not on disk to another one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, Row};

use super::clock::ServerClock;
use super::config::{Names, describe};
use super::schema::{self, NO_ROW};
use super::session::{Connect, ProcessRow, Session, Step, connect, step};
use super::sql::Query;
use crate::error::{Fate, StoreError};
use crate::stats::Told;

/// The pauses between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Conflicts with other processes after which a transaction is given up.
const CONFLICTS: u32 = 100;

/// After a wait for somebody's lock that was in vain, the next ones are short for so long.
const HASTE: Duration = Duration::from_secs(1);

/// A doubt is given this time at least to be resolved.
const DOUBT: Duration = Duration::from_secs(1);

/// The connection to the database, made again when it is lost.
pub(super) struct Link {
    runtime: Arc<Runtime>,
    connect: Connect,
    config: Config,
    names: Names,
    clock: Arc<ServerClock>,
    patience: Duration,
    session: Option<Session>,
    /// Of the connection that was lost.
    process: Option<ProcessRow>,
    /// Since when the database has not answered.
    lost: Option<Instant>,
    told: Told,
    /// Until when locks are hardly waited for.
    hasty: Instant,
}

/// Why a transaction has no result yet.
struct Failure {
    /// Of the client or the server; `None`: no answer came in time.
    error: Option<Error>,
    /// The connection is of no use any more.
    lost: bool,
    /// COMMIT was sent, and nobody knows whether it has taken place. If it has, these are the answers to the statements.
    doubt: Option<Vec<Vec<Row>>>,
}

/// Why a question has no answer.
enum Trouble {
    /// The connection is lost, and this is how.
    Lost(String),
    Refused(Error),
}

impl Failure {
    fn before(error: Option<Error>) -> Failure {
        Failure {
            lost: error.as_ref().is_none_or(is_connection_error),
            error,
            doubt: None,
        }
    }
}

/// Runs one transaction: two round trips.
async fn transaction(
    session: &mut Session,
    mut steps: Vec<Step<'_>>,
    deadline: Instant,
    hasty: bool,
) -> Result<Vec<Vec<Row>>, Failure> {
    let before = 1 + usize::from(hasty);
    if hasty {
        steps.insert(0, step![Query::Hasty]);
    }
    steps.insert(0, step![Query::Begin]);
    let answers = timeout_at(deadline.into(), session.run(&steps)).await;
    let answers = answers.map_err(|_| Failure::before(None))?;
    let mut answers = answers.map_err(|error| Failure::before(Some(error)))?;
    // A BEGIN that was cancelled leaves each of the others a transaction of its own, and what they answered holds.
    if answers[0].is_err() && answers[1..].iter().all(Result::is_ok) {
        answers.drain(..before);
        return Ok(answers.into_iter().flatten().collect());
    }
    let answers: Result<Vec<_>, Error> = answers.into_iter().collect();
    let mut rows = match answers {
        Ok(rows) => rows,
        Err(error) => {
            // The first error is the cause, and those after it are its echo.
            let mut failure = Failure::before(Some(error));
            let undone = session.client.batch_execute("ROLLBACK");
            let undone = timeout_at(deadline.into(), undone).await;
            failure.lost |= !matches!(undone, Ok(Ok(())));
            return Err(failure);
        }
    };
    rows.drain(..before);
    // The clock is read after the commit, so that the time of the commit is not in it.
    let end = [step![Query::Commit], step![Query::Clock]];
    let mut answers = match timeout_at(deadline.into(), session.run(&end)).await {
        Ok(Ok(answers)) => answers,
        Ok(Err(error)) => vec![Err(error)],
        Err(_) => Vec::new(),
    }
    .into_iter();
    match answers.next() {
        Some(Ok(_)) => {}
        // Not even whether the connection is still inside of the transaction.
        failed => {
            return Err(Failure {
                error: failed.and_then(Result::err),
                lost: true,
                doubt: Some(rows),
            });
        }
    }
    // Whatever becomes of the clock, the commit has taken place.
    if let Some(Ok(clock)) = answers.next() {
        session.set_clock(clock[0].get(0));
    }
    Ok(rows)
}

const LATE: &str = "the database has not answered in time";
const UNKNOWN: &str =
    "the answer to a commit was lost, and nobody knows whether it has taken place";

impl Link {
    pub(super) fn open(
        connect: Connect,
        config: Config,
        names: Names,
        clock: Arc<ServerClock>,
        patience: Duration,
    ) -> Result<Link, StoreError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::with("cannot make a runtime", error))?;
        let mut link = Link {
            runtime: Arc::new(runtime),
            connect,
            config,
            names,
            clock,
            patience,
            session: None,
            process: None,
            lost: None,
            told: Told::default(),
            hasty: Instant::now(),
        };
        let connecting = self::connect(&link.connect, &link.config);
        let mut client = link
            .runtime
            .block_on(connecting)
            .map_err(|error| link.failed("cannot connect", error))?;
        link.runtime
            .block_on(schema::prepare(&mut client, &link.names))
            .map_err(|problem| match problem {
                schema::Problem::Refused(error) => error,
                schema::Problem::Failed(error) => link.failed("cannot make the table", error),
            })?;
        let opening = Session::open(client, &link.names, &link.clock, link.patience, None);
        let session = link
            .runtime
            .block_on(opening)
            .map_err(|error| link.failed("cannot prepare the connection", error))?;
        link.session = Some(session);
        Ok(link)
    }

    /// For other connections to the same database.
    pub(super) fn connector(&self) -> (Connect, Config) {
        (Arc::clone(&self.connect), self.config.clone())
    }

    pub(super) fn describe(&self) -> String {
        describe(&self.config)
    }

    /// The server's process that carries out our transactions.
    pub(super) fn backend(&self) -> i32 {
        self.session
            .as_ref()
            .map_or(0, |session| session.process.backend.0)
    }

    fn failed(&self, what: &str, error: Error) -> StoreError {
        let text = format!("{}: {what}: {}", self.describe(), reason(&error));
        let locked = error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE);
        let fate = if locked { Fate::Locked } else { Fate::Passes };
        StoreError::telling(text, error).that(fate)
    }

    fn is_out_of_patience(&self) -> bool {
        self.lost
            .is_some_and(|lost| lost.elapsed() >= self.patience)
    }

    fn lose(&mut self, why: &str) {
        if let Some(session) = self.session.take() {
            self.process = Some(session.process);
        }
        let now = Instant::now();
        self.lost.get_or_insert(now);
        if self.told.tell(true, now) {
            log::warn!("{}: {why}; connecting again", self.describe());
        }
    }

    fn answered(&mut self) {
        self.lost = None;
        if self.told.tell(false, Instant::now()) {
            log::info!("{}: connected again", self.describe());
        }
    }

    /// The connection; a new one if it is lost, which takes one attempt.
    async fn session(&mut self, deadline: Instant) -> Result<&mut Session, String> {
        if self.session.is_none() {
            let opening = async {
                let client: Client = connect(&self.connect, &self.config).await?;
                let (names, clock) = (&self.names, &self.clock);
                Session::open(client, names, clock, self.patience, self.process).await
            };
            let session = timeout_at(deadline.into(), opening)
                .await
                .map_err(|_| LATE.to_owned())?
                .map_err(|error| reason(&error))?;
            self.session = Some(session);
        }
        Ok(self.session.as_mut().expect("it is connected"))
    }

    /// The connection; a new one if it is lost, for which the database is waited for.
    async fn wait_for_session(
        &mut self,
        what: &str,
        deadline: Instant,
    ) -> Result<&mut Session, StoreError> {
        let (mut pause, longest) = PAUSES;
        while let Err(why) = self.session(deadline).await.map(|_| ()) {
            self.lose(&why);
            let over = Instant::now() + pause >= deadline;
            if over || self.is_out_of_patience() {
                let text = format!("{}: {what}: {why}", self.describe());
                return Err(StoreError::new(text).that(Fate::Away));
            }
            sleep(pause).await;
            pause = (pause * 2).min(longest);
        }
        Ok(self.session.as_mut().expect("it is connected"))
    }

    /// Carries out a transaction: `steps` is given the row of this process with the number of the transaction, and makes its statements, without BEGIN and COMMIT. The rows of each.
    /// An error means that it has not taken place, or says that nobody knows.
    pub(super) fn transact<'a>(
        &mut self,
        what: &str,
        deadline: Instant,
        steps: impl Fn(ProcessRow) -> Vec<Step<'a>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let runtime = Arc::clone(&self.runtime);
        runtime.block_on(self.try_transact(what, deadline, steps))
    }

    async fn try_transact<'a>(
        &mut self,
        what: &str,
        deadline: Instant,
        steps: impl Fn(ProcessRow) -> Vec<Step<'a>>,
    ) -> Result<Vec<Vec<Row>>, StoreError> {
        let mut conflicts = 0;
        loop {
            let hasty = Instant::now() < self.hasty;
            let session = self.wait_for_session(what, deadline).await?;
            session.process.number += 1;
            let process = session.process;
            let failure = match transaction(session, steps(process), deadline, hasty).await {
                Ok(rows) => {
                    self.answered();
                    return Ok(rows);
                }
                Err(failure) => failure,
            };
            let Failure { error, lost, doubt } = failure;
            let lost = lost || session.client.is_closed();
            let why = error.as_ref().map_or_else(|| LATE.to_owned(), reason);
            let code = error.as_ref().and_then(Error::code).cloned();
            let failed = match error {
                Some(error) => self.failed(what, error),
                None => {
                    StoreError::new(format!("{}: {what}: {LATE}", self.describe())).that(Fate::Away)
                }
            };
            if failed.is_locked() {
                self.hasty = Instant::now() + HASTE;
            }
            if lost {
                self.lose(&why);
            }
            if let Some(rows) = doubt {
                let until = deadline.max(Instant::now() + DOUBT);
                if self.has_committed(process, until).await? {
                    self.answered();
                    return Ok(rows);
                }
            } else if !lost && code.as_ref().is_some_and(|code| code.code() == NO_ROW) {
                let entered = match &mut self.session {
                    Some(session) => session.enter().await,
                    None => Ok(()),
                };
                entered.map_err(|error| self.failed(what, error))?;
            } else if !lost {
                conflicts += 1;
                if conflicts > CONFLICTS || !code.is_some_and(|code| is_conflict(&code)) {
                    return Err(failed);
                }
            }
            if Instant::now() >= deadline || self.is_out_of_patience() {
                return Err(failed);
            }
        }
    }

    /// Finds out how a transaction of this process has ended.
    async fn has_committed(
        &mut self,
        process: ProcessRow,
        deadline: Instant,
    ) -> Result<bool, StoreError> {
        loop {
            self.wait_for_session(UNKNOWN, deadline).await?;
            let marked = step![Query::Marked; process.id];
            let why = match self.question(deadline, marked).await {
                Ok(rows) => match rows.first() {
                    Some(row) => return Ok(row.get::<_, i64>(0) == process.number),
                    None => "the row of this process is gone".to_owned(),
                },
                // The transaction is still under way.
                Err(Trouble::Refused(error))
                    if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) =>
                {
                    LATE.to_owned()
                }
                Err(Trouble::Refused(error)) => reason(&error),
                Err(Trouble::Lost(why)) => why,
            };
            if Instant::now() >= deadline || self.is_out_of_patience() {
                let text = format!("{}: {UNKNOWN}: {why}", self.describe());
                return Err(StoreError::new(text).that(Fate::Passes));
            }
            sleep(PAUSES.0).await;
        }
    }

    /// Asks something outside any transaction, once.
    async fn question(&mut self, deadline: Instant, step: Step<'_>) -> Result<Vec<Row>, Trouble> {
        let why = match self.session(deadline).await {
            Err(why) => why,
            Ok(session) => match timeout_at(deadline.into(), session.query(step)).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) if session.client.is_closed() || is_connection_error(&error) => {
                    reason(&error)
                }
                Ok(Err(error)) => return Err(Trouble::Refused(error)),
                Err(_) => LATE.to_owned(),
            },
        };
        self.lose(&why);
        Err(Trouble::Lost(why))
    }

    /// Asks something outside any transaction, in one attempt. Waits for the database if told to.
    pub(super) fn ask(
        &mut self,
        deadline: Instant,
        wait: bool,
        step: impl Fn() -> Step<'static>,
    ) -> Result<Vec<Row>, StoreError> {
        let runtime = Arc::clone(&self.runtime);
        runtime.block_on(async {
            loop {
                let why = match self.question(deadline, step()).await {
                    Ok(rows) => {
                        self.answered();
                        return Ok(rows);
                    }
                    Err(Trouble::Refused(error)) => {
                        return Err(self.failed("cannot read", error));
                    }
                    Err(Trouble::Lost(why)) => why,
                };
                if !wait || Instant::now() >= deadline || self.is_out_of_patience() {
                    let text = format!("{}: cannot read: {why}", self.describe());
                    return Err(StoreError::new(text).that(Fate::Away));
                }
                sleep(PAUSES.0).await;
            }
        })
    }

    /// Removes the row of this process: there will be no more transactions.
    pub(super) fn leave(&mut self) {
        if let Some(mut session) = self.session.take() {
            let id = session.process.id;
            let leaving = session.query(step![Query::Leave; id]);
            let left = self
                .runtime
                .block_on(async { tokio::time::timeout(DOUBT, leaving).await });
            if !matches!(left, Ok(Ok(_))) {
                log::debug!("the row of this process stays for a day");
            }
        }
    }
}

/// The server's words, or those of what failed on the way to it.
pub(super) fn reason(error: &Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Not an answer of the server, or one that ends the connection.
fn is_connection_error(error: &Error) -> bool {
    match error.code() {
        None => true,
        Some(code) => {
            code.code().starts_with("08")
                || [
                    SqlState::ADMIN_SHUTDOWN,
                    SqlState::CRASH_SHUTDOWN,
                    SqlState::CANNOT_CONNECT_NOW,
                    SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                    SqlState::TOO_MANY_CONNECTIONS,
                ]
                .contains(code)
        }
    }
}

/// Another process was in the way: the same transaction may succeed now. A unique violation is one, of a key that another process took in the moment
/// between two statements; so is a division by zero, by which an insert says the same.
fn is_conflict(code: &SqlState) -> bool {
    [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
        SqlState::DIVISION_BY_ZERO,
    ]
    .contains(code)
}

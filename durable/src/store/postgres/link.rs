//! The connection, and what becomes of a transaction when it is lost.
//!
//! A transaction whose connection is lost before COMMIT was sent has not taken place: it is carried out again on a new connection. If the connection
//! is lost after that, nobody knows. But the transaction has an id, which was asked for before; the server remembers how it ended, and a new connection asks
//! (`pg_xact_status`). If it committed, the answers that were read before hold; else it is carried out again. So nothing is stored twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ::postgres::error::SqlState;
use ::postgres::types::ToSql;
use ::postgres::{Client, Config, Error, Row, SimpleQueryMessage, Statement};

use super::clock::ServerClock;
use super::config::{Names, describe};
use super::sql::{self, Query};
use crate::broken;
use crate::error::StoreError;

/// Callers wait so long for a database that cannot be reached. After that they are told at once, until it is back.
pub(super) const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 3 } else { 10 });

/// The pauses between attempts to connect.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Conflicts with other processes after which a transaction is given up.
const CONFLICTS: u32 = 100;

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// Opens connections: the user's choice of TLS is inside.
pub(crate) type Connect = Arc<dyn Fn(&Config) -> Result<Client, Error> + Send + Sync>;

/// One connection, with the statements that it has prepared.
pub(super) struct Session {
    client: Client,
    prepared: HashMap<Query, Statement>,
    names: Names,
    clock: Arc<ServerClock>,
    /// The number of the server's process.
    pub(super) backend: i32,
}

impl Session {
    fn open(mut client: Client, names: &Names, clock: &Arc<ServerClock>) -> Result<Session, Error> {
        client.batch_execute(sql::SETTINGS)?;
        let backend = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
        let mut session = Session {
            client,
            prepared: HashMap::new(),
            names: names.clone(),
            clock: Arc::clone(clock),
            backend,
        };
        session.read_clock(sql::CLOCK)?;
        Ok(session)
    }

    pub(super) fn query(
        &mut self,
        query: Query,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, Error> {
        let statement = if let Some(statement) = self.prepared.get(&query) {
            statement.clone()
        } else {
            let statement = self.client.prepare(&sql::text(query, &self.names))?;
            self.prepared.insert(query, statement.clone());
            statement
        };
        self.client.query(&statement, parameters)
    }

    /// Runs a script whose last statement reads the server's clock.
    fn read_clock(&mut self, script: &str) -> Result<(), Error> {
        for message in self.client.simple_query(script)? {
            if let SimpleQueryMessage::Row(row) = message
                && let Some(Ok(micros)) = row.get(0).map(str::parse)
            {
                self.set_clock(micros);
            }
        }
        Ok(())
    }

    /// A reading of the server's clock has just come.
    pub(super) fn set_clock(&self, micros: i64) {
        self.clock.set(micros + broken::clock_ahead() * 1000);
    }

    /// Runs one transaction. The id of what `work` wrote is known before COMMIT is sent.
    fn run<T>(&mut self, work: &mut Work<'_, T>) -> Result<T, Failure<T>> {
        self.client
            .batch_execute(sql::BEGIN)
            .map_err(Failure::Before)?;
        let (value, id) = work(self).map_err(Failure::Before)?;
        // The clock is read after the commit, so that the time of the commit is not in it.
        match self.read_clock(&format!("COMMIT; {}", sql::CLOCK)) {
            Ok(()) => Ok(value),
            Err(error) => Err(match id {
                Some(id) => Failure::AtCommit { value, id, error },
                // Nothing was written.
                None => Failure::Before(error),
            }),
        }
    }

    fn is_lost(&self, error: &Error) -> bool {
        self.client.is_closed() || is_connection_error(error)
    }
}

/// What a transaction does: its result, and its id if it has written anything. Carried out again if the connection is lost or another process is in its way.
pub(super) type Work<'a, T> = dyn FnMut(&mut Session) -> Result<(T, Option<String>), Error> + 'a;

enum Failure<T> {
    /// Not committed.
    Before(Error),
    /// Not known.
    AtCommit { value: T, id: String, error: Error },
}

/// The connection to the database, made again when it is lost.
pub(super) struct Link {
    connect: Connect,
    config: Config,
    names: Names,
    clock: Arc<ServerClock>,
    session: Option<Session>,
    /// Since when the database has not answered.
    lost: Option<Instant>,
}

impl Link {
    pub(super) fn open(
        connect: Connect,
        config: Config,
        names: Names,
        clock: Arc<ServerClock>,
        prepare: impl FnOnce(&mut Client) -> Result<(), super::schema::Problem>,
    ) -> Result<Link, StoreError> {
        let mut link = Link {
            connect,
            config,
            names,
            clock,
            session: None,
            lost: None,
        };
        let mut client =
            (link.connect)(&link.config).map_err(|error| link.failed("cannot connect", error))?;
        prepare(&mut client).map_err(|problem| match problem {
            super::schema::Problem::Refused(error) => error,
            super::schema::Problem::Failed(error) => link.failed("cannot make the table", error),
        })?;
        let session = Session::open(client, &link.names, &link.clock)
            .map_err(|error| link.failed("cannot prepare the connection", error))?;
        link.session = Some(session);
        Ok(link)
    }

    /// For another connection to the same database.
    pub(super) fn connector(&self) -> (Connect, Config) {
        (Arc::clone(&self.connect), self.config.clone())
    }

    /// The connection if there is one; nothing is waited for.
    pub(super) fn connected(&mut self) -> Option<&mut Session> {
        self.session.as_mut()
    }

    fn failed(&self, what: &str, error: Error) -> StoreError {
        let text = format!("{}: {what}: {}", describe(&self.config), reason(&error));
        StoreError::telling(text, error).passing()
    }

    fn is_out_of_patience(&self) -> bool {
        self.lost.is_some_and(|lost| lost.elapsed() >= PATIENCE)
    }

    fn lose(&mut self, error: &Error) {
        self.session = None;
        if self.lost.is_none() {
            log::warn!(
                "{}: {}; connecting again",
                describe(&self.config),
                reason(error)
            );
            self.lost = Some(Instant::now());
        }
    }

    /// The connection; a new one if it is lost, which takes one attempt.
    fn session(&mut self) -> Result<&mut Session, Error> {
        if self.session.is_none() {
            let client = (self.connect)(&self.config)?;
            self.session = Some(Session::open(client, &self.names, &self.clock)?);
        }
        Ok(self.session.as_mut().expect("it was just made"))
    }

    /// The connection; a new one if it is lost, for which the database is waited for.
    fn wait_for_session(&mut self, what: &str) -> Result<&mut Session, StoreError> {
        let (mut pause, longest) = PAUSES;
        while let Err(error) = self.session() {
            self.lose(&error);
            if self.is_out_of_patience() {
                return Err(self.failed(what, error));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(longest);
        }
        Ok(self.session.as_mut().expect("it is connected"))
    }

    fn answered(&mut self) {
        if self.lost.take().is_some() {
            log::info!("{}: connected again", describe(&self.config));
        }
    }

    /// Carries out a transaction. An error means that it has not taken place, or says that nobody knows.
    pub(super) fn transact<T>(
        &mut self,
        what: &str,
        work: &mut Work<'_, T>,
    ) -> Result<T, StoreError> {
        let mut conflicts = 0;
        loop {
            let session = self.wait_for_session(what)?;
            let (error, doubt) = match session.run(work) {
                Ok(value) => {
                    self.answered();
                    return Ok(value);
                }
                Err(Failure::Before(error)) => (error, None),
                Err(Failure::AtCommit { value, id, error }) => (error, Some((value, id))),
            };
            if session.is_lost(&error) {
                self.lose(&error);
                if let Some((value, id)) = doubt
                    && self.has_committed(&id)?
                {
                    self.answered();
                    return Ok(value);
                }
                if self.is_out_of_patience() {
                    return Err(self.failed(what, error));
                }
            } else {
                // The server has refused something, and the transaction with it.
                if let Err(error) = session.client.batch_execute("ROLLBACK") {
                    self.lose(&error);
                }
                conflicts += 1;
                if !is_conflict(&error) || conflicts > CONFLICTS {
                    return Err(self.failed(what, error));
                }
            }
        }
    }

    /// Asks the server how a transaction has ended.
    fn has_committed(&mut self, id: &str) -> Result<bool, StoreError> {
        const WHAT: &str =
            "the connection was lost during a commit, which may or may not have taken place";
        loop {
            let session = self.wait_for_session(WHAT)?;
            match session.query(Query::Status, &[&id]) {
                Ok(rows) => match rows[0].get(0) {
                    Some("committed") => return Ok(true),
                    Some("aborted") => return Ok(false),
                    Some(_) if !self.is_out_of_patience() => thread::sleep(PAUSES.0),
                    _ => return Err(StoreError::new(WHAT).passing()),
                },
                Err(error) => {
                    self.lose(&error);
                    if self.is_out_of_patience() {
                        return Err(self.failed(WHAT, error));
                    }
                }
            }
        }
    }

    /// Asks something outside any transaction. Waits for the database.
    pub(super) fn read(
        &mut self,
        query: Query,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        const WHAT: &str = "cannot read";
        loop {
            let session = self.wait_for_session(WHAT)?;
            match session.query(query, parameters) {
                Ok(rows) => {
                    self.answered();
                    return Ok(rows);
                }
                Err(error) if session.is_lost(&error) && !self.is_out_of_patience() => {
                    self.lose(&error);
                }
                Err(error) => return Err(self.failed(WHAT, error)),
            }
        }
    }

    /// Asks something outside any transaction, in one attempt.
    pub(super) fn try_read(
        &mut self,
        query: Query,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let result = self
            .session()
            .and_then(|session| session.query(query, parameters));
        match result {
            Ok(rows) => {
                self.answered();
                Ok(rows)
            }
            Err(error) => {
                if self
                    .session
                    .as_ref()
                    .is_none_or(|session| session.is_lost(&error))
                {
                    self.lose(&error);
                }
                Err(self.failed("cannot read", error))
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
pub(super) fn is_connection_error(error: &Error) -> bool {
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
/// between two statements.
fn is_conflict(error: &Error) -> bool {
    error.code().is_some_and(|code| {
        [
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
        ]
        .contains(code)
    })
}

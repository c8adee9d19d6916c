//! The connection, and what becomes of a transaction when it is lost.
//!
//! A transaction whose connection is lost before COMMIT was sent has not taken place: it is carried out again on a new connection. If the connection
//! is lost after that, nobody knows. But every transaction that writes also notes its number in a row that belongs to this process alone. A new connection reads
//! that row: if it has the number, the transaction took place, and the answers that were read before hold; else it is carried out again. So nothing
//! is stored twice, and nothing is taken for stored that is not.
//!
//! The server's own ids of transactions would not do (`pg_xact_status`): after a crash the server may give the id of a transaction that was not on disk to another one.

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
use crate::store::Earliest;

/// Callers wait so long for a database that cannot be reached. After that they are told at once, until it is back.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

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
    seat: Seat,
}

/// What outlives a connection.
#[derive(Debug, Clone, Copy)]
struct Seat {
    /// The id of the row of this process.
    process: i64,
    /// The number of its last transaction.
    number: i64,
    /// The server's process, and when it began.
    backend: (i32, i64),
}

/// What a transaction has left in the row of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// It has not written anything.
    None,
    /// Its number.
    Number(i64),
    /// There is no such row.
    Missing,
}

impl Session {
    /// `old`: the connection that this one takes the place of.
    fn open(
        mut client: Client,
        names: &Names,
        clock: &Arc<ServerClock>,
        old: Option<Seat>,
    ) -> Result<Session, Error> {
        client.batch_execute(sql::SETTINGS)?;
        let row = client.query_one(sql::BACKEND, &[])?;
        let backend = (row.get(0), row.get(1));
        let mut session = Session {
            client,
            prepared: HashMap::new(),
            names: names.clone(),
            clock: Arc::clone(clock),
            backend: backend.0,
            seat: Seat {
                process: 0,
                number: 0,
                backend,
            },
        };
        if let Some(old) = old {
            // It may not have noticed that the connection is gone, and hold locks.
            let (number, began) = old.backend;
            session.query(Query::End, &[&number, &began])?;
            session.seat = Seat { backend, ..old };
        } else {
            session.enter()?;
        }
        session.read_clock(sql::CLOCK)?;
        Ok(session)
    }

    /// Makes the row of this process.
    fn enter(&mut self) -> Result<(), Error> {
        self.seat.process = self.query(Query::Enter, &[])?[0].get(0);
        Ok(())
    }

    /// Removes it: there will be no more transactions.
    pub(super) fn leave(&mut self) {
        let process = self.seat.process;
        if let Err(error) = self.query(Query::Leave, &[&process]) {
            log::debug!(
                "the row of this process stays for a day: {}",
                reason(&error)
            );
        }
    }

    /// The last statement of a transaction: notes its number, sends notices, and finds the earliest due times of these kinds.
    pub(super) fn close(
        &mut self,
        kinds: &[String],
        notices: &[String],
    ) -> Result<(Mark, Earliest), Error> {
        self.seat.number += 1;
        let Seat {
            process, number, ..
        } = self.seat;
        let row = &self.query(Query::Close, &[&kinds, &notices, &process, &number])?[0];
        let mark = match (row.get(0), row.get(1)) {
            (false, _) => Mark::None,
            (true, true) => Mark::Number(number),
            (true, false) => Mark::Missing,
        };
        let earliest = Earliest {
            waiting: row.get(2),
            interrupted: row.get(3),
        };
        Ok((mark, earliest))
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

    /// Runs one transaction.
    fn run<T>(&mut self, work: &mut Work<'_, T>) -> Result<T, Failure<T>> {
        self.client
            .batch_execute(sql::BEGIN)
            .map_err(Failure::Before)?;
        let (value, mark) = work(self).map_err(Failure::Before)?;
        if mark == Mark::Missing {
            return Err(Failure::NoRow);
        }
        // The clock is read after the commit, so that the time of the commit is not in it.
        match self.read_clock(&format!("COMMIT; {}", sql::CLOCK)) {
            Ok(()) => Ok(value),
            Err(error) => Err(match mark {
                Mark::Number(number) => Failure::AtCommit {
                    value,
                    number,
                    error,
                },
                // Nothing was written.
                _ => Failure::Before(error),
            }),
        }
    }

    fn is_lost(&self, error: &Error) -> bool {
        self.client.is_closed() || is_connection_error(error)
    }
}

/// What a transaction does, with [`Session::close`] at its end. Carried out again if the connection is lost or another process is in its way.
pub(super) type Work<'a, T> = dyn FnMut(&mut Session) -> Result<(T, Mark), Error> + 'a;

enum Failure<T> {
    /// Not committed.
    Before(Error),
    /// Not committed: the row of this process is gone.
    NoRow,
    /// Not known.
    AtCommit { value: T, number: i64, error: Error },
}

/// The connection to the database, made again when it is lost.
pub(super) struct Link {
    connect: Connect,
    config: Config,
    names: Names,
    clock: Arc<ServerClock>,
    session: Option<Session>,
    /// Of the connection that was lost.
    seat: Option<Seat>,
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
            seat: None,
            lost: None,
        };
        let mut client =
            (link.connect)(&link.config).map_err(|error| link.failed("cannot connect", error))?;
        prepare(&mut client).map_err(|problem| match problem {
            super::schema::Problem::Refused(error) => error,
            super::schema::Problem::Failed(error) => link.failed("cannot make the table", error),
        })?;
        let session = Session::open(client, &link.names, &link.clock, None)
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
        if let Some(session) = self.session.take() {
            self.seat = Some(session.seat);
        }
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
            let session = Session::open(client, &self.names, &self.clock, self.seat)?;
            self.session = Some(session);
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
                Err(Failure::NoRow) => {
                    let begun = session.client.batch_execute("ROLLBACK");
                    let Err(error) = begun.and_then(|()| session.enter()) else {
                        continue;
                    };
                    (error, None)
                }
                Err(Failure::AtCommit {
                    value,
                    number,
                    error,
                }) => (error, Some((value, number))),
            };
            if session.is_lost(&error) {
                self.lose(&error);
                if let Some((value, number)) = doubt
                    && self.has_committed(number)?
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

    /// Finds out how a transaction of this process has ended.
    fn has_committed(&mut self, number: i64) -> Result<bool, StoreError> {
        const WHAT: &str =
            "the connection was lost during a commit, which may or may not have taken place";
        loop {
            let session = self.wait_for_session(WHAT)?;
            let process = session.seat.process;
            match session.query(Query::Marked, &[&process]) {
                Ok(rows) => match rows.first() {
                    Some(row) => return Ok(row.get::<_, i64>(0) == number),
                    None => return Err(StoreError::new(WHAT).passing()),
                },
                Err(error) if session.is_lost(&error) && !self.is_out_of_patience() => {
                    self.lose(&error);
                }
                Err(error) => return Err(self.failed(WHAT, error)),
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

//! Counts and lists: on a thread and a connection of their own, which exist while somebody asks.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row as SqlRow};

use super::at_most;
use super::config::{Names, describe};
use super::link::reason;
use super::session::{Connect, Step, connect, step};
use super::sql::{self, Query};
use crate::error::{Fate, StoreError};
use crate::job::JobFilter;
use crate::job::state::Standing;
use crate::store::{Id, Reader, Row};

/// The connection is closed when nobody has asked for so long.
const IDLE: Duration = Duration::from_secs(10);

/// A question, and where its answer goes.
struct Question {
    step: Step<'static>,
    answer: Sender<Result<Vec<SqlRow>, StoreError>>,
}

pub(super) struct TableReader {
    connect: Connect,
    config: Config,
    names: Names,
    patience: Duration,
    /// To the thread, if there is one.
    thread: Mutex<Option<Sender<Question>>>,
    closed: Mutex<bool>,
}

impl TableReader {
    pub(super) fn new(
        (connect, config): (Connect, Config),
        names: Names,
        patience: Duration,
    ) -> TableReader {
        TableReader {
            connect,
            config,
            names,
            patience,
            thread: Mutex::new(None),
            closed: Mutex::new(false),
        }
    }

    /// The thread ends.
    pub(super) fn close(&self) {
        *self.closed.lock() = true;
        *self.thread.lock() = None;
    }

    fn ask(&self, step: Step<'static>) -> Result<Vec<SqlRow>, StoreError> {
        let (answer, answered) = mpsc::channel();
        let mut question = Question { step, answer };
        let gone = || StoreError::new("the connection for reading is closed").that(Fate::Passes);
        if *self.closed.lock() {
            return Err(gone());
        }
        {
            let mut thread = self.thread.lock();
            // It may have ended, because nobody had asked.
            if let Some(sender) = &*thread {
                match sender.send(question) {
                    Ok(()) => {
                        drop(thread);
                        return answered.recv().unwrap_or_else(|_| Err(gone()));
                    }
                    Err(returned) => question = returned.0,
                }
            }
            let sender = self.start()?;
            let _ = sender.send(question);
            *thread = Some(sender);
        }
        answered.recv().unwrap_or_else(|_| Err(gone()))
    }

    fn count(&self, query: Query) -> Result<u64, StoreError> {
        let rows = self.ask(step![query])?;
        Ok(rows[0].get::<_, i64>(0) as u64)
    }

    fn start(&self) -> Result<Sender<Question>, StoreError> {
        let failed = |error| StoreError::with("cannot start a thread", error).that(Fate::Passes);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let (sender, questions) = mpsc::channel::<Question>();
        let (opener, config, names) = (
            self.connect.clone(),
            self.config.clone(),
            self.names.clone(),
        );
        let patience = self.patience;
        let work = move || {
            let mut client = None;
            loop {
                let question = match questions.recv_timeout(IDLE) {
                    Ok(question) => question,
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                };
                let text = sql::text(question.step.query, &names);
                let parameters: Vec<&(dyn ToSql + Sync)> = question
                    .step
                    .parameters
                    .iter()
                    .map(|one| &**one as _)
                    .collect();
                let asking = read(&opener, &config, patience, &mut client, &text, &parameters);
                let answer = match runtime.block_on(async { timeout(patience, asking).await }) {
                    Ok(Ok(rows)) => Ok(rows),
                    Ok(Err(error)) => Err(reason(&error)),
                    Err(_) => Err("the database has not answered in time".to_owned()),
                };
                if answer.is_err() {
                    client = None;
                }
                let answer = answer.map_err(|why| {
                    StoreError::new(format!("{}: cannot read: {why}", describe(&config)))
                        .that(Fate::Passes)
                });
                let _ = question.answer.send(answer);
            }
        };
        thread::Builder::new()
            .name("durable-read".to_owned())
            .spawn(work)
            .map_err(failed)?;
        Ok(sender)
    }
}

async fn read(
    opener: &Connect,
    config: &Config,
    patience: Duration,
    client: &mut Option<Client>,
    text: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<Vec<SqlRow>, Error> {
    // One that was lost while nobody asked is made again once.
    if let Some(open) = client.as_ref().filter(|client| !client.is_closed()) {
        match open.query(text, parameters).await {
            Err(error) if error.code().is_none() || open.is_closed() => {}
            answer => return answer,
        }
    }
    let new = connect(opener, config).await?;
    new.batch_execute(&sql::settings(patience)).await?;
    client.insert(new).query(text, parameters).await
}

fn shown(row: &SqlRow) -> Row {
    Row {
        id: row.get::<_, i64>(0) as Id,
        kind: row.get(1),
        key: row.get(2),
        payload: row.get(3),
        standing: Standing {
            state: sql::state(row.get(6), row.get(7)),
            due: row.get(4),
            attempts: row.get::<_, i64>(5) as u32,
        },
        error: row.get(8),
        died: row.get(9),
        rule: row.get(10),
    }
}

impl Reader for TableReader {
    fn pending(&self) -> Result<u64, StoreError> {
        self.count(Query::Pending)
    }

    fn pending_estimate(&self) -> Result<u64, StoreError> {
        self.count(Query::Estimate)
    }

    fn jobs(&self, filter: &JobFilter) -> Result<Vec<Row>, StoreError> {
        let limit = at_most(filter.limit);
        let rows = if filter.by_due {
            self.ask(step![Query::List; limit])?
        } else {
            let states = sql::numbers(|state| filter.wants(state));
            let (kind, key) = (filter.kind.clone(), filter.key.clone());
            let (due, died) = (filter.due_before, filter.died_before);
            let after = at_most(filter.after as usize);
            self.ask(step![Query::Page; after, kind, key, states, due, died, limit])?
        };
        Ok(rows.iter().map(shown).collect())
    }

    fn kinds(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.ask(step![Query::Kinds])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}

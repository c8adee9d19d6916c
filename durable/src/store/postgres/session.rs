//! One connection, and how statements go through it: all of a transaction at once, without waiting for the answer of one before the next is sent.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{AsyncMessage, Client, Config, Error, Row, Socket, Statement};

use super::clock::ServerClock;
use super::config::Names;
use super::sql::{self, Query};
use crate::broken;

/// What comes over a connection beside answers. It has to be polled for anything to happen.
pub(super) type Messages =
    Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Result<AsyncMessage, Error>>> + Send>;

type Connecting = Pin<Box<dyn Future<Output = Result<(Client, Messages), Error>>>>;

/// Opens connections: the user's choice of TLS is inside.
pub(crate) type Connect = Arc<dyn Fn(Config) -> Connecting + Send + Sync>;

pub(crate) fn connector<T>(tls: T) -> Connect
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::TlsConnect: Send,
    T::Stream: Send,
    <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
{
    Arc::new(move |config| {
        let tls = tls.clone();
        Box::pin(async move {
            let (client, mut connection) = config.connect(tls).await?;
            let messages: Messages = Box::new(move |context| connection.poll_message(context));
            Ok((client, messages))
        })
    })
}

/// Connects, and has the runtime see to the connection.
pub(super) async fn connect(connect: &Connect, config: &Config) -> Result<Client, Error> {
    let (client, mut messages) = connect(config.clone()).await?;
    tokio::spawn(poll_fn(move |context| {
        loop {
            match messages(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }));
    Ok(client)
}

/// A statement with its parameters.
pub(super) struct Step<'a> {
    pub(super) query: Query,
    pub(super) parameters: Vec<Box<dyn ToSql + Sync + Send + 'a>>,
}

/// `step![Query::Move; key, due]`.
macro_rules! step {
    ($query:expr $(; $($parameter:expr),*)?) => {
        $crate::store::postgres::session::Step {
            query: $query,
            parameters: vec![$($(Box::new($parameter)),*)?],
        }
    };
}
pub(super) use step;

/// What outlives a connection: the row of this process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessRow {
    pub(super) id: i64,
    /// The number of its last transaction.
    pub(super) number: i64,
    /// The server's process, and when it began.
    pub(super) backend: (i32, i64),
}

pub(super) struct Session {
    pub(super) client: Client,
    prepared: HashMap<Query, Statement>,
    names: Names,
    clock: Arc<ServerClock>,
    pub(super) process: ProcessRow,
}

impl Session {
    /// `old`: the row of the connection that this one takes the place of.
    pub(super) async fn open(
        client: Client,
        names: &Names,
        clock: &Arc<ServerClock>,
        patience: Duration,
        old: Option<ProcessRow>,
    ) -> Result<Session, Error> {
        client.batch_execute(&sql::settings(patience)).await?;
        client.batch_execute(sql::BY_INDEX).await?;
        let row = client.query_one(sql::BACKEND, &[]).await?;
        let mut session = Session {
            client,
            prepared: HashMap::new(),
            names: names.clone(),
            clock: Arc::clone(clock),
            process: ProcessRow {
                backend: (row.get(0), row.get(1)),
                ..old.unwrap_or_default()
            },
        };
        match old {
            Some(old) => {
                // It may not have noticed that the connection is gone, and hold locks.
                let (number, began) = old.backend;
                session.query(step![Query::End; number, began]).await?;
            }
            None => session.enter().await?,
        }
        let rows = session.query(step![Query::Clock]).await?;
        session.set_clock(rows[0].get(0));
        Ok(session)
    }

    /// Makes the row of this process.
    pub(super) async fn enter(&mut self) -> Result<(), Error> {
        self.process.id = self.query(step![Query::Enter]).await?[0].get(0);
        Ok(())
    }

    /// A reading of the server's clock has just come.
    pub(super) fn set_clock(&self, micros: i64) {
        self.clock.set(micros + broken::clock_ahead() * 1000);
    }

    pub(super) async fn query(&mut self, step: Step<'_>) -> Result<Vec<Row>, Error> {
        let mut answers = self.run(&[step]).await?;
        answers.remove(0)
    }

    /// Sends all steps, then takes their answers. An error if one of them cannot be prepared, and then nothing was sent.
    pub(super) async fn run(
        &mut self,
        steps: &[Step<'_>],
    ) -> Result<Vec<Result<Vec<Row>, Error>>, Error> {
        for step in steps {
            if !self.prepared.contains_key(&step.query) && step.query != Query::Commit {
                let text = sql::text(step.query, &self.names);
                let statement = self.client.prepare(&text).await?;
                self.prepared.insert(step.query, statement);
            }
        }
        let answers = steps.iter().map(|step| self.send(step));
        Ok(all(answers.collect()).await)
    }

    fn send<'a>(&'a self, step: &'a Step<'_>) -> Answer<'a> {
        Box::pin(async move {
            let Some(statement) = self.prepared.get(&step.query) else {
                self.client.batch_execute("COMMIT").await?;
                return Ok(Vec::new());
            };
            let parameters: Vec<&(dyn ToSql + Sync)> =
                step.parameters.iter().map(|one| &**one as _).collect();
            self.client.query(statement, &parameters).await
        })
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + 'a>>;

/// Begins all of them, which sends them, and then waits for one after the other: they are answered in this order.
async fn all(mut answers: Vec<Answer<'_>>) -> Vec<Result<Vec<Row>, Error>> {
    let mut done: Vec<_> = answers.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (answer, done) in answers.iter_mut().zip(&mut done) {
            if let Poll::Ready(result) = answer.as_mut().poll(context) {
                *done = Some(result);
            }
        }
        Poll::Ready(())
    })
    .await;
    let mut results = Vec::with_capacity(answers.len());
    for (answer, done) in answers.into_iter().zip(done) {
        results.push(match done {
            Some(result) => result,
            None => answer.await,
        });
    }
    results
}

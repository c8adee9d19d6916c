//! The store on a real server: the fault rows that are PostgreSQL's.

mod cut;
mod faults;
mod functions;
mod patience;
mod recurring;
mod refused;
#[path = "../../../tests/common/server.rs"]
pub(crate) mod server;
mod shared;
mod tls;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use ::postgres::{Client, NoTls};

use self::server::Server;
use super::*;
use crate::{DurableTimer, DurableTimerBuilder};

/// A table of its own on the server that all tests share.
pub(crate) struct Table {
    url: String,
    prefix: String,
    admin: Mutex<Client>,
}

impl Table {
    /// `None` if there is no server.
    pub(crate) fn new() -> Option<Table> {
        Some(Table::on(Server::shared()?))
    }

    fn on(server: &Server) -> Table {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let url = server.url();
        Table {
            prefix: format!("t{}_", NUMBER.fetch_add(1, Ordering::Relaxed)),
            admin: Mutex::new(Client::connect(&url, NoTls).unwrap()),
            url,
        }
    }

    fn options(&self) -> ConnectOptions {
        ConnectOptions {
            connect: connector(NoTls),
            config: parse(&self.url).unwrap(),
            prefix: self.prefix.clone(),
            lease: Duration::from_secs(30),
            horizon: Duration::from_secs(30),
            patience: Duration::from_secs(10),
        }
    }

    pub(crate) fn open(&self, handled: &[String]) -> PostgresStore {
        PostgresStore::open(self.options(), handled).unwrap()
    }

    fn admin(&self) -> MutexGuard<'_, Client> {
        self.admin.lock().unwrap()
    }

    /// All leases run out.
    pub(crate) fn lapse(&self) {
        self.execute("UPDATE {}jobs SET lease = clock_timestamp() WHERE state = 2");
    }

    /// `{}` stands for the prefix.
    fn execute(&self, sql: &str) {
        self.admin()
            .batch_execute(&sql.replace("{}", &self.prefix))
            .unwrap();
    }

    /// Counts jobs.
    fn count(&self, condition: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {}jobs WHERE {condition}", self.prefix);
        self.admin().query_one(&sql, &[]).unwrap().get(0)
    }

    /// A timer on this table, opened as users do.
    fn timer(&self, builder: DurableTimerBuilder) -> DurableTimer {
        self.timer_at(&self.url, builder)
    }

    fn timer_at(&self, url: &str, builder: DurableTimerBuilder) -> DurableTimer {
        builder
            .table_prefix(&self.prefix)
            .open_postgres(url)
            .unwrap()
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Waits for something that has to happen.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "{what} does not happen"
        );
        std::thread::sleep(ms(5));
    }
}

//! The table: made if it is not there, and of which version it is.
//!
//! The version is in the comment of the table, which is written by the transaction that makes or changes it. A table of an older version is brought up to date by
//! the steps that it lacks, in one transaction, while other processes wait.

use ::postgres::{Client, Error};

use super::config::Names;
use crate::error::StoreError;

/// The version that this code makes and understands.
const VERSION: usize = STEPS.len();

/// Step N makes version N + 1 of the version before.
const STEPS: [fn(&Names) -> String; 2] = [first, second];

const COMMENT: &str = "hashed-wheel-durable, schema ";

/// The oldest server with `pg_current_xact_id_if_assigned`.
const SERVER: i32 = 130_000;

/// Makes the table or checks its version. Processes that do so at the same time wait for each other.
pub(super) fn prepare(client: &mut Client, names: &Names) -> Result<(), Problem> {
    let server = client.query_one(
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), current_setting('server_encoding')",
        &[],
    )?;
    let (number, version, encoding): (i32, String, String) =
        (server.get(0), server.get(1), server.get(2));
    if number < SERVER {
        return refuse(format!(
            "the server is PostgreSQL {version}: 13 or later is needed"
        ));
    }
    if encoding != "UTF8" {
        return refuse(format!(
            "the encoding of the database is {encoding}: it must be UTF8"
        ));
    }
    let jobs = &names.jobs;
    let mut transaction = client.transaction()?;
    transaction.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
        &[jobs],
    )?;
    let found = transaction.query_one(
        "SELECT to_regclass($1) IS NOT NULL, obj_description(to_regclass($1), 'pg_class')",
        &[jobs],
    )?;
    let comment: Option<String> = found.get(1);
    let mut made = 0;
    if found.get(0) {
        let version = comment
            .as_deref()
            .and_then(|comment| comment.strip_prefix(COMMENT)?.parse::<usize>().ok());
        match version {
            Some(version @ 1..=VERSION) => made = version,
            Some(version) => {
                return refuse(format!(
                    "the table {jobs} is of version {version}, made by a newer release: this one understands {VERSION}"
                ));
            }
            None => {
                return refuse(format!(
                    "there is a table {jobs}, and this crate did not make it: choose another prefix"
                ));
            }
        }
    }
    if made < VERSION {
        for step in &STEPS[made..] {
            transaction.batch_execute(&step(names))?;
        }
        transaction.batch_execute(&format!("COMMENT ON TABLE {jobs} IS '{COMMENT}{VERSION}'"))?;
    }
    transaction.commit()?;
    Ok(())
}

fn refuse(text: String) -> Result<(), Problem> {
    Err(Problem::Refused(StoreError::new(text)))
}

/// Why the table cannot be used.
pub(super) enum Problem {
    Refused(StoreError),
    Failed(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::Failed(error)
    }
}

/// Version 1. Dead rows come fast in a table of jobs, so it is vacuumed when a fiftieth of it is dead.
fn first(names: &Names) -> String {
    let Names { jobs, numbers } = names;
    format!(
        "CREATE TABLE {jobs} (
            id bigint PRIMARY KEY,
            state smallint NOT NULL,
            kind text COLLATE \"C\" NOT NULL,
            key text COLLATE \"C\",
            due bigint NOT NULL,
            attempts bigint NOT NULL DEFAULT 0,
            token bigint,
            lease timestamptz,
            alone boolean NOT NULL DEFAULT false,
            payload bytea NOT NULL,
            error text
        ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
        CREATE SEQUENCE {numbers} OWNED BY {jobs}.id;
        CREATE INDEX {jobs}_due ON {jobs} (state, kind, due, id) WHERE state <= 1;
        CREATE UNIQUE INDEX {jobs}_key ON {jobs} (key) WHERE state <= 1 AND key IS NOT NULL;
        CREATE INDEX {jobs}_lease ON {jobs} (lease) WHERE state = 2;
        CREATE INDEX {jobs}_dead ON {jobs} (id) WHERE state = 3;"
    )
}

/// Version 2: rows of processes.
fn second(names: &Names) -> String {
    let jobs = &names.jobs;
    format!("CREATE INDEX {jobs}_process ON {jobs} (id) WHERE state = 4;")
}

//! The table: made if it is not there, and of which version it is.
//!
//! The version is in the comment of the table, which is written by the transaction that makes or changes it. A table of an older version is brought up to date by
//! the steps that it lacks, in one transaction, while other processes wait. It is also in row 0 of the table of processes: every transaction of a running process looks there, and a
//! process of an older version cannot commit any more.

use tokio_postgres::{Client, Error};

use super::config::Names;
use crate::error::StoreError;

/// The version that this code makes and understands.
pub(super) const VERSION: usize = STEPS.len();

/// Step N makes version N + 1 of the version before.
pub(super) const STEPS: [fn(&Names) -> String; 4] = [first, second, third, fourth];

const COMMENT: &str = "hashed-wheel-durable, schema ";

/// The oldest server with `pg_current_xact_id_if_assigned`.
const SERVER: i32 = 130_000;

/// Makes the table or checks its version. Processes that do so at the same time wait for each other.
pub(super) async fn prepare(client: &mut Client, names: &Names) -> Result<(), Problem> {
    let server = client.query_one(
        "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), current_setting('server_encoding')",
        &[],
    )
    .await?;
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
    let transaction = client.transaction().await?;
    transaction
        .execute(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
            &[jobs],
        )
        .await?;
    let found = transaction
        .query_one(
            "SELECT to_regclass($1) IS NOT NULL, obj_description(to_regclass($1), 'pg_class')",
            &[jobs],
        )
        .await?;
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
            transaction.batch_execute(&step(names)).await?;
        }
        let version = format!(
            "COMMENT ON TABLE {jobs} IS '{COMMENT}{VERSION}'; UPDATE {} SET number = {VERSION} WHERE id = 0",
            names.processes
        );
        transaction.batch_execute(&version).await?;
    }
    transaction.commit().await?;
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
    let Names { jobs, numbers, .. } = names;
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

/// Version 3: processes have a table of their own, with the version in row 0; dead jobs have a time. The statements of older versions fail from here on.
fn third(names: &Names) -> String {
    let Names {
        jobs,
        processes,
        paused,
        numbers,
        prefix,
    } = names;
    let due = "CASE WHEN due = 'infinity' THEN 9223372036854775807 ELSE ceil(extract(epoch FROM due) * 1000)::bigint END";
    let soon = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint + 35000";
    format!(
        "DELETE FROM {jobs} WHERE state NOT BETWEEN 0 AND 3;
        DROP INDEX {jobs}_process;
        ALTER TABLE {jobs} RENAME COLUMN alone TO charged;
        ALTER TABLE {jobs} ADD COLUMN died bigint, ADD CHECK (state BETWEEN 0 AND 3);
        UPDATE {jobs} SET died = (extract(epoch FROM clock_timestamp()) * 1000)::int8 WHERE state = 3;
        CREATE TABLE {processes} (
            id bigint PRIMARY KEY,
            number bigint NOT NULL,
            seen timestamptz NOT NULL DEFAULT clock_timestamp()
        );
        INSERT INTO {processes} VALUES (0, 3);
        CREATE FUNCTION {prefix}mark(process bigint, mark bigint, version bigint) RETURNS boolean LANGUAGE plpgsql AS $$
        DECLARE
            current bigint := (SELECT p.number FROM {processes} p WHERE p.id = 0);
        BEGIN
            IF current IS DISTINCT FROM version THEN
                RAISE EXCEPTION 'the table {jobs} is of version % now: this process understands %', current, version USING ERRCODE = '{NEWER}';
            END IF;
            IF pg_current_xact_id_if_assigned() IS NULL THEN
                RETURN false;
            END IF;
            UPDATE {processes} p SET number = mark, seen = clock_timestamp() WHERE p.id = process;
            IF NOT FOUND THEN
                RAISE EXCEPTION 'process % has no row', process USING ERRCODE = '{NO_ROW}';
            END IF;
            RETURN true;
        END $$;
        CREATE TABLE {paused} (kind text COLLATE \"C\" PRIMARY KEY);
        CREATE FUNCTION {prefix}schedule(kind text, key text, due timestamptz, payload bytea, replace boolean DEFAULT false) RETURNS bigint LANGUAGE plpgsql AS $$
        #variable_conflict use_column
        DECLARE
            at bigint := {due};
            new_id bigint := nextval('{numbers}');
            found_id bigint;
        BEGIN
            IF coalesce(octet_length($1), 0) NOT BETWEEN 1 AND 512 THEN
                RAISE EXCEPTION 'a kind of % bytes: it must have 1 to 512', coalesce(octet_length($1), 0) USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF octet_length($2) NOT BETWEEN 1 AND 512 THEN
                RAISE EXCEPTION 'a key of % bytes: it must have 1 to 512', octet_length($2) USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF octet_length($4) > 1048576 THEN
                RAISE EXCEPTION 'a payload of % bytes is too large: at most 1048576 are allowed', octet_length($4) USING ERRCODE = 'invalid_parameter_value';
            END IF;
            IF at IS NULL THEN
                RAISE EXCEPTION 'a job needs a due time' USING ERRCODE = 'invalid_parameter_value';
            END IF;
            WHILE found_id IS NULL LOOP
                IF $5 THEN
                    INSERT INTO {jobs} AS j (id, state, kind, key, due, payload) VALUES (new_id, 0, $1, $2, at, coalesce($4, ''))
                    ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO UPDATE
                    SET state = 0, kind = excluded.kind, due = excluded.due, payload = excluded.payload, attempts = 0, error = NULL
                    RETURNING j.id INTO found_id;
                ELSE
                    INSERT INTO {jobs} AS j (id, state, kind, key, due, payload) VALUES (new_id, 0, $1, $2, at, coalesce($4, ''))
                    ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO NOTHING RETURNING j.id INTO found_id;
                    IF found_id IS NULL THEN
                        -- If it has gone in between, there is room now.
                        SELECT j.id INTO found_id FROM {jobs} j WHERE j.key = $2 AND j.state <= 1 AND j.key IS NOT NULL;
                    END IF;
                END IF;
            END LOOP;
            IF at <= {soon} THEN
                PERFORM pg_notify('{jobs}', at || ' ' || $1);
            END IF;
            RETURN found_id;
        END $$;
        CREATE FUNCTION {prefix}reschedule(key text, due timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$
        #variable_conflict use_column
        DECLARE
            at bigint := {due};
            moved text;
        BEGIN
            UPDATE {jobs} AS j SET due = at WHERE j.key = $1 AND j.state <= 1 AND j.key IS NOT NULL RETURNING j.kind INTO moved;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            IF at <= {soon} THEN
                PERFORM pg_notify('{jobs}', at || ' ' || moved);
            END IF;
            RETURN true;
        END $$;
        CREATE FUNCTION {prefix}cancel(key text) RETURNS boolean LANGUAGE plpgsql AS $$
        BEGIN
            DELETE FROM {jobs} AS j WHERE j.key = $1 AND j.state <= 1 AND j.key IS NOT NULL;
            RETURN FOUND;
        END $$;"
    )
}

/// Version 4: recurring jobs, which are in state -1, so that the indexes of due times and of keys have them. Their runs show the key in a column of their own.
fn fourth(names: &Names) -> String {
    let jobs = &names.jobs;
    format!(
        "ALTER TABLE {jobs} ADD COLUMN rule text, ADD COLUMN run_of text COLLATE \"C\",
            DROP CONSTRAINT {jobs}_state_check, ADD CHECK (state BETWEEN -1 AND 3);"
    )
}

/// The errors of the function that marks a transaction.
pub(super) const NEWER: &str = "HWD02";
pub(super) const NO_ROW: &str = "HWD01";

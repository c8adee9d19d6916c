//! The watch of the database: a trigger that sees every change of the table, and what it has written down.
//!
//! It writes a violation when
//!
//! - a claim is taken over while its lease is valid;
//! - a claim is ended or renewed by anybody but the process that holds it, so that a stale acknowledgement was not refused;
//! - a claim is made more than its 50 ms ahead;
//! - a job is stored twice;
//! - a recurring job makes two runs for one of its times, or one for a time that it does not have.
//!
//! And it notes how and when each claim was ended, which is compared with the journals: only the handler that ran with the token of a claim may end it.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use hashed_wheel_durable::postgres::{Client, NoTls, Row};

use super::process::PERIOD;
use super::text;
use crate::server::Server;

const SCRIPT: &str = "
    CREATE TABLE violation (text text);
    CREATE TABLE stored (payload bytea PRIMARY KEY);
    CREATE TABLE slots (due bigint PRIMARY KEY);
    CREATE TABLE taken_over (id bigint);
    CREATE TABLE refusing (until timestamptz);
    CREATE TABLE ended (token bigint PRIMARY KEY, how text, at bigint);
    ALTER TABLE durable_jobs ADD claimed_by text;
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        who text := current_setting('application_name');
        now_us bigint := extract(epoch FROM clock_timestamp()) * 1000000;
        how text;
    BEGIN
        IF EXISTS (SELECT 1 FROM refusing WHERE until > clock_timestamp()) THEN
            RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full';
        END IF;
        IF TG_OP = 'INSERT' AND NEW.state = -1 THEN
            RETURN NEW;
        END IF;
        IF TG_OP = 'INSERT' AND NEW.run_of IS NOT NULL THEN
            INSERT INTO slots VALUES (NEW.due) ON CONFLICT DO NOTHING;
            IF NOT FOUND OR EXISTS (SELECT 1 FROM slots WHERE (due - NEW.due) % {period} <> 0) THEN
                INSERT INTO violation VALUES (format('a run beside the times of its recurring job: %s', NEW));
            END IF;
            RETURN NEW;
        END IF;
        IF TG_OP = 'INSERT' THEN
            INSERT INTO stored VALUES (NEW.payload) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                INSERT INTO violation VALUES (format('a job was stored twice: %s', NEW));
            END IF;
            RETURN NEW;
        END IF;
        IF OLD.state = 2 THEN
            how := CASE
                WHEN TG_OP = 'DELETE' THEN 'done'
                WHEN NEW.state = 2 THEN 'renewed'
                WHEN NEW.state = 0 AND NEW.due = OLD.due AND NEW.attempts = OLD.attempts THEN 'back'
                WHEN NEW.state = 1 AND OLD.charged AND NEW.attempts = OLD.attempts - 1 THEN 'back'
                WHEN NEW.state = 0 THEN 'retry'
                ELSE 'taken over'
            END;
            IF how = 'taken over' THEN
                IF OLD.lease > clock_timestamp() THEN
                    INSERT INTO violation VALUES (format('%s took over a claim within its lease: %s', who, OLD));
                END IF;
                INSERT INTO taken_over VALUES (OLD.id);
            ELSIF OLD.claimed_by <> who THEN
                INSERT INTO violation VALUES (format('%s: %s has ended a claim that it does not hold: %s', how, who, OLD));
            ELSIF how <> 'renewed' THEN
                INSERT INTO ended VALUES (OLD.token, how, now_us);
            END IF;
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.state = 2 AND OLD.state <> 2 THEN
            NEW.claimed_by := who;
            IF NEW.due > now_us / 1000 + 60 THEN
                INSERT INTO violation VALUES (format('%s claimed a job at %s, too early: %s', who, now_us, NEW));
            END IF;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER watch BEFORE INSERT OR UPDATE OR DELETE ON durable_jobs FOR EACH ROW EXECUTE FUNCTION watch();";

/// How a claim was ended, and when, in microseconds since 1970.
pub(super) struct Ended {
    pub(super) how: String,
    pub(super) at: i64,
}

pub(super) fn begin(server: &Server) -> Result<(), String> {
    let mut client = Client::connect(&server.url(), NoTls).map_err(text)?;
    let period = PERIOD.as_millis().to_string();
    let script = SCRIPT.replace("{period}", &period);
    client.batch_execute(&script).map_err(text)
}

pub(super) fn ask(server: &Server, sql: &str) -> Result<Vec<Row>, String> {
    let mut client = Client::connect(&server.url(), NoTls).map_err(text)?;
    let failed = |error| format!("{sql}: {error:?}");
    client.query(sql, &[]).map_err(failed)
}

pub(super) fn count(server: &Server, what: &str) -> Result<u64, String> {
    let count: i64 = ask(server, &format!("SELECT count(*) FROM {what}"))?[0].get(0);
    Ok(count as u64)
}

/// Locks the table for so long, as making an index does.
pub(super) fn lock(server: &Server, time: Duration) {
    let url = server.url();
    thread::spawn(move || {
        if let Ok(mut client) = Client::connect(&url, NoTls) {
            let _ = client.batch_execute("BEGIN; LOCK TABLE durable_jobs IN SHARE MODE");
            thread::sleep(time);
        }
    });
}

/// Has the database seen a violation?
pub(super) fn check(server: &Server) -> Result<(), String> {
    match ask(server, "SELECT text FROM violation LIMIT 1")?.first() {
        Some(row) => Err(row.get(0)),
        None => Ok(()),
    }
}

/// The claims that were ended by whoever held them, by token.
pub(super) fn ended(server: &Server) -> Result<HashMap<u64, Ended>, String> {
    let rows = ask(server, "SELECT token, how, at FROM ended")?;
    let ended = rows.iter().map(|row| {
        let (how, at) = (row.get(1), row.get(2));
        (row.get::<_, i64>(0) as u64, Ended { how, at })
    });
    Ok(ended.collect())
}

//! The statements: the table of [`crate::job::state`] in SQL. States are numbers, which stand here only: -1 recurring, 0 waiting, 1 suspect, 2 claimed or, with `charged`, charged, 3 dead.

use std::time::Duration;

use super::config::Names;
use crate::broken::{self, Defect};
use crate::job::state::State;

/// A statement that is prepared once for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Query {
    Begin,
    Hasty,
    Commit,
    Clock,
    Insert,
    Replace,
    Recur,
    Slots,
    Advance,
    Move,
    Cancel,
    Claim,
    ClaimSuspect,
    Done,
    PutBack,
    Die,
    Revive,
    Discard,
    Pause,
    Resume,
    Close,
    Renew,
    Lapsed,
    Interrupt,
    Look,
    Enter,
    Leave,
    Marked,
    End,
    Pending,
    Estimate,
    List,
    Page,
    Kinds,
}

/// The longest wait for somebody else's lock: a group of calls is split then.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_millis(100);

/// The same, when somebody is known to hold a lock for longer.
const HASTY_LOCK: Duration = Duration::from_millis(5);

/// Set for every connection. A commit is durable whatever the database's default is. A transaction whose process is cut off gives up its locks.
pub(super) fn settings(patience: Duration) -> String {
    format!(
        "SET jit = off;
        SET lock_timeout = {};
        SET statement_timeout = {};
        SET idle_in_transaction_session_timeout = '20s';
        SET default_transaction_isolation = 'read committed';
        SET default_transaction_read_only = off;
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';",
        LOCK_TIMEOUT.as_millis(),
        patience.as_millis()
    )
}

/// Set for the connection that writes. All its queries go through indexes that were made for them. The planner is kept from anything else: it has no statistics of a table
/// that was just filled. It plans each of them once: else it does so for every transaction, which takes longer than most of these take to run.
pub(super) const BY_INDEX: &str = "
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan;";

/// The number of the server's process, and when it began, in microseconds since 1970.
pub(super) const BACKEND: &str = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::int8 FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Microseconds since 1970.
const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8";

/// Milliseconds since 1970.
const MILLIS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";

/// Of a job that is found by its id. Written so that the index of leases does not offer itself: with it, every claim would be looked at for each of them.
const CLAIMED: &str = "j.state + 0 = 2";

/// The columns of a job that is shown.
const SHOWN: &str = "id, kind, coalesce(key, run_of), payload, due, attempts, state, charged, error, died, CASE WHEN state = -1 THEN rule END";

/// The state of a row.
pub(super) fn state(number: i16, charged: bool) -> State {
    match (number, charged) {
        (-1, _) => State::Recurring,
        (0, _) => State::Waiting,
        (1, _) => State::Suspect,
        (2, false) => State::Claimed,
        (2, true) => State::Charged,
        _ => State::Dead,
    }
}

/// The numbers of the states that are wanted.
pub(super) fn numbers(wants: impl Fn(State) -> bool) -> Vec<i16> {
    let wanted = |&number: &i16| wants(state(number, false));
    (-1..=3).filter(wanted).collect()
}

/// The database's time.
fn now() -> String {
    match broken::clock_ahead() {
        0 => "clock_timestamp()".to_owned(),
        ahead => format!("(clock_timestamp() + {ahead} * interval '1 millisecond')"),
    }
}

/// The key that a job has which waits again: its own if that is free, else none.
fn key_if_free(jobs: &str) -> String {
    format!(
        "CASE WHEN NOT EXISTS (SELECT 1 FROM {jobs} o WHERE o.key = j.key AND o.state <= 1 AND o.key IS NOT NULL) THEN j.key END"
    )
}

/// The due time of the earliest job of each of the kinds in parameter 1, for one state. One look into the index for each kind.
fn earliest(jobs: &str, state: i8) -> String {
    format!(
        "ARRAY(SELECT (SELECT j.due FROM {jobs} j WHERE j.state = {state} AND j.kind = k.kind COLLATE \"C\" ORDER BY j.due, j.id LIMIT 1)
            FROM unnest($1::text[]) WITH ORDINALITY AS k(kind, place) ORDER BY k.place)"
    )
}

/// The kinds that have jobs in this state, by a look into the index for each.
fn kinds(jobs: &str, state: i8) -> String {
    format!(
        "(WITH RECURSIVE k AS (
            (SELECT kind FROM {jobs} WHERE state = {state} ORDER BY kind LIMIT 1)
            UNION ALL
            SELECT (SELECT j.kind FROM {jobs} j WHERE j.state = {state} AND j.kind > k.kind ORDER BY j.kind LIMIT 1)
            FROM k WHERE k.kind IS NOT NULL
        ) SELECT kind FROM k WHERE kind IS NOT NULL)"
    )
}

#[expect(clippy::too_many_lines, reason = "a list of statements")]
pub(super) fn text(query: Query, names: &Names) -> String {
    let Names {
        jobs,
        numbers,
        processes,
        paused,
        prefix,
    } = names;
    let now = now();
    // An acknowledgement counts only with the token of the claim.
    let token = if broken::is(Defect::NoFencing) {
        "coalesce($2::int8, 0) IS NOT NULL"
    } else {
        "j.token = $2"
    };
    let free = key_if_free(jobs);
    match query {
        Query::Begin => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE".to_owned(),
        Query::Hasty => format!("SELECT set_config('lock_timeout', '{}', true)", HASTY_LOCK.as_millis()),
        Query::Commit => "COMMIT".to_owned(),
        Query::Clock => format!("SELECT {CLOCK}"),
        // Kinds, keys, due times, payloads. Tells ids, and whether they are new or kept (null), in this order. A key that was taken since the statement began has no id: the
        // division fails, and the transaction is tried again.
        Query::Insert => format!(
            "WITH n AS MATERIALIZED (
                SELECT nextval('{numbers}') AS id, u.* FROM unnest($1::text[], $2::text[], $3::int8[], $4::bytea[])
                    WITH ORDINALITY AS u(kind, key, due, payload, place)
            ), made AS (
                INSERT INTO {jobs} (id, state, kind, key, due, payload) SELECT n.id, 0, n.kind, n.key, n.due, n.payload FROM n ORDER BY n.key, n.place
                ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO NOTHING
                RETURNING id
            ), found AS (
                SELECT n.place, n.id, EXISTS (SELECT 1 FROM made m WHERE m.id = n.id) AS new,
                    (SELECT o.id FROM {jobs} o WHERE o.key = n.key AND o.state <= 1 AND o.key IS NOT NULL) AS old
                FROM n
            )
            SELECT CASE WHEN new THEN id WHEN old IS NULL THEN 1 / (old IS NOT NULL)::int ELSE old END, nullif(new, false) FROM found ORDER BY place"
        ),
        // Kind, key, due time, payload. Tells the id, and whether it is new or replaced.
        Query::Replace => format!(
            "WITH n AS (SELECT nextval('{numbers}') AS id)
            INSERT INTO {jobs} (id, state, kind, key, due, payload)
            SELECT n.id, 0, $1, $2, $3, $4 FROM n
            ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO UPDATE
            SET state = 0, kind = excluded.kind, due = excluded.due, payload = excluded.payload, attempts = 0, error = NULL
            RETURNING id, id = (SELECT id FROM n)"
        ),
        // Kind, key, due time, payload, rule, does it replace. Tells the id, and whether it is new, kept (null) or replaced. One with the same rule keeps its next time. A key that was
        // taken since the statement began has no id, as above.
        Query::Recur => format!(
            "WITH n AS MATERIALIZED (SELECT nextval('{numbers}') AS id),
            made AS (
                INSERT INTO {jobs} AS j (id, state, kind, key, due, payload, rule) SELECT n.id, -1, $1, $2, $3, $4, $5 FROM n
                ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO UPDATE
                SET state = -1, kind = excluded.kind, payload = excluded.payload, rule = excluded.rule, attempts = 0, error = NULL,
                    due = CASE WHEN j.state = -1 AND j.rule = excluded.rule THEN j.due ELSE excluded.due END
                WHERE $6::boolean
                RETURNING j.id
            ), found AS (
                SELECT (SELECT m.id FROM made m) AS made, (SELECT o.id FROM {jobs} o WHERE o.key = $2 AND o.state <= 1 AND o.key IS NOT NULL) AS old
            )
            SELECT CASE WHEN made IS NOT NULL THEN made WHEN old IS NULL THEN 1 / (old IS NOT NULL)::int ELSE old END,
                CASE WHEN made IS NOT NULL THEN made = (SELECT n.id FROM n) END FROM found"
        ),
        // Kinds, due time, how many.
        Query::Slots => format!(
            "SELECT c.* FROM (SELECT * FROM unnest($1::text[]) AS u(kind) WHERE NOT EXISTS (SELECT 1 FROM {paused} p WHERE p.kind = u.kind)) AS k
            CROSS JOIN LATERAL (
                SELECT id, kind, due, rule FROM {jobs} WHERE state = -1 AND kind = k.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT $3
            ) c ORDER BY c.due, c.id LIMIT $3"
        ),
        // Id, due time, the next one or null, is there a run. Passes over one that somebody else has locked: who advances it, or moves it.
        Query::Advance => format!(
            "WITH free AS MATERIALIZED (
                SELECT id FROM {jobs} WHERE id = $1 AND state = -1 AND due = $2 FOR UPDATE SKIP LOCKED
            ), moved AS (
                UPDATE {jobs} j SET due = $3::int8 FROM free WHERE j.id = free.id AND $3::int8 IS NOT NULL RETURNING j.kind, j.key, j.payload
            ), ended AS (
                DELETE FROM {jobs} j USING free WHERE j.id = free.id AND $3::int8 IS NULL RETURNING j.kind, j.key, j.payload
            ), found AS (
                SELECT * FROM moved UNION ALL SELECT * FROM ended
            ), made AS (
                INSERT INTO {jobs} (id, state, kind, due, payload, run_of)
                SELECT nextval('{numbers}'), 0, kind, $2, payload, key FROM found WHERE $4::boolean
            ) SELECT 1 FROM found"
        ),
        // Key, due time, and the time until which others are told.
        Query::Move => format!(
            "WITH moved AS (
                UPDATE {jobs} SET due = $2 WHERE key = $1 AND state <= 1 AND key IS NOT NULL RETURNING kind
            ) SELECT CASE WHEN $2 <= $3::int8 THEN pg_notify('{jobs}', $2::text || ' ' || kind) END FROM moved"
        ),
        Query::Cancel => {
            format!("DELETE FROM {jobs} WHERE key = $1 AND state <= 1 AND key IS NOT NULL RETURNING id")
        }
        // Kinds, due time, how many, how many bytes before the last, lease, how many of each kind. The first part finds how many of each kind are among the earliest; the second
        // takes so many of each, passing over what another process is taking.
        Query::Claim => format!(
            "WITH earliest AS (
                SELECT k.kind, c.due, c.id, sum(c.bytes) OVER (ORDER BY c.due, c.id) - c.bytes AS bytes_before
                FROM (SELECT * FROM unnest($1::text[], $6::int8[]) AS u(kind, room) WHERE NOT EXISTS (SELECT 1 FROM {paused} p WHERE p.kind = u.kind)) AS k
                CROSS JOIN LATERAL (
                    SELECT id, due, octet_length(payload) AS bytes FROM {jobs}
                    WHERE state = 0 AND kind = k.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT least($3, k.room)
                ) c
                ORDER BY c.due, c.id LIMIT $3
            ), shares AS (
                SELECT kind, count(*) AS many FROM earliest WHERE bytes_before <= $4 GROUP BY kind
            ), taken AS (
                SELECT t.id FROM shares s CROSS JOIN LATERAL (
                    SELECT id FROM {jobs}
                    WHERE state = 0 AND kind = s.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT s.many
                    FOR UPDATE SKIP LOCKED
                ) t
            )
            UPDATE {jobs} j SET state = 2, token = nextval('{numbers}'), lease = {now} + $5 * interval '1 millisecond', charged = false
            FROM taken WHERE j.id = taken.id
            RETURNING j.id, j.token, j.kind, coalesce(j.key, j.run_of), j.payload, j.due, j.attempts, j.charged"
        ),
        // Kinds, due time, lease.
        Query::ClaimSuspect => format!(
            "WITH taken AS (
                SELECT t.id FROM (SELECT * FROM unnest($1::text[]) AS u(kind) WHERE NOT EXISTS (SELECT 1 FROM {paused} p WHERE p.kind = u.kind)) AS k
                CROSS JOIN LATERAL (
                    SELECT id, due FROM {jobs}
                    WHERE state = 1 AND kind = k.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT 1
                    FOR UPDATE SKIP LOCKED
                ) t
                ORDER BY t.due, t.id LIMIT 1
            )
            UPDATE {jobs} j SET state = 2, token = nextval('{numbers}'), lease = {now} + $3 * interval '1 millisecond', charged = true,
                attempts = j.attempts + 1
            FROM taken WHERE j.id = taken.id
            RETURNING j.id, j.token, j.kind, coalesce(j.key, j.run_of), j.payload, j.due, j.attempts, j.charged"
        ),
        // Ids, tokens. Tells the ids of those that were there.
        Query::Done => {
            let token = token.replace("$2", "f.token");
            format!(
                "DELETE FROM {jobs} j USING unnest($1::int8[], $2::int8[]) AS f(id, token)
                WHERE j.id = f.id AND {CLAIMED} AND {token} RETURNING j.id"
            )
        }
        // Id, token, due time, is the attempt counted, error. Without a due time it is given back, and a suspect again if it was one.
        Query::PutBack => format!(
            "UPDATE {jobs} j SET state = CASE WHEN $3::int8 IS NULL AND j.charged THEN 1 ELSE 0 END, due = coalesce($3::int8, j.due),
                attempts = j.attempts + ($4::boolean)::int - j.charged::int, error = coalesce($5::text, j.error),
                token = NULL, lease = NULL, charged = false, key = {free}
            WHERE j.id = $1 AND {CLAIMED} AND {token} RETURNING j.id"
        ),
        // Id, token, error. The attempt that it died in is counted.
        Query::Die => format!(
            "UPDATE {jobs} j SET state = 3, attempts = j.attempts + 1 - j.charged::int, error = $3, died = {MILLIS}, token = NULL, lease = NULL, charged = false
            WHERE j.id = $1 AND {CLAIMED} AND {token} RETURNING j.id"
        ),
        // Ids, due time.
        Query::Revive => format!(
            "WITH revived AS (
                UPDATE {jobs} j SET state = 0, due = $2, attempts = 0, error = NULL, died = NULL, key = {free}
                WHERE j.id = $1 AND j.state = 3 RETURNING j.kind
            ) SELECT pg_notify('{jobs}', $2::text || ' ' || kind) FROM revived"
        ),
        Query::Discard => {
            format!("DELETE FROM {jobs} WHERE id = ANY($1::int8[]) AND state = 3 RETURNING id")
        }
        // Whoever is listening looks at the table.
        Query::Pause => format!(
            "WITH changed AS (INSERT INTO {paused} VALUES ($1) ON CONFLICT DO NOTHING RETURNING 1) SELECT pg_notify('{jobs}', 'look') FROM changed"
        ),
        Query::Resume => format!(
            "WITH changed AS (DELETE FROM {paused} WHERE kind = $1 RETURNING 1) SELECT pg_notify('{jobs}', 'look') FROM changed"
        ),
        // Kinds, notices, this process, a number, the version. Ends a transaction: has it written anything, and what is earliest now?
        Query::Close => format!(
            "SELECT {prefix}mark($3::int8, $4::int8, $5::int8), {}, {}, {}, (SELECT count(pg_notify('{jobs}', n)) FROM unnest($2::text[]) AS n)",
            earliest(jobs, 0),
            earliest(jobs, 1),
            earliest(jobs, -1)
        ),
        // Ids, tokens, lease. Tells the tokens of those that were renewed.
        Query::Renew => format!(
            "UPDATE {jobs} j SET lease = {now} + $3 * interval '1 millisecond'
            FROM unnest($1::int8[], $2::int8[]) AS h(id, token)
            WHERE j.id = h.id AND {CLAIMED} AND j.token = h.token RETURNING j.token"
        ),
        // Kinds, how many.
        Query::Lapsed => format!(
            "SELECT id, token, attempts, kind FROM {jobs}
            WHERE state = 2 AND lease <= {now} AND kind = ANY($1::text[]) ORDER BY lease, id LIMIT $2"
        ),
        // Id, token, when a counted attempt is followed by another, an error, and what is added to the attempts of others. Without a time a counted attempt was the last. Tells
        // whether it is dead.
        Query::Interrupt => format!(
            "UPDATE {jobs} j SET state = CASE WHEN j.charged AND $3::int8 IS NULL THEN 3 ELSE 1 END,
                due = CASE WHEN j.charged THEN coalesce($3::int8, j.due) ELSE j.due END, attempts = j.attempts + CASE WHEN j.charged THEN 0 ELSE $5::int8 END,
                error = CASE WHEN j.charged AND $3::int8 IS NULL THEN $4 ELSE j.error END,
                died = CASE WHEN j.charged AND $3::int8 IS NULL THEN {MILLIS} END, token = NULL, lease = NULL, charged = false,
                key = CASE WHEN j.charged AND $3::int8 IS NULL THEN j.key ELSE {free} END
            WHERE j.id = $1 AND {CLAIMED} AND j.token = $2 AND j.lease <= {now} RETURNING j.state = 3"
        ),
        // Kinds. The clock, what is earliest, the milliseconds until the next claim lapses, and the version.
        Query::Look => format!(
            "SELECT {CLOCK}, {}, {}, {},
                (SELECT ceil(extract(epoch FROM lease - {now}) * 1000)::int8 FROM {jobs}
                WHERE state = 2 AND kind = ANY($1::text[]) ORDER BY lease LIMIT 1),
                (SELECT number FROM {processes} WHERE id = 0), ARRAY(SELECT kind FROM {paused})",
            earliest(jobs, 0),
            earliest(jobs, 1),
            earliest(jobs, -1)
        ),
        // Makes the row of a process. Those of processes that were killed go, when nothing has been written by them for a day.
        Query::Enter => format!(
            "WITH gone AS (DELETE FROM {processes} WHERE id > 0 AND seen < clock_timestamp() - interval '1 day')
            INSERT INTO {processes} (id, number) VALUES (nextval('{numbers}'), 0) RETURNING id"
        ),
        Query::Leave => format!("DELETE FROM {processes} WHERE id = $1"),
        // A process: the number of its last transaction. Waits for one that is under way.
        Query::Marked => format!("SELECT number FROM {processes} WHERE id = $1 FOR UPDATE"),
        // A process of the server and when it began: ends it, if it is still there.
        Query::End => "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::int8 = $2"
            .to_owned(),
        Query::Pending => format!("SELECT count(*) FROM {jobs} WHERE state <= 2"),
        // Exact for few, as of the last statistics for many. Claims are few.
        Query::Estimate => format!(
            "SELECT CASE WHEN few < 10000 THEN few ELSE greatest(few, (SELECT reltuples FROM pg_class WHERE oid = '{jobs}_due'::regclass)::int8) END
                + (SELECT count(*) FROM {jobs} WHERE state = 2)
            FROM (SELECT count(*) AS few FROM (SELECT 1 FROM {jobs} WHERE state <= 1 LIMIT 10000) AS f) AS found"
        ),
        // How many. The earliest of each kind, and all claims, which are few.
        Query::List => {
            let waiting = |state: i8| {
                format!(
                    "SELECT c.* FROM {} AS k CROSS JOIN LATERAL (
                        SELECT {SHOWN} FROM {jobs} WHERE state = {state} AND kind = k.kind ORDER BY due, id LIMIT $1
                    ) AS c",
                    kinds(jobs, state)
                )
            };
            format!(
                "SELECT * FROM (({}) UNION ALL ({}) UNION ALL ({}) UNION ALL (SELECT {SHOWN} FROM {jobs} WHERE state = 2)) AS found ORDER BY due, id LIMIT $1",
                waiting(-1),
                waiting(0),
                waiting(1)
            )
        }
        // After, kind, key, states, due before, died before, how many.
        Query::Page => format!(
            "SELECT {SHOWN} FROM {jobs} WHERE id > $1 AND ($2::text IS NULL OR kind = $2) AND ($3::text IS NULL OR coalesce(key, run_of) = $3)
                AND state = ANY($4::int2[]) AND ($5::int8 IS NULL OR due < $5) AND ($6::int8 IS NULL OR died < $6) ORDER BY id LIMIT $7"
        ),
        Query::Kinds => format!(
            "SELECT kind FROM ({} UNION {} UNION {}) AS found",
            kinds(jobs, -1),
            kinds(jobs, 0),
            kinds(jobs, 1)
        ),
    }
}

//! The statements. States are numbers, which stand here only: 0 waiting, 1 interrupted, 2 claimed, 3 dead; 4 is a
//! process, with the number of its last transaction as token and its time as attempts: columns without an index, so that noting them touches none.

use super::config::Names;
use crate::broken::{self, Defect};

/// A statement that is prepared once for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Query {
    Insert,
    Replace,
    Move,
    Cancel,
    Claim,
    ClaimAlone,
    Done,
    PutBack,
    Bury,
    Revive,
    Discard,
    Pending,
    List,
    Dead,
    Close,
    Renew,
    Lapsed,
    Look,
    Unhandled,
    Enter,
    Leave,
    Marked,
    End,
}

/// Set for every connection.
///
/// All queries go through indexes that were made for them. The planner is kept from anything else: it has no statistics of a table that was just filled. A commit
/// is durable whatever the database's default is. A transaction whose process is cut off gives up its locks.
pub(super) const SETTINGS: &str = "
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET jit = off;
    SET idle_in_transaction_session_timeout = '20s';
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';";

pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// The number of the server's process, and when it began, in microseconds since 1970.
pub(super) const BACKEND: &str = "SELECT pid, (extract(epoch FROM backend_start) * 1000000)::int8 FROM pg_stat_activity WHERE pid = pg_backend_pid()";

/// Microseconds since 1970.
pub(super) const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8";

/// Milliseconds since 1970.
const MILLIS: &str = "(extract(epoch FROM clock_timestamp()) * 1000)::int8";

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

/// The due time of the earliest job of the kinds in parameter 1, for one state. One look into the index for each kind.
fn earliest(jobs: &str, state: u8) -> String {
    format!(
        "(SELECT min(c.due) FROM unnest($1::text[]) AS k(kind) CROSS JOIN LATERAL
            (SELECT due FROM {jobs} WHERE state = {state} AND kind = k.kind COLLATE \"C\" ORDER BY due, id LIMIT 1) c)"
    )
}

/// The kinds that have jobs in this state, by a look into the index for each.
fn kinds(jobs: &str, state: u8) -> String {
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
    let Names { jobs, numbers } = names;
    let now = now();
    // An acknowledgement counts only with the token of the claim.
    let token = if broken::is(Defect::NoFencing) {
        "coalesce($2::int8, 0) IS NOT NULL"
    } else {
        "j.token = $2"
    };
    match query {
        // Kinds, keys, due times, payloads. Tells the keys of those that are new; without a key all are.
        Query::Insert => format!(
            "INSERT INTO {jobs} (id, state, kind, key, due, payload)
            SELECT nextval('{numbers}'), 0, n.kind, n.key, n.due, n.payload
            FROM unnest($1::text[], $2::text[], $3::int8[], $4::bytea[]) AS n(kind, key, due, payload)
            ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO NOTHING
            RETURNING key"
        ),
        // Kind, key, due time, payload. True: new.
        Query::Replace => format!(
            "WITH n AS (SELECT nextval('{numbers}') AS id)
            INSERT INTO {jobs} (id, state, kind, key, due, payload)
            SELECT n.id, 0, $1, $2, $3, $4 FROM n
            ON CONFLICT (key) WHERE state <= 1 AND key IS NOT NULL DO UPDATE
            SET state = 0, kind = excluded.kind, due = excluded.due, payload = excluded.payload, attempts = 0
            RETURNING id = (SELECT id FROM n)"
        ),
        Query::Move => format!(
            "UPDATE {jobs} SET due = $2 WHERE key = $1 AND state <= 1 AND key IS NOT NULL RETURNING kind, state"
        ),
        Query::Cancel => {
            format!("DELETE FROM {jobs} WHERE key = $1 AND state <= 1 AND key IS NOT NULL RETURNING id")
        }
        // Kinds, due time, how many, how many bytes before the last, lease. The first part finds how many of each kind are among the earliest; the second takes
        // so many of each, passing over what another process is taking.
        Query::Claim => format!(
            "WITH earliest AS (
                SELECT k.kind, c.due, c.id, sum(c.bytes) OVER (ORDER BY c.due, c.id) - c.bytes AS bytes_before
                FROM unnest($1::text[]) AS k(kind) CROSS JOIN LATERAL (
                    SELECT id, due, octet_length(payload) AS bytes FROM {jobs}
                    WHERE state = 0 AND kind = k.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT $3
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
            UPDATE {jobs} j SET state = 2, token = nextval('{numbers}'), lease = {now} + $5 * interval '1 millisecond', alone = false
            FROM taken WHERE j.id = taken.id
            RETURNING j.id, j.token, j.kind, j.key, j.payload, j.due, j.attempts"
        ),
        // Kinds, due time, lease.
        Query::ClaimAlone => format!(
            "WITH taken AS (
                SELECT t.id FROM unnest($1::text[]) AS k(kind) CROSS JOIN LATERAL (
                    SELECT id, due FROM {jobs}
                    WHERE state = 1 AND kind = k.kind COLLATE \"C\" AND due <= $2 ORDER BY due, id LIMIT 1
                    FOR UPDATE SKIP LOCKED
                ) t
                ORDER BY t.due, t.id LIMIT 1
            )
            UPDATE {jobs} j SET state = 2, token = nextval('{numbers}'), lease = {now} + $3 * interval '1 millisecond', alone = true,
                attempts = j.attempts + 1
            FROM taken WHERE j.id = taken.id
            RETURNING j.id, j.token, j.kind, j.key, j.payload, j.due, j.attempts"
        ),
        // Ids, tokens. Tells the ids of those that were there.
        Query::Done => {
            let token = token.replace("$2", "f.token");
            format!(
                "DELETE FROM {jobs} j USING unnest($1::int8[], $2::int8[]) AS f(id, token)
                WHERE j.id = f.id AND j.state = 2 AND {token} RETURNING j.id"
            )
        }
        // Id, token, state, due time, attempts. Without these three it is as before its claim.
        Query::PutBack => format!(
            "UPDATE {jobs} j SET state = coalesce($3::int2, CASE WHEN j.alone THEN 1 ELSE 0 END),
                due = coalesce($4::int8, j.due), attempts = coalesce($5::int8, j.attempts - j.alone::int),
                token = NULL, lease = NULL, alone = false, key = {}
            WHERE j.id = $1 AND j.state = 2 AND {token} RETURNING j.kind, j.due, j.state",
            key_if_free(jobs)
        ),
        // Id, token, attempts, error.
        Query::Bury => format!(
            "UPDATE {jobs} j SET state = 3, attempts = $3, error = $4, token = NULL, lease = NULL, alone = false
            WHERE j.id = $1 AND j.state = 2 AND {token} RETURNING j.id"
        ),
        // Id, due time.
        Query::Revive => format!(
            "UPDATE {jobs} j SET state = 0, due = $2, attempts = 0, error = NULL, key = {}
            WHERE j.id = $1 AND j.state = 3 RETURNING j.kind",
            key_if_free(jobs)
        ),
        Query::Discard => format!("DELETE FROM {jobs} WHERE id = $1 AND state = 3 RETURNING id"),
        Query::Pending => format!("SELECT count(*) FROM {jobs} WHERE state <= 2"),
        // How many. The earliest of each kind, and all claims, which are few.
        Query::List => {
            let waiting = |state: u8| {
                format!(
                    "SELECT c.* FROM {} AS k CROSS JOIN LATERAL (
                        SELECT id, kind, key, payload, due, attempts, false FROM {jobs}
                        WHERE state = {state} AND kind = k.kind ORDER BY due, id LIMIT $1
                    ) AS c",
                    kinds(jobs, state)
                )
            };
            format!(
                "SELECT * FROM (({}) UNION ALL ({}) UNION ALL
                    (SELECT id, kind, key, payload, due, attempts, true FROM {jobs} WHERE state = 2)
                ) AS found(id, kind, key, payload, due, attempts, claimed) ORDER BY due, id LIMIT $1",
                waiting(0),
                waiting(1)
            )
        }
        Query::Dead => format!(
            "SELECT id, kind, key, payload, attempts, error FROM {jobs} WHERE state = 3 ORDER BY id LIMIT $1"
        ),
        // Kinds, notices, this process, a number. Ends a transaction: has it written anything, was its number noted, and what is earliest now?
        Query::Close => format!(
            "WITH mark AS (
                UPDATE {jobs} SET token = $4::int8, attempts = {MILLIS}
                WHERE id = $3::int8 AND state = 4 AND pg_current_xact_id_if_assigned() IS NOT NULL RETURNING 1
            ) SELECT pg_current_xact_id_if_assigned() IS NOT NULL, EXISTS (SELECT 1 FROM mark), {}, {},
                (SELECT count(pg_notify('{jobs}', n)) FROM unnest($2::text[]) AS n)",
            earliest(jobs, 0),
            earliest(jobs, 1)
        ),
        // Ids, tokens, lease. Tells the tokens of those that were renewed.
        Query::Renew => format!(
            "UPDATE {jobs} j SET lease = {now} + $3 * interval '1 millisecond'
            FROM unnest($1::int8[], $2::int8[]) AS h(id, token)
            WHERE j.id = h.id AND j.state = 2 AND j.token = h.token RETURNING j.token"
        ),
        // Kinds, how many.
        Query::Lapsed => format!(
            "SELECT id, token, attempts, alone FROM {jobs}
            WHERE state = 2 AND lease <= {now} AND kind = ANY($1::text[]) ORDER BY lease LIMIT $2 FOR UPDATE SKIP LOCKED"
        ),
        // Kinds. The clock, what is earliest, and the milliseconds until the next claim lapses.
        Query::Look => format!(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8, {}, {},
                (SELECT ceil(extract(epoch FROM lease - {now}) * 1000)::int8 FROM {jobs}
                WHERE state = 2 AND kind = ANY($1::text[]) ORDER BY lease LIMIT 1)",
            earliest(jobs, 0),
            earliest(jobs, 1)
        ),
        // Kinds.
        Query::Unhandled => format!(
            "SELECT kind FROM ({} UNION {}) AS found WHERE kind <> ALL($1::text[]) ORDER BY kind",
            kinds(jobs, 0),
            kinds(jobs, 1)
        ),
        // Makes the row of a process. Those of processes that were killed go, when nothing has been written by them for a day.
        Query::Enter => format!(
            "WITH gone AS (DELETE FROM {jobs} WHERE state = 4 AND attempts < {MILLIS} - 86400000)
            INSERT INTO {jobs} (id, state, kind, due, attempts, token, payload)
            VALUES (nextval('{numbers}'), 4, '', 0, {MILLIS}, 0, '') RETURNING id"
        ),
        Query::Leave => format!("DELETE FROM {jobs} WHERE id = $1 AND state = 4"),
        // A process: the number of its last transaction. Waits for one that is under way.
        Query::Marked => {
            format!("SELECT token FROM {jobs} WHERE id = $1 AND state = 4 FOR UPDATE")
        }
        // A process of the server and when it began: ends it, if it is still there.
        Query::End => "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE pid = $1 AND (extract(epoch FROM backend_start) * 1000000)::int8 = $2"
            .to_owned(),
    }
}

//! Dead letters: shown, tried again, removed.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use hashed_wheel_durable::Error as TimerError;
use serde_json::{Value, json};

use super::jobs::Shown;
use super::query::Query;
use super::{Answer, App, Problem, Shared, answer, blocking};
use crate::queue::{Queue, unix_millis};

pub(super) async fn list(State(app): Shared, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query, &["limit", "after", "key", "search"])?;
    let wanted = query.wanted(true)?;
    let (dead, next) = blocking(&app, move |queue| queue.page(&wanted)).await?;
    let dead: Vec<Value> = dead
        .iter()
        .map(|job| {
            let shown = Shown::of(&job.payload);
            json!({
                "dead": job.number.to_string(), "key": job.key, "id": shown.id, "callback": shown.callback, "payload": shown.payload,
                "failed": job.attempts, "error": job.error, "died_ms": unix_millis(job.due),
            })
        })
        .collect();
    let next = next.map(|number| number.to_string());
    Ok(answer(
        StatusCode::OK,
        &json!({ "dead": dead, "next": next }),
    ))
}

pub(super) async fn revive_many(state: Shared, query: RawQuery) -> Answer {
    many(state, query, "revived", Queue::revive_all, Queue::revive).await
}

pub(super) async fn discard_many(state: Shared, query: RawQuery) -> Answer {
    many(
        state,
        query,
        "discarded",
        Queue::discard_all,
        Queue::discard,
    )
    .await
}

async fn many(
    State(app): Shared,
    RawQuery(query): RawQuery,
    result: &str,
    all: fn(&Queue) -> Result<u64, TimerError>,
    one: fn(&Queue, u64) -> Result<bool, TimerError>,
) -> Answer {
    let query = Query::read(query, &["key", "search", "all"])?;
    let wanted = query.wanted(true)?;
    // So that nothing is done to all of them by a filter that was forgotten.
    if query.get("all") != Some("true") {
        return Err(Problem::bad(
            "all=true is missing: it means all that key and search leave, which are every one without them",
        ));
    }
    let every = wanted.key.is_none() && wanted.search.is_none();
    let count = blocking(&app, move |queue| {
        if every {
            all(queue)
        } else {
            queue.each_dead(wanted, one)
        }
    })
    .await?;
    let body = json!({ "result": result, "count": count });
    Ok(answer(StatusCode::OK, &body))
}

fn number(id: &str) -> Result<u64, Problem> {
    let digits = id.bytes().all(|byte| byte.is_ascii_digit());
    id.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| Problem::value("the number of the dead letter", id.into(), "a whole number"))
}

pub(super) async fn revive(State(app): Shared, Path(id): Path<String>) -> Answer {
    of_dead(app, &id, "revived", Queue::revive).await
}

pub(super) async fn discard(State(app): Shared, Path(id): Path<String>) -> Answer {
    of_dead(app, &id, "discarded", Queue::discard).await
}

async fn of_dead(
    app: Arc<App>,
    id: &str,
    result: &str,
    work: fn(&Queue, u64) -> Result<bool, TimerError>,
) -> Answer {
    let number = number(id)?;
    if blocking(&app, move |queue| work(queue, number)).await? {
        let body = json!({ "dead": id, "result": result });
        Ok(answer(StatusCode::OK, &body))
    } else {
        let problem = format!("there is no dead letter {id}");
        Err(Problem::new(StatusCode::NOT_FOUND, problem))
    }
}

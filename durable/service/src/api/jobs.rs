//! Jobs: posted, listed, moved, cancelled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use hashed_wheel_durable::{Error as TimerError, Scheduled};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::query::Query;
use super::{Answer, App, Problem, Shared, answer, blocking, json_body};
use crate::call::headers;
use crate::log::{self, Level};
use crate::queue::{Envelope, Every, Listed, MOST_PAYLOAD, Posted, Queue, When, unix_millis};
use crate::server::guard::RequestId;

/// Ten years, in milliseconds.
pub(super) const MOST_DELAY: u64 = 3653 * 86_400_000;

/// The end of the year 9999, in milliseconds since 1970.
pub(super) const MOST_TIME: u64 = 253_402_300_799_999;

/// The shortest period of a recurring job, in milliseconds.
pub(super) const LEAST_PERIOD: u64 = 1000;

/// The most jobs in one request.
pub(super) const MOST_JOBS: usize = 1000;

/// The most jobs in an answer.
pub(super) const MOST_LISTED: u64 = 500;

/// The characters of a payload that a list shows.
const PREVIEW: usize = 200;

/// The body of `POST` and `PATCH`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    #[serde(default, deserialize_with = "given")]
    callback: Option<String>,
    payload: Option<Box<RawValue>>,
    #[serde(default, deserialize_with = "given")]
    headers: Option<BTreeMap<String, String>>,
    #[serde(default, deserialize_with = "given")]
    key: Option<String>,
    #[serde(default, deserialize_with = "given")]
    delay_ms: Option<serde_json::Number>,
    #[serde(default, deserialize_with = "given")]
    at_ms: Option<serde_json::Number>,
    #[serde(default, deserialize_with = "given")]
    every_ms: Option<serde_json::Number>,
    #[serde(default, deserialize_with = "given")]
    replace: Option<bool>,
}

/// A field that is there has a value: `null` is none.
fn given<'de, D, T>(input: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(input).map(Some)
}

fn in_range(
    field: &str,
    value: &serde_json::Number,
    least: u64,
    most: u64,
) -> Result<u64, Problem> {
    let range = least..=most;
    number(value)
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let allowed = format!("a whole number from {least} to {most}");
            Problem::value(field, value.clone().into(), &allowed)
        })
}

/// A whole number, also one that is written as 300.0.
fn number(value: &serde_json::Number) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        // Beyond that not every whole number has a float.
        let whole = (0.0..=9_007_199_254_740_992.0).contains(&number) && number.fract() == 0.0;
        whole.then_some(number as u64)
    })
}

impl Wanted {
    fn when(&self) -> Result<When, Problem> {
        let millis =
            |field, value, most| in_range(field, value, 0, most).map(Duration::from_millis);
        match (&self.delay_ms, &self.at_ms) {
            (Some(delay), None) => Ok(When::After(millis("delay_ms", delay, MOST_DELAY)?)),
            (None, Some(at)) => Ok(When::At(UNIX_EPOCH + millis("at_ms", at, MOST_TIME)?)),
            (None, None) => Err(Problem::bad(
                "delay_ms or at_ms is missing: milliseconds from now, or since 1970",
            )),
            (Some(_), Some(_)) => Err(Problem::bad("delay_ms and at_ms are both there: give one")),
        }
    }

    fn check(self, app: &App) -> Result<Posted, Problem> {
        let when = self.when()?;
        let callback = self.callback.ok_or_else(|| {
            Problem::bad(
                "callback is missing: the address to call, like \"https://example.org/hook\"",
            )
        })?;
        app.allowed.check(&callback)?;
        let headers = self.headers.unwrap_or_default();
        headers::parse(&headers).map_err(|problem| Problem::field("headers", &problem))?;
        let payload = self.payload.unwrap_or_else(|| RawValue::NULL.to_owned());
        let length = payload.get().len();
        if length > MOST_PAYLOAD {
            return Err(Problem::too_large(&format!(
                "the payload has {length} bytes"
            )));
        }
        let mut envelope = Envelope::new(callback, headers, payload);
        if let Some(every) = self.every_ms {
            let ms = in_range("every_ms", &every, LEAST_PERIOD, MOST_DELAY)?;
            let first = match when {
                When::After(delay) => unix_millis(SystemTime::now() + delay),
                When::At(time) => unix_millis(time),
            };
            envelope.every = Some(Every { ms, first });
        }
        Ok(Posted {
            key: self.key.unwrap_or_else(|| format!("job-{}", envelope.id)),
            envelope,
            when,
            replace: self.replace.unwrap_or(false),
        })
    }
}

fn read(body: &[u8]) -> Result<Wanted, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::bad(format!("the body: {error}")))
}

pub(super) async fn schedule(
    State(app): Shared,
    Extension(RequestId(request)): Extension<RequestId>,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let body = json_body(&app, &headers, body).await?;
    if body.trim_ascii_start().first() == Some(&b'[') {
        return schedule_many(&app, &request, &body).await;
    }
    let job = read(&body)?.check(&app)?;
    let mut stored = blocking(&app, move |queue| store(queue, vec![job])).await?;
    let stored = stored
        .pop()
        .ok_or_else(|| Problem::bad("nothing was stored"))?;
    stored.note(&request);
    let (status, body) = stored.told();
    Ok(answer(status, &body))
}

/// Stores many jobs, all or none. What became of each is in the answer.
async fn schedule_many(app: &Arc<App>, request: &str, body: &[u8]) -> Answer {
    let wanted: Vec<Wanted> =
        serde_json::from_slice(body).map_err(|error| Problem::bad(format!("the body: {error}")))?;
    if !(1..=MOST_JOBS).contains(&wanted.len()) {
        return Err(Problem::bad(format!(
            "the body has {} jobs: it must have 1 to {MOST_JOBS}",
            wanted.len()
        )));
    }
    let jobs: Result<Vec<Posted>, Problem> = wanted
        .into_iter()
        .enumerate()
        .map(|(number, job)| job.check(app).map_err(|problem| problem.of_job(number)))
        .collect();
    let jobs = jobs?;
    let stored = blocking(app, move |queue| store(queue, jobs)).await?;
    let results: Vec<Value> = stored
        .iter()
        .map(|stored| {
            stored.note(request);
            stored.told().1
        })
        .collect();
    Ok(answer(StatusCode::OK, &json!({ "results": results })))
}

/// What became of a job that was posted.
struct Stored {
    key: String,
    /// That of the job which waits now.
    id: String,
    result: &'static str,
}

impl Stored {
    fn note(&self, request: &str) {
        if self.result != "conflict" {
            let fields = json!({ "request": request, "job": self.id, "key": self.key, "result": self.result });
            log::event(Level::Info, "job_stored", fields);
        }
    }

    fn told(&self) -> (StatusCode, Value) {
        let Stored { key, id, result } = self;
        let status = match *result {
            "new" => StatusCode::CREATED,
            "conflict" => {
                let problem = format!(
                    "another job waits under {key:?}: move it, or post with \"replace\": true"
                );
                let body = json!({ "error": problem, "key": key, "id": id, "result": result });
                return (StatusCode::CONFLICT, body);
            }
            _ => StatusCode::OK,
        };
        (status, json!({ "key": key, "id": id, "result": result }))
    }
}

/// Stores jobs. A job that waits under its key and asks for the same call is left as it is: posting twice is posting once.
fn store(queue: &Queue, jobs: Vec<Posted>) -> Result<Vec<Stored>, TimerError> {
    let scheduled = queue.schedule(&jobs)?;
    let each = jobs.into_iter().zip(scheduled).map(|(job, scheduled)| {
        let mut id = job.envelope.id.clone();
        let result = match scheduled {
            Scheduled::New(_) => "new",
            Scheduled::Replaced(_) => "replaced",
            _ => {
                let Some(waits) = queue.waiting(&job.key)? else {
                    // Its call has begun meanwhile, and the key is free.
                    return Ok(store(queue, vec![job])?.remove(0));
                };
                let waits = Envelope::decode(&waits.payload);
                let same = waits
                    .as_ref()
                    .is_ok_and(|one| one.asks_the_same(&job.envelope));
                id = waits.map_or_else(|_| String::new(), |waits| waits.id);
                if same { "kept" } else { "conflict" }
            }
        };
        let key = job.key;
        Ok(Stored { key, id, result })
    });
    each.collect()
}

pub(super) async fn reschedule(
    State(app): Shared,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let key = Query::read(query, &["key"])?.key()?;
    let body = json_body(&app, &headers, body).await?;
    let wanted = read(&body)?;
    if wanted.callback.is_some()
        || wanted.payload.is_some()
        || wanted.key.is_some()
        || wanted.headers.is_some()
        || wanted.replace.is_some()
        || wanted.every_ms.is_some()
    {
        return Err(Problem::bad(
            "only delay_ms or at_ms can be changed; post with \"replace\": true for the rest",
        ));
    }
    let when = wanted.when()?;
    let asked = key.clone();
    if blocking(&app, move |queue| queue.reschedule(&asked, when)).await? {
        let body = json!({ "key": key, "result": "moved" });
        Ok(answer(StatusCode::OK, &body))
    } else {
        Err(Problem::no_job(&key))
    }
}

pub(super) async fn cancel(State(app): Shared, RawQuery(query): RawQuery) -> Answer {
    let key = Query::read(query, &["key"])?.key()?;
    let asked = key.clone();
    if blocking(&app, move |queue| queue.cancel(&asked)).await? {
        let body = json!({ "key": key, "result": "cancelled" });
        Ok(answer(StatusCode::OK, &body))
    } else {
        Err(Problem::no_job(&key))
    }
}

/// A stored job as a list shows it. Headers are not shown: they may hold secrets.
#[derive(Debug, Default)]
pub(super) struct Shown {
    pub(super) id: String,
    pub(super) callback: String,
    pub(super) payload: String,
    pub(super) every: Option<u64>,
}

impl Shown {
    pub(super) fn of(bytes: &[u8]) -> Shown {
        match Envelope::decode(bytes) {
            Ok(envelope) => {
                let text = envelope.payload.get();
                let mut payload: String = text.chars().take(PREVIEW).collect();
                if payload.len() < text.len() {
                    payload.push('…');
                }
                Shown {
                    id: envelope.id,
                    callback: envelope.callback,
                    payload,
                    every: envelope.every.map(|every| every.ms),
                }
            }
            Err(problem) => Shown {
                callback: problem,
                ..Shown::default()
            },
        }
    }
}

pub(super) async fn list(State(app): Shared, RawQuery(query): RawQuery) -> Answer {
    let query = Query::read(query, &["limit", "after", "key", "search"])?;
    let wanted = query.wanted(false)?;
    let paged = query.get("after").is_some() || wanted.key.is_some() || wanted.search.is_some();
    let (count, (jobs, next)) = blocking(&app, move |queue| {
        let listed = if paged {
            queue.page(&wanted)?
        } else {
            (queue.earliest(wanted.limit)?, None)
        };
        Ok((queue.pending()?, listed))
    })
    .await?;
    let jobs: Vec<Value> = jobs.iter().map(|job| shown(&app, job)).collect();
    let now = unix_millis(SystemTime::now());
    let next = next.map(|number| number.to_string());
    Ok(answer(
        StatusCode::OK,
        &json!({ "pending": count, "now_ms": now, "jobs": jobs, "next": next }),
    ))
}

fn shown(app: &App, job: &Listed) -> Value {
    let shown = Shown::of(&job.payload);
    let state = match () {
        () if job.claimed => "calling",
        () if app.deliverer.put_off.has(&shown.id) => "queued",
        () if job.attempts > 0 => "retrying",
        () => "waiting",
    };
    json!({
        "number": job.number.to_string(), "key": job.key, "id": shown.id, "due_ms": unix_millis(job.due), "callback": shown.callback,
        "payload": shown.payload, "failed": job.attempts, "state": state, "error": job.error,
        "every_ms": shown.every,
    })
}

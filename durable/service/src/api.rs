//! HTTP: jobs, dead letters, the page.
//!
//! | request | |
//! |---|---|
//! | `GET /` | the page |
//! | `GET /jobs?limit=N` | what is pending, the earliest first |
//! | `POST /jobs` | `{"callback", "payload", "key", "delay_ms" or "at_ms", "replace"}` |
//! | `PATCH /jobs?key=K` | moves it: `{"delay_ms"}` or `{"at_ms"}` |
//! | `DELETE /jobs?key=K` | cancels it |
//! | `GET /dead?limit=N` | dead letters |
//! | `POST /dead/ID` | makes one wait again |
//! | `DELETE /dead/ID` | removes it |
//!
//! There is no login, so it answers on loopback only. A page of somebody else in a browser on this machine can reach that as well: requests with a foreign `Origin` or
//! `Host` are refused, and a body has to be declared as JSON, which such a page cannot do without asking.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Path, RawQuery, Request, State};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hashed_wheel_durable::{Error as TimerError, Scheduled};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::options::Options;
use crate::queue::{Envelope, MOST_PAYLOAD, Queue, When, unix_millis};

const PAGE: &str = include_str!("page.html");

/// The largest body of a request: a payload, and what is around it.
const MOST_BODY: usize = MOST_PAYLOAD + (8 << 10);

/// Ten years, in milliseconds.
const MOST_DELAY: u64 = 3653 * 86_400_000;

/// The most jobs in an answer.
const MOST_LISTED: usize = 500;

/// The characters of a payload that a list shows.
const PREVIEW: usize = 200;

type Shared = State<Arc<Queue>>;

/// Runs the service until it is told to stop.
pub fn serve(options: &Options) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let queue = Arc::new(Queue::open(options, runtime.handle().clone())?);
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(options.listen)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", options.listen))?;
        let place = match options.postgres {
            Some(_) => "PostgreSQL".into(),
            None => options.file.display().to_string(),
        };
        // In one write: whoever started this may read the first line only, and close the pipe.
        let text = format!(
            "open http://{}/\nThe jobs are in {place}. Ctrl-C ends the service; they stay.\n",
            listener.local_addr()?
        );
        print!("{text}");
        axum::serve(listener, router(Arc::clone(&queue)))
            .with_graceful_shutdown(told_to_stop())
            .await?;
        Ok::<(), Box<dyn Error>>(())
    })?;
    // Waits for the calls under way.
    queue.stop()?;
    Ok(())
}

async fn told_to_stop() {
    let interrupted = tokio::signal::ctrl_c();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminated) = signal(SignalKind::terminate()) {
            let terminated = terminated.recv();
            tokio::pin!(interrupted, terminated);
            std::future::poll_fn(|context| {
                if interrupted.as_mut().poll(context).is_ready() {
                    return std::task::Poll::Ready(());
                }
                terminated.as_mut().poll(context).map(drop)
            })
            .await;
            return;
        }
    }
    let _ = interrupted.await;
}

fn router(queue: Arc<Queue>) -> Router {
    Router::new()
        .route("/", get(page))
        .route(
            "/jobs",
            get(list).post(schedule).patch(reschedule).delete(cancel),
        )
        .route("/dead", get(dead))
        .route("/dead/{id}", post(revive).delete(discard))
        .fallback(async |uri: Uri| {
            Problem::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            let problem = "the method is not allowed here";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(middleware::from_fn(guard))
        .with_state(queue)
}

/// A refusal: a status and a reason, for a field where there is one.
#[derive(Debug)]
struct Problem {
    status: StatusCode,
    body: Value,
}

impl Problem {
    fn new(status: StatusCode, text: impl Into<String>) -> Problem {
        Problem {
            status,
            body: json!({ "error": text.into() }),
        }
    }

    fn bad(text: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, text)
    }

    /// A value that is not allowed, with what is.
    #[allow(clippy::needless_pass_by_value, reason = "values are made for it")]
    fn value(field: &str, value: Value, allowed: &str) -> Problem {
        Problem {
            status: StatusCode::BAD_REQUEST,
            body: json!({
                "error": format!("{field} is {value}: it must be {allowed}"),
                "field": field,
                "value": value,
                "allowed": allowed,
            }),
        }
    }

    fn no_job(key: &str) -> Problem {
        let text = format!(
            "no job waits under {key:?}: it was never there, was called or cancelled, or is being called now"
        );
        Problem::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<TimerError> for Problem {
    fn from(error: TimerError) -> Problem {
        let status = match &error {
            TimerError::Key(_) => StatusCode::BAD_REQUEST,
            TimerError::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            TimerError::Stopped => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        answer(self.status, &self.body)
    }
}

fn answer(status: StatusCode, body: &Value) -> Response {
    let mut text = body.to_string();
    text.push('\n');
    (status, [(CONTENT_TYPE, "application/json")], text).into_response()
}

type Answer = Result<Response, Problem>;

/// Refuses what a page of somebody else sends.
async fn guard(request: Request, next: Next) -> Response {
    let headers = request.headers();
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(HOST).unwrap_or_default().to_owned();
    let name = host.rsplit_once(':').map_or(&*host, |(name, port)| {
        // Of an IPv6 address without a port, the last part is no port.
        if port.ends_with(']') { &*host } else { name }
    });
    let local = name == "localhost"
        || name
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    if !local {
        let problem = format!("host {host:?} is not allowed: it must be loopback");
        return Problem::new(StatusCode::FORBIDDEN, problem).into_response();
    }
    let same = format!("http://{host}");
    if headers.contains_key(ORIGIN) && text(ORIGIN) != Some(same.as_str()) {
        let problem = format!("a page of another origin may not do this: it must be {same}");
        return Problem::new(StatusCode::FORBIDDEN, problem).into_response();
    }
    next.run(request).await
}

/// Runs what waits for the disk on a thread where that is allowed.
async fn blocking<T: Send + 'static>(
    queue: Arc<Queue>,
    work: impl FnOnce(&Queue) -> Result<T, TimerError> + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(move || work(&queue))
        .await
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
        .map_err(Problem::from)
}

async fn page() -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:";
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, policy),
    ];
    (headers, Body::from(PAGE)).into_response()
}

/// The body of `POST` and `PATCH`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    callback: Option<String>,
    payload: Option<Box<RawValue>>,
    key: Option<String>,
    delay_ms: Option<serde_json::Number>,
    at_ms: Option<serde_json::Number>,
    #[serde(default)]
    replace: bool,
}

impl Wanted {
    fn read(headers: &HeaderMap, body: Result<Bytes, BytesRejection>) -> Result<Wanted, Problem> {
        let declared = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if !declared
            .split(';')
            .next()
            .is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
        {
            let problem =
                format!("the content type is {declared:?}: it must be \"application/json\"");
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
        }
        let body = body.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                too_large(&format!("the body has more than {MOST_BODY} bytes"))
            }
            status => Problem::new(status, error.body_text()),
        })?;
        serde_json::from_slice(&body).map_err(|error| Problem::bad(format!("the body: {error}")))
    }

    fn when(&self) -> Result<When, Problem> {
        let in_range = |field: &str, value: &serde_json::Number, most: u64| {
            let number = value.as_u64().filter(|number| *number <= most);
            number.map(Duration::from_millis).ok_or_else(|| {
                let allowed = format!("a whole number from 0 to {most}");
                Problem::value(field, value.clone().into(), &allowed)
            })
        };
        match (&self.delay_ms, &self.at_ms) {
            (Some(delay), None) => Ok(When::After(in_range("delay_ms", delay, MOST_DELAY)?)),
            (None, Some(at)) => {
                let most = unix_millis(SystemTime::now()) + MOST_DELAY;
                Ok(When::At(UNIX_EPOCH + in_range("at_ms", at, most)?))
            }
            (None, None) => Err(Problem::bad(
                "delay_ms or at_ms is missing: milliseconds from now, or since 1970",
            )),
            (Some(_), Some(_)) => Err(Problem::bad("delay_ms and at_ms are both there: give one")),
        }
    }
}

fn too_large(what: &str) -> Problem {
    let problem = format!("{what}: a payload has at most {MOST_PAYLOAD}");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
}

async fn schedule(
    State(queue): Shared,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let wanted = Wanted::read(&headers, body)?;
    let when = wanted.when()?;
    let callback = wanted.callback.ok_or_else(|| {
        Problem::bad(
            "callback is missing: the address to call, like \"http://127.0.0.1:9000/hook\"",
        )
    })?;
    if let Err(problem) = queue.allowed.check(&callback) {
        let error = format!("callback {problem}");
        return Err(Problem {
            status: StatusCode::BAD_REQUEST,
            body: json!({ "error": error, "field": "callback", "value": callback }),
        });
    }
    let payload = wanted.payload.unwrap_or_else(|| RawValue::NULL.to_owned());
    let length = payload.get().len();
    if length > MOST_PAYLOAD {
        return Err(too_large(&format!("the payload has {length} bytes")));
    }
    let envelope = Envelope::new(callback, payload);
    let (key, replace) = (wanted.key, wanted.replace);
    let id = envelope.id.clone();
    let (key, scheduled) = blocking(queue, move |queue| {
        queue.schedule(key, &envelope, when, replace)
    })
    .await?;
    Ok(match scheduled {
        Scheduled::New => answer(
            StatusCode::CREATED,
            &json!({ "key": key, "id": id, "result": "new" }),
        ),
        Scheduled::Replaced => answer(
            StatusCode::OK,
            &json!({ "key": key, "id": id, "result": "replaced" }),
        ),
        _ => {
            let problem = format!(
                "a job waits under {key:?} already: move it, or post with \"replace\": true"
            );
            return Err(Problem::new(StatusCode::CONFLICT, problem));
        }
    })
}

/// The value of a parameter in the query.
fn parameter(query: Option<String>, name: &str) -> Result<Option<String>, Problem> {
    let query = query.unwrap_or_default();
    let uri = Uri::builder()
        .path_and_query(format!("/?{query}"))
        .build()
        .map_err(|error| Problem::bad(format!("the query: {error}")))?;
    let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(&uri)
        .map_err(|error| Problem::bad(format!("the query: {}", error.body_text())))?;
    let mut found = None;
    for (key, value) in pairs.0 {
        if key != name {
            return Err(Problem::bad(format!(
                "the query has {key:?}: it must have {name:?} alone"
            )));
        }
        found = Some(value);
    }
    Ok(found)
}

fn key(query: Option<String>) -> Result<String, Problem> {
    parameter(query, "key")?.ok_or_else(|| Problem::bad("key is missing: PATH?key=KEY"))
}

fn limit(query: Option<String>) -> Result<usize, Problem> {
    let Some(text) = parameter(query, "limit")? else {
        return Ok(MOST_LISTED);
    };
    text.parse()
        .ok()
        .filter(|limit| (1..=MOST_LISTED).contains(limit))
        .ok_or_else(|| {
            Problem::value(
                "limit",
                text.into(),
                &format!("a number from 1 to {MOST_LISTED}"),
            )
        })
}

async fn reschedule(
    State(queue): Shared,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let key = key(query)?;
    let wanted = Wanted::read(&headers, body)?;
    if wanted.callback.is_some() || wanted.payload.is_some() || wanted.key.is_some() {
        return Err(Problem::bad(
            "only delay_ms or at_ms can be changed; post with \"replace\": true for the rest",
        ));
    }
    let when = wanted.when()?;
    let asked = key.clone();
    if blocking(queue, move |queue| queue.reschedule(&asked, when)).await? {
        Ok(answer(
            StatusCode::OK,
            &json!({ "key": key, "result": "moved" }),
        ))
    } else {
        Err(Problem::no_job(&key))
    }
}

async fn cancel(State(queue): Shared, RawQuery(query): RawQuery) -> Answer {
    let key = key(query)?;
    let asked = key.clone();
    if blocking(queue, move |queue| queue.cancel(&asked)).await? {
        Ok(answer(
            StatusCode::OK,
            &json!({ "key": key, "result": "cancelled" }),
        ))
    } else {
        Err(Problem::no_job(&key))
    }
}

/// Callback and payload as a list shows them, and the calls that failed before it was stored.
fn shown(bytes: &[u8]) -> (String, String, String, u32, Option<u64>) {
    match Envelope::decode(bytes) {
        Ok(envelope) => {
            let text = envelope.payload.get();
            let mut preview: String = text.chars().take(PREVIEW).collect();
            if preview.len() < text.len() {
                preview.push('…');
            }
            let Envelope {
                id,
                callback,
                failed,
                turn,
                ..
            } = envelope;
            (id, callback, preview, failed, turn)
        }
        Err(problem) => (String::new(), problem, String::new(), 0, None),
    }
}

async fn list(State(queue): Shared, RawQuery(query): RawQuery) -> Answer {
    let limit = limit(query)?;
    let (count, jobs) = blocking(queue, move |queue| queue.pending(limit)).await?;
    let jobs: Vec<Value> = jobs
        .iter()
        .map(|job| {
            let (id, callback, payload, failed, turn) = shown(&job.payload);
            let failed = failed + job.attempts;
            let state = match () {
                () if job.claimed => "calling",
                () if job.attempts > 0 => "retrying",
                () if turn == Some(unix_millis(job.due)) => "queued",
                () => "waiting",
            };
            json!({
                "key": job.key, "id": id, "due_ms": unix_millis(job.due), "callback": callback,
                "payload": payload, "failed": failed, "state": state,
            })
        })
        .collect();
    let now = unix_millis(SystemTime::now());
    Ok(answer(
        StatusCode::OK,
        &json!({ "pending": count, "now_ms": now, "jobs": jobs }),
    ))
}

async fn dead(State(queue): Shared, RawQuery(query): RawQuery) -> Answer {
    let limit = limit(query)?;
    let dead = blocking(queue, move |queue| queue.dead(limit)).await?;
    let dead: Vec<Value> = dead
        .iter()
        .map(|job| {
            let (id, callback, payload, failed, _) = shown(&job.payload);
            json!({
                "dead": job.id.to_string(), "key": job.key, "id": id, "callback": callback, "payload": payload,
                "failed": failed + job.attempts, "error": job.last_error,
            })
        })
        .collect();
    Ok(answer(StatusCode::OK, &json!({ "dead": dead })))
}

fn number(id: &str) -> Result<u64, Problem> {
    id.parse()
        .map_err(|_| Problem::value("the number of the dead letter", id.into(), "a whole number"))
}

async fn revive(State(queue): Shared, Path(id): Path<String>) -> Answer {
    of_dead(queue, &id, "revived", Queue::revive).await
}

async fn discard(State(queue): Shared, Path(id): Path<String>) -> Answer {
    of_dead(queue, &id, "discarded", Queue::discard).await
}

async fn of_dead(
    queue: Arc<Queue>,
    id: &str,
    result: &str,
    work: fn(&Queue, u64) -> Result<bool, TimerError>,
) -> Answer {
    let number = number(id)?;
    if blocking(queue, move |queue| work(queue, number)).await? {
        Ok(answer(
            StatusCode::OK,
            &json!({ "dead": id, "result": result }),
        ))
    } else {
        let problem = format!("there is no dead letter {id}");
        Err(Problem::new(StatusCode::NOT_FOUND, problem))
    }
}

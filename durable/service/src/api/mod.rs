//! HTTP: jobs, dead letters, the page, and what an operator asks.
//!
//! | request | |
//! |---|---|
//! | `GET /` | the page |
//! | `GET`, `POST`, `PATCH`, `DELETE` `/jobs` | jobs: [`jobs`] |
//! | `GET`, `POST`, `DELETE` `/dead` | dead letters: [`dead`] |
//! | `GET` `/healthz`, `/readyz`, `/metrics`, `/openapi.json` | for whoever operates it: [`operate`] |

mod dead;
mod jobs;
mod operate;
mod query;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hashed_wheel::TimerHandle;
use hashed_wheel_durable::Error as TimerError;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};

use crate::call::allowed::{Allowed, Refusal};
use crate::deliver::Deliverer;
use crate::metrics::Metrics;
use crate::queue::{MOST_PAYLOAD, Queue};
use crate::server::guard::{Guard, guard};
use crate::server::health::Health;

/// The largest body of a request: payloads, and what is around them.
const MOST_BODY: usize = 4 << 20;

/// What every request can use.
#[derive(Debug)]
pub struct App {
    pub queue: Queue,
    pub allowed: Allowed,
    pub deliverer: Arc<Deliverer>,
    pub metrics: Arc<Metrics>,
    pub health: Health,
    pub guard: Guard,
    pub timer: TimerHandle,
    pub body_timeout: Duration,
}

type Shared = State<Arc<App>>;

pub fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/page.css", get(style))
        .route("/page.js", get(script))
        .route(
            "/jobs",
            get(jobs::list)
                .post(jobs::schedule)
                .patch(jobs::reschedule)
                .delete(jobs::cancel),
        )
        .route(
            "/dead",
            get(dead::list)
                .post(dead::revive_many)
                .delete(dead::discard_many),
        )
        .route("/dead/{id}", post(dead::revive).delete(dead::discard))
        .route("/healthz", get(operate::healthz))
        .route("/readyz", get(operate::readyz))
        .route("/metrics", get(operate::metrics))
        .route("/openapi.json", get(operate::openapi))
        .fallback(async |uri: Uri| {
            Problem::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path()))
        })
        .method_not_allowed_fallback(async || {
            let problem = "the method is not allowed here";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, problem)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard))
        .with_state(app)
}

async fn page() -> Response {
    text(
        "text/html; charset=utf-8",
        include_str!("../page/page.html"),
    )
}

async fn style() -> Response {
    text("text/css; charset=utf-8", include_str!("../page/page.css"))
}

async fn script() -> Response {
    let kind = "text/javascript; charset=utf-8";
    text(kind, include_str!("../page/page.js"))
}

fn text(kind: &'static str, body: impl Into<Body>) -> Response {
    ([(CONTENT_TYPE, kind)], body.into()).into_response()
}

/// A refusal: a status and a reason, for a field where there is one.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    body: Value,
}

impl Problem {
    pub fn new(status: StatusCode, text: impl Into<String>) -> Problem {
        Problem {
            status,
            body: json!({ "error": text.into() }),
        }
    }

    fn bad(text: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, text)
    }

    /// A field that is not allowed as it is.
    fn field(field: &str, error: &str) -> Problem {
        Problem {
            status: StatusCode::BAD_REQUEST,
            body: json!({ "error": format!("{field} {error}"), "field": field }),
        }
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

    /// Which of many jobs it is about.
    fn of_job(mut self, number: usize) -> Problem {
        let error = self.body["error"].as_str().unwrap_or_default();
        self.body["error"] = format!("job {number}: {error}").into();
        self.body["job"] = number.into();
        self
    }

    fn too_large(what: &str) -> Problem {
        let problem = format!("{what}: a payload has at most {MOST_PAYLOAD}, a body {MOST_BODY}");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
    }

    fn no_job(key: &str) -> Problem {
        let text = format!(
            "no job waits under {key:?}: it was never there, was called or cancelled, or is being called now"
        );
        Problem::new(StatusCode::NOT_FOUND, text)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let (status, error) = match refusal {
            Refusal::Malformed(error) => (StatusCode::BAD_REQUEST, error),
            Refusal::Forbidden(error) => (StatusCode::FORBIDDEN, error),
        };
        Problem {
            status,
            ..Problem::field("callback", &error)
        }
    }
}

impl From<TimerError> for Problem {
    fn from(error: TimerError) -> Problem {
        let status = match &error {
            TimerError::Key(_) => StatusCode::BAD_REQUEST,
            TimerError::PayloadTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            // What the caller may try again later.
            TimerError::Stopped | TimerError::Store(_) | TimerError::Poisoned { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
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

/// Runs what waits for the disk on a thread where that is allowed.
async fn blocking<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&Queue) -> Result<T, TimerError> + Send + 'static,
) -> Result<T, Problem> {
    let own = Arc::clone(app);
    let result = tokio::task::spawn_blocking(move || work(&own.queue))
        .await
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    app.health.note(&result);
    result.map_err(Problem::from)
}

/// Reads a body that is declared as JSON.
async fn json_body(app: &App, headers: &HeaderMap, body: Body) -> Result<Bytes, Problem> {
    let declared = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let kind = declared.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        let problem = format!("the content type is {declared:?}: it must be \"application/json\"");
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem));
    }
    let read = Limited::new(body, MOST_BODY).collect();
    match app.timer.with_timeout(read, app.body_timeout).await {
        Ok(Ok(read)) => Ok(read.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::too_large(&format!(
            "the body has more than {MOST_BODY} bytes"
        ))),
        Ok(Err(error)) => Err(Problem::bad(format!("the body: {error}"))),
        Err(_) => Err(Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            format!("the body was not there within {:?}", app.body_timeout),
        )),
    }
}

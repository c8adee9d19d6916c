//! For whoever operates it: is it alive, is it ready, figures, its description.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;

use super::{App, Shared, answer, text};
use crate::metrics::Now;
use crate::server::health;

/// The process runs and answers. Says nothing of the store: starting again would not mend that.
pub(super) async fn healthz() -> Response {
    answer(StatusCode::OK, &json!({ "status": "alive" }))
}

/// It can store and call jobs now.
pub(super) async fn readyz(State(app): Shared) -> Response {
    if app.health.is_stopping() {
        let body = json!({ "status": "stopping" });
        return answer(StatusCode::SERVICE_UNAVAILABLE, &body);
    }
    match health::probe(&app).await {
        None => answer(StatusCode::OK, &json!({ "status": "ready" })),
        Some(reason) => answer(
            StatusCode::SERVICE_UNAVAILABLE,
            &json!({ "status": "the store fails", "error": reason }),
        ),
    }
}

pub(super) async fn metrics(State(app): Shared) -> Response {
    let pending = pending(&app).await;
    let hosts = app.deliverer.hosts.counts();
    let now = Now {
        pending,
        in_flight: hosts.calls,
        hosts: hosts.known,
        hosts_open: hosts.open,
        store_up: app.health.reason().is_none(),
        stats: app.queue.stats(),
    };
    text(
        "text/plain; version=0.0.4; charset=utf-8",
        app.metrics.text(&now),
    )
}

/// `None` if the store does not tell.
async fn pending(app: &Arc<App>) -> Option<u64> {
    super::blocking(app, crate::queue::Queue::pending)
        .await
        .ok()
}

pub(super) async fn openapi() -> Response {
    text("application/json", include_str!("openapi.json"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::api::jobs;
    use crate::call::{allowed, headers};

    #[test]
    fn the_description_has_the_limits_of_the_code() {
        let text: Value = serde_json::from_str(include_str!("openapi.json")).unwrap();
        let schemas = &text["components"]["schemas"];
        let job = &schemas["NewJob"]["properties"];
        for (described, real) in [
            (&schemas["Delay"]["maximum"], json!(jobs::MOST_DELAY)),
            (&schemas["At"]["maximum"], json!(jobs::MOST_TIME)),
            (&job["callback"]["maxLength"], json!(allowed::MOST_ADDRESS)),
            (
                &job["headers"]["maxProperties"],
                json!(headers::MOST_HEADERS),
            ),
            (
                &job["headers"]["additionalProperties"]["maxLength"],
                json!(headers::MOST_VALUE),
            ),
            (
                &text["paths"]["/jobs"]["get"]["parameters"][0]["schema"]["maximum"],
                json!(jobs::MOST_LISTED),
            ),
            (&job["every_ms"]["minimum"], json!(jobs::LEAST_PERIOD)),
            (
                &text["paths"]["/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
                    ["oneOf"][1]["maxItems"],
                json!(jobs::MOST_JOBS),
            ),
            (&text["info"]["version"], json!(env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(*described, real);
        }
    }
}

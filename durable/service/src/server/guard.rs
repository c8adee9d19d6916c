//! Who may ask: every request passes here first and last.
//!
//! Without tokens the service answers on loopback only. A page of somebody else in a browser on this machine can reach that as well: requests with a foreign `Host` or
//! `Origin` are refused, and a body has to be declared as JSON, which such a page cannot do without asking. With tokens, a request needs one of them in its
//! `Authorization`, which no page of somebody else has; the page of the service asks for it and keeps it until its tab is closed.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::api::{App, Problem};
use crate::log::{self, Level};
use crate::secrets::{Reloaded, Tokens, random_hex};

/// What everybody may see: the page, which shows nothing without a token, and what watches over the service.
const OPEN: [&str; 6] = [
    "/",
    "/page.css",
    "/page.js",
    "/healthz",
    "/readyz",
    "/openapi.json",
];

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The number of a request, for the log.
#[derive(Debug, Clone)]
pub struct RequestId(pub String);

/// The rules about who may ask.
#[derive(Debug)]
pub struct Guard {
    tokens: Arc<Reloaded<Tokens>>,
    origins: Vec<String>,
    tls: bool,
}

impl Guard {
    pub fn new(tokens: Arc<Reloaded<Tokens>>, origins: Vec<String>, tls: bool) -> Guard {
        Guard {
            tokens,
            origins,
            tls,
        }
    }

    fn check(&self, path: &str, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let host = text(HOST).unwrap_or_default().to_ascii_lowercase();
        let public = |origin: &String| {
            origin
                .split_once("://")
                .is_some_and(|(_, name)| name == host)
        };
        let tokens = self.tokens.get();
        // With tokens a page that calls itself by another name gains nothing.
        if !tokens.required() && !is_loopback(&host) && !self.origins.iter().any(public) {
            let problem = format!(
                "host {host:?} is not allowed: it must be loopback or that of --public-origin"
            );
            return Err(Problem::new(StatusCode::FORBIDDEN, problem));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let scheme = if self.tls { "https" } else { "http" };
            let same = format!("{scheme}://{host}");
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            if origin != same && !self.origins.contains(&origin) {
                let problem = format!(
                    "a page of another origin may not do this: it must be {same} or that of --public-origin"
                );
                return Err(Problem::new(StatusCode::FORBIDDEN, problem));
            }
        }
        if tokens.required() && !OPEN.contains(&path) {
            let token = text(AUTHORIZATION).and_then(|value| {
                let (scheme, token) = value.split_once(' ')?;
                scheme
                    .eq_ignore_ascii_case("bearer")
                    .then_some(token.trim())
            });
            if !token.is_some_and(|token| tokens.admit(token)) {
                let problem = if token.is_some() {
                    "the token is not known"
                } else {
                    "a token is needed: Authorization: Bearer TOKEN"
                };
                return Err(Problem::new(StatusCode::UNAUTHORIZED, problem));
            }
        }
        Ok(())
    }

    fn dress(&self, headers: &mut HeaderMap) {
        let mut set = |name, value| {
            headers
                .entry(name)
                .or_insert(HeaderValue::from_static(value));
        };
        set(CONTENT_SECURITY_POLICY, POLICY);
        set(X_FRAME_OPTIONS, "DENY");
        set(X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(REFERRER_POLICY, "no-referrer");
        set(CACHE_CONTROL, "no-store");
        set(
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        );
        set(
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        );
        set(
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        );
        if self.tls {
            set(STRICT_TRANSPORT_SECURITY, "max-age=31536000");
        }
    }
}

/// Is the host of a request this machine itself?
fn is_loopback(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, port)| {
        // Of an IPv6 address without a port, the last part is no port.
        if port.ends_with(']') { host } else { name }
    });
    name == "localhost"
        || name
            .trim_matches(['[', ']'])
            .parse::<IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// The number that the client gave its request, or one of our own.
fn request_id(headers: &HeaderMap) -> String {
    headers
        .get(&REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(|text| {
            (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
        })
        .map_or_else(random_hex::<8>, str::to_owned)
}

/// Around every request.
pub async fn guard(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let peer = request.extensions().get::<SocketAddr>().copied();
    let mut answer = if let Err(problem) = app.guard.check(&path, request.headers()) {
        problem.into_response()
    } else {
        request.extensions_mut().insert(RequestId(id.clone()));
        next.run(request).await
    };
    let status = answer.status();
    let headers = answer.headers_mut();
    app.guard.dress(headers);
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID.clone(), value);
    }
    let took = began.elapsed();
    app.metrics.request(&method, status.as_u16(), took);
    // Pages and monitors look once a second.
    let level = if method == "GET" && status.is_success() {
        Level::Debug
    } else if status.is_server_error() {
        Level::Error
    } else {
        Level::Info
    };
    if log::enabled(level) {
        let peer = peer.map(|peer| peer.ip().to_string());
        log::event(
            level,
            "request",
            json!({ "request": id, "method": method.as_str(), "path": path, "status": status.as_u16(), "ms": took.as_millis() as u64, "peer": peer }),
        );
    }
    answer
}

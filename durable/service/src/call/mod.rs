//! The call: a `POST` of the payload to the callback.
//!
//! | module | |
//! |---|---|
//! | [`allowed`] | which addresses may be called |
//! | [`resolve`] | names to addresses |
//! | [`connect`] | connections, and those kept for later |
//! | [`headers`] | headers that a job may have |
//!
//! A name is resolved once for a call, its addresses are checked, and the connection is made to one of these: nothing resolves it again in between. Redirects are not
//! followed, proxies not used.

pub mod allowed;
mod connect;
pub mod headers;
pub mod resolve;

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use axum::http::{Request, Response, Uri};
use hashed_wheel::{TimeoutError, TimerHandle};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body as _, Incoming};
use tokio_rustls::rustls::ClientConfig;

use self::allowed::{Allowed, Host, Target, host_key};
use self::connect::{Connection, Place, Pool};
use self::resolve::{LookupError, Resolver};
use crate::secrets::{Reloaded, SigningKeys};

/// How much of an answer is read, so that its connection can be used again.
const DRAINED: usize = 64 << 10;

/// How long an answer is read.
const DRAIN: Duration = Duration::from_secs(1);

/// The longest time for the resolver.
const LOOKUP: Duration = Duration::from_secs(5);

/// Why a call counts as failed, or does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The receiver's side: an attempt is charged.
    Theirs { reason: String, contact: Contact },
    /// Our side: no attempt is charged.
    Ours(String),
    /// The address may not be called.
    Forbidden(String),
}

/// How far a call came that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// An answer that is no success.
    Answered,
    /// No answer, but an end: refused, reset, closed, no such name.
    Refused,
    /// Nothing until the time was up.
    Silent,
}

/// A target with addresses that may be called.
#[derive(Debug)]
pub struct Route {
    target: Target,
    addresses: Vec<IpAddr>,
    /// What its calls are counted under.
    pub host: String,
}

/// What a call tells its receiver, beside the payload.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The same in every call for this job.
    pub id: &'a str,
    pub key: Option<&'a str>,
    /// From 1.
    pub attempt: u32,
    pub headers: &'a [(HeaderName, HeaderValue)],
}

/// Makes the calls.
#[derive(Debug)]
pub struct Caller {
    pub allowed: Allowed,
    timer: TimerHandle,
    resolver: Resolver,
    pool: Arc<Pool>,
    tls: Arc<ClientConfig>,
    keys: Arc<Reloaded<SigningKeys>>,
    timeout: Duration,
}

impl Caller {
    /// Keeps at most `idle` connections without a call.
    pub fn new(
        allowed: Allowed,
        resolver: Resolver,
        timer: TimerHandle,
        tls: Arc<ClientConfig>,
        keys: Arc<Reloaded<SigningKeys>>,
        timeout: Duration,
        idle: usize,
    ) -> Caller {
        Caller {
            allowed,
            timer,
            resolver,
            pool: Arc::new(Pool::new(idle)),
            tls,
            keys,
            timeout,
        }
    }

    /// Reads the address of a callback.
    pub fn target(&self, callback: &str) -> Result<Target, Failure> {
        self.allowed
            .check(callback)
            .map_err(|problem| Failure::Forbidden(format!("the callback {problem}")))
    }

    /// The way to a target whose addresses are known. `None`: its name has to be [looked up](Caller::look_up).
    pub fn route(&self, target: &Target) -> Option<Result<Route, Failure>> {
        let addresses = match &target.host {
            Host::Address(ip) => vec![*ip],
            Host::Name(name) => self.resolver.known(name)?,
        };
        Some(self.checked(target, addresses))
    }

    /// Finds the way to a target by its name.
    pub async fn look_up(&self, target: &Target) -> Result<Route, Failure> {
        let name = target.host.to_string();
        let lookup = self.resolver.look_up(&name);
        match self.timer.with_timeout(lookup, LOOKUP).await {
            Ok(Ok(found)) => self.checked(target, found),
            Ok(Err(LookupError::Unknown(reason))) => Err(Failure::Theirs {
                reason,
                contact: Contact::Answered,
            }),
            Ok(Err(LookupError::Down(reason))) => Err(Failure::Ours(reason)),
            Err(error) => Err(Failure::Ours(format!("{name}: the resolver: {error}"))),
        }
    }

    /// The addresses that may not be called are left out.
    fn checked(&self, target: &Target, found: Vec<IpAddr>) -> Result<Route, Failure> {
        let mut addresses = found;
        if let Host::Name(name) = &target.host {
            let mut refused = String::new();
            addresses.retain(|ip| {
                let checked = self.allowed.check_address(Some(name), *ip, target.port);
                checked.map_err(|problem| refused = problem).is_ok()
            });
            if addresses.is_empty() {
                return Err(Failure::Forbidden(format!("the callback {refused}")));
            }
        }
        Ok(Route {
            host: host_key(target, &addresses),
            target: target.clone(),
            addresses,
        })
    }

    /// Posts the payload.
    pub async fn call(
        &self,
        route: &Route,
        payload: &str,
        about: About<'_>,
    ) -> Result<(), Failure> {
        let request = self.request(&route.target, payload, about)?;
        match self
            .timer
            .with_timeout(self.exchange(route, request), self.timeout)
            .await
        {
            Ok(result) => result,
            Err(TimeoutError::Elapsed) => Err(Failure::Theirs {
                reason: format!("no answer within {:?}", self.timeout),
                contact: Contact::Silent,
            }),
            Err(error) => Err(Failure::Ours(error.to_string())),
        }
    }

    /// Closes connections that have been idle for too long.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    fn request(
        &self,
        target: &Target,
        payload: &str,
        about: About<'_>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let authority = target
            .uri
            .authority()
            .map_or("", |authority| authority.as_str());
        let path = target
            .uri
            .path_and_query()
            .map_or("/", |path| path.as_str());
        let mut request = Request::post(path.parse::<Uri>().unwrap_or_default())
            .header(HOST, authority)
            .header("delay-queue-id", about.id)
            .header("delay-queue-attempt", about.attempt)
            .header("delay-queue-time", now.as_millis().to_string())
            .header("webhook-id", about.id)
            .header("webhook-timestamp", now.as_secs());
        if let Some(signature) = self
            .keys
            .get()
            .sign(about.id, now.as_secs(), payload.as_bytes())
        {
            request = request.header("webhook-signature", signature);
        }
        // A key may have what a header may not.
        if let Some(key) = about
            .key
            .filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            request = request.header("delay-queue-key", key);
        }
        for (name, value) in about.headers {
            request = request.header(name, value);
        }
        let mut request = request
            .body(Full::from(payload.to_owned()))
            .map_err(|error| Failure::Forbidden(format!("the request: {error}")))?;
        let headers = request.headers_mut();
        headers
            .entry(CONTENT_TYPE)
            .or_insert(HeaderValue::from_static("application/json"));
        headers
            .entry(USER_AGENT)
            .or_insert(HeaderValue::from_static("delay-queue-service"));
        Ok(request)
    }

    async fn exchange(&self, route: &Route, request: Request<Full<Bytes>>) -> Result<(), Failure> {
        let place = Place::of(&route.target);
        if let Some(connection) = self.pool.take(&place) {
            let copy = request.clone();
            // The receiver may close a connection in the moment in which it is used again: then it is no failure of this call.
            if let Ok(answer) = self.send(&place, connection, copy).await {
                return answer;
            }
        }
        let connection = connect::connect(&route.target, &route.addresses, &self.tls)
            .await
            .map_err(|error| {
                let old = route.addresses.iter().all(IpAddr::is_ipv4);
                unreachable(&error, old)
            })?;
        match self.send(&place, connection, request).await {
            Ok(answer) => answer,
            Err(error) => Err(Failure::Theirs {
                reason: format!("no answer: {}", causes(&error)),
                contact: Contact::Refused,
            }),
        }
    }

    /// The outer error: there was no answer.
    async fn send(
        &self,
        place: &Place,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> Result<Result<(), Failure>, hyper::Error> {
        connection.ready().await?;
        let answer = connection.send_request(request).await?;
        let status = answer.status();
        self.keep(place.clone(), connection, answer);
        Ok(if status.is_success() {
            Ok(())
        } else {
            Err(Failure::Theirs {
                reason: format!("answered {status}"),
                contact: Contact::Answered,
            })
        })
    }

    /// Reads the rest of an answer, a little of it, so that the connection can be used again. The call does not wait for that.
    fn keep(&self, place: Place, connection: Connection, answer: Response<Incoming>) {
        let body = answer.into_body();
        if body.is_end_stream() {
            self.pool.give(place, connection);
            return;
        }
        let (pool, timer) = (Arc::clone(&self.pool), self.timer.clone());
        tokio::spawn(async move {
            let read = Limited::new(body, DRAINED).collect();
            if let Ok(Ok(_)) = timer.with_timeout(read, DRAIN).await {
                pool.give(place, connection);
            }
        });
    }
}

/// A connection that could not be made, to addresses of version 4 alone or others.
fn unreachable(error: &io::Error, version_4: bool) -> Failure {
    use rustix::io::Errno;

    let reason = format!("cannot connect: {}", causes(error));
    match Errno::from_io_error(error) {
        // No descriptors, no memory.
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Failure::Ours(reason),
        // No free port on this side. With version 6 it is also what a machine says that does not have it.
        Some(Errno::ADDRNOTAVAIL) if version_4 => Failure::Ours(reason),
        Some(Errno::TIMEDOUT) => Failure::Theirs {
            reason,
            contact: Contact::Silent,
        },
        _ => Failure::Theirs {
            reason,
            contact: Contact::Refused,
        },
    }
}

/// An error with its causes: the last one is what tells.
fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_our_own_side_are_told_apart() {
        use rustix::io::Errno;

        for (errno, ours) in [
            (Errno::MFILE, true),
            (Errno::NFILE, true),
            (Errno::NOBUFS, true),
            (Errno::ADDRNOTAVAIL, true),
            (Errno::CONNREFUSED, false),
            (Errno::CONNRESET, false),
            (Errno::TIMEDOUT, false),
            (Errno::HOSTUNREACH, false),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            let failure = unreachable(&error, true);
            assert_eq!(matches!(failure, Failure::Ours(_)), ours, "{failure:?}");
        }
    }
}

//! Which addresses may be called, and the call.
//!
//! Whoever can post a job makes this program send requests. So only loopback may be called, and what `--allow-host` names: the address is looked at when
//! a job is posted, when it is called, and once more when its name has been resolved, for a name may lead elsewhere by then. Redirects are not followed, proxies not used.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::header::{CONTENT_TYPE, USER_AGENT};
use axum::http::{Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use tower_service::Service;

/// The longest address, in bytes.
pub const MOST_ADDRESS: usize = 2000;

/// The hosts that may be called.
#[derive(Debug, Clone, Default)]
pub struct Allowed(Arc<Vec<String>>);

/// An address that may be called.
#[derive(Debug, Clone)]
pub struct Target {
    pub uri: Uri,
    /// Host and port.
    pub host: String,
}

impl Allowed {
    pub fn new(hosts: Vec<String>) -> Allowed {
        Allowed(Arc::new(hosts))
    }

    fn names(&self, host: &str) -> bool {
        self.0.iter().any(|name| name == host)
    }

    /// An error says what is wrong with the address.
    pub fn check(&self, address: &str) -> Result<Target, String> {
        if address.len() > MOST_ADDRESS {
            let length = address.len();
            return Err(format!(
                "has {length} bytes: it must have at most {MOST_ADDRESS}"
            ));
        }
        let uri: Uri = address
            .parse()
            .map_err(|error| format!("is no address: {error}"))?;
        if uri.scheme_str() != Some("http") {
            return Err("must begin with http://".to_owned());
        }
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("must not have a user in it".to_owned());
        }
        let name = authority.host().to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let loopback = match bare.parse::<IpAddr>() {
            Ok(ip) => ip.to_canonical().is_loopback(),
            Err(_) => bare == "localhost",
        };
        if !loopback && !self.names(bare) {
            return Err(format!(
                "host {bare:?} is not allowed: it must be loopback or named by --allow-host"
            ));
        }
        let host = format!("{name}:{}", authority.port_u16().unwrap_or(80));
        Ok(Target { uri, host })
    }
}

/// Resolves names. Of a name that is not allowed, only loopback addresses are taken.
#[derive(Debug, Clone)]
struct Resolver(Allowed);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let any = self.0.names(&name.as_str().to_ascii_lowercase());
        Box::pin(async move {
            let lookup = move || -> io::Result<Vec<SocketAddr>> {
                Ok((name.as_str(), 0)
                    .to_socket_addrs()?
                    .filter(|found| any || found.ip().to_canonical().is_loopback())
                    .collect())
            };
            let found = tokio::task::spawn_blocking(lookup)
                .await
                .map_err(io::Error::other)??;
            if found.is_empty() {
                return Err(io::Error::other("the name leads to no allowed address"));
            }
            Ok(found.into_iter())
        })
    }
}

/// Makes the calls.
#[derive(Debug, Clone)]
pub struct Caller {
    client: Client<HttpConnector<Resolver>, Full<Bytes>>,
    timeout: Duration,
}

/// What a call tells its receiver, beside the payload.
#[derive(Debug, Clone, Copy)]
pub struct About<'a> {
    /// The same in every call for this job.
    pub id: &'a str,
    pub key: Option<&'a str>,
    /// From 1.
    pub attempt: u32,
}

impl Caller {
    pub fn new(allowed: Allowed, timeout: Duration) -> Caller {
        let mut connector = HttpConnector::new_with_resolver(Resolver(allowed));
        connector.set_nodelay(true);
        Caller {
            client: Client::builder(TokioExecutor::new()).build(connector),
            timeout,
        }
    }

    /// Posts the payload. An error says why it counts as failed.
    pub async fn call(
        &self,
        target: &Target,
        payload: String,
        about: About<'_>,
    ) -> Result<(), String> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis());
        let mut request = Request::post(&target.uri)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, "delay-queue-service")
            .header("delay-queue-id", about.id)
            .header("delay-queue-attempt", about.attempt)
            .header("delay-queue-time", now.to_string());
        // A key may have what a header may not.
        if let Some(key) = about
            .key
            .filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
        {
            request = request.header("delay-queue-key", key);
        }
        let request = request
            .body(Full::from(payload))
            .map_err(|error| error.to_string())?;
        let answer = async {
            let answer = self.client.request(request).await.map_err(|error| {
                // The cause of the cause is what tells.
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    text = format!("{text}: {cause}");
                    source = cause.source();
                }
                text
            })?;
            let status = answer.status();
            // Read to its end, so that the connection can be used again; a little of it.
            let _ = http_body_util::Limited::new(answer.into_body(), 64 << 10)
                .collect()
                .await;
            Ok(status)
        };
        match tokio::time::timeout(self.timeout, answer).await {
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
            Ok(Err(error)) => Err(error),
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(format!("answered {status}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_what_is_named_may_be_called() {
        let allowed = Allowed::new(vec!["example.org".into(), "192.0.2.7".into()]);
        for address in [
            "http://127.0.0.1:9000/x",
            "http://127.1.2.3/",
            "http://[::1]:80/",
            "http://[::ffff:127.0.0.1]/",
            "http://LOCALHOST:1/a?b=c",
            "http://Example.org/hook",
            "http://192.0.2.7/",
        ] {
            assert!(allowed.check(address).is_ok(), "{address}");
        }
        for (address, words) in [
            ("http://192.0.2.8/", "is not allowed"),
            ("http://169.254.169.254/latest/meta-data", "is not allowed"),
            ("http://0.0.0.0/", "is not allowed"),
            ("http://[::]/", "is not allowed"),
            ("http://2130706433/", "is not allowed"),
            ("http://localhost.example.com/", "is not allowed"),
            ("http://example.org.evil.test/", "is not allowed"),
            ("http://example.org@127.0.0.1/", "a user"),
            ("https://127.0.0.1/", "must begin with http://"),
            ("file:///etc/passwd", "is no address"),
            ("/x", "must begin with http://"),
            ("", "is no address"),
            ("http://", "is no address"),
        ] {
            let problem = allowed.check(address).expect_err(address);
            assert!(problem.contains(words), "{address}: {problem}");
        }
        let long = format!("http://127.0.0.1/{}", "x".repeat(MOST_ADDRESS));
        assert!(allowed.check(&long).unwrap_err().contains("at most 2000"));
        assert_eq!(
            allowed.check("http://127.0.0.1/").unwrap().host,
            "127.0.0.1:80"
        );
    }

    #[test]
    fn a_name_is_looked_at_again_when_it_has_been_resolved() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let mut resolver = Resolver(Allowed::default());
        let resolve = |resolver: &mut Resolver, name: &str| {
            runtime.block_on(resolver.call(name.parse().unwrap()))
        };
        for address in resolve(&mut resolver, "localhost").unwrap() {
            assert!(address.ip().is_loopback());
        }
        // A name that leads elsewhere: an address is a name that needs no server.
        assert!(resolve(&mut resolver, "192.0.2.1").is_err());
        let mut resolver = Resolver(Allowed::new(vec!["192.0.2.1".into()]));
        assert_eq!(resolve(&mut resolver, "192.0.2.1").unwrap().len(), 1);
    }
}

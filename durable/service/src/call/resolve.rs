//! Names to addresses, by the system's resolver.
//!
//! The system's call cannot be given up, so it runs on threads of its own: one lookup at a time for each name, and [`MOST`] together. What was found holds for
//! [`FRESH`], so that a thousand calls to a host are one lookup.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

/// How long an answer holds.
const FRESH: Duration = Duration::from_secs(10);

/// The most lookups at a time.
const MOST: usize = 64;

/// The most names that are kept in mind.
const MOST_NAMES: usize = 10_000;

/// Why a name has no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupError {
    /// There is no such name.
    Unknown(String),
    /// The resolver does not work: nobody knows whether there is such a name.
    Down(String),
}

type Found = Arc<tokio::sync::Mutex<Option<(Instant, Vec<IpAddr>)>>>;

#[derive(Debug)]
pub struct Resolver {
    names: Mutex<HashMap<String, Found>>,
    lookups: Arc<Semaphore>,
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver {
            names: Mutex::default(),
            lookups: Arc::new(Semaphore::new(MOST)),
        }
    }
}

impl Resolver {
    pub async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let found = {
            let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
            if names.len() >= MOST_NAMES && !names.contains_key(name) {
                names.clear();
            }
            Arc::clone(names.entry(name.to_owned()).or_default())
        };
        // Others who want this name wait here for the first one's answer.
        let mut found = found.lock().await;
        if let Some((at, addresses)) = &*found
            && at.elapsed() < FRESH
        {
            return Ok(addresses.clone());
        }
        let permit = Arc::clone(&self.lookups).acquire_owned().await;
        let owned = name.to_owned();
        let lookup = tokio::task::spawn_blocking(move || {
            // Until the lookup itself ends, whether or not somebody still waits for it.
            let _permit = permit;
            (owned.as_str(), 0)
                .to_socket_addrs()
                .map(|found| found.map(|address| address.ip().to_canonical()).collect())
        });
        let addresses: Vec<IpAddr> = lookup
            .await
            .map_err(|error| LookupError::Down(error.to_string()))?
            .map_err(|error| classify(name, &error))?;
        if addresses.is_empty() {
            return Err(LookupError::Unknown(format!(
                "{name}: the name has no address"
            )));
        }
        *found = Some((Instant::now(), addresses.clone()));
        Ok(addresses)
    }
}

/// The texts are those of the C library: the standard library passes on nothing else.
fn classify(name: &str, error: &io::Error) -> LookupError {
    let text = error.to_string();
    let unknown = [
        "not known",
        "No address",
        "nodename nor servname",
        "does not resolve",
        "Name has no usable address",
    ];
    if unknown.iter().any(|words| text.contains(words)) {
        LookupError::Unknown(format!("{name}: {text}"))
    } else {
        LookupError::Down(format!("{name}: {text}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resolver_that_is_down_is_told_from_an_unknown_name() {
        let of = |text: &str| classify("a", &io::Error::other(text));
        for text in [
            "failed to lookup address information: Name or service not known",
            "failed to lookup address information: No address associated with hostname",
        ] {
            assert!(matches!(of(text), LookupError::Unknown(_)), "{text}");
        }
        for text in [
            "failed to lookup address information: Temporary failure in name resolution",
            "failed to lookup address information: System error",
            "Too many open files (os error 24)",
        ] {
            assert!(matches!(of(text), LookupError::Down(_)), "{text}");
        }
    }

    #[test]
    fn names_are_resolved_and_kept() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let resolver = Resolver::default();
        for _ in 0..2 {
            let found = runtime.block_on(resolver.resolve("localhost")).unwrap();
            assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        }
        assert_eq!(resolver.names.lock().unwrap().len(), 1);
    }
}

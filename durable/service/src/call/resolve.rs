//! Names to addresses, by the system's resolver.
//!
//! What was found holds for [`FRESH`], so that a thousand calls to a host are one lookup. After that it is still used, for [`STALE`] at most, while a lookup is under way
//! or the resolver does not work: nobody waits for a name that was found before.
//!
//! The system's call cannot be given up, so it runs on a thread of its own: one lookup at a time for each name, and so many together as there are descriptors for.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

/// How long an answer holds.
const FRESH: Duration = Duration::from_secs(10);

/// How long it is used when there is no newer one.
const STALE: Duration = Duration::from_secs(600);

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

type Answer = Result<Vec<IpAddr>, LookupError>;

/// How a name is looked up.
type Lookup = fn(&str) -> io::Result<Vec<IpAddr>>;

#[derive(Debug, Default)]
struct Name {
    /// The last answer with addresses.
    found: Option<(Instant, Vec<IpAddr>)>,
    /// The lookup under way.
    lookup: Option<watch::Receiver<Option<Answer>>>,
}

#[derive(Debug, Clone)]
pub struct Resolver {
    names: Arc<Mutex<HashMap<String, Name>>>,
    lookups: Arc<Semaphore>,
    lookup: Lookup,
}

impl Resolver {
    /// Makes at most so many lookups at a time.
    pub fn new(lookups: usize) -> Resolver {
        Resolver::with(lookups, |name| {
            let found = (name, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip().to_canonical()).collect())
        })
    }

    pub(crate) fn with(lookups: usize, lookup: Lookup) -> Resolver {
        Resolver {
            names: Arc::default(),
            lookups: Arc::new(Semaphore::new(lookups)),
            lookup,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Name>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The addresses that are known. If they are old, newer ones are looked for meanwhile.
    pub fn known(&self, name: &str) -> Option<Vec<IpAddr>> {
        let mut names = self.lock();
        let known = names.get_mut(name)?;
        let (since, addresses) = known.found.clone()?;
        let age = since.elapsed();
        if age >= FRESH {
            self.begin(name, known);
        }
        (age < STALE).then_some(addresses)
    }

    /// Looks a name up, or waits for the lookup that is under way.
    pub async fn look_up(&self, name: &str) -> Answer {
        let mut answer = {
            let mut names = self.lock();
            if names.len() >= MOST_NAMES && !names.contains_key(name) {
                names.retain(|_, name| name.lookup.is_some());
            }
            self.begin(name, names.entry(name.to_owned()).or_default())
        };
        let answer = answer.wait_for(Option::is_some).await;
        let ended = || LookupError::Down(format!("{name}: the lookup was given up"));
        answer.map_or_else(|_| Err(ended()), |answer| answer.clone().ok_or_else(ended)?)
    }

    fn begin(&self, name: &str, known: &mut Name) -> watch::Receiver<Option<Answer>> {
        if let Some(lookup) = &known.lookup {
            return lookup.clone();
        }
        let (sender, receiver) = watch::channel(None);
        known.lookup = Some(receiver.clone());
        let (own, name) = (self.clone(), name.to_owned());
        tokio::spawn(async move {
            let permit = Arc::clone(&own.lookups).acquire_owned().await;
            let (lookup, asked) = (own.lookup, name.clone());
            let found = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                lookup(&asked)
            });
            let answer = match found.await {
                Ok(Ok(found)) if found.is_empty() => Err(LookupError::Unknown(format!(
                    "{name}: the name has no address"
                ))),
                Ok(Ok(found)) => Ok(found),
                Ok(Err(error)) => Err(classify(&name, &error)),
                Err(error) => Err(LookupError::Down(error.to_string())),
            };
            own.end(&name, &answer);
            let _ = sender.send(Some(answer));
        });
        receiver
    }

    fn end(&self, name: &str, answer: &Answer) {
        let mut names = self.lock();
        let Some(known) = names.get_mut(name) else {
            return;
        };
        known.lookup = None;
        match answer {
            Ok(found) => known.found = Some((Instant::now(), found.clone())),
            Err(LookupError::Unknown(_)) => known.found = None,
            Err(LookupError::Down(_)) => {}
        }
        if known.found.is_none() {
            names.remove(name);
        }
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

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
        let resolver = Resolver::new(1);
        assert_eq!(resolver.known("localhost"), None);
        let found = runtime().block_on(resolver.look_up("localhost")).unwrap();
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert_eq!(resolver.known("localhost"), Some(found));
    }

    #[test]
    fn an_old_answer_is_used_until_there_is_a_newer_one() {
        static LOOKUPS: AtomicUsize = AtomicUsize::new(0);
        let resolver = Resolver::with(1, |_| match LOOKUPS.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(vec![[192, 0, 2, 1].into()]),
            1 => Err(io::Error::other("Temporary failure in name resolution")),
            2 => Ok(vec![[192, 0, 2, 2].into()]),
            _ => Err(io::Error::other("Name or service not known")),
        });
        let address = |last: u8| Some(vec![IpAddr::from([192, 0, 2, last])]);
        let age = |age: Duration| {
            let mut names = resolver.lock();
            let found = &mut names.get_mut("a").unwrap().found;
            found.as_mut().unwrap().0 = Instant::now().checked_sub(age).unwrap();
        };
        let ended = async || {
            while resolver.lock().values().any(|name| name.lookup.is_some()) {
                tokio::task::yield_now().await;
            }
        };
        runtime().block_on(async {
            assert_eq!(resolver.look_up("a").await.ok(), address(1));
            // The resolver is down: what was found is used.
            for last in [1, 1, 2] {
                assert_eq!(resolver.known("a"), address(last));
                age(FRESH);
                if last == 1 {
                    assert_eq!(resolver.known("a"), address(1));
                    ended().await;
                }
            }
            // Far too old.
            age(STALE);
            assert_eq!(resolver.known("a"), None);
            ended().await;
            // There is no such name any more.
            assert_eq!(LOOKUPS.load(Ordering::SeqCst), 4);
            assert!(resolver.lock().is_empty());
        });
    }
}

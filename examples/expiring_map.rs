//! A map whose entries expire when they have not been touched for a while: sessions, a cache, connections by address.
//!
//! ```text
//! cargo run --release --example expiring_map             a million sessions, seven seconds
//! cargo run --release --example expiring_map -- --quick  ten thousand
//! ```
//!
//! [`ExpiringMap`] is a `HashMap` beside a `DelayQueue`. A touch is a `reset`, which costs the same however many
//! sessions there are. The entries that have expired come out of the queue, on a thread that cleans up.

mod options;

use hashed_wheel::{DelayKey, DelayQueue, HashedWheelTimer, RejectReason, TimerHandle};
use std::collections::HashMap;
use std::error::Error;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Numbers of entries.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// A map whose entries expire `idle` after they were last touched. A clone is the same map.
struct ExpiringMap<K: Send + 'static, V> {
    entries: Arc<Mutex<HashMap<K, Entry<V>>>>,
    /// The keys of the entries, each with the number of its entry.
    expiring: DelayQueue<(K, u64)>,
    idle: Duration,
}

struct Entry<V> {
    value: V,
    expiry: DelayKey,
    /// A key that was removed and inserted again has another entry, with another number.
    number: u64,
}

impl<K: Hash + Eq + Clone + Send + 'static, V: Send + 'static> ExpiringMap<K, V> {
    fn new(timer: &TimerHandle, idle: Duration) -> Self {
        ExpiringMap {
            entries: Arc::default(),
            expiring: DelayQueue::new(timer),
            idle,
        }
    }

    /// A panic of another thread has left the map as it was: no code of others runs under the lock, but `K`'s.
    fn entries(&self) -> MutexGuard<'_, HashMap<K, Entry<V>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts an entry, and returns the value that it replaces.
    ///
    /// # Errors
    /// The timer's, if it takes no more.
    fn insert(&self, key: K, value: V) -> Result<Option<V>, RejectReason> {
        let mut entries = self.entries();
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let expiry = self.expiring.insert((key.clone(), number), self.idle)?;
        let entry = Entry {
            value,
            expiry,
            number,
        };
        let replaced = entries.insert(key, entry);
        if let Some(entry) = &replaced {
            self.expiring.remove(&entry.expiry);
        }
        Ok(replaced.map(|entry| entry.value))
    }

    /// Uses a value and touches it: it expires `idle` from now. `None` if there is none, or it has just expired.
    fn touch<R>(&self, key: &K, use_it: impl FnOnce(&mut V) -> R) -> Option<R> {
        let mut entries = self.entries();
        let entry = entries.get_mut(key)?;
        // Too late: the queue has given it out, and the cleaner is about to remove it.
        if !self.expiring.reset(&entry.expiry, self.idle) {
            return None;
        }
        Some(use_it(&mut entry.value))
    }

    fn remove(&self, key: &K) -> Option<V> {
        let entry = self.entries().remove(key)?;
        self.expiring.remove(&entry.expiry);
        Some(entry.value)
    }

    /// Waits for the next entry that expires. `None` when the timer has stopped.
    fn expired(&self) -> Option<(K, V)> {
        loop {
            let (key, number) = self.expiring.recv()?;
            let mut entries = self.entries();
            // It may have been replaced or removed since it was due.
            if entries
                .get(&key)
                .is_some_and(|entry| entry.number == number)
            {
                let entry = entries.remove(&key)?;
                return Some((key, entry.value));
            }
        }
    }

    fn len(&self) -> usize {
        self.entries().len()
    }
}

impl<K: Send + 'static, V> Clone for ExpiringMap<K, V> {
    fn clone(&self) -> Self {
        ExpiringMap {
            entries: Arc::clone(&self.entries),
            expiring: self.expiring.clone(),
            idle: self.idle,
        }
    }
}

struct Session {
    user: u32,
    clicks: u32,
}

/// The time of `work`, and for each of `n`.
fn timed(what: &str, n: u32, work: impl FnOnce()) {
    let begun = Instant::now();
    work();
    let took = begun.elapsed();
    println!(
        "{what:<44} {took:>8.2?}  {:>5} ns each",
        (took / n).as_nanos()
    );
}

fn main() -> Result<(), Box<dyn Error>> {
    let quick = options::quick("usage: expiring_map [--quick]");
    let users = if quick { 10_000 } else { 1_000_000 };
    let timer = HashedWheelTimer::new(Duration::from_millis(10), 512);
    let idle = Duration::from_secs(if quick { 1 } else { 5 });
    let sessions: ExpiringMap<u32, Session> = ExpiringMap::new(&timer.labelled("sessions"), idle);

    let cleaner = thread::spawn({
        let sessions = sessions.clone();
        move || {
            let (mut expired, mut clicks) = (0, 0);
            while let Some((user, session)) = sessions.expired() {
                assert_eq!(user, session.user);
                expired += 1;
                clicks += session.clicks;
            }
            (expired, clicks)
        }
    });

    let (mut clicks, mut left) = (0, 0);
    timed("all log in", users, || {
        for user in 0..users {
            let session = Session { user, clicks: 0 };
            let inserted = sessions.insert(user, session);
            assert!(matches!(inserted, Ok(None)), "the timer takes all");
        }
    });
    timed("every second one clicks", users / 2, || {
        for user in (0..users).step_by(2) {
            let clicked = sessions.touch(&user, |session| session.clicks += 1);
            clicks += u32::from(clicked.is_some());
        }
    });
    timed("one in ten logs out", users / 10, || {
        for user in (5..users).step_by(10) {
            left += u32::from(sessions.remove(&user).is_some());
        }
    });
    println!(
        "{} sessions; now nobody clicks for {idle:?}",
        sessions.len()
    );
    while sessions.len() > 0 {
        thread::sleep(Duration::from_millis(10));
    }
    timer.stop()?;
    let (expired, clicked) = cleaner.join().map_err(|_| "the cleaner panicked")?;
    println!("{expired} sessions have expired, with {clicked} clicks");
    assert_eq!((expired, clicked), (users - left, clicks));
    println!("late by {:.1?} in the median", timer.stats().lateness.p50());
    Ok(())
}

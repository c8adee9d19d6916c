//! Whose turn it is: at most so many calls a second for each host.
//!
//! Two calls to a host begin at least 1/N s apart. A job whose turn comes within [`PATIENCE`] waits for it in its thread. Any other is told when its
//! turn will be: each gets one of its own, 1/N s after the one before it, so that a thousand jobs that fall due together are spread once and do not
//! come back to ask again and again. What has such a turn goes before what has just fallen due.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The longest time that a job waits for its turn in its thread.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Calls under way to one host: a host that does not answer must not take every thread.
pub const MOST_CALLS: usize = 4;

/// Hosts that are kept in mind; idle ones are forgotten beyond that.
const MOST_HOSTS: usize = 1000;

#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Debug)]
struct Host {
    /// No call begins before this.
    next: Instant,
    /// The first turn that nobody has been given.
    free: Instant,
    calls: usize,
}

/// The answer to a job that wants to call.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// It may, and has to say when it has [ended](Pace::end).
    Now,
    /// It may ask again in so long.
    Soon(Duration),
    /// Its turn is in so long.
    Later(Duration),
}

impl Pace {
    pub fn new(rate: u32) -> Pace {
        Pace {
            interval: Duration::from_secs(1) / rate,
            hosts: Mutex::default(),
        }
    }

    /// Asks for a call to this host. `has_turn`: it was told `Later` before, and this is that time.
    pub fn ask(&self, host: &str, has_turn: bool, now: Instant) -> Turn {
        let mut hosts = self.lock();
        if hosts.len() >= MOST_HOSTS && !hosts.contains_key(host) {
            hosts.retain(|_, host| host.calls > 0 || host.next > now || host.free > now);
        }
        let host = hosts.entry(host.to_owned()).or_insert(Host {
            next: now,
            free: now,
            calls: 0,
        });
        let wait = host.next.saturating_duration_since(now);
        // Turns that were given out lie ahead: what has none goes behind them.
        let queue = !has_turn && host.free > now + PATIENCE;
        if host.calls >= MOST_CALLS || queue || wait > PATIENCE {
            let turn = host.free.max(host.next).max(now + self.interval);
            host.free = turn + self.interval;
            Turn::Later(turn - now)
        } else if wait.is_zero() {
            host.next = now + self.interval;
            host.calls += 1;
            Turn::Now
        } else {
            Turn::Soon(wait)
        }
    }

    /// A call has ended.
    pub fn end(&self, host: &str) {
        if let Some(host) = self.lock().get_mut(host) {
            host.calls = host.calls.saturating_sub(1);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Host>> {
        self.hosts
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    #[test]
    fn a_burst_is_spread_once() {
        let pace = Pace::new(10);
        let start = Instant::now();
        assert_eq!(pace.ask("a", false, start), Turn::Now);
        pace.end("a");
        for number in 1..100 {
            let turn = pace.ask("a", false, start);
            assert_eq!(turn, Turn::Later(number * TENTH));
        }
        // Each comes at its turn and may call, though others keep falling due.
        for number in 1..100 {
            let now = start + number * TENTH;
            assert!(matches!(pace.ask("a", false, now), Turn::Later(_)));
            assert_eq!(pace.ask("a", true, now), Turn::Now, "{number}");
            pace.end("a");
        }
    }

    #[test]
    fn hosts_do_not_hinder_each_other() {
        let pace = Pace::new(1);
        let now = Instant::now();
        for host in ["a", "b", "c"] {
            assert_eq!(pace.ask(host, false, now), Turn::Now);
            assert!(matches!(pace.ask(host, false, now), Turn::Later(_)));
        }
    }

    #[test]
    fn a_turn_that_is_close_is_waited_for() {
        let pace = Pace::new(100);
        let now = Instant::now();
        assert_eq!(pace.ask("a", false, now), Turn::Now);
        let late = now + Duration::from_millis(3);
        assert_eq!(
            pace.ask("a", false, late),
            Turn::Soon(Duration::from_millis(7))
        );
        assert_eq!(
            pace.ask("a", false, now + Duration::from_millis(10)),
            Turn::Now
        );
    }

    #[test]
    fn a_host_that_does_not_answer_takes_few_threads() {
        let pace = Pace::new(1000);
        let mut now = Instant::now();
        for _ in 0..MOST_CALLS {
            assert_eq!(pace.ask("a", false, now), Turn::Now);
            now += Duration::from_millis(1);
        }
        assert!(matches!(pace.ask("a", false, now), Turn::Later(_)));
        pace.end("a");
        now += Duration::from_millis(10);
        assert_eq!(pace.ask("a", true, now), Turn::Now);
    }

    #[test]
    fn no_second_has_more_calls_than_the_rate() {
        // Whatever comes in whatever order: a small generator, for the same run each time.
        let pace = Pace::new(20);
        let start = Instant::now();
        let mut random = 1_u64;
        let mut due: Vec<(Duration, bool)> = Vec::new();
        for _ in 0..400 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            due.push((Duration::from_millis(random >> 50), false));
        }
        let mut calls = Vec::new();
        while !due.is_empty() {
            due.sort_unstable_by(|one, other| other.cmp(one));
            let (at, has_turn) = due.pop().unwrap();
            match pace.ask("a", has_turn, start + at) {
                Turn::Now => {
                    calls.push(at);
                    pace.end("a");
                }
                Turn::Soon(wait) => due.push((at + wait, has_turn)),
                Turn::Later(wait) => due.push((at + wait, true)),
            }
        }
        assert_eq!(calls.len(), 400);
        for (number, first) in calls.iter().enumerate() {
            let within = calls[number..]
                .iter()
                .filter(|at| **at < *first + Duration::from_secs(1))
                .count();
            assert!(within <= 20, "{within} calls in the second after {first:?}");
        }
    }

    #[test]
    fn idle_hosts_are_forgotten() {
        let pace = Pace::new(10);
        let now = Instant::now();
        for number in 0..5000_u32 {
            let now = now + number * TENTH * 2;
            assert_eq!(pace.ask(&number.to_string(), false, now), Turn::Now);
            pace.end(&number.to_string());
        }
        assert!(pace.lock().len() <= MOST_HOSTS + 1);
    }
}

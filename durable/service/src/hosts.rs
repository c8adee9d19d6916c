//! Whose turn it is: for each host a rate, a bound of calls at a time, and a circuit that opens when it is silent.
//!
//! **Rate.** Two calls to a host begin at least 1/N s apart. A job whose turn comes within [`PATIENCE`] waits for it. Any other is told when its turn will be: each gets
//! one of its own, 1/N s after the one before it, so that a thousand jobs that fall due together are spread once and do not come back to ask again and again. What
//! has been told a turn goes before what has just fallen due.
//!
//! **Bound.** A host gets at most so many calls at a time, and no more than [`UNPROVEN`] before its first answer. All hosts that have not answered yet share half of the
//! places, so that any number of silent hosts leaves the other half to those that answer. Once half of the places are taken, [`UNPROVEN`] is the bound too of a host that
//! has not answered since then, or whose calls have been under way for [`QUIET`] without an end: so hosts that fall silent together leave places to the others. No host
//! gets more than a quarter of the places that are free at that moment.
//!
//! **Circuit.** After [`FAILURES`] calls in a row without an answer in time, the host gets no calls for a second, then one to see; each that is silent doubles the wait, up to
//! [`LONGEST`]. An answer, whichever it is, closes the circuit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::call::Contact;

/// The longest time that a job waits for its turn in memory.
pub const PATIENCE: Duration = Duration::from_millis(50);

/// Calls at a time to a host that has not answered yet.
const UNPROVEN: usize = 2;

/// A host whose calls have been under way for so long without an end may have fallen silent.
const QUIET: Duration = Duration::from_millis(100);

/// Of the places that are free, one host gets one in so many.
const SHARE: usize = 4;

/// Silent calls in a row that open the circuit.
const FAILURES: u32 = 3;

/// How long the circuit stays open at first, and at most.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Hosts that are kept in mind; idle ones are forgotten beyond that.
const MOST_HOSTS: usize = 10_000;

#[derive(Debug)]
pub struct Hosts {
    interval: Duration,
    per_host: usize,
    /// Calls at a time.
    places: usize,
    /// The most calls to hosts that have not answered yet.
    most_unproven: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    hosts: HashMap<Arc<str>, Host>,
    /// Calls under way, and those of them to hosts that have not answered yet.
    calls: usize,
    unproven: usize,
    /// When one of the latter ended last, or the first of them began.
    changed: Option<Instant>,
    /// Since when half of the places have been taken. Until clearly fewer are.
    scarce: Option<Instant>,
}

#[derive(Debug)]
struct Host {
    /// No call begins before this.
    next: Instant,
    /// The first turn that nobody has been given.
    free: Instant,
    calls: usize,
    /// When one of these ended last, or the first of them began.
    changed: Instant,
    /// When it answered last. `None`: never, or it has been silent since.
    answered: Option<Instant>,
    /// Silent calls in a row.
    silent: u32,
    /// The circuit is open until then, and half open from then on until an answer.
    open: Option<Instant>,
}

/// The answer to a job that wants to call.
#[derive(Debug)]
pub enum Turn {
    Now(Permit),
    /// It may ask again in so long, which is at most [`PATIENCE`].
    Soon(Duration),
    /// Its turn is in so long.
    Later(Duration),
}

/// The right to one call. It has to [end](Permit::end); dropped, it says nothing about the host.
#[derive(Debug)]
#[must_use]
pub struct Permit {
    hosts: Arc<Hosts>,
    host: Arc<str>,
    proven: bool,
    contact: Option<Contact>,
}

/// Counts, for the metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts {
    pub known: usize,
    pub open: usize,
    pub calls: usize,
}

impl Hosts {
    pub fn new(rate: u32, per_host: usize, calls: usize) -> Arc<Hosts> {
        Arc::new(Hosts {
            interval: Duration::from_secs(1) / rate,
            per_host,
            places: calls,
            most_unproven: (calls / 2).max(1),
            state: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a call to this host. `has_turn`: it was told `Later` before.
    pub fn ask(self: &Arc<Hosts>, name: &str, has_turn: bool, now: Instant) -> Turn {
        let mut state = self.lock();
        let state = &mut *state;
        if state.hosts.len() >= MOST_HOSTS && !state.hosts.contains_key(name) {
            state.hosts.retain(|_, host| !host.is_idle(now));
        }
        let name: Arc<str> = match state.hosts.get_key_value(name) {
            Some((known, _)) => Arc::clone(known),
            None => name.into(),
        };
        let host = state
            .hosts
            .entry(Arc::clone(&name))
            .or_insert_with(|| Host::new(now));
        let wait = host.next.saturating_duration_since(now);
        // Turns that were given out lie ahead: what has none goes behind them.
        let behind = !has_turn && host.free > now + PATIENCE;
        let free = self.places.saturating_sub(state.calls);
        if free < self.places / 2 {
            state.scarce.get_or_insert(now);
        } else if free > self.places * 5 / 8 {
            state.scarce = None;
        }
        let same = now.saturating_duration_since(host.changed);
        let quiet = host.calls > 0 && same > QUIET;
        let proven = host.answered.is_some();
        let trusted = proven
            && state
                .scarce
                .is_none_or(|since| host.answered > Some(since) && !quiet);
        let most = match host.open {
            Some(_) => 1,
            None if trusted => self.per_host.min(1 + free / SHARE),
            None => self.per_host.min(UNPROVEN),
        };
        let open = host.open.is_some_and(|until| until > now);
        let crowded = !proven && state.unproven >= self.most_unproven;
        if open || behind || crowded || host.calls >= most || wait > PATIENCE {
            let mut turn = host.free.max(host.next).max(now + self.interval);
            if let Some(until) = host.open {
                turn = turn.max(until);
            }
            // Not before something may have changed: as long again as nothing has. So the jobs of a silent host ask ever more seldom.
            let mut interval = self.interval;
            if host.calls >= most {
                turn = turn.max(now + same.clamp(PATIENCE, LONGEST));
                interval = interval.max(same.min(LONGEST) / most as u32);
            } else if crowded {
                let changed = state.changed.unwrap_or(now);
                let same = now.saturating_duration_since(changed);
                turn = turn.max(now + same.clamp(PATIENCE, LONGEST));
            }
            host.free = turn + interval;
            return Turn::Later(turn - now);
        }
        if !wait.is_zero() {
            return Turn::Soon(wait);
        }
        // From now, not from the turn: calls that began late must not come closer together.
        host.next = now + self.interval;
        if host.calls == 0 {
            host.changed = now;
        }
        if !proven && state.unproven == 0 {
            state.changed = Some(now);
        }
        host.calls += 1;
        state.calls += 1;
        state.unproven += usize::from(!proven);
        let permit = Permit {
            hosts: Arc::clone(self),
            host: name,
            proven,
            contact: None,
        };
        Turn::Now(permit)
    }

    /// Has this host answered, and not been silent since?
    pub fn is_proven(&self, name: &str) -> bool {
        self.lock()
            .hosts
            .get(name)
            .is_some_and(|host| host.answered.is_some())
    }

    pub fn counts(&self) -> Counts {
        let state = self.lock();
        Counts {
            known: state.hosts.len(),
            open: state
                .hosts
                .values()
                .filter(|host| host.open.is_some())
                .count(),
            calls: state.calls,
        }
    }
}

impl Host {
    fn new(now: Instant) -> Host {
        Host {
            next: now,
            free: now,
            calls: 0,
            changed: now,
            answered: None,
            silent: 0,
            open: None,
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        self.calls == 0
            && self.next <= now
            && self.free <= now
            && self.open.is_none_or(|until| until + LONGEST < now)
    }

    fn ended(&mut self, contact: Option<Contact>, now: Instant) {
        self.calls = self.calls.saturating_sub(1);
        self.changed = now;
        match contact {
            Some(Contact::Answered) => {
                self.answered = Some(now);
                self.silent = 0;
                if self.open.take().is_some() {
                    // Those that were told a turn come back then; new ones need not go behind all of them.
                    self.free = self.free.min(now + LONGEST);
                }
            }
            Some(Contact::Silent) => {
                self.answered = None;
                self.silent = self.silent.saturating_add(1);
                if self.silent >= FAILURES {
                    let doubled = (self.silent - FAILURES).min(16);
                    self.open = Some(now + (FIRST * (1 << doubled)).min(LONGEST));
                }
            }
            Some(Contact::Refused) | None => {}
        }
    }
}

impl Permit {
    /// The call has ended, and came so far. `None`: it was not made, for a reason of our own.
    pub fn end(mut self, contact: Option<Contact>) {
        self.contact = contact;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.hosts.lock();
        state.calls = state.calls.saturating_sub(1);
        if !self.proven {
            state.unproven = state.unproven.saturating_sub(1);
            state.changed = Some(now);
        }
        if let Some(host) = state.hosts.get_mut(&self.host) {
            host.ended(self.contact, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    fn hosts(rate: u32) -> Arc<Hosts> {
        Hosts::new(rate, 4, 100)
    }

    fn permit(turn: Turn) -> Permit {
        match turn {
            Turn::Now(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    fn later(turn: &Turn) -> Duration {
        match turn {
            Turn::Later(delay) => *delay,
            other => panic!("{other:?}"),
        }
    }

    /// A host that has answered, at this time.
    fn proven(hosts: &Arc<Hosts>, name: &str, now: Instant) {
        permit(hosts.ask(name, false, now)).end(Some(Contact::Answered));
        hosts.lock().hosts.get_mut(name).unwrap().answered = Some(now);
    }

    #[test]
    fn a_burst_is_spread_once() {
        let hosts = hosts(10);
        let start = Instant::now();
        proven(&hosts, "a", start);
        for number in 1..100 {
            assert_eq!(later(&hosts.ask("a", false, start)), number * TENTH);
        }
        // Each comes at its turn and may call, though others keep falling due.
        for number in 1..100 {
            let now = start + number * TENTH;
            later(&hosts.ask("a", false, now));
            permit(hosts.ask("a", true, now)).end(Some(Contact::Answered));
        }
    }

    #[test]
    fn hosts_do_not_hinder_each_other() {
        let hosts = hosts(1);
        let now = Instant::now();
        for host in ["a", "b", "c"] {
            proven(&hosts, host, now);
            later(&hosts.ask(host, false, now));
        }
    }

    #[test]
    fn a_turn_that_is_close_is_waited_for() {
        let hosts = hosts(100);
        let now = Instant::now();
        proven(&hosts, "a", now);
        let asked = hosts.ask("a", false, now + Duration::from_millis(3));
        assert!(matches!(asked, Turn::Soon(wait) if wait == Duration::from_millis(7)));
        permit(hosts.ask("a", false, now + Duration::from_millis(10))).end(None);
    }

    #[test]
    fn a_host_has_few_calls_at_a_time_and_fewer_before_its_first_answer() {
        let hosts = hosts(1000);
        let now = Instant::now();
        let first = permit(hosts.ask("a", false, now));
        let now = now + Duration::from_millis(1);
        let second = permit(hosts.ask("a", false, now));
        assert!(later(&hosts.ask("a", false, now)) >= PATIENCE);
        first.end(Some(Contact::Answered));
        let now = now + Duration::from_secs(1);
        let ms = |number| now + Duration::from_millis(number);
        let more: Vec<Permit> = (0..3)
            .map(|number| permit(hosts.ask("a", true, ms(number))))
            .collect();
        later(&hosts.ask("a", true, ms(3)));
        assert_eq!(hosts.counts().calls, 4);
        drop((second, more));
        assert_eq!(hosts.counts().calls, 0);
    }

    #[test]
    fn silent_hosts_leave_half_of_the_places_to_those_that_answer() {
        let hosts = Hosts::new(10, 4, 20);
        let now = Instant::now();
        proven(&hosts, "good", now);
        let mut held = Vec::new();
        for number in 0..100 {
            match hosts.ask(&format!("silent {number}"), false, now) {
                Turn::Now(permit) => held.push(permit),
                other => assert!(later(&other) >= PATIENCE),
            }
        }
        assert_eq!(held.len(), 10);
        permit(hosts.ask("good", true, now + TENTH)).end(Some(Contact::Answered));
    }

    #[test]
    fn hosts_that_fall_silent_together_leave_places_to_the_others() {
        // All but one want more calls than there are places: slowly, or at once.
        for pause in [TENTH, Duration::from_millis(1)] {
            let hosts = Hosts::new(1000, 8, 512);
            let now = Instant::now();
            let name = |number: usize| format!("{number}");
            for number in 0..=100 {
                proven(&hosts, &name(number), now);
            }
            let mut held = Vec::new();
            for round in 1..=8 {
                for number in 1..=100 {
                    match hosts.ask(&name(number), true, now + round * pause) {
                        Turn::Now(permit) => held.push(permit),
                        other => assert!(later(&other) >= PATIENCE),
                    }
                }
            }
            assert!((256..360).contains(&held.len()), "{}", held.len());
            // With its next answer it gets all that one host may have.
            let ms = |number| now + 9 * TENTH + Duration::from_millis(number);
            proven(&hosts, &name(0), ms(0));
            let good: Vec<Permit> = (1..=8)
                .map(|number| permit(hosts.ask(&name(0), true, ms(number))))
                .collect();
            drop((held, good));
            assert_eq!(hosts.counts().calls, 0);
        }
    }

    #[test]
    fn the_jobs_of_a_silent_host_ask_ever_more_seldom() {
        let hosts = Hosts::new(1000, 8, 512);
        let start = Instant::now();
        let held =
            [1, 2].map(|ms| permit(hosts.ask("a", false, start + Duration::from_millis(ms))));
        // A thousand jobs, each of which comes at its turn and finds the host as it was.
        let mut due = std::collections::BinaryHeap::from(vec![std::cmp::Reverse(TENTH); 1000]);
        let mut asked = 0;
        while let Some(std::cmp::Reverse(at)) = due.pop().filter(|at| at.0 < 100 * TENTH) {
            asked += 1;
            due.push(std::cmp::Reverse(
                at + later(&hosts.ask("a", asked > 1000, start + at)),
            ));
        }
        assert!(asked < 2000, "{asked}");
        drop(held);
        permit(hosts.ask("a", true, start + LONGEST)).end(None);
    }

    #[test]
    fn the_circuit_opens_and_an_answer_closes_it() {
        let hosts = hosts(1000);
        let silent = |now| permit(hosts.ask("a", true, now)).end(Some(Contact::Silent));
        let mut now = Instant::now();
        for _ in 0..FAILURES {
            now += TENTH;
            silent(now);
        }
        assert_eq!(hosts.counts().open, 1);
        // Each silent probe doubles the wait.
        for seconds in [1, 2, 4, 8, 16, 32, 60] {
            let wait = later(&hosts.ask("a", true, Instant::now()));
            assert!(
                wait > Duration::from_millis(seconds * 1000 - 500),
                "{wait:?} {seconds}"
            );
            now = Instant::now() + Duration::from_secs(seconds) + TENTH;
            let probe = permit(hosts.ask("a", true, now));
            // One at a time.
            later(&hosts.ask("a", true, now));
            probe.end(Some(Contact::Silent));
        }
        let probe = permit(hosts.ask("a", true, now + LONGEST * 2));
        probe.end(Some(Contact::Answered));
        assert_eq!(hosts.counts().open, 0);
        let two = [3, 4].map(|number| permit(hosts.ask("a", true, now + LONGEST * number)));
        drop(two);
        // What is refused at once holds nobody up.
        for number in 0..10 {
            permit(hosts.ask("b", true, now + TENTH * number)).end(Some(Contact::Refused));
        }
        assert_eq!(hosts.counts().open, 0);
    }

    #[test]
    fn no_second_has_more_calls_than_the_rate() {
        // Whatever comes in whatever order: a small generator, for the same run each time.
        let hosts = hosts(20);
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
            match hosts.ask("a", has_turn, start + at) {
                Turn::Now(permit) => {
                    calls.push(at);
                    permit.end(Some(Contact::Answered));
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
        let hosts = hosts(10);
        let now = Instant::now();
        for number in 0..30_000_u32 {
            proven(&hosts, &number.to_string(), now + number * TENTH * 2);
        }
        assert!(hosts.counts().known <= MOST_HOSTS);
    }
}

//! The store that several processes share: one table of PostgreSQL.
//!
//! - A group commit is one transaction of two round trips; new jobs and done ones go into it as one statement each.
//! - A claim has a lease by the database's clock. The engine has the leases renewed when a third of the time has passed. A claim whose lease has run out is taken up by whoever
//!   finds it first, as after a crash.
//! - An acknowledgement needs the token of the claim, and every claim draws a new one from a sequence. Who was stopped beyond the lease is refused.
//! - Every answer of the database has its time in it: that is the clock which decides what is due.
//! - The table is looked at every half minute, when a known lease ends, and a lease after something was due. What is stored with a time before the next look is announced with `NOTIFY`.
//! - A lost connection is made again, and the transaction that was under way is resolved: see [`link`].

mod batch;
mod clock;
mod config;
mod link;
mod listen;
mod read;
mod schema;
mod session;
mod sql;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio_postgres::Config;

use self::batch::{Batch, at_most, earliest};
pub(crate) use self::clock::ServerClock;
use self::config::Names;
pub(crate) use self::config::{PREFIX, parse, translate};
use self::link::Link;
use self::listen::{Listener, News};
use self::session::step;
pub(crate) use self::session::{Connect, connector};
use self::sql::Query;
use super::{
    Call, ClaimRequest, Committed, Earliest, End, INTERRUPTED, Id, Judge, New, Polled, Reader,
    Recovered, Slot, Store, Verdict, Wake, new_jobs,
};
use crate::broken::{self, Defect};
use crate::error::{Error, Fate, StoreError};
use crate::time::{Millis, WallClock};

/// The longest time between two looks at the table: two queries a minute.
const LOOK: Duration = Duration::from_secs(30);

/// A job that is due within the next look of the others, and a bit more, is announced.
const MARGIN: Duration = Duration::from_secs(5);

/// The time after which something is looked at again that another process has locked, or that failed.
const AGAIN: Duration = Duration::from_millis(100);

/// Lapsed claims are taken up so many at a time: what is due meanwhile waits for it.
const LAPSED: usize = 256;

/// The shortest lease: renewing it takes a query for every third of it.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest: what a dead process had claimed is taken up after it.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// How to reach a database, and what of it to use.
pub(crate) struct ConnectOptions {
    pub(crate) connect: Connect,
    pub(crate) config: Config,
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) horizon: Duration,
    pub(crate) patience: Duration,
}

pub(crate) struct PostgresStore {
    link: Link,
    names: Names,
    clock: Arc<ServerClock>,
    handled: Vec<Arc<str>>,
    lease: Duration,
    patience: Duration,
    /// When the table has to be looked at.
    next_look: Instant,
    announcer: Announcer,
    news: Arc<News>,
    listener: Option<Listener>,
    reader: Arc<read::TableReader>,
}

impl PostgresStore {
    /// Connects, and makes the table if it is not there. Not to be called inside an async runtime.
    pub(crate) fn open(
        options: ConnectOptions,
        handled: &[String],
    ) -> Result<PostgresStore, Error> {
        let names = Names::new(&options.prefix)?;
        let config = config::complete(options.config, options.patience)?;
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&options.lease) {
            return Err(Error::Config(format!(
                "lease is {:?}: with PostgreSQL it must be from {SHORTEST_LEASE:?} to {LONGEST_LEASE:?}",
                options.lease
            )));
        }
        let clock = Arc::new(ServerClock::new());
        let link = Link::open(
            options.connect,
            config,
            names.clone(),
            Arc::clone(&clock),
            options.patience,
        )?;
        let window = options.horizon.max(LOOK).saturating_add(MARGIN);
        let reader = read::TableReader::new(link.connector(), names.clone(), options.patience);
        Ok(PostgresStore {
            link,
            names,
            clock,
            handled: handled.iter().map(|kind| kind.as_str().into()).collect(),
            lease: options.lease,
            patience: options.patience,
            next_look: Instant::now() + LOOK.min(options.lease),
            announcer: Announcer {
                window: Millis::try_from(window.as_millis()).unwrap_or(Millis::MAX),
                announced: HashMap::new(),
                untold: HashMap::new(),
            },
            news: Arc::default(),
            listener: None,
            reader: Arc::new(reader),
        })
    }

    /// The database's clock.
    pub(crate) fn clock(&self) -> Arc<ServerClock> {
        Arc::clone(&self.clock)
    }

    fn names(&self) -> Vec<String> {
        self.handled.iter().map(ToString::to_string).collect()
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    /// Takes up claims that have lapsed, [`LAPSED`] at most.
    fn take_up(&mut self, judge: Judge<'_>, wait: bool) -> Result<Recovered, StoreError> {
        let names = self.names();
        let deadline = self.deadline();
        let lapsed = self.link.ask(
            deadline,
            wait,
            || step![Query::Lapsed; names.clone(), LAPSED as i64],
        )?;
        let others = i64::from(broken::is(Defect::ChargeBystanders));
        let claims: Vec<(i64, i64, Option<Millis>)> = lapsed
            .iter()
            .map(|row| {
                let (id, attempts): (i64, i64) = (row.get(0), row.get(2));
                let again = judge(row.get(3), id as u64, attempts as u32);
                (id, row.get(1), again)
            })
            .collect();
        let mut recovered = Recovered::default();
        if claims.is_empty() {
            return Ok(recovered);
        }
        let rows = self
            .link
            .transact("cannot take up jobs", deadline, |process| {
                let mut steps: Vec<_> = claims
                    .iter()
                    .map(|&(id, token, again)| {
                        step![Query::Interrupt; id, token, again, INTERRUPTED, others]
                    })
                    .collect();
                let (none, version) = (Vec::<String>::new(), schema::VERSION as i64);
                steps.push(
                    step![Query::Close; none.clone(), none, process.id, process.number, version],
                );
                steps
            })?;
        // What is missing was taken up by others, who were faster.
        for (row, &(id, ..)) in rows.iter().zip(&claims) {
            if let Some(row) = row.first() {
                recovered.found += 1;
                if row.get(0) {
                    recovered.died.push(id as Id);
                }
            }
        }
        Ok(recovered)
    }
}

/// Decides what other processes are told about.
struct Announcer {
    /// What is due later is found by their next look, in milliseconds.
    window: Millis,
    /// By kind that has a handler here: the due time that was announced last, and when.
    announced: HashMap<String, (Millis, Instant)>,
    /// What is due, and has not been announced.
    untold: HashMap<String, Millis>,
}

impl Announcer {
    fn soon(&self, now: Millis) -> Millis {
        now.saturating_add(self.window)
    }

    /// Of what begins to wait: what is due soon. A kind that has a handler here is announced only if it is earlier than before: the others wake at the time that
    /// they know and then see the rest, and so does this process. While much is overdue it is said now and then.
    fn choose(
        &mut self,
        now: Millis,
        handled: &[Arc<str>],
        waiting: HashMap<&str, Millis>,
    ) -> Vec<(String, Millis)> {
        let mut all = std::mem::take(&mut self.untold);
        for (kind, due) in waiting {
            let earliest = all.entry(kind.to_owned()).or_insert(due);
            *earliest = due.min(*earliest);
        }
        let mut told = Vec::new();
        for (kind, due) in all {
            let handled = handled.iter().any(|handled| **handled == *kind);
            match self.announced.get(&kind) {
                _ if due > self.soon(now) => {}
                Some(&(known, _)) if handled && known > now && known <= due => {}
                Some((_, at)) if handled && due <= now && at.elapsed() < AGAIN / 2 => {
                    self.untold.insert(kind, due);
                }
                _ => told.push((kind, due)),
            }
        }
        told
    }

    fn announced(&mut self, handled: &[Arc<str>], told: Vec<(String, Millis)>) {
        for (kind, due) in told {
            if handled.iter().any(|handled| **handled == *kind) {
                self.announced.insert(kind, (due, Instant::now()));
            }
        }
    }
}

/// The earliest due times of what begins to wait with a batch, by kind, without what its claim is expected to take.
fn waiting<'a>(
    calls: &'a [Call],
    ends: &'a [End],
    claim: &ClaimRequest,
    handled: &[Arc<str>],
) -> HashMap<&'a str, Millis> {
    let mut waiting: HashMap<&str, Millis> = HashMap::new();
    let mut wait = |kind: &'a str, due: Millis| {
        let earliest = waiting.entry(kind).or_insert(due);
        *earliest = due.min(*earliest);
    };
    let new: Vec<&New> = new_jobs(calls).collect();
    let open = |kind: &str| {
        let place = handled.iter().position(|handled| &**handled == kind);
        place.is_some_and(|place| claim.room[place] >= new.len())
    };
    for job in &new {
        // Claimed by the transaction that stores it.
        let ours = job.due <= claim.until && claim.limit >= new.len() && open(&job.kind);
        if !ours {
            wait(&job.kind, job.due);
        }
    }
    for end in ends {
        match end.verdict {
            Verdict::Retry { due, .. } | Verdict::Snooze { due } => wait(&end.kind, due),
            Verdict::GiveBack => wait(&end.kind, claim.now),
            Verdict::Done | Verdict::Dead { .. } => {}
        }
    }
    waiting
}

fn notices(told: &[(String, Millis)]) -> Vec<String> {
    told.iter()
        .map(|(kind, due)| format!("{due} {kind}"))
        .collect()
}

impl Store for PostgresStore {
    fn recover(&mut self, judge: Judge<'_>, _: Millis) -> Result<Recovered, StoreError> {
        let mut all = Recovered::default();
        loop {
            let some = self.take_up(judge, true)?;
            all.found += some.found;
            all.died.extend(some.died);
            if some.found < LAPSED {
                return Ok(all);
            }
        }
    }

    fn commit(
        &mut self,
        calls: &[Call],
        ends: &[End],
        claim: &ClaimRequest,
        deadline: Instant,
    ) -> Result<Committed, StoreError> {
        let now = self.clock.now();
        let told = self.announcer.choose(
            now,
            &self.handled,
            waiting(calls, ends, claim, &self.handled),
        );
        let batch = Batch {
            calls,
            ends,
            claim,
            kinds: &self.handled,
            lease: self.lease.as_millis() as f64,
            soon: self.announcer.soon(now),
            notices: notices(&told),
        };
        self.news.own.store(self.link.backend(), Ordering::Relaxed);
        let answers = self
            .link
            .transact("cannot write", deadline, |process| batch.steps(process))?;
        let mut committed = batch.read(&answers);
        self.announcer.announced(&self.handled, told);
        if claim.is_empty() {
            return Ok(committed);
        }
        // Something was due: what of it another process has claimed may lapse when a lease has passed.
        self.next_look = self.next_look.min(Instant::now() + self.lease);
        let size: usize = committed
            .claims
            .iter()
            .map(|claim| claim.payload.len())
            .sum();
        let charged = committed
            .claims
            .iter()
            .filter(|claim| claim.charged)
            .count();
        let full = committed.claims.len() - charged >= claim.limit || size > claim.bytes;
        // Something is due that was not claimed: another process has it locked, and takes it or leaves it.
        let again = self.clock.after(AGAIN);
        if let Some(due) = &mut committed.next.waiting
            && claim.limit > 0
            && !full
            && *due <= claim.until
        {
            *due = again;
        }
        if let (Some(due), Some(until)) = (&mut committed.next.suspect, claim.suspect)
            && charged == 0
            && *due <= until
        {
            *due = again;
        }
        // More is due than was claimed, and the others may not know of it.
        if full && committed.next.waiting.is_some_and(|due| due <= now) {
            for new in new_jobs(calls).filter(|new| new.due <= claim.until) {
                self.announcer.untold.insert(new.kind.clone(), now);
            }
        }
        Ok(committed)
    }

    fn poll(&mut self, judge: Judge<'_>, room: &[usize]) -> Result<Polled, StoreError> {
        self.next_look = Instant::now() + AGAIN;
        let names = self.names();
        let deadline = self.deadline();
        let look = || step![Query::Look; names.clone()];
        let mut rows = self.link.ask(deadline, false, look)?;
        let version: i64 = rows[0].get(5);
        if version != schema::VERSION as i64 {
            return Err(StoreError::new(format!(
                "{}: the table {} is of version {version} now: this process understands {}, and claims nothing any more",
                self.link.describe(),
                self.names.jobs,
                schema::VERSION
            ))
            .that(Fate::Passes));
        }
        let mut recovered = Recovered::default();
        let mut rest = LOOK;
        let lapse: Option<i64> = rows[0].get(4);
        if let Some(lapse) = lapse {
            rest = rest.min(Duration::from_millis(lapse.max(0) as u64).max(AGAIN));
            if lapse <= 0 {
                recovered = self.take_up(judge, false)?;
                rows = self.link.ask(deadline, false, look)?;
            }
        }
        self.clock
            .set(rows[0].get::<_, i64>(0) + broken::clock_ahead() * 1000);
        self.next_look = Instant::now() + rest;
        Ok(Polled {
            next: earliest(&rows[0], 1, room),
            paused: rows[0].get::<_, Vec<String>>(6).into_iter().collect(),
            recovered,
        })
    }

    fn slots(
        &mut self,
        until: Millis,
        limit: usize,
        room: &[usize],
    ) -> Result<Vec<Slot>, StoreError> {
        let open = self.handled.iter().zip(room).filter(|&(_, &room)| room > 0);
        let open: Vec<String> = open.map(|(kind, _)| kind.to_string()).collect();
        let (limit, deadline) = (at_most(limit), self.deadline());
        let rows = self.link.ask(
            deadline,
            false,
            || step![Query::Slots; open.clone(), until, limit],
        )?;
        let slots = rows.iter().map(|row| Slot {
            id: row.get::<_, i64>(0) as Id,
            kind: row.get::<_, &str>(1).into(),
            due: row.get(2),
            rule: row.get::<_, Option<String>>(3).unwrap_or_default(),
        });
        Ok(slots.collect())
    }

    /// Its errors pass: the connection is made again when it is used.
    fn reopen(&mut self, _: &HashSet<u64>) -> Result<(), StoreError> {
        Ok(())
    }

    fn reader(&self) -> Arc<dyn Reader> {
        Arc::clone(&self.reader) as _
    }

    fn lease(&self) -> Option<Duration> {
        Some(self.lease)
    }

    fn renew(&mut self, held: &[(Id, u64)]) -> Result<HashSet<u64>, StoreError> {
        let (ids, tokens): (Vec<i64>, Vec<i64>) = held
            .iter()
            .map(|&(id, token)| (id as i64, token as i64))
            .unzip();
        let lease = self.lease.as_millis() as f64;
        let deadline = self.deadline();
        let rows = self.link.ask(
            deadline,
            false,
            || step![Query::Renew; ids.clone(), tokens.clone(), lease],
        )?;
        Ok(rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect())
    }

    fn heard(&mut self) -> (Earliest, Option<Instant>) {
        let (heard, missed) = self.news.take();
        if missed {
            self.next_look = Instant::now();
        }
        let earliest = Earliest {
            waiting: heard,
            ..Earliest::default()
        };
        (earliest, Some(self.next_look))
    }

    fn listen(&mut self, wake: Wake) {
        let listener = Listener::start(
            self.link.connector(),
            self.names.jobs.clone(),
            self.names(),
            Arc::clone(&self.news),
            wake,
        );
        match listener {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => {
                log::warn!(
                    "jobs of other processes are found late: cannot start a thread: {error}"
                );
            }
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.reader.close();
        self.listener = None;
        self.link.leave();
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! The store that several processes share: one table of PostgreSQL.
//!
//! - A group commit is one transaction; new jobs and done ones go into it as one statement each.
//! - A claim has a lease by the database's clock. The store thread renews the leases of what is claimed when a third of the time has passed. A claim whose lease has
//!   run out is taken up by whoever finds it first, as after a crash: alone, and counted.
//! - An acknowledgement needs the token of the claim, and every claim draws a new one from a sequence. Who was stopped beyond the lease is refused.
//! - Every answer of the database has its time in it: that is the clock which decides what is due.
//! - The table is looked at every half minute, when a known lease ends, and a lease after something was due. What is stored with a time before the next look is announced with `NOTIFY`.
//! - A lost connection is made again, and the transaction that was under way is resolved: see [`link`].

mod clock;
mod config;
mod link;
mod listen;
mod schema;
mod sql;
mod work;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::postgres::Config;

pub(crate) use self::clock::ServerClock;
use self::config::Names;
pub(crate) use self::config::{PREFIX, parse};
pub(crate) use self::link::Connect;
use self::link::{Link, Mark};
use self::listen::{Listener, News};
use self::sql::Query;
use self::work::{Kinds, Outcome, Work, bury, put_back};
use super::{
    Committed, Earliest, INTERRUPTED, Judge, Leases, Op, Reply, Store, Upkeep, Verdict, Wake,
    earlier,
};
use crate::broken::{self, Defect};
use crate::error::{Error, StoreError};
use crate::time::{Millis, WallClock};

/// The longest time between two looks at the table: two queries a minute.
const LOOK: Duration = Duration::from_secs(30);

/// A job that is due within the next look of the others, and a bit more, is announced.
const MARGIN: Duration = Duration::from_secs(5);

/// The time after which something is looked at again that another process has locked, or that failed.
const AGAIN: Duration = Duration::from_millis(100);

/// Lapsed claims are taken up so many at a time.
const LAPSED: i64 = 256;

/// The shortest lease: renewing it takes a query for every third of it.
const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest: what a dead process had claimed is taken up after it.
const LONGEST_LEASE: Duration = Duration::from_secs(24 * 60 * 60);

/// How to reach a database, and what of it to use.
pub(crate) struct Place {
    pub(crate) connect: Connect,
    pub(crate) config: Config,
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) horizon: Duration,
}

pub(crate) struct PostgresStore {
    link: Link,
    names: Names,
    clock: Arc<ServerClock>,
    kinds: Kinds,
    lease: Duration,
    leases: Arc<Leases>,
    /// When the leases have to be renewed.
    next_renewal: Option<Instant>,
    /// When the table has to be looked at.
    next_look: Instant,
    announcer: Announcer,
    news: Arc<News>,
    listener: Option<Listener>,
}

impl PostgresStore {
    /// Connects, and makes the table if it is not there. Not to be called inside an async runtime.
    pub(crate) fn open(place: Place, handled: &[String]) -> Result<PostgresStore, Error> {
        let names = Names::new(&place.prefix)?;
        let config = config::complete(place.config)?;
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&place.lease) {
            return Err(Error::Config(format!(
                "lease is {:?}: with PostgreSQL it must be from {SHORTEST_LEASE:?} to {LONGEST_LEASE:?}",
                place.lease
            )));
        }
        let clock = Arc::new(ServerClock::new());
        let link = Link::open(
            place.connect,
            config,
            names.clone(),
            Arc::clone(&clock),
            |client| schema::prepare(client, &names),
        )?;
        let window = place.horizon.max(LOOK).saturating_add(MARGIN);
        Ok(PostgresStore {
            link,
            names,
            clock,
            kinds: Kinds {
                names: handled.to_vec(),
                handlers: handled.iter().cloned().zip(0..).collect(),
            },
            lease: place.lease,
            leases: Arc::default(),
            next_renewal: None,
            next_look: Instant::now() + LOOK.min(place.lease),
            announcer: Announcer {
                window: Millis::try_from(window.as_millis()).unwrap_or(Millis::MAX),
                announced: HashMap::new(),
            },
            news: Arc::default(),
            listener: None,
        })
    }

    /// The database's clock.
    pub(crate) fn clock(&self) -> Arc<ServerClock> {
        Arc::clone(&self.clock)
    }

    /// Takes up claims that have lapsed. Their number, and what is to be taken up alone now.
    fn take_up(&mut self, judge: Judge<'_>) -> Result<(usize, Option<Millis>), StoreError> {
        let kinds = &self.kinds.names;
        let (mut all, mut earliest) = (0, None);
        loop {
            let (found, due) = self.link.transact("cannot take up jobs", &mut |session| {
                let rows = session.query(Query::Lapsed, &[kinds, &LAPSED])?;
                let mut earliest = None;
                for row in &rows {
                    let (id, token, attempts): (i64, i64, i64) =
                        (row.get(0), row.get(1), row.get(2));
                    let attempts = attempts as u32;
                    let verdict = if row.get(3) {
                        judge(id as u64, attempts)
                    } else {
                        Verdict::GiveBack
                    };
                    let (due, attempts) = match verdict {
                        Verdict::GiveBack => (
                            None,
                            attempts + u32::from(broken::is(Defect::ChargeBystanders)),
                        ),
                        Verdict::Retry { due, attempts } => (Some(due), attempts),
                        Verdict::Dead { .. } | Verdict::Done => {
                            bury(session, id, token, attempts, INTERRUPTED)?;
                            continue;
                        }
                    };
                    let back = put_back(session, id, token, Some(1), due, Some(attempts))?;
                    earliest = earlier(earliest, back.map(|(_, due, _)| due));
                }
                let (mark, _) = session.close(&[], &[])?;
                Ok(((rows.len(), earliest), mark))
            })?;
            all += found;
            earliest = earlier(earliest, due);
            if found < LAPSED as usize {
                return Ok((all, earliest));
            }
        }
    }

    /// Renews the leases of all claims. Those that are gone belong to another process.
    fn renew(&mut self) {
        let (ids, tokens) = self.leases.held();
        if ids.is_empty() {
            self.next_renewal = None;
            return;
        }
        let sent = Instant::now();
        let lease = self.lease.as_millis() as f64;
        match self.link.try_read(Query::Renew, &[&ids, &tokens, &lease]) {
            Ok(rows) => {
                let renewed: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                let lost = self.leases.renewed(&tokens, &renewed, sent + self.lease);
                if lost > 0 {
                    log::warn!(
                        "{lost} leases had run out: other processes have taken these jobs up"
                    );
                }
                self.next_renewal = Some(sent + self.lease / 3);
            }
            Err(error) => {
                log::debug!("leases are not renewed: {error}");
                self.next_renewal = Some(Instant::now() + AGAIN);
            }
        }
    }

    /// Looks at the table: what is earliest, and whether claims have lapsed.
    fn look(&mut self, judge: Judge<'_>) -> Result<Earliest, StoreError> {
        self.next_look = Instant::now() + AGAIN;
        let rows = self.link.try_read(Query::Look, &[&self.kinds.names])?;
        if let Some(session) = self.link.connected() {
            session.set_clock(rows[0].get(0));
        }
        let mut found = Earliest {
            waiting: rows[0].get(1),
            interrupted: rows[0].get(2),
        };
        let lapse: Option<i64> = rows[0].get(3);
        let mut rest = LOOK;
        if let Some(lapse) = lapse {
            rest = rest.min(Duration::from_millis(lapse.max(0) as u64).max(AGAIN));
            if lapse <= 0 {
                let (many, due) = self.take_up(judge)?;
                if many > 0 {
                    log::warn!(
                        "{many} leases of other processes have run out: each of these jobs will be taken up alone"
                    );
                }
                found.interrupted = earlier(found.interrupted, due);
            }
        }
        self.next_look = Instant::now() + rest;
        Ok(found)
    }
}

/// Decides what other processes are told about.
struct Announcer {
    /// What is due later is found by their next look, in milliseconds.
    window: Millis,
    /// By kind that has a handler here: the due time that was announced last.
    announced: HashMap<String, Millis>,
}

impl Announcer {
    /// Of what waits since this transaction: what is due soon and was not claimed by it. A kind that has a handler here is announced only if it is earlier than before:
    /// the others wake at the time that they know and then see the rest, and so does this process.
    fn choose(
        &self,
        now: Millis,
        kinds: &Kinds,
        waiting: &HashMap<String, Millis>,
        claimed_until: Option<Millis>,
    ) -> Vec<(String, Millis)> {
        let soon = now.saturating_add(self.window);
        waiting
            .iter()
            .filter(|(kind, due)| {
                let (due, handled) = (**due, kinds.handlers.contains_key(*kind));
                let known = self.announced.get(*kind);
                due <= soon
                    && !(handled && claimed_until.is_some_and(|until| due <= until))
                    && !(handled && known.is_some_and(|&known| known > now && known <= due))
            })
            .map(|(kind, due)| (kind.clone(), *due))
            .collect()
    }

    fn announced(&mut self, kinds: &Kinds, told: Vec<(String, Millis)>) {
        for (kind, due) in told {
            if kinds.handlers.contains_key(&kind) {
                self.announced.insert(kind, due);
            }
        }
    }
}

impl Store for PostgresStore {
    fn recover(&mut self, judge: Judge<'_>) -> Result<usize, StoreError> {
        Ok(self.take_up(judge)?.0)
    }

    fn earliest(&mut self) -> Result<Earliest, StoreError> {
        let rows = self.link.read(Query::Look, &[&self.kinds.names])?;
        Ok(Earliest {
            waiting: rows[0].get(1),
            interrupted: rows[0].get(2),
        })
    }

    fn unhandled(&mut self) -> Result<Vec<String>, StoreError> {
        let rows = self.link.read(Query::Unhandled, &[&self.kinds.names])?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    fn commit(&mut self, ops: &[Op]) -> Result<Committed, StoreError> {
        let mut sent = Instant::now();
        let (clock, kinds, announcer, news) =
            (&self.clock, &self.kinds, &self.announcer, &self.news);
        let lease = self.lease.as_millis() as i64;
        let (outcome, written) = self.link.transact("cannot write", &mut |session| {
            sent = Instant::now();
            news.own.store(session.backend, Ordering::Relaxed);
            let work = Work::new(session, kinds, lease, ops);
            let (outcome, mark) = work.run(|waiting, claimed_until| {
                announcer.choose(clock.now(), kinds, waiting, claimed_until)
            })?;
            Ok(((outcome, mark != Mark::None), mark))
        })?;
        let Outcome {
            mut replies,
            earliest,
            told,
            claimed_until,
        } = outcome;
        self.announcer.announced(&self.kinds, told);
        for (op, reply) in ops.iter().zip(&replies) {
            if let Op::Finish { id, token, .. } = op {
                self.leases.remove(*token);
                if *reply == Reply::Found(false) {
                    log::warn!(
                        "the outcome of job {id} is refused: its lease has run out, and another process has taken it up"
                    );
                }
            }
        }
        if let Some(Reply::Claimed { claims, next }) = replies.last_mut() {
            // Something was due: what of it another process has claimed may lapse when a lease has passed.
            self.next_look = self.next_look.min(Instant::now() + self.lease);
            for claim in &*claims {
                self.leases.add(claim.id, claim.token, sent + self.lease);
            }
            if self.next_renewal.is_none() && !self.leases.is_empty() {
                self.next_renewal = Some(sent + self.lease / 3);
            }
            let claimed_until = match ops.last() {
                Some(Op::ClaimAlone { until }) if claims.is_empty() => Some(*until),
                _ => claimed_until,
            };
            // Something is due that was not claimed: another process has it locked, and takes it or leaves it.
            if let (Some(due), Some(until)) = (*next, claimed_until)
                && due <= until
            {
                *next = Some(self.clock.after(AGAIN));
            }
        }
        Ok(Committed {
            replies,
            written,
            earliest,
        })
    }

    fn upkeep(&mut self, judge: Judge<'_>) -> Upkeep {
        let (heard, missed) = self.news.take();
        let mut earliest = Earliest {
            waiting: heard,
            interrupted: None,
        };
        if self.next_renewal.is_some_and(|time| time <= Instant::now()) {
            self.renew();
        }
        if missed || self.next_look <= Instant::now() {
            match self.look(judge) {
                Ok(found) => {
                    earliest.waiting = earlier(earliest.waiting, found.waiting);
                    earliest.interrupted = found.interrupted;
                }
                Err(error) => log::debug!("{error}"),
            }
        }
        let next = self
            .next_renewal
            .map_or(self.next_look, |renewal| renewal.min(self.next_look));
        Upkeep {
            earliest,
            again: Some(next.saturating_duration_since(Instant::now())),
        }
    }

    fn listen(&mut self, wake: Wake) {
        let listener = Listener::start(
            self.link.connector(),
            self.names.jobs.clone(),
            self.kinds.names.clone(),
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

    fn leases(&self) -> Option<Arc<Leases>> {
        Some(Arc::clone(&self.leases))
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.stop();
        }
        if let Some(session) = self.link.connected() {
            // The listener's thread waits for a notice: here is one.
            let _ = session.close(&[], &["stop".to_owned()]);
            session.leave();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;

//! What happens when a job is due.
//!
//! It asks [`Hosts`] for a turn. If that is some time off, it is put off, uncharged: a job that waits for its turn holds no thread. Otherwise it calls, and what came
//! of that decides: done, tried again and charged, tried again and not charged, or dead.

mod put_off;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use hashed_wheel::TimerHandle;
use serde_json::json;
use tokio::sync::watch;

use crate::call::allowed::Target;
use crate::call::{About, Caller, Contact, Failure, Route, headers};
use crate::hosts::{Hosts, PATIENCE, Permit, Turn};
use crate::log::{self, Level};
use crate::metrics::{Metrics, count};
use crate::queue::Envelope;

pub use put_off::PutOff;

/// How long a job waits after an error of our own side.
const OWN_SIDE: Duration = Duration::from_secs(1);

/// A job that is so late may be one that was under way when a process died.
const OVERDUE: Duration = Duration::from_millis(100);

/// A job that is due.
#[derive(Debug)]
pub struct Due {
    pub envelope: Envelope,
    pub key: Option<String>,
    pub due: SystemTime,
    /// From 1.
    pub attempt: u32,
}

/// What is to become of it.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    /// Charged, and tried again while it has attempts.
    Failed(String),
    Dead(String),
    /// Not charged, and due in so long.
    PutOff(Duration),
}

/// Calls what is due.
#[derive(Debug)]
pub struct Deliverer {
    pub caller: Caller,
    pub hosts: Arc<Hosts>,
    /// Names that are looked up.
    pub names: Arc<Hosts>,
    pub put_off: PutOff,
    pub metrics: Arc<Metrics>,
    pub timer: TimerHandle,
    /// True when calls under way have to be given up.
    pub cut: watch::Receiver<bool>,
}

impl Deliverer {
    pub async fn deliver(&self, due: Due) -> End {
        let mut cut = self.cut.clone();
        let end = tokio::select! {
            end = self.attempt(&due) => end,
            // Nobody knows whether the receiver got it: it is called again after the next start.
            _ = cut.wait_for(|cut| *cut) => End::PutOff(Duration::ZERO),
        };
        if let End::Dead(_) = end {
            count(&self.metrics.calls.dead);
        }
        end
    }

    async fn attempt(&self, due: &Due) -> End {
        let envelope = &due.envelope;
        let target = match self.caller.target(&envelope.callback) {
            Ok(target) => target,
            // Its address is not in the log: it may hold a secret.
            Err(failure) => return self.failed(due, "", failure),
        };
        let has_turn = self.put_off.take(&envelope.id);
        let late = SystemTime::now()
            .duration_since(due.due)
            .unwrap_or_default();
        let overdue = late > OVERDUE && !has_turn;
        let route = match self.caller.route(&target) {
            Some(route) => route,
            None => match self.look_up(due, &target, has_turn, overdue).await {
                Ok(route) => route,
                Err(end) => return end,
            },
        };
        let route = match route {
            Ok(route) => route,
            Err(failure) => {
                let host = format!("{}:{}", target.host, target.port);
                return self.failed(due, &host, failure);
            }
        };
        let permit = match self
            .permit(&self.hosts, due, &route.host, has_turn, overdue)
            .await
        {
            Ok(permit) => permit,
            Err(end) => return end,
        };
        if !has_turn {
            self.metrics.lateness.record(late);
        }
        let headers = match headers::parse(&envelope.headers) {
            Ok(headers) => headers,
            Err(problem) => return End::Dead(format!("the headers: {problem}")),
        };
        let about = About {
            id: &envelope.id,
            key: due.key.as_deref(),
            attempt: due.attempt,
            headers: &headers,
        };
        let began = Instant::now();
        let result = self
            .caller
            .call(&route, envelope.payload.get(), about)
            .await;
        let took = began.elapsed();
        permit.end(match &result {
            Ok(()) => Some(Contact::Answered),
            Err(Failure::Theirs { contact, .. }) => Some(*contact),
            Err(_) => None,
        });
        self.metrics.call_duration.record(took);
        match result {
            Ok(()) => {
                count(&self.metrics.calls.done);
                if log::enabled(Level::Info) {
                    let fields = json!({ "job": envelope.id, "key": due.key, "host": route.host, "attempt": due.attempt, "ms": took.as_millis() as u64 });
                    log::event(Level::Info, "call_done", fields);
                }
                End::Done
            }
            Err(failure) => self.failed(due, &route.host, failure),
        }
    }

    /// Looks the name of a host up. It is called under the same rules as a host: a name whose servers are silent holds up no other.
    async fn look_up(
        &self,
        due: &Due,
        target: &Target,
        has_turn: bool,
        overdue: bool,
    ) -> Result<Result<Route, Failure>, End> {
        let name = target.host.to_string();
        let permit = self
            .permit(&self.names, due, &name, has_turn, overdue)
            .await?;
        let route = self.caller.look_up(target).await;
        permit.end(match &route {
            Err(Failure::Ours(_)) => Some(Contact::Silent),
            _ => Some(Contact::Answered),
        });
        Ok(route)
    }

    /// Waits for a turn that is close. The error: the job is put off.
    async fn permit(
        &self,
        hosts: &Arc<Hosts>,
        due: &Due,
        host: &str,
        has_turn: bool,
        overdue: bool,
    ) -> Result<Permit, End> {
        let id = &due.envelope.id;
        // What was under way when a process died is taken up one at a time, until it has come to an end. So it comes to one now, uncharged, if the host may be silent: then
        // it holds up none of the others.
        if overdue && !hosts.is_proven(host) && self.put_off.add(id, Instant::now()) {
            return Err(End::PutOff(Duration::ZERO));
        }
        let delay = match turn(&self.timer, hosts, host, has_turn).await {
            Ok(permit) => return Ok(permit),
            Err(delay) => delay,
        };
        count(&self.metrics.calls.put_off);
        if log::enabled(Level::Debug) {
            let fields =
                json!({ "job": id, "key": due.key, "host": host, "ms": delay.as_millis() as u64 });
            log::event(Level::Debug, "call_put_off", fields);
        }
        self.put_off.add(id, Instant::now() + delay);
        Err(End::PutOff(delay))
    }

    fn failed(&self, due: &Due, host: &str, failure: Failure) -> End {
        let calls = &self.metrics.calls;
        let (name, counter, reason, end) = match failure {
            Failure::Theirs { reason, .. } => (
                "call_failed",
                &calls.failed,
                reason.clone(),
                End::Failed(reason),
            ),
            Failure::Ours(reason) => ("call_not_made", &calls.own, reason, End::PutOff(OWN_SIDE)),
            Failure::Forbidden(reason) => (
                "call_forbidden",
                &calls.failed,
                reason.clone(),
                End::Dead(reason),
            ),
        };
        count(counter);
        let fields = json!({ "job": due.envelope.id, "key": due.key, "host": host, "attempt": due.attempt, "reason": reason });
        log::event(Level::Warn, name, fields);
        end
    }
}

/// Waits for a turn that is close. The error: it is in so long.
async fn turn(
    timer: &TimerHandle,
    hosts: &Arc<Hosts>,
    host: &str,
    mut has_turn: bool,
) -> Result<Permit, Duration> {
    let patient = Instant::now() + PATIENCE;
    loop {
        let now = Instant::now();
        match hosts.ask(host, has_turn, now) {
            Turn::Now(permit) => return Ok(permit),
            Turn::Later(delay) => return Err(delay),
            Turn::Soon(wait) => {
                let _ = timer.sleep(wait).await;
            }
        }
        // Others were faster every time.
        has_turn &= now < patient;
    }
}

//! The durable timer, and what happens when a job is due.
//!
//! A job is an [`Envelope`]: where to call, what to send, how often it has failed. When it is due, its handler asks [`Pace`] for a turn. If that is
//! some time off, the handler does not wait for it, for a thousand jobs of one host would take every thread from the others; nor does it ask for a retry, for
//! that would count as an attempt. It stores the job again for its turn, and ends.

use std::collections::hash_map::RandomState;
use std::error::Error;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hashed_wheel_durable::{
    DeadJob, DurableTimer, Error as TimerError, Job, Outcome, PendingJob, Scheduled,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::runtime::Handle;

use crate::options::Options;
use crate::pace::{MOST_CALLS, PATIENCE, Pace, Turn};
use crate::target::{About, Allowed, Caller};

/// The kind of every job.
const KIND: &str = "call";

/// The largest payload, in bytes.
pub const MOST_PAYLOAD: usize = 64 << 10;

/// Handlers: several hosts that do not answer leave some for the others.
const THREADS: usize = 8 * MOST_CALLS;

/// A job as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Envelope {
    /// Sent with every call for it: the receiver can tell a second one by it.
    pub id: String,
    pub callback: String,
    /// Calls that failed before it was stored.
    pub failed: u32,
    /// The turn that it is stored for, in milliseconds since 1970.
    pub turn: Option<u64>,
    pub payload: Box<RawValue>,
}

impl Envelope {
    pub fn new(callback: String, payload: Box<RawValue>) -> Envelope {
        let random = || RandomState::new().build_hasher().finish();
        Envelope {
            id: format!("{:016x}{:016x}", random(), random()),
            callback,
            failed: 0,
            turn: None,
            payload,
        }
    }

    pub fn decode(bytes: &[u8]) -> Result<Envelope, String> {
        serde_json::from_slice(bytes).map_err(|error| format!("not a job of this service: {error}"))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text can be written as JSON")
    }
}

/// When a job is due.
#[derive(Debug, Clone, Copy)]
pub enum When {
    After(Duration),
    At(SystemTime),
}

/// The queue. Its methods wait for the disk.
#[derive(Debug)]
pub struct Queue {
    timer: DurableTimer,
    pub allowed: Allowed,
}

impl Queue {
    /// Opens the store; what is overdue is called at once. Calls are made on this runtime.
    pub fn open(options: &Options, runtime: Handle) -> Result<Queue, Box<dyn Error>> {
        let allowed = Allowed::new(options.allowed.clone());
        let post = Postman {
            allowed: allowed.clone(),
            caller: Caller::new(allowed.clone(), options.timeout),
            pace: Pace::new(options.rate),
            attempts: options.attempts,
            backoff: options.backoff,
            runtime,
        };
        let post = Arc::new(post);
        let (first, most) = options.backoff;
        let builder = DurableTimer::builder()
            .on(KIND, move |job| post.deliver(job))
            .threads(THREADS)
            .max_attempts(options.attempts)
            .backoff(first, most)
            .lease(options.lease);
        let timer = match &options.postgres {
            None => builder.open(&options.file)?,
            #[cfg(feature = "postgres")]
            Some(url) => builder.open_postgres(url)?,
            #[cfg(not(feature = "postgres"))]
            Some(_) => return Err("--postgres needs the feature `postgres`".into()),
        };
        Ok(Queue { timer, allowed })
    }

    /// Stores a job. Without a key it gets one, so that it can be moved and cancelled.
    pub fn schedule(
        &self,
        key: Option<String>,
        envelope: &Envelope,
        when: When,
        replace: bool,
    ) -> Result<(String, Scheduled), TimerError> {
        let key = key.unwrap_or_else(|| format!("job-{}", envelope.id));
        let mut job = self.timer.job(KIND).key(&*key).payload(envelope.encode());
        if replace {
            job = job.replace();
        }
        let scheduled = match when {
            When::After(delay) => job.after(delay),
            When::At(time) => job.at(time),
        }?;
        Ok((key, scheduled))
    }

    pub fn reschedule(&self, key: &str, when: When) -> Result<bool, TimerError> {
        match when {
            When::After(delay) => self.timer.reschedule(key, delay),
            When::At(time) => self.timer.reschedule_at(key, time),
        }
    }

    pub fn cancel(&self, key: &str) -> Result<bool, TimerError> {
        self.timer.cancel(key)
    }

    pub fn pending(&self, limit: usize) -> Result<(u64, Vec<PendingJob>), TimerError> {
        Ok((self.timer.pending()?, self.timer.pending_jobs(limit)?))
    }

    pub fn dead(&self, limit: usize) -> Result<Vec<DeadJob>, TimerError> {
        self.timer.dead(limit)
    }

    pub fn revive(&self, id: u64) -> Result<bool, TimerError> {
        self.timer.revive(id)
    }

    pub fn discard(&self, id: u64) -> Result<bool, TimerError> {
        self.timer.discard(id)
    }

    pub fn stop(&self) -> Result<(), TimerError> {
        self.timer.stop()
    }
}

/// Calls what is due.
struct Postman {
    allowed: Allowed,
    caller: Caller,
    pace: Pace,
    attempts: u32,
    backoff: (Duration, Duration),
    runtime: Handle,
}

impl Postman {
    fn deliver(&self, job: &Job) -> Outcome {
        let envelope = match Envelope::decode(job.payload()) {
            Ok(envelope) => envelope,
            Err(problem) => return Outcome::Dead(problem),
        };
        // Again, for the options may be others than when it was posted.
        let target = match self.allowed.check(&envelope.callback) {
            Ok(target) => target,
            Err(problem) => return Outcome::Dead(format!("the callback {problem}")),
        };
        let has_turn = envelope.turn == Some(unix_millis(job.due()));
        if envelope.failed > 0 && job.attempt() == 1 && !has_turn {
            // Revived or moved since: its attempts start anew.
            let fresh = Envelope {
                failed: 0,
                turn: None,
                ..envelope
            };
            return store_again(job, &fresh, job.due());
        }
        if let Some(delay) = self.wait_for_turn(&target.host, has_turn) {
            return put_off(job, envelope, delay);
        }
        let attempt = envelope.failed.saturating_add(job.attempt());
        let about = About {
            id: &envelope.id,
            key: job.key(),
            attempt,
        };
        let payload = envelope.payload.get().to_owned();
        let result = self
            .runtime
            .block_on(self.caller.call(&target, payload, about));
        self.pace.end(&target.host);
        match result {
            Ok(()) => Outcome::Done,
            Err(problem) if attempt >= self.attempts => Outcome::Dead(problem),
            // It has been stored anew since its first failure, and its timer does not know of all.
            Err(_) if envelope.failed > 0 => Outcome::RetryAfter(self.delay(attempt)),
            Err(_) => Outcome::Retry,
        }
    }

    /// `None`: it may call now. Otherwise its turn is in so long.
    fn wait_for_turn(&self, host: &str, mut has_turn: bool) -> Option<Duration> {
        let patient = Instant::now() + PATIENCE;
        loop {
            let now = Instant::now();
            match self.pace.ask(host, has_turn, now) {
                Turn::Now => return None,
                Turn::Later(delay) => return Some(delay),
                Turn::Soon(wait) => thread::sleep(wait),
            }
            // Others were faster every time.
            has_turn &= now < patient;
        }
    }

    /// The delay of the back-off after so many attempts.
    fn delay(&self, attempt: u32) -> Duration {
        let (first, most) = self.backoff;
        first
            .saturating_mul(1 << attempt.saturating_sub(1).min(30))
            .min(most)
    }
}

/// Stores the job again, for its turn.
fn put_off(job: &Job, mut envelope: Envelope, delay: Duration) -> Outcome {
    // Rounded up to a millisecond, as it will be when it comes back.
    let turn = unix_millis(SystemTime::now() + delay) + 1;
    envelope.failed = envelope.failed.saturating_add(job.attempt() - 1);
    envelope.turn = Some(turn);
    store_again(job, &envelope, UNIX_EPOCH + Duration::from_millis(turn))
}

/// Stores the job again. A kill before this outcome is stored leaves both: at least once.
fn store_again(job: &Job, envelope: &Envelope, time: SystemTime) -> Outcome {
    let bytes = envelope.encode();
    let again = || job.timer().job(KIND).payload(bytes.clone());
    let stored = match job.key().map(|key| again().key(key).at(time)) {
        // Its key has been given to another job meanwhile.
        None | Some(Ok(Scheduled::Kept)) => again().at(time),
        Some(stored) => stored,
    };
    match stored {
        Ok(_) => Outcome::Done,
        // The service is being stopped.
        Err(_) => Outcome::Retry,
    }
}

/// Milliseconds since 1970.
pub fn unix_millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

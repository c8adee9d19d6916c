//! Lists of stored jobs, in pages.

use std::time::SystemTime;

use hashed_wheel_durable::{
    DeadJob, DurableTimer, Error as TimerError, JobFilter, JobInfo, JobState, PendingJob,
};

use super::Envelope;

/// Jobs that are read at a time when a text is looked for.
const CHUNK: usize = 1000;

/// The most jobs that are read for one page.
const MOST_READ: usize = 20 * CHUNK;

/// A stored job.
#[derive(Debug)]
pub struct Listed {
    /// Its number in the store.
    pub number: u64,
    pub key: Option<String>,
    pub payload: Vec<u8>,
    pub due: SystemTime,
    pub attempts: u32,
    pub claimed: bool,
    pub dead: bool,
    pub error: Option<String>,
}

impl From<PendingJob> for Listed {
    fn from(job: PendingJob) -> Listed {
        Listed {
            number: job.id,
            key: job.key,
            payload: job.payload,
            due: job.due,
            attempts: job.attempts,
            claimed: job.claimed,
            dead: false,
            error: None,
        }
    }
}

impl From<JobInfo> for Listed {
    fn from(job: JobInfo) -> Listed {
        Listed {
            number: job.id,
            key: job.key,
            payload: job.payload,
            due: job.due,
            attempts: job.attempts,
            claimed: job.state == JobState::Running,
            dead: job.state == JobState::Dead,
            error: job.last_error,
        }
    }
}

impl From<DeadJob> for Listed {
    fn from(job: DeadJob) -> Listed {
        Listed {
            number: job.id,
            key: job.key,
            payload: job.payload,
            due: job.died,
            attempts: job.attempts,
            claimed: false,
            dead: true,
            error: Some(job.last_error),
        }
    }
}

/// Which jobs are meant.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    pub dead: bool,
    /// Those after this number.
    pub after: u64,
    pub limit: usize,
    pub key: Option<String>,
    /// A text in the key, the callback, the id or the error.
    pub search: Option<String>,
}

impl Wanted {
    fn matches(&self, job: &Listed) -> bool {
        let Some(text) = self.search.as_deref() else {
            return true;
        };
        let within = |field: &str| field.contains(text);
        job.key.as_deref().is_some_and(within)
            || job.error.as_deref().is_some_and(within)
            || Envelope::decode(&job.payload)
                .is_ok_and(|envelope| within(&envelope.callback) || envelope.id == text)
    }
}

/// A page, and the number after which the next one begins, if there may be one.
pub(super) fn page(
    timer: &DurableTimer,
    wanted: &Wanted,
) -> Result<(Vec<Listed>, Option<u64>), TimerError> {
    let chunk = if wanted.search.is_some() {
        CHUNK
    } else {
        wanted.limit
    };
    let mut filter = JobFilter::new().limit(chunk);
    if let Some(key) = &wanted.key {
        filter = filter.key(key);
    }
    let (mut found, mut after, mut read) = (Vec::new(), wanted.after, 0);
    loop {
        let jobs: Vec<Listed> = if wanted.dead {
            let jobs = timer.dead_where(filter.clone().after(after))?;
            jobs.into_iter().map(Listed::from).collect()
        } else {
            let jobs = timer.jobs(filter.clone().after(after))?;
            jobs.into_iter().map(Listed::from).collect()
        };
        let (last, full) = (jobs.last().map(|job| job.number), jobs.len() == chunk);
        read += jobs.len();
        for job in jobs {
            after = job.number;
            if job.dead == wanted.dead && wanted.matches(&job) {
                found.push(job);
                if found.len() == wanted.limit {
                    let more = full || Some(after) != last;
                    return Ok((found, more.then_some(after)));
                }
            }
        }
        if !full {
            return Ok((found, None));
        }
        if read >= MOST_READ {
            return Ok((found, Some(after)));
        }
    }
}

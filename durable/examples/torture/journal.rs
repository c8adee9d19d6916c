//! What a child writes down, one line for each event, in one write: a kill leaves whole lines, or one that is cut off.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) struct Journal(File);

impl Journal {
    pub(crate) fn open(path: &Path) -> std::io::Result<Journal> {
        Ok(Journal(
            OpenOptions::new().create(true).append(true).open(path)?,
        ))
    }

    /// To a pipe, which has no limit.
    pub(crate) fn stdout() -> std::io::Result<Journal> {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd;
            let pipe = std::io::stdout().as_fd().try_clone_to_owned()?;
            Ok(Journal(File::from(pipe)))
        }
        #[cfg(not(unix))]
        Err(std::io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn write(&self, event: &Event) {
        let line = format!("{}\n", event.text());
        (&self.0)
            .write_all(line.as_bytes())
            .expect("the journal can be written");
    }
}

/// Microseconds since 1970.
pub(crate) fn micros(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_micros() as i64)
}

/// Jobs have numbers; times are microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A child has begun.
    Begin {
        incarnation: u64,
    },
    /// Its store is open.
    Opened,
    /// About to schedule.
    Schedule {
        job: u64,
        due: i64,
    },
    Scheduled {
        job: u64,
    },
    /// About to replace `old`, under its key.
    Replace {
        job: u64,
        old: u64,
        due: i64,
    },
    Replaced {
        job: u64,
        old: u64,
        new: bool,
    },
    Move {
        job: u64,
        due: i64,
    },
    Moved {
        job: u64,
        done: bool,
    },
    Cancel {
        job: u64,
    },
    Cancelled {
        job: u64,
        done: bool,
        now: i64,
    },
    /// A handler begins.
    Run {
        job: u64,
        attempt: u32,
        now: i64,
        due: i64,
        token: u64,
    },
    /// A handler is about to answer `Done`, or `Retry`.
    Done {
        job: u64,
        token: u64,
        now: i64,
    },
    Retry {
        job: u64,
        token: u64,
        now: i64,
    },
    /// An outcome was refused: the claim belongs to another process by now.
    Refused,
    /// A call got an error.
    Failed,
    /// Found among the dead.
    Dead {
        job: u64,
        attempts: u32,
    },
    /// Nothing is pending any more.
    Empty,
}

impl Event {
    fn text(&self) -> String {
        let numbers = |name: &str, numbers: &[i64]| {
            numbers
                .iter()
                .fold(name.to_owned(), |text, number| format!("{text} {number}"))
                + " ."
        };
        match *self {
            Event::Begin { incarnation } => numbers("begin", &[incarnation as i64]),
            Event::Opened => numbers("opened", &[]),
            Event::Schedule { job, due } => numbers("schedule", &[job as i64, due]),
            Event::Scheduled { job } => numbers("scheduled", &[job as i64]),
            Event::Replace { job, old, due } => numbers("replace", &[job as i64, old as i64, due]),
            Event::Replaced { job, old, new } => {
                numbers("replaced", &[job as i64, old as i64, new.into()])
            }
            Event::Move { job, due } => numbers("move", &[job as i64, due]),
            Event::Moved { job, done } => numbers("moved", &[job as i64, done.into()]),
            Event::Cancel { job } => numbers("cancel", &[job as i64]),
            Event::Cancelled { job, done, now } => {
                numbers("cancelled", &[job as i64, done.into(), now])
            }
            Event::Run {
                job,
                attempt,
                now,
                due,
                token,
            } => numbers("run", &[job as i64, attempt.into(), now, due, token as i64]),
            Event::Done { job, token, now } => numbers("done", &[job as i64, token as i64, now]),
            Event::Retry { job, token, now } => numbers("retry", &[job as i64, token as i64, now]),
            Event::Refused => numbers("refused", &[]),
            Event::Failed => numbers("failed", &[]),
            Event::Dead { job, attempts } => numbers("dead", &[job as i64, attempts.into()]),
            Event::Empty => numbers("empty", &[]),
        }
    }

    /// `None` for a line that was cut off.
    pub(crate) fn parse(line: &str) -> Option<Event> {
        let mut words = line.strip_suffix(" .")?.split(' ');
        let name = words.next()?;
        let numbers: Vec<i64> = words.map(str::parse).collect::<Result<_, _>>().ok()?;
        let job = || numbers.first().map(|&number| number as u64);
        let at = |index: usize| numbers.get(index).copied();
        Some(match name {
            "begin" => Event::Begin {
                incarnation: job()?,
            },
            "opened" => Event::Opened,
            "schedule" => Event::Schedule {
                job: job()?,
                due: at(1)?,
            },
            "scheduled" => Event::Scheduled { job: job()? },
            "replace" => Event::Replace {
                job: job()?,
                old: at(1)? as u64,
                due: at(2)?,
            },
            "replaced" => Event::Replaced {
                job: job()?,
                old: at(1)? as u64,
                new: at(2)? != 0,
            },
            "move" => Event::Move {
                job: job()?,
                due: at(1)?,
            },
            "moved" => Event::Moved {
                job: job()?,
                done: at(1)? != 0,
            },
            "cancel" => Event::Cancel { job: job()? },
            "cancelled" => Event::Cancelled {
                job: job()?,
                done: at(1)? != 0,
                now: at(2)?,
            },
            "run" => Event::Run {
                job: job()?,
                attempt: at(1)? as u32,
                now: at(2)?,
                due: at(3)?,
                token: at(4)? as u64,
            },
            "done" => Event::Done {
                job: job()?,
                token: at(1)? as u64,
                now: at(2)?,
            },
            "retry" => Event::Retry {
                job: job()?,
                token: at(1)? as u64,
                now: at(2)?,
            },
            "refused" => Event::Refused,
            "failed" => Event::Failed,
            "dead" => Event::Dead {
                job: job()?,
                attempts: at(1)? as u32,
            },
            "empty" => Event::Empty,
            _ => return None,
        })
    }
}

//! The account: what the journals say about every job, against the rules and against what the database has seen.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use super::text;
use super::watch::Ended;
use crate::journal::Event;

/// What the journals say.
#[derive(Default)]
pub(super) struct Account {
    jobs: HashMap<u64, Job>,
    /// By token: runs that have begun, and how and when they were about to end.
    runs: HashMap<u64, Option<(&'static str, i64)>>,
    pub(super) promised: u64,
    pub(super) cancelled: u64,
    pub(super) refused: u64,
    /// Calls that got an error: the database was away for too long.
    pub(super) failed: u64,
}

/// One job.
#[derive(Debug, Default)]
struct Job {
    promised: bool,
    /// A cancel was under way, and nobody knows whether it took place.
    doubtful: bool,
    /// When its cancel had been acknowledged.
    cancelled: Option<i64>,
    /// Token, when it began, when it was due.
    runs: Vec<(u64, i64, i64)>,
    /// Tokens of the runs that ended with `Done`.
    done: Vec<u64>,
}

impl Account {
    /// Reads all journals of a folder.
    pub(super) fn read(folder: &Path) -> Result<Account, String> {
        let mut account = Account::default();
        for entry in fs::read_dir(folder).map_err(text)?.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|name| name == "journal") {
                let lines = fs::read_to_string(path).map_err(text)?;
                lines
                    .lines()
                    .filter_map(Event::parse)
                    .for_each(|event| account.note(event));
            }
        }
        let of = |is: fn(&Job) -> bool| account.jobs.values().filter(|job| is(job)).count() as u64;
        let (promised, cancelled) = (of(|job| job.promised), of(|job| job.cancelled.is_some()));
        (account.promised, account.cancelled) = (promised, cancelled);
        Ok(account)
    }

    fn job(&mut self, job: u64) -> &mut Job {
        self.jobs.entry(job).or_default()
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Scheduled { job } => self.job(job).promised = true,
            Event::Cancel { job } => self.job(job).doubtful = true,
            Event::Cancelled { job, done, now } => {
                let job = self.job(job);
                job.doubtful = false;
                job.cancelled = done.then_some(now);
            }
            Event::Run {
                job,
                now,
                due,
                token,
                ..
            } => {
                self.job(job).runs.push((token, now, due));
                self.runs.entry(token).or_default();
            }
            Event::Done { job, token, now } => {
                self.job(job).done.push(token);
                self.runs.insert(token, Some(("done", now)));
            }
            Event::Retry { token, now, .. } => {
                self.runs.insert(token, Some(("retry", now)));
            }
            Event::Refused => self.refused += 1,
            Event::Failed => self.failed += 1,
            _ => {}
        }
    }

    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    pub(super) fn check(&self, ended: &HashMap<u64, Ended>) -> Result<(), String> {
        for (number, job) in &self.jobs {
            job.check()
                .map_err(|problem| format!("{problem}: job {number}: {job:?}"))?;
        }
        for (token, Ended { how, at }) in ended {
            let run = self.runs.get(token);
            let right = if how == "back" {
                // Its handler has not begun.
                run.is_none()
            } else {
                // The database and the processes have the same clock here.
                matches!(run, Some(Some((outcome, now))) if outcome == how && now <= at)
            };
            if !right {
                return Err(format!(
                    "a stale acknowledgement was taken: the claim with token {token} was ended ({how}) at {at}, its own run: {run:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Job {
    fn check(&self) -> Result<(), &'static str> {
        if self.runs.iter().any(|&(_, now, due)| now < due) {
            return Err("EARLY");
        }
        if let Some(cancelled) = self.cancelled {
            return if self.runs.iter().any(|&(_, now, _)| now > cancelled) {
                Err("run after its cancel was acknowledged")
            } else {
                Ok(())
            };
        }
        let last = self.runs.iter().map(|&(token, ..)| token).max();
        if self.promised && !self.doubtful && last.is_none_or(|last| !self.done.contains(&last)) {
            return Err("LOST: acknowledged, and its last run was not done");
        }
        Ok(())
    }
}

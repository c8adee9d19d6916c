//! The account: what the journal says, against the rules.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use crate::child::{PERIOD, POISON_ATTEMPTS, POISON_JOB, SLOTS};
use crate::journal::Event;

#[derive(Debug, Default, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct Account {
    /// The store has promised to run it.
    promised: bool,
    /// It must not run (again).
    withdrawn: bool,
    /// A cancel or replacement was under way at a kill: it may run or not.
    doubtful: bool,
    /// No run may begin before. While a move is under way: the earlier one of both times.
    not_before: i64,
    /// Where a move under way goes to.
    moving: Option<i64>,
    runs: u32,
    done: bool,
    /// The incarnation of its last end, and whether that was `Retry`.
    ended: Option<(u64, bool)>,
}

#[derive(Debug, Default)]
pub(crate) struct Verifier {
    jobs: HashMap<u64, Account>,
    read: u64,
    incarnation: u64,
    opened: bool,
    promised: u64,
    runs: u64,
    again: u64,
    finished: u64,
    cancelled: u64,
    moved: u64,
    settled: u64,
    failed: u64,
    /// Runs of the recurring job, one for each of its times, and one of these, since the account was settled.
    slots: u64,
    first_slot: Option<u64>,
    /// Kills that found the child opening or recovering, with a call under way, with a handler running, or none of these.
    opening: u64,
    calling: u64,
    running: u64,
    resting: u64,
    calls: i64,
    handlers: i64,
}

impl Verifier {
    /// Calls that got an error.
    pub(crate) fn failed(&self) -> u64 {
        self.failed
    }

    pub(crate) fn line(&self) -> String {
        format!(
            "{} promised  {} runs, {} of them again  {} cancelled  {} moved  {} settled",
            self.promised, self.runs, self.again, self.cancelled, self.moved, self.settled
        )
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} jobs were acknowledged, 0 lost, 0 early, 0 run after their cancel; {} runs, {} of them again after a kill. \
             {} times of a recurring job, one run for each. \
             Kills found the child opening or recovering {} times, with a call under way {}, with a handler running {}, at rest {}.",
            self.promised,
            self.runs,
            self.again,
            self.slots,
            self.opening,
            self.calling,
            self.running,
            self.resting
        )
    }

    fn read(&mut self, journal: &Path) -> Result<(), String> {
        let text = fs::read(journal).unwrap_or_default();
        let new =
            String::from_utf8_lossy(&text[(self.read as usize).min(text.len())..]).into_owned();
        self.read = text.len() as u64;
        for line in new.lines() {
            if let Some(event) = Event::parse(line) {
                self.event(event)
                    .map_err(|violation| format!("{violation} (at {line:?})"))?;
            }
        }
        Ok(())
    }

    /// A child was killed.
    pub(crate) fn killed(&mut self, journal: &Path) -> Result<(), String> {
        let before = self.incarnation;
        self.opened = false;
        (self.calls, self.handlers) = (0, 0);
        self.read(journal)?;
        if self.incarnation == before || !self.opened {
            self.opening += 1;
        } else if self.handlers > 0 {
            self.running += 1;
        } else if self.calls > 0 {
            self.calling += 1;
        } else {
            self.resting += 1;
        }
        // What was under way may have taken place or not.
        for account in self.jobs.values_mut() {
            if let Some(to) = account.moving.take() {
                account.not_before = account.not_before.min(to);
            }
        }
        Ok(())
    }

    /// A child has finished all jobs.
    pub(crate) fn settled(&mut self, journal: &Path) -> Result<(), String> {
        self.finished = 0;
        self.read(journal)?;
        if self.finished == 0 {
            return Err(
                "the child that should finish all jobs did not say that none is left".into(),
            );
        }
        for (job, account) in &self.jobs {
            if account.promised && !account.withdrawn && !account.doubtful && !account.done {
                return Err(format!(
                    "LOST: job {job} was acknowledged and has not been done: {account:?}"
                ));
            }
        }
        self.settled += self.jobs.len() as u64;
        self.first_slot = None;
        self.jobs.clear();
        self.read = 0;
        Ok(())
    }

    fn event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Begin { incarnation } => self.incarnation = incarnation,
            Event::Opened => self.opened = true,
            Event::Schedule { job, due } => {
                self.calls += 1;
                self.jobs.insert(
                    job,
                    Account {
                        not_before: due,
                        ..Account::default()
                    },
                );
            }
            Event::Scheduled { job } => {
                self.calls -= i64::from(job != SLOTS);
                self.promised += u64::from(job != SLOTS);
                self.account(job)?.promised = true;
            }
            Event::Replace { job, old, due } => {
                self.calls += 1;
                self.jobs.insert(
                    job,
                    Account {
                        not_before: due,
                        ..Account::default()
                    },
                );
                self.account(old)?.doubtful = true;
            }
            Event::Replaced { job, old, new } => {
                self.calls -= 1;
                self.promised += 1;
                self.account(job)?.promised = true;
                let old = self.account(old)?;
                old.doubtful = false;
                old.withdrawn = !new;
            }
            Event::Move { job, due } => {
                self.calls += 1;
                let account = self.account(job)?;
                // An earlier move may have taken place, though its call got an error.
                if let Some(to) = account.moving.replace(due) {
                    account.not_before = account.not_before.min(to);
                }
            }
            Event::Moved { job, done } => {
                self.calls -= 1;
                self.moved += u64::from(done);
                let account = self.account(job)?;
                if let (Some(to), true) = (account.moving.take(), done) {
                    account.not_before = to;
                }
            }
            Event::Cancel { job } => {
                self.calls += 1;
                self.account(job)?.doubtful = true;
            }
            Event::Cancelled { job, done, .. } => {
                self.calls -= 1;
                self.cancelled += u64::from(done);
                let account = self.account(job)?;
                account.doubtful = false;
                account.withdrawn = done;
            }
            Event::Run { job, now, due, .. } => self.run(job, now, due)?,
            Event::Done { job, .. } => self.end(job, false)?,
            Event::Retry { job, .. } => self.end(job, true)?,
            Event::Failed => {
                self.calls -= 1;
                self.failed += 1;
            }
            Event::Refused => return Err("an outcome was refused".into()),
            Event::Dead { job, .. } => return Err(format!("job {job} is dead")),
            Event::Empty => self.finished += 1,
        }
        Ok(())
    }

    fn account(&mut self, job: u64) -> Result<&mut Account, String> {
        if job == SLOTS {
            return Ok(self.jobs.entry(job).or_default());
        }
        self.jobs
            .get_mut(&job)
            .ok_or_else(|| format!("job {job} is not known"))
    }

    fn run(&mut self, job: u64, now: i64, due: i64) -> Result<(), String> {
        let incarnation = self.incarnation;
        self.handlers += 1;
        self.runs += 1;
        if job > SLOTS && !self.jobs.contains_key(&job) {
            let first = *self.first_slot.get_or_insert(job);
            if !first
                .abs_diff(job)
                .is_multiple_of(PERIOD.as_micros() as u64)
            {
                return Err(format!(
                    "the recurring job runs for {due}, which is none of its times"
                ));
            }
            self.slots += 1;
            // It was stored, or it would not run.
            let account = self.jobs.entry(job).or_default();
            (account.promised, account.not_before) = (true, due);
        } else if job > SLOTS {
            // Killed a second time, it has another due time, and is not known again.
            self.account(job)?.doubtful = true;
        }
        let account = self.account(job)?;
        if account.withdrawn {
            return Err(format!(
                "job {job} runs after its cancel or replacement was acknowledged"
            ));
        }
        let not_before = account
            .moving
            .map_or(account.not_before, |to| to.min(account.not_before));
        if now < due || now < not_before {
            return Err(format!(
                "EARLY: job {job} runs at {now}, due {due}, not before {not_before}"
            ));
        }
        let again = account.runs > 0 && !matches!(account.ended, Some((_, true)));
        if let Some((ended, false)) = account.ended
            && ended == incarnation
        {
            return Err(format!(
                "job {job} was done and runs again, though nothing was killed in between"
            ));
        }
        account.runs += 1;
        self.again += u64::from(again);
        Ok(())
    }

    fn end(&mut self, job: u64, retry: bool) -> Result<(), String> {
        let incarnation = self.incarnation;
        self.handlers -= 1;
        let account = self.account(job)?;
        account.done |= !retry;
        account.ended = Some((incarnation, retry));
        Ok(())
    }
}

/// Checks a round with a job that aborts the process.
pub(crate) fn poison_round(journal: &Path, deaths: u32) -> Result<(), String> {
    let text = fs::read_to_string(journal).map_err(|error| error.to_string())?;
    let mut promised = Vec::new();
    let mut done = HashMap::new();
    let mut dead = None;
    let mut aborted = 0;
    for event in text.lines().filter_map(Event::parse) {
        match event {
            Event::Scheduled { job } => promised.push(job),
            Event::Run {
                job: POISON_JOB, ..
            } => aborted += 1,
            Event::Run { job, attempt, .. } if attempt > 1 => {
                return Err(format!(
                    "job {job}, a bystander, was charged: attempt {attempt}"
                ));
            }
            Event::Done { job, .. } => *done.entry(job).or_insert(0) += 1,
            Event::Dead {
                job: POISON_JOB,
                attempts,
            } => dead = Some(attempts),
            Event::Dead { job, .. } => return Err(format!("job {job}, a bystander, is dead")),
            _ => {}
        }
    }
    promised.retain(|&job| job != POISON_JOB);
    if let Some(job) = promised.iter().find(|job| !done.contains_key(job)) {
        return Err(format!(
            "LOST: job {job}, a bystander of the one that aborts the process"
        ));
    }
    match dead {
        Some(POISON_ATTEMPTS) if deaths == POISON_ATTEMPTS + 1 && aborted == deaths => Ok(()),
        other => Err(format!(
            "the job that aborts the process: {deaths} deaths, {aborted} runs, dead after {other:?} attempts"
        )),
    }
}

//! What is done to the processes and the server.
//!
//! Most of it is at random. One fault is deliberate, because chance shows it too seldom: a process is stopped while one of its handlers runs, until another process has
//! taken the job over and runs it. Then it goes on, and its acknowledgement comes while the other holds the claim.

use std::process::{Child, ChildStdin, Command};
use std::time::{Duration, Instant};

use super::process::SLOW;
use super::{LEASE, PROCESSES, Torture, watch};

/// One of the eight, in its present incarnation.
pub(super) struct Process {
    pub(super) child: Child,
    /// Its end has the process stop its timer and end.
    pub(super) lifeline: Option<ChildStdin>,
    stopped: Option<Stopped>,
    /// It is not killed or stopped before: its acknowledgement is waited for, or it has taken a job over.
    spared: Option<Instant>,
}

/// Until when a process is stopped.
enum Stopped {
    Until(Instant),
    /// Until another process has claimed this job, or this time.
    TakenOver {
        id: i64,
        token: i64,
        at_most: Instant,
    },
}

impl Process {
    pub(super) fn new(mut child: Child) -> Process {
        Process {
            lifeline: child.stdin.take(),
            child,
            stopped: None,
            spared: None,
        }
    }

    fn is_spared(&self) -> bool {
        matches!(self.stopped, Some(Stopped::TakenOver { .. }))
            || self.spared.is_some_and(|until| until > Instant::now())
    }

    fn stop(&mut self, stopped: Stopped) -> Result<(), String> {
        signal("-STOP", &self.child)?;
        self.stopped = Some(stopped);
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), String> {
        self.stopped = None;
        signal("-CONT", &self.child)
    }

    /// Long enough for the handler to end and its outcome to be sent.
    fn spare(&mut self) {
        self.spared = Some(Instant::now() + 2 * LEASE);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal that the standard library has no name for.
fn signal(name: &str, child: &Child) -> Result<(), String> {
    Command::new("kill")
        .arg(name)
        .arg(child.id().to_string())
        .status()
        .map(drop)
        .map_err(|error| format!("kill {name}: {error}"))
}

/// What was done.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) kills: u64,
    pub(super) stops: u64,
    /// Of the stops: until another process ran the same job.
    pub(super) overtaken: u64,
    pub(super) cuts: u64,
    pub(super) restarts: u64,
    /// Statements that were cancelled.
    pub(super) cancels: u64,
    /// Times in which all writes were refused, or the table was locked.
    pub(super) refusals: u64,
    pub(super) locks: u64,
    pub(super) poison_rounds: u64,
}

impl Torture {
    /// Lets those go on whose time has come, or all.
    pub(super) fn resume(&mut self, all: bool) -> Result<(), String> {
        for number in 0..self.processes.len() {
            let go_on = match self.processes[number].stopped {
                None => false,
                Some(Stopped::Until(until)) => until <= Instant::now(),
                Some(Stopped::TakenOver { id, token, at_most }) => {
                    self.is_taken_over(id, token)? || at_most <= Instant::now()
                }
            };
            let process = &mut self.processes[number];
            if process.stopped.is_some() && (go_on || all) {
                process.go_on()?;
            }
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(format!("a process ended by itself: {status}"));
            }
        }
        Ok(())
    }

    /// Has a job been claimed again? Then both who claimed it are left alone for a while.
    fn is_taken_over(&mut self, id: i64, token: i64) -> Result<bool, String> {
        let sql = format!(
            "SELECT claimed_by FROM durable_jobs WHERE id = {id} AND state = 2 AND token <> {token}"
        );
        let rows = watch::ask(&self.server, &sql)?;
        let Some(row) = rows.first() else {
            return Ok(false);
        };
        self.counts.overtaken += 1;
        if let Some(number) = place(row.get(0)) {
            self.processes[number].spare();
        }
        Ok(true)
    }

    /// Stops a process that runs a slow handler, unless two are stopped so: somebody has to take over. False if there is none.
    fn stop_inside(&mut self) -> Result<bool, String> {
        let inside =
            |process: &&Process| matches!(process.stopped, Some(Stopped::TakenOver { .. }));
        if self.processes.iter().filter(inside).count() >= 2 {
            return Ok(false);
        }
        let sql = format!(
            "SELECT id, token, claimed_by FROM durable_jobs WHERE state = 2 AND kind = '{SLOW}'
                AND due <= extract(epoch FROM clock_timestamp()) * 1000 ORDER BY token DESC"
        );
        for row in watch::ask(&self.server, &sql)? {
            let Some(number) = place(row.get(2)) else {
                continue;
            };
            let process = &mut self.processes[number];
            let present = row
                .get::<_, &str>(2)
                .ends_with(&format!("-{}", self.incarnations[number]));
            if present && process.stopped.is_none() && !process.is_spared() {
                process.spare();
                process.stop(Stopped::TakenOver {
                    id: row.get(0),
                    token: row.get(1),
                    at_most: Instant::now() + 5 * LEASE,
                })?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Does something at random.
    pub(super) fn harm(&mut self) -> Result<(), String> {
        let number = self.random.below(PROCESSES as u64) as usize;
        let spared = self.processes[number].is_spared();
        match self.random.below(100) {
            0..35 if !spared => {
                self.counts.kills += 1;
                // A stopped one as well.
                self.processes[number] = self.spawn(number)?;
            }
            35..55 if !spared && self.processes[number].stopped.is_none() => {
                self.counts.stops += 1;
                // Most of them beyond the lease.
                let time = LEASE / 10 * (8 + self.random.below(12) as u32);
                self.processes[number].stop(Stopped::Until(Instant::now() + time))?;
            }
            55..75 => self.counts.stops += u64::from(self.stop_inside()?),
            75..80 => {
                let sql = format!(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'process-{number}-%' AND state = 'active'"
                );
                self.counts.cancels += watch::ask(&self.server, &sql)?.len() as u64;
            }
            80..82 => {
                self.counts.refusals += 1;
                watch::ask(
                    &self.server,
                    "INSERT INTO refusing SELECT clock_timestamp() + interval '300 ms'",
                )?;
            }
            82..84 => {
                self.counts.locks += 1;
                watch::lock(&self.server, Duration::from_millis(300));
            }
            84..99 => {
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'process-{number}-%'"
                );
                self.counts.cuts += watch::ask(&self.server, &sql)?.len() as u64;
            }
            99 => {
                self.counts.restarts += 1;
                let mode = ["fast", "immediate"][self.random.below(2) as usize];
                self.server.end(mode);
                self.server.begin();
            }
            _ => {}
        }
        Ok(())
    }

    /// How long until something is done again.
    pub(super) fn pause(&mut self) -> Duration {
        Duration::from_micros(self.random.below(100_000))
    }
}

/// The place of a process among the eight, from its name.
fn place(name: &str) -> Option<usize> {
    name.split('-').nth(1)?.parse().ok()
}

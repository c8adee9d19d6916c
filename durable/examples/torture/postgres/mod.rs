//! `torture --postgres`: eight processes on one database, killed, stopped beyond their leases, their connections cut, the server restarted.
//!
//! Two sides keep the account. Every process writes down its calls and the runs of its handlers, as in the other form. And the database watches the table: a trigger
//! notes who has claimed a job, and writes down a violation when
//!
//! - a claim is taken over while its lease is valid;
//! - a claim is ended by anybody but the process that holds it, so that a stale acknowledgement was not refused;
//! - a claim is made more than its 50 ms ahead;
//! - a job is stored twice.
//!
//! In the end every acknowledged job has to be done (by the run with its latest token, which is the one that counts) or cancelled, and none was early.

use std::collections::HashMap;
use std::error::Error;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{env, fs, io, process, thread};

use hashed_wheel_durable::DurableTimer;
use hashed_wheel_durable::postgres::{Client, NoTls};

use crate::child::{self, ROLE, handle, key, number, variable};
use crate::journal::{Event, Journal, micros};
use crate::server::Server;
use crate::{Folder, Options, Random, Until, verify};

const PROCESSES: usize = 8;

/// Threads of each process that call the timer.
const CALLERS: u64 = 2;

/// Short, so that a process can be stopped for longer.
const LEASE: Duration = Duration::from_secs(1);

/// A process tries so long to open its timer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How far the clocks of the processes are apart, where the defect `clock` has them used.
const CLOCK_AHEAD: i64 = 1500;

/// The watch of the database.
const WATCH: &str = "
    CREATE TABLE violation (text text);
    CREATE TABLE stored (payload bytea PRIMARY KEY);
    CREATE TABLE taken_over (id bigint);
    ALTER TABLE durable_jobs ADD claimed_by text;
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        who text := current_setting('application_name');
        now_ms bigint := extract(epoch FROM clock_timestamp()) * 1000;
    BEGIN
        IF TG_OP = 'INSERT' THEN
            INSERT INTO stored VALUES (NEW.payload) ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                INSERT INTO violation VALUES (format('a job was stored twice: %s', NEW));
            END IF;
            RETURN NEW;
        END IF;
        IF OLD.state = 2 AND OLD.claimed_by <> who THEN
            IF TG_OP = 'UPDATE' AND NEW.state IN (1, 3) AND NEW.token IS NULL AND OLD.lease <= clock_timestamp() THEN
                INSERT INTO taken_over VALUES (OLD.id);
            ELSIF TG_OP = 'UPDATE' AND NEW.state IN (1, 3) THEN
                INSERT INTO violation VALUES (format('%s took over a claim within its lease: %s', who, OLD));
            ELSE
                INSERT INTO violation VALUES (format('%s ended or changed a claim that it does not hold: %s', who, OLD));
            END IF;
        END IF;
        IF TG_OP = 'DELETE' THEN
            RETURN OLD;
        END IF;
        IF NEW.state = 2 AND OLD.state <> 2 THEN
            NEW.claimed_by := who;
            IF NEW.due > now_ms + 60 THEN
                INSERT INTO violation VALUES (format('%s claimed a job at %s, too early: %s', who, now_ms, NEW));
            END IF;
        END IF;
        RETURN NEW;
    END $$;
    CREATE TRIGGER watch BEFORE INSERT OR UPDATE OR DELETE ON durable_jobs FOR EACH ROW EXECUTE FUNCTION watch();";

pub(crate) fn run(options: Options, folder: Folder) -> Result<(), Box<dyn Error>> {
    let Some(server) = Server::start() else {
        return Ok(());
    };
    // Makes the table.
    DurableTimer::builder()
        .open_postgres(&server.url())?
        .stop()?;
    Client::connect(&server.url(), NoTls)?.batch_execute(WATCH)?;
    let mut torture = Torture {
        server,
        folder: folder.0.clone(),
        random: Random(options.seed),
        broken: options.broken,
        processes: Vec::new(),
        incarnation: 0,
        counts: Counts::default(),
        started: Instant::now(),
    };
    let verdict = torture.run(&options.until);
    torture.line();
    match verdict {
        Ok(account) => {
            println!("verdict: held. {account}");
            Ok(())
        }
        Err(violation) => {
            println!("verdict: VIOLATED: {violation}");
            // The journals are evidence, unless the defect was asked for.
            if torture.broken.is_some() {
                drop(folder);
            }
            drop(torture);
            process::exit(1);
        }
    }
}

/// What was done to the processes and the server.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    stops: u64,
    cuts: u64,
    restarts: u64,
    poison_rounds: u64,
}

struct Torture {
    server: Server,
    folder: PathBuf,
    random: Random,
    broken: Option<String>,
    processes: Vec<Process>,
    incarnation: u64,
    counts: Counts,
    started: Instant,
}

/// One of the eight, in its present incarnation.
struct Process {
    child: Child,
    /// Its end has the process stop its timer and end.
    lifeline: Option<ChildStdin>,
    /// When it is to go on, if it was stopped.
    stopped_until: Option<Instant>,
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

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Torture {
    fn line(&self) {
        let Counts {
            kills,
            stops,
            cuts,
            restarts,
            poison_rounds,
        } = self.counts;
        println!(
            "{:>5} s  {kills:>5} kills  {stops:>4} stops  {cuts:>4} connections cut  {restarts:>3} restarts  {poison_rounds:>2} poison rounds",
            self.started.elapsed().as_secs()
        );
    }

    fn run(&mut self, until: &Until) -> Result<String, String> {
        for number in 0..PROCESSES {
            let process = self.spawn(number)?;
            self.processes.push(process);
        }
        let mut told = 0;
        loop {
            self.resume(false)?;
            self.harm()?;
            thread::sleep(Duration::from_micros(self.random.below(60_000)));
            if self.started.elapsed().as_secs() >= told + 5 {
                told = self.started.elapsed().as_secs();
                self.line();
                self.check_watch()?;
                let ended = match *until {
                    Until::Time(time) => self.started.elapsed() >= time,
                    Until::Jobs(jobs) | Until::Kills(jobs) => self.stored()? >= jobs,
                };
                if ended {
                    break;
                }
            }
        }
        self.settle()?;
        self.check_watch()?;
        let account = self.account()?;
        self.poison()?;
        Ok(account)
    }

    fn spawn(&mut self, number: usize) -> Result<Process, String> {
        self.incarnation += 1;
        let url = format!(
            "{} application_name=process-{number}-{}",
            self.server.url(),
            self.incarnation
        );
        let mut command = self.command("shared", &url, "");
        // Clocks of different machines.
        if number.is_multiple_of(2) {
            command.env("HASHED_WHEEL_DURABLE_CLOCK_AHEAD", CLOCK_AHEAD.to_string());
        }
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(text)?;
        Ok(Process {
            lifeline: child.stdin.take(),
            child,
            stopped_until: None,
        })
    }

    fn command(&mut self, role: &str, url: &str, prefix: &str) -> Command {
        let mut command = Command::new(env::current_exe().expect("this program has a name"));
        command
            .env(ROLE, role)
            .env("TORTURE_URL", url)
            .env("TORTURE_PREFIX", prefix)
            .env("TORTURE_FOLDER", &self.folder)
            .env("TORTURE_INCARNATION", self.incarnation.to_string())
            .env("TORTURE_SEED", self.random.next().to_string())
            .env_remove("HASHED_WHEEL_DURABLE_BROKEN")
            .env_remove("HASHED_WHEEL_DURABLE_CLOCK_AHEAD")
            .stdin(Stdio::null());
        if let Some(defect) = &self.broken {
            command.env("HASHED_WHEEL_DURABLE_BROKEN", defect);
        }
        command
    }

    /// Lets those go on whose time has come, or all.
    fn resume(&mut self, all: bool) -> Result<(), String> {
        for process in &mut self.processes {
            if process
                .stopped_until
                .is_some_and(|until| all || until <= Instant::now())
            {
                process.stopped_until = None;
                signal("-CONT", &process.child)?;
            }
            if let Ok(Some(status)) = process.child.try_wait() {
                return Err(format!("a process ended by itself: {status}"));
            }
        }
        Ok(())
    }

    fn harm(&mut self) -> Result<(), String> {
        let number = self.random.below(PROCESSES as u64) as usize;
        match self.random.below(100) {
            0..45 => {
                self.counts.kills += 1;
                // A stopped one as well.
                self.processes[number] = self.spawn(number)?;
            }
            45..75 if self.processes[number].stopped_until.is_none() => {
                self.counts.stops += 1;
                signal("-STOP", &self.processes[number].child)?;
                // Most of them beyond the lease.
                let time = LEASE / 10 * (8 + self.random.below(12) as u32);
                self.processes[number].stopped_until = Some(Instant::now() + time);
            }
            75..98 => {
                let sql = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'process-{number}-%'"
                );
                let cut = self.ask(&sql)?.len();
                self.counts.cuts += cut as u64;
            }
            98..100 => {
                self.counts.restarts += 1;
                let mode = ["fast", "immediate"][self.random.below(2) as usize];
                self.server.end(mode);
                self.server.begin();
            }
            _ => {}
        }
        Ok(())
    }

    fn ask(&self, sql: &str) -> Result<Vec<hashed_wheel_durable::postgres::Row>, String> {
        let mut client = Client::connect(&self.server.url(), NoTls).map_err(text)?;
        client.query(sql, &[]).map_err(text)
    }

    fn stored(&self) -> Result<u64, String> {
        let stored: i64 = self.ask("SELECT count(*) FROM stored")?[0].get(0);
        Ok(stored as u64)
    }

    /// Has the database seen a violation?
    fn check_watch(&self) -> Result<(), String> {
        match self.ask("SELECT text FROM violation LIMIT 1")?.first() {
            Some(row) => Err(row.get(0)),
            None => Ok(()),
        }
    }

    /// Lets the processes finish all jobs, and ends them.
    fn settle(&mut self) -> Result<(), String> {
        self.resume(true)?;
        fs::write(self.folder.join("enough"), "").map_err(text)?;
        let started = Instant::now();
        loop {
            let left: i64 =
                self.ask("SELECT count(*) FROM durable_jobs WHERE state <= 2")?[0].get(0);
            if left == 0 {
                break;
            }
            self.resume(true)?;
            if started.elapsed() > Duration::from_secs(90) {
                return Err(format!(
                    "{left} jobs are not done a minute and a half after the last fault"
                ));
            }
            thread::sleep(Duration::from_millis(50));
        }
        for process in &mut self.processes {
            drop(process.lifeline.take());
        }
        for process in &mut self.processes {
            let status = process.child.wait().map_err(text)?;
            if !status.success() {
                return Err(format!("a process failed: {status}"));
            }
        }
        self.processes.clear();
        let dead: i64 = self.ask("SELECT count(*) FROM durable_jobs")?[0].get(0);
        if dead > 0 {
            return Err(format!("{dead} jobs are dead"));
        }
        Ok(())
    }

    /// The account of the journals.
    fn account(&self) -> Result<String, String> {
        let mut jobs: HashMap<u64, Account> = HashMap::new();
        let (mut runs, mut refused) = (0_u64, 0_u64);
        for entry in fs::read_dir(&self.folder).map_err(text)?.flatten() {
            let path = entry.path();
            if path
                .extension()
                .is_none_or(|extension| extension != "journal")
            {
                continue;
            }
            let lines = fs::read_to_string(path).map_err(text)?;
            for event in lines.lines().filter_map(Event::parse) {
                match event {
                    Event::Run { .. } => runs += 1,
                    Event::Refused => refused += 1,
                    _ => {}
                }
                if let Some((job, fact)) = fact(event) {
                    jobs.entry(job).or_default().note(fact);
                }
            }
        }
        let mut promised = 0;
        let mut cancelled = 0;
        for (job, account) in &jobs {
            account
                .check()
                .map_err(|problem| format!("{problem}: job {job}: {account:?}"))?;
            promised += u64::from(account.promised);
            cancelled += u64::from(account.cancelled.is_some());
        }
        let stored = self.stored()?;
        if stored < promised {
            return Err(format!(
                "{promised} jobs were acknowledged, {stored} were stored"
            ));
        }
        let taken: i64 = self.ask("SELECT count(*) FROM taken_over")?[0].get(0);
        Ok(format!(
            "{promised} jobs were acknowledged, 0 lost, 0 early, 0 stored twice; {cancelled} cancelled; {runs} runs; {taken} claims were taken over, \
             none within its lease; {refused} stale acknowledgements, all refused."
        ))
    }

    /// A job that aborts the process, among a hundred good ones.
    fn poison(&mut self) -> Result<(), String> {
        let prefix = format!("poison{}_", self.counts.poison_rounds);
        let url = self.server.url();
        let mut deaths = 0;
        loop {
            let mut command = self.command("shared-poison", &url, &prefix);
            if deaths > 0 {
                command.env("TORTURE_AGAIN", "1");
            }
            let status = command.status().map_err(text)?;
            if status.success() {
                break;
            }
            if status.code().is_some() {
                return Err(format!("a process failed: {status}"));
            }
            deaths += 1;
            if deaths > child::POISON_ATTEMPTS + 1 {
                return Err(format!(
                    "the job that aborts the process has done so {deaths} times"
                ));
            }
        }
        self.counts.poison_rounds += 1;
        verify::poison_round(&self.folder.join(format!("{prefix}.poison")), deaths)
    }
}

/// What the journals say about one job.
#[derive(Debug, Default)]
struct Account {
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

#[derive(Clone, Copy)]
enum Fact {
    Promised,
    Cancelling,
    Cancelled(bool, i64),
    Run(u64, i64, i64),
    Done(u64),
}

fn fact(event: Event) -> Option<(u64, Fact)> {
    match event {
        Event::Scheduled { job } => Some((job, Fact::Promised)),
        Event::Cancel { job } => Some((job, Fact::Cancelling)),
        Event::Cancelled { job, done, now } => Some((job, Fact::Cancelled(done, now))),
        Event::Run {
            job,
            now,
            due,
            token,
            ..
        } => Some((job, Fact::Run(token, now, due))),
        Event::Done { job, token } => Some((job, Fact::Done(token))),
        _ => None,
    }
}

impl Account {
    fn note(&mut self, fact: Fact) {
        match fact {
            Fact::Promised => self.promised = true,
            Fact::Cancelling => self.doubtful = true,
            Fact::Cancelled(done, now) => {
                self.doubtful = false;
                self.cancelled = done.then_some(now);
            }
            Fact::Run(token, now, due) => self.runs.push((token, now, due)),
            Fact::Done(token) => self.done.push(token),
        }
    }

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

/// A process that is killed and stopped.
pub(crate) fn child(role: &str) -> Result<(), Box<dyn Error>> {
    let folder = PathBuf::from(env::var("TORTURE_FOLDER")?);
    let url = env::var("TORTURE_URL")?;
    let (incarnation, seed) = (variable("TORTURE_INCARNATION")?, variable("TORTURE_SEED")?);
    if role == "shared-poison" {
        let prefix = env::var("TORTURE_PREFIX")?;
        let journal = Arc::new(Journal::open(&folder.join(format!("{prefix}.poison")))?);
        let again = env::var_os("TORTURE_AGAIN").is_some();
        return child::poison(again, seed, &journal, |builder| {
            let builder = builder.lease(Duration::from_millis(400));
            builder.table_prefix(prefix).open_postgres(&url)
        });
    }
    let journal = Arc::new(Journal::open(
        &folder.join(format!("{incarnation}.journal")),
    )?);
    log::set_logger(Box::leak(Box::new(Refusals(Arc::clone(&journal))))).map_err(text)?;
    log::set_max_level(log::LevelFilter::Warn);
    let timer = open(&url, &journal)?;
    thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (timer, journal, folder) = (&timer, &journal, &folder);
            scope.spawn(move || {
                let random = Random(seed ^ caller);
                call(
                    timer,
                    journal,
                    folder,
                    incarnation * CALLERS + caller,
                    random,
                );
            });
        }
    });
    // Until the parent is done with us.
    io::stdin().read_to_end(&mut Vec::new())?;
    timer.stop()?;
    Ok(())
}

/// The server may be away, or cut this connection: then it is tried again, as whatever restarts a service does.
fn open(url: &str, journal: &Arc<Journal>) -> Result<DurableTimer, Box<dyn Error>> {
    let started = Instant::now();
    loop {
        let log = Arc::clone(journal);
        let timer = DurableTimer::builder()
            .on("job", move |job| {
                // Some take most of a lease, so that another process may have the job when a stopped one is back; a few take longer than a lease.
                match number(job) % 400 {
                    0 => thread::sleep(LEASE + LEASE / 4),
                    number if number.is_multiple_of(100) => thread::sleep(LEASE / 4 * 3),
                    _ => {}
                }
                handle(&log, job)
            })
            .backoff(Duration::from_millis(4), Duration::from_millis(30))
            .max_attempts(1_000_000)
            .lease(LEASE)
            .open_postgres(url);
        match timer {
            Err(hashed_wheel_durable::Error::Store(_)) if started.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(50));
            }
            timer => return Ok(timer?),
        }
    }
}

/// Calls the timer until it is enough.
fn call(timer: &DurableTimer, journal: &Journal, folder: &Path, caller: u64, mut random: Random) {
    let mut mine: Vec<u64> = Vec::new();
    for count in 0.. {
        if count % 16 == 0 && folder.join("enough").exists() {
            return;
        }
        let job = caller << 24 | count;
        let due = SystemTime::now() + Duration::from_micros(random.below(300_000));
        let chosen = (!mine.is_empty()).then(|| mine[random.below(mine.len() as u64) as usize]);
        match (random.below(10), chosen) {
            (0, Some(job)) => {
                journal.write(&Event::Cancel { job });
                let done = timer.cancel(key(job)).expect("it can be cancelled");
                let now = micros(SystemTime::now());
                journal.write(&Event::Cancelled { job, done, now });
                mine.retain(|&other| other != job);
            }
            (1, Some(job)) => {
                timer.reschedule_at(key(job), due).expect("it can be moved");
            }
            _ => {
                let new = timer.job("job").key(key(job)).payload(job.to_le_bytes());
                new.at(due).expect("it can be scheduled");
                journal.write(&Event::Scheduled { job });
                mine.push(job);
                if mine.len() > 100 {
                    mine.remove(0);
                }
            }
        }
    }
}

/// Writes down that an outcome was refused.
struct Refusals(Arc<Journal>);

impl log::Log for Refusals {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        if record.args().to_string().contains("is refused") {
            self.0.write(&Event::Refused);
        }
    }

    fn flush(&self) {}
}

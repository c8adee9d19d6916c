//! `torture --postgres`: eight processes on one database, killed, stopped beyond their leases, their connections cut, the server restarted.
//!
//! Two sides keep the account. Every process writes down its calls and the runs of its handlers, as in the other form. And the database watches the table: see [`watch`].
//! In the end every acknowledged job has to be done (by the run with its latest token, which is the one that counts) or cancelled, none was early, and no claim
//! was ended by any run but its own.

mod account;
mod faults;
mod process;
#[path = "../../../tests/common/slow.rs"]
mod slow;
mod watch;

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use hashed_wheel_durable::DurableTimer;

use self::account::Account;
use self::faults::{Counts, Process};
pub(crate) use self::process::run as child;
use crate::child::{POISON_ATTEMPTS, ROLE};
use crate::server::Server;
use crate::{Folder, Options, Random, Until, verify};

const PROCESSES: usize = 8;

/// Short, so that a process can be stopped for longer.
const LEASE: Duration = Duration::from_secs(1);

/// How far the clocks of the processes are apart, where the defect `clock` has them used.
const CLOCK_AHEAD: i64 = 1500;

/// The jobs are asked for so often, at most, until all are done: a minute and a half. Not by the clock: everything may have been stopped for a while.
const LOOKS: u32 = 1800;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(crate) fn run(options: Options, folder: Folder) -> Result<(), Box<dyn Error>> {
    let Some(server) = Server::start() else {
        return Ok(());
    };
    // Makes the table.
    DurableTimer::builder()
        .open_postgres(&server.url())?
        .stop()?;
    watch::begin(&server)?;
    let trips = [1, 20].map(Duration::from_millis);
    let slow = trips.map(|trip| slow::start(&folder.0, server.folder(), trip));
    let slow = slow.into_iter().collect::<Result<_, _>>()?;
    let mut torture = Torture {
        slow,
        server,
        folder: folder.0.clone(),
        random: Random(options.seed),
        broken: options.broken,
        processes: Vec::new(),
        incarnations: [0; PROCESSES],
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
            std::process::exit(1);
        }
    }
}

struct Torture {
    server: Server,
    /// Ways to the server that take 1 ms and 20 ms.
    slow: Vec<PathBuf>,
    folder: PathBuf,
    random: Random,
    broken: Option<String>,
    processes: Vec<Process>,
    /// The number of the present incarnation of each.
    incarnations: [u64; PROCESSES],
    incarnation: u64,
    counts: Counts,
    started: Instant,
}

impl Torture {
    fn line(&self) {
        let Counts {
            kills,
            stops,
            overtaken,
            cuts,
            restarts,
            poison_rounds,
            cancels,
            refusals,
            locks,
        } = self.counts;
        let stored = watch::count(&self.server, "stored").unwrap_or(0);
        println!(
            "{:>5} s  {stored:>7} jobs  {kills:>5} kills  {stops:>4} stops, {overtaken} overtaken  {cuts:>4} connections cut  {restarts:>3} restarts  {cancels:>3} cancels  {refusals:>3} refusals  {locks:>3} locks  \
             {poison_rounds:>2} poison rounds",
            self.started.elapsed().as_secs()
        );
    }

    fn run(&mut self, until: &Until) -> Result<String, String> {
        for number in 0..PROCESSES {
            let process = self.spawn(number)?;
            self.processes.push(process);
        }
        let (mut looked, mut told) = (0, 0);
        loop {
            self.resume(false)?;
            self.harm()?;
            thread::sleep(self.pause());
            let now = self.started.elapsed().as_secs();
            if now > looked {
                looked = now;
                watch::check(&self.server)?;
                if now >= told + 5 {
                    told = now;
                    self.line();
                }
                let ended = match *until {
                    Until::Time(time) => self.started.elapsed() >= time,
                    Until::Jobs(jobs) | Until::Kills(jobs) => {
                        watch::count(&self.server, "stored")? >= jobs
                    }
                };
                if ended {
                    break;
                }
            }
        }
        self.settle()?;
        watch::check(&self.server)?;
        let account = self.account()?;
        self.poison()?;
        Ok(account)
    }

    fn spawn(&mut self, number: usize) -> Result<Process, String> {
        self.incarnation += 1;
        self.incarnations[number] = self.incarnation;
        let mut url = self.server.url();
        // Two of them are far away.
        if let Some(slow) = self.slow.get(number) {
            let near = self.server.folder().display().to_string();
            url = url.replace(&near, &slow.display().to_string());
        }
        let url = format!(
            "{url} application_name=process-{number}-{}",
            self.incarnation
        );
        let mut command = self.command("shared", &url, "");
        // Clocks of different machines.
        if number.is_multiple_of(2) {
            command.env("HASHED_WHEEL_DURABLE_CLOCK_AHEAD", CLOCK_AHEAD.to_string());
        }
        let child = command.stdin(Stdio::piped()).spawn().map_err(text)?;
        Ok(Process::new(child))
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

    /// Lets the processes finish all jobs, and ends them.
    fn settle(&mut self) -> Result<(), String> {
        self.resume(true)?;
        // The last fault may have been this one.
        watch::ask(&self.server, "DELETE FROM refusing")?;
        fs::write(self.folder.join("enough"), "").map_err(text)?;
        for look in 0.. {
            // A process that began before may have stored it since.
            let end = format!("SELECT durable_cancel('{}')", process::TICK);
            watch::ask(&self.server, &end)?;
            let left = watch::count(&self.server, "durable_jobs WHERE state <= 2")?;
            if left == 0 {
                break;
            }
            self.resume(true)?;
            if look > LOOKS {
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
        let dead = watch::count(&self.server, "durable_jobs WHERE state = 3")?;
        if dead > 0 {
            return Err(format!("{dead} jobs are dead"));
        }
        Ok(())
    }

    /// The account of the journals, and the trigger's.
    fn account(&self) -> Result<String, String> {
        let account = Account::read(&self.folder)?;
        let ended = watch::ended(&self.server)?;
        account.check(&ended)?;
        let stored = watch::count(&self.server, "stored")?;
        let Account {
            promised,
            cancelled,
            refused,
            failed,
            ..
        } = account;
        if stored < promised {
            return Err(format!(
                "{promised} jobs were acknowledged, {stored} were stored"
            ));
        }
        let slots = watch::count(&self.server, "slots")?;
        if slots < 10 {
            return Err(format!("a recurring job has made {slots} runs"));
        }
        Ok(format!(
            "{slots} runs of a recurring job, one for each time; {promised} jobs were acknowledged, 0 lost, 0 early, 0 stored twice; {cancelled} cancelled; {failed} calls got an error; {} runs; \
             {} claims were taken over, none within its lease; {refused} stale acknowledgements, all refused; {} claims were ended, each by its own run.",
            account.runs(),
            watch::count(&self.server, "taken_over")?,
            ended.len()
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
            if deaths > POISON_ATTEMPTS + 1 {
                return Err(format!(
                    "the job that aborts the process has done so {deaths} times"
                ));
            }
        }
        self.counts.poison_rounds += 1;
        verify::poison_round(&self.folder.join(format!("{prefix}.poison")), deaths)
    }
}

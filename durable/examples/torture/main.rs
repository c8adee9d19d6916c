//! Kills a process with durable timers again and again, and checks that nothing that was acknowledged is lost.
//!
//! The program starts itself as a child that schedules, moves, replaces and cancels jobs and runs their handlers, kills it with SIGKILL at a
//! random moment (while it opens, recovers, commits, runs a handler, …), and starts it again. Every call is written to a journal before it is made and
//! after it has returned; the parent compares the journal with the rules:
//!
//! - an acknowledged job runs to its end, unless it was cancelled or replaced: looked at every few hundred kills, when a child may finish all that is left;
//! - no job runs before its time, or after its cancel or its replacement was acknowledged;
//! - no job runs again unless a kill came before its outcome was stored;
//! - a recurring job makes one run for each of its times, and only for these;
//! - a job that aborts the process, among a hundred good ones, is dead after its attempts; the good ones are done, and none is charged;
//! - a disk that is full for a while, and a flipped bit of a closed file: see the module `disk`.
//!
//! ```text
//! cargo run --release -p hashed-wheel-durable --example torture -- --minutes 5
//! cargo run --release -p hashed-wheel-durable --example torture -- --kills 10000
//! cargo run --release -p hashed-wheel-durable --example torture -- --quick   # some seconds
//! cargo run --release -p hashed-wheel-durable --example torture --features postgres -- --postgres --jobs 300000
//! ```
//!
//! With the feature `broken`, `--broken ack` (or `claim`, `generation`, `charge`, `slot`, `full`, `flip`) runs it against a deliberate defect, which it has to find. `--postgres` is
//! the form with eight processes on one database: see the module `postgres`.

mod child;
mod disk;
mod journal;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "postgres")]
#[path = "../../tests/common/server.rs"]
mod server;
mod verify;

use std::error::Error;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, process, thread};

use disk::Flips;
use hashed_wheel_durable::DurableTimer;
use verify::Verifier;

const USAGE: &str = "\
usage: torture [--minutes N | --kills N] [--seed N] [--quick]
       torture --postgres [--minutes N | --jobs N] [--seed N] [--quick]

Kills a process with durable timers at random moments, and checks that no acknowledged job is lost.
With --postgres: eight processes on one database, which are killed and stopped, and the server with them.

  --minutes N   ends after so many minutes (1 unless told)
  --kills N     ends after so many kills
  --seed N      the same moments again, as far as the machine lets them be the same
  --quick       60 kills; with --postgres: 15 seconds
  --postgres    with the feature `postgres`
  --jobs N      with --postgres: ends after so many jobs
  --broken X    with the feature `broken`: a defect that has to be found (ack, claim, generation, charge, slot, full, flip;
                with --postgres: fencing, clock, charge)";

/// The defects that are found without a database and with one.
const DEFECTS: [&[&str]; 2] = [
    &[
        "ack",
        "claim",
        "generation",
        "charge",
        "slot",
        "full",
        "flip",
    ],
    &["fencing", "clock", "charge"],
];

/// A child may finish everything after so many kills, and the account is settled.
const SETTLE: u64 = 250;
/// A child that makes a new store is killed after so many kills of the others.
const CREATE: u64 = 10;
/// A round with a job that aborts the process after so many kills.
const POISON: u64 = 50;
/// One with a disk that is full for a while.
const FULL: u64 = 20;
/// One with a flipped bit.
const FLIP: u64 = 3;

pub(crate) struct Options {
    until: Until,
    seed: u64,
    broken: Option<String>,
    postgres: bool,
}

pub(crate) enum Until {
    Time(Duration),
    Kills(u64),
    /// With a database.
    Jobs(u64),
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}\n{USAGE}");
    process::exit(2);
}

fn options() -> Options {
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |since| since.as_nanos() as u64);
    let mut options = Options {
        until: Until::Time(Duration::from_secs(60)),
        seed: clock,
        broken: None,
        postgres: false,
    };
    let mut quick = false;
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || match args.next().map(|value| value.parse::<u64>()) {
            Some(Ok(number)) => number,
            _ => usage(&format!("{arg} needs a number")),
        };
        match arg.as_str() {
            "--minutes" => options.until = Until::Time(Duration::from_secs(60 * number())),
            "--kills" => options.until = Until::Kills(number()),
            "--seed" => options.seed = number(),
            "--jobs" => options.until = Until::Jobs(number()),
            "--quick" => quick = true,
            "--postgres" if cfg!(feature = "postgres") => options.postgres = true,
            "--postgres" => usage("--postgres needs the feature `postgres`"),
            "--broken" if cfg!(not(feature = "broken")) => {
                usage("--broken needs the feature `broken`")
            }
            "--broken" => options.broken = Some(args.next().unwrap_or_default()),
            other => usage(&format!("unknown option {other}")),
        }
    }
    if quick {
        options.until = if options.postgres {
            Until::Time(Duration::from_secs(15))
        } else {
            Until::Kills(60)
        };
    }
    match (&options.until, options.postgres) {
        (Until::Jobs(_), false) => usage("--jobs is for --postgres"),
        (Until::Kills(_), true) => usage("--kills is not for --postgres"),
        _ => {}
    }
    let defects = DEFECTS[usize::from(options.postgres)];
    if let Some(name) = &options.broken
        && !defects.contains(&name.as_str())
    {
        usage(&format!("--broken {name:?}: it must be one of {defects:?}"));
    }
    options
}

pub(crate) struct Folder(pub(crate) PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `SplitMix64`.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    if let Ok(role) = env::var(child::ROLE) {
        #[cfg(feature = "postgres")]
        if role.starts_with("shared") {
            return postgres::child(&role);
        }
        return child::run(&role);
    }
    let options = options();
    let folder = Folder(env::temp_dir().join(format!("durable-torture-{}", process::id())));
    fs::create_dir_all(&folder.0)?;
    println!("seed {}, in {}", options.seed, folder.0.display());
    #[cfg(feature = "postgres")]
    if options.postgres {
        return postgres::run(options, folder);
    }
    let mut torture = Torture {
        folder: folder.0.clone(),
        random: Random(options.seed),
        broken: options.broken,
        verifier: Verifier::default(),
        incarnation: 0,
        kills: 0,
        poison_rounds: 0,
        full_rounds: 0,
        failed: 0,
        flips: Flips::default(),
        creations: [0; 2],
        started: Instant::now(),
    };
    let verdict = torture.run(&options.until);
    torture.line();
    match verdict {
        Ok(()) => {
            let [before, after] = torture.creations;
            println!(
                "verdict: held. {} {} more kills while a store was made: {before} before it was there, {after} after. \
                 {} processes had a full disk for a while, {} of their calls got an error. A flipped bit: {} files unharmed, {} with a dead letter, {} refused. \
                 Kills of who mended such a file: {} before the new one had its name, {} after.",
                torture.verifier.summary(),
                before + after,
                torture.full_rounds,
                torture.failed,
                torture.flips.unharmed,
                torture.flips.dead,
                torture.flips.refused,
                torture.flips.mending[0],
                torture.flips.mending[1],
            );
            Ok(())
        }
        Err(violation) => {
            println!("verdict: VIOLATED: {violation}");
            // Evidence, unless the defect was asked for.
            if torture.broken.is_some() {
                drop(folder);
            }
            process::exit(1);
        }
    }
}

struct Torture {
    folder: PathBuf,
    random: Random,
    broken: Option<String>,
    verifier: Verifier,
    incarnation: u64,
    kills: u64,
    poison_rounds: u64,
    full_rounds: u64,
    /// Calls that got an error because the disk was full.
    failed: u64,
    flips: Flips,
    /// Kills of a child that was making its store: before that was there, and after.
    creations: [u64; 2],
    started: Instant,
}

impl Torture {
    fn line(&self) {
        println!(
            "{:>5} s  {:>6} kills  {:>3} poison rounds  {}",
            self.started.elapsed().as_secs(),
            self.kills,
            self.poison_rounds,
            self.verifier.line()
        );
    }

    fn run(&mut self, until: &Until) -> Result<(), String> {
        let mut told = 0;
        loop {
            let ended = match *until {
                Until::Time(time) => self.started.elapsed() >= time,
                Until::Kills(kills) | Until::Jobs(kills) => self.kills >= kills,
            };
            if ended || (self.kills > 0 && self.kills.is_multiple_of(SETTLE)) {
                self.settle()?;
            }
            if ended || self.kills % POISON == POISON / 2 {
                self.poison()?;
            }
            if ended {
                return Ok(());
            }
            if cfg!(target_os = "linux") && self.kills % FULL == FULL / 2 {
                self.full()?;
            }
            if self.kills.is_multiple_of(FLIP) {
                self.flip()?;
            }
            if self.kills.is_multiple_of(CREATE) {
                self.kill_creation()?;
            }
            self.kill_one()?;
            if self.started.elapsed().as_secs() > told {
                told = self.started.elapsed().as_secs();
                self.line();
            }
        }
    }

    fn spawn(&mut self, role: &str, store: &str, stdout: Stdio) -> Result<Child, String> {
        let command = match role {
            "full" => disk::command(),
            _ => env::current_exe().map(Command::new),
        };
        let mut command = command.map_err(|error| error.to_string())?;
        self.incarnation += 1;
        command
            .env(child::ROLE, role)
            .env("TORTURE_STORE", self.folder.join(store))
            .env("TORTURE_INCARNATION", self.incarnation.to_string())
            .env("TORTURE_SEED", self.random.next().to_string())
            .stdin(Stdio::null())
            .stdout(stdout);
        match &self.broken {
            Some(defect) => command.env("HASHED_WHEEL_DURABLE_BROKEN", defect),
            None => command.env_remove("HASHED_WHEEL_DURABLE_BROKEN"),
        };
        command
            .spawn()
            .map_err(|error| format!("cannot start a child: {error}"))
    }

    /// Lets a child work for a moment and kills it.
    fn kill_one(&mut self) -> Result<(), String> {
        let mut child = self.spawn("work", "store.redb", Stdio::piped())?;
        // One in four while it opens and recovers, the others at work.
        let life = if self.random.below(4) == 0 {
            self.random.below(8_000)
        } else {
            // Says that it is open.
            let output = child.stdout.as_mut().map(|output| output.read(&mut [0]));
            if !matches!(output, Some(Ok(1))) {
                return Err(format!(
                    "a child did not open its store: {:?}",
                    child.wait()
                ));
            }
            self.random.below(25_000)
        };
        thread::sleep(Duration::from_micros(life));
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("a child ended by itself: {status}"));
        }
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| error.to_string())?;
        self.kills += 1;
        let journal = self.folder.join("store.redb.journal");
        self.verifier.killed(&journal)
    }

    /// Kills a child while it makes its store: that is there and whole, or not there.
    fn kill_creation(&mut self) -> Result<(), String> {
        let path = self.folder.join("fresh.redb");
        let mut child = self.spawn("work", "fresh.redb", Stdio::null())?;
        thread::sleep(Duration::from_micros(self.random.below(8_000)));
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| error.to_string())?;
        self.creations[usize::from(path.exists())] += 1;
        let timer = DurableTimer::builder()
            .open(&path)
            .map_err(|error| format!("after a kill: {error}"))?;
        timer.pending().map_err(|error| error.to_string())?;
        drop(timer);
        for file in ["fresh.redb", "fresh.redb.journal"] {
            let _ = fs::remove_file(self.folder.join(file));
        }
        Ok(())
    }

    /// Waits for a child that ends by itself. However slow the machine is, it writes to its journal meanwhile. Looks are counted, not time: both may be stopped and
    /// continued.
    fn wait(mut child: Child, journal: &Path) -> Result<ExitStatus, String> {
        let (mut written, mut looks) = (0, 0);
        loop {
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => {}
                Err(error) => return Err(error.to_string()),
            }
            let length = fs::metadata(journal).map_or(0, |file| file.len());
            if length != written {
                (written, looks) = (length, 0);
            } else if looks > 60_000 {
                let _ = child.kill();
                let _ = child.wait();
                return Err("a child that should finish all jobs stood still for a minute".into());
            }
            looks += 1;
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Lets a child finish all jobs, and settles the account.
    fn settle(&mut self) -> Result<(), String> {
        let child = self.spawn("finish", "store.redb", Stdio::null())?;
        let journal = self.folder.join("store.redb.journal");
        let status = Self::wait(child, &journal)?;
        if !status.success() {
            return Err(format!(
                "the child that should finish all jobs failed: {status}"
            ));
        }
        self.verifier.settled(&journal)?;
        fs::write(&journal, "").map_err(|error| error.to_string())
    }

    /// A job that aborts the process, among a hundred good ones that are due at the same time.
    fn poison(&mut self) -> Result<(), String> {
        let store = format!("poison-{}.redb", self.poison_rounds);
        let journal = self.folder.join(format!("{store}.journal"));
        let mut deaths = 0;
        loop {
            let child = self.spawn("poison", &store, Stdio::null())?;
            let status = Self::wait(child, &journal)?;
            if status.success() {
                break;
            }
            // An abort is a signal; a code is a child that failed.
            if cfg!(unix) && status.code().is_some() {
                return Err(format!("a child failed: {status}"));
            }
            deaths += 1;
            if deaths > child::POISON_ATTEMPTS + 1 {
                return Err(format!(
                    "the job that aborts the process has done so {deaths} times"
                ));
            }
        }
        verify::poison_round(&journal, deaths)?;
        self.poison_rounds += 1;
        fs::remove_file(self.folder.join(&store)).map_err(|error| error.to_string())?;
        fs::remove_file(journal).map_err(|error| error.to_string())
    }

    /// A process whose disk is full for a while. Every second one is killed, and another one finishes.
    fn full(&mut self) -> Result<(), String> {
        let store = "full.redb";
        let journal = self.folder.join("full.redb.journal");
        let mut verifier = Verifier::default();
        let mut kill = self.full_rounds % 2 == 1;
        loop {
            let mut child = self.spawn("full", store, Stdio::piped())?;
            let copier = child.stdout.take().map(|mut pipe| {
                let journal = journal.clone();
                thread::spawn(move || {
                    let mut file = fs::File::options()
                        .create(true)
                        .append(true)
                        .open(journal)?;
                    std::io::copy(&mut pipe, &mut file)
                })
            });
            let status = if kill {
                thread::sleep(Duration::from_millis(self.random.below(120)));
                child
                    .kill()
                    .and_then(|()| child.wait())
                    .map_err(|error| error.to_string())
            } else {
                Self::wait(child, &journal)
            };
            if let Some(copier) = copier {
                let joined = copier.join().map_err(|_| "the journal is not copied")?;
                joined.map_err(|error| error.to_string())?;
            }
            if status?.success() {
                break;
            }
            if !kill {
                return Err("the child whose disk was full failed".into());
            }
            verifier.killed(&journal)?;
            kill = false;
        }
        verifier.settled(&journal)?;
        self.full_rounds += 1;
        self.failed += verifier.failed();
        self.forget(store)
    }

    /// A bit of a closed file is flipped.
    fn flip(&mut self) -> Result<(), String> {
        let store = "flipped.redb";
        let path = self.folder.join(store);
        let journal = self.folder.join("flipped.redb.journal");
        let child = self.spawn("fill", store, Stdio::null())?;
        let filled = Self::wait(child, &journal)?;
        if !filled.success() {
            return Err(format!("the child that fills a file failed: {filled}"));
        }
        disk::flip(&path, &mut self.random)?;
        let role = ["flipped", "verified"][self.random.below(2) as usize];
        // What redb asserts is told on the standard error.
        let child = self.spawn(role, store, Stdio::null())?;
        let mut status = if self.random.below(2) == 0 {
            self.kill_mending(child, &path, &journal)?
        } else {
            Some(Self::wait(child, &journal)?)
        };
        let again = status.is_none_or(|status| status.code() == Some(disk::AGAIN));
        if again {
            let child = self.spawn("verified", store, Stdio::null())?;
            status = Some(Self::wait(child, &journal)?);
        }
        let code = status.and_then(|status| status.code());
        self.flips.note(&journal, code, again)?;
        self.forget(store)
    }

    /// Kills a child that mends its file, while the new one is made or after it has got its name. How it ended, if there was nothing to mend.
    fn kill_mending(
        &mut self,
        mut child: Child,
        store: &Path,
        journal: &Path,
    ) -> Result<Option<ExitStatus>, String> {
        let new = store.with_extension("redb.mended");
        let mut looks = 0;
        while !new.exists() {
            let ended = child.try_wait().map_err(|error| error.to_string())?;
            looks += 1;
            if ended.is_some() || looks > 20_000 {
                return Self::wait(child, journal).map(Some);
            }
            thread::sleep(Duration::from_micros(50));
        }
        thread::sleep(Duration::from_micros(1 << self.random.below(16)));
        child
            .kill()
            .and_then(|()| child.wait())
            .map_err(|error| error.to_string())?;
        self.flips.mending[usize::from(!new.exists())] += 1;
        Ok(None)
    }

    /// Removes a store and what is beside it.
    fn forget(&self, store: &str) -> Result<(), String> {
        for ending in ["", ".journal", ".damaged", ".mended"] {
            match fs::remove_file(self.folder.join(format!("{store}{ending}"))) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
                _ => {}
            }
        }
        Ok(())
    }
}

//! The command for operators: looks into a store of durable timers, this service's or another program's, and changes single jobs.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use delay_queue_service::queue::unix_millis;
use hashed_wheel_durable::{DurableTimer, JobFilter, JobInfo, JobState};
use serde_json::{Value, json};

const USAGE: &str = "usage: durable-jobs (--file FILE | --postgres URL) [--json] COMMAND

Shows and changes the jobs of a store. A file can be opened while no other process has it open; a database at any time. No job runs here.

  list [--kind KIND] [--key KEY] [--state waiting|running|dead] [--after ID] [--limit N]
                           the jobs in the order of their ids, 100 unless told; the next page begins after the last id
  show ID                  one job with its payload
  cancel KEY...            removes the job that waits under each key; ends a recurring job
  move KEY MS              the job that waits under the key is due so many milliseconds from now
  revive ID...             lets dead jobs wait again, due now
  revive --all [--kind KIND] [--key KEY]
  discard ID...            removes dead jobs
  discard --all [--kind KIND] [--key KEY]
  pause KIND, resume KIND  no job of the kind begins, in any process; they begin again
  verify                   reads all of a file and checks it; damaged jobs become dead

  --postgres-ca FILE       roots for the certificate of PostgreSQL, PEM (the system's)
  --table-prefix PREFIX    of the tables in PostgreSQL (durable_); tables that are not there are made
  --json                   a JSON object a line; a payload that is no text as base64

It ends with 0 when all was done, with 1 when something was not found, is damaged or failed, with 2 for a bad command line.";

/// What a store reports about a job whose checksum is wrong.
const DAMAGED: &str = "is damaged";

/// A page, when all jobs are gone through.
const PAGE: usize = 1000;

#[derive(Default)]
struct Options {
    file: Option<PathBuf>,
    postgres: Option<String>,
    postgres_ca: Option<PathBuf>,
    prefix: Option<String>,
    json: bool,
    all: bool,
    filter: JobFilter,
    /// The filter has been given something.
    filtered: Vec<String>,
    words: Vec<String>,
}

enum Command {
    List,
    Show(u64),
    Cancel(Vec<String>),
    Move(String, Duration),
    Revive(Vec<u64>),
    ReviveAll,
    Discard(Vec<u64>),
    DiscardAll,
    Pause(String),
    Resume(String),
    Verify,
}

fn main() -> ExitCode {
    let (options, command) = match read(std::env::args().skip(1)) {
        Ok(Some(read)) => read,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options, &command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Who reads our output may have had enough of it.
            let closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
            if error.downcast_ref().is_some_and(closed) {
                return ExitCode::SUCCESS;
            }
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// `None`: help is wanted.
fn read(args: impl Iterator<Item = String>) -> Result<Option<(Options, Command)>, String> {
    let mut options = Options::default();
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let filter = options.filter.clone();
        match arg.as_str() {
            "--help" | "-h" => return Ok(None),
            "--json" => options.json = true,
            "--all" => options.all = true,
            "--file" => options.file = Some(value()?.into()),
            "--postgres" => options.postgres = Some(value()?),
            "--postgres-ca" => options.postgres_ca = Some(value()?.into()),
            "--table-prefix" => options.prefix = Some(value()?),
            "--kind" => options.filter = filter.kind(value()?),
            "--key" => options.filter = filter.key(value()?),
            "--after" => options.filter = filter.after(number(&value()?)?),
            "--limit" => options.filter = filter.limit(number(&value()?)? as usize),
            "--state" => {
                options.filter = filter.state(match value()?.as_str() {
                    "waiting" => JobState::Waiting,
                    "running" => JobState::Running,
                    "dead" => JobState::Dead,
                    other => {
                        return Err(format!(
                            "--state is {other:?}: it must be waiting, running or dead"
                        ));
                    }
                });
            }
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            _ => options.words.push(arg.clone()),
        }
        if ["--kind", "--key", "--after", "--limit", "--state"].contains(&arg.as_str()) {
            options.filtered.push(arg);
        }
    }
    match (&options.file, &options.postgres) {
        (Some(_), Some(_)) => return Err("--file and --postgres are two stores".to_owned()),
        (None, None) => return Err("a store is needed: --file or --postgres".to_owned()),
        (None, Some(_)) if !cfg!(feature = "postgres") => {
            return Err("--postgres needs the feature `postgres`".to_owned());
        }
        _ => {}
    }
    let command = command(&options)?;
    let allowed: &[&str] = match command {
        Command::List => &["--kind", "--key", "--after", "--limit", "--state"],
        Command::ReviveAll | Command::DiscardAll => &["--kind", "--key"],
        _ => &[],
    };
    if let Some(other) = options
        .filtered
        .iter()
        .find(|option| !allowed.contains(&option.as_str()))
    {
        return Err(format!("{} does not take {other}", options.words[0]));
    }
    Ok(Some((options, command)))
}

fn command(options: &Options) -> Result<Command, String> {
    let Some((name, rest)) = options.words.split_first() else {
        return Err("a command is needed".to_owned());
    };
    let ids = || {
        rest.iter()
            .map(|word| number(word))
            .collect::<Result<Vec<u64>, _>>()
    };
    let all = options.all;
    Ok(match (name.as_str(), rest, all) {
        ("list", [], false) => Command::List,
        ("show", [id], false) => Command::Show(number(id)?),
        ("cancel", [_, ..], false) => Command::Cancel(rest.to_vec()),
        ("move", [key, millis], false) => {
            Command::Move(key.clone(), Duration::from_millis(number(millis)?))
        }
        ("revive", [_, ..], false) => Command::Revive(ids()?),
        ("revive", [], true) => Command::ReviveAll,
        ("discard", [_, ..], false) => Command::Discard(ids()?),
        ("discard", [], true) => Command::DiscardAll,
        ("pause", [kind], false) => Command::Pause(kind.clone()),
        ("resume", [kind], false) => Command::Resume(kind.clone()),
        ("verify", [], false) if options.file.is_some() => Command::Verify,
        ("verify", [], false) => return Err("verify needs --file".to_owned()),
        (
            "list" | "show" | "cancel" | "move" | "revive" | "discard" | "pause" | "resume"
            | "verify",
            ..,
        ) => return Err(format!("{name}: wrong arguments")),
        _ => return Err(format!("unknown command {name:?}")),
    })
}

fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is no number from 0 to {}", u64::MAX))
}

/// Opens the store. No kind has a handler here, so no job runs, and no attempt is anybody's last.
fn open(options: &Options, verify: bool) -> Result<DurableTimer, Box<dyn Error>> {
    let builder = DurableTimer::builder()
        .threads(1)
        .max_attempts(u32::MAX)
        .verify(verify);
    if let Some(file) = &options.file {
        return open_file(builder, file);
    }
    #[cfg(feature = "postgres")]
    if let Some(url) = &options.postgres {
        let builder = match &options.prefix {
            Some(prefix) => builder.table_prefix(prefix),
            None => builder,
        };
        let ca = options.postgres_ca.as_deref();
        return delay_queue_service::postgres::open(builder, url, ca);
    }
    Err("no store".into())
}

fn open_file(
    builder: hashed_wheel_durable::DurableTimerBuilder,
    file: &Path,
) -> Result<DurableTimer, Box<dyn Error>> {
    if !file.exists() {
        return Err(format!("{}: there is no such file", file.display()).into());
    }
    builder.open(file).map_err(|error| match error {
        hashed_wheel_durable::Error::InUse(_) => {
            format!("{error}; stop that process, or ask it over HTTP if it is the service").into()
        }
        error => error.into(),
    })
}

/// Was all found that was asked for?
fn run(options: &Options, command: &Command) -> Result<bool, Box<dyn Error>> {
    let timer = open(options, matches!(command, Command::Verify))?;
    let mut out = io::stdout().lock();
    let mut whole = true;
    // One after the other; what is not there is told, and the others are done.
    let mut found = |what: &str, was: bool| {
        if !was {
            eprintln!("{what}");
            whole = false;
        }
    };
    match command {
        Command::List => {
            for job in timer.jobs(options.filter.clone())? {
                writeln!(out, "{}", shown(&job, options.json, false))?;
            }
        }
        Command::Show(id) => {
            let page = JobFilter::new().after(id.saturating_sub(1)).limit(1);
            let job = timer.jobs(page)?.into_iter().find(|job| job.id == *id);
            match job {
                Some(job) => writeln!(out, "{}", shown(&job, options.json, true))?,
                None => found(&format!("there is no job {id}"), false),
            }
        }
        Command::Cancel(keys) => {
            for key in keys {
                found(&format!("no job waits under {key:?}"), timer.cancel(key)?);
            }
        }
        Command::Move(key, delay) => {
            let moved = timer.reschedule(key, *delay)?;
            found(&format!("no job waits under {key:?}"), moved);
        }
        Command::Revive(ids) => {
            for &id in ids {
                found(&format!("there is no dead job {id}"), timer.revive(id)?);
            }
        }
        Command::Discard(ids) => {
            for &id in ids {
                found(&format!("there is no dead job {id}"), timer.discard(id)?);
            }
        }
        Command::ReviveAll => {
            let many = timer.revive_where(options.filter.clone())?;
            writeln!(out, "{many} revived")?;
        }
        Command::DiscardAll => {
            let many = timer.discard_where(options.filter.clone())?;
            writeln!(out, "{many} discarded")?;
        }
        Command::Pause(kind) => {
            found(&format!("{kind:?} was paused before"), timer.pause(kind)?);
        }
        Command::Resume(kind) => {
            found(&format!("{kind:?} was not paused"), timer.resume(kind)?);
        }
        Command::Verify => {
            let (dead, damaged) = damaged(&timer)?;
            let pending = timer.pending()?;
            writeln!(
                out,
                "{pending} jobs, {dead} dead, {damaged} of these damaged"
            )?;
            whole = damaged == 0;
        }
    }
    out.flush()?;
    drop(out);
    timer.stop()?;
    Ok(whole)
}

/// How many are dead, and how many of these were damaged.
fn damaged(timer: &DurableTimer) -> Result<(usize, usize), hashed_wheel_durable::Error> {
    let (mut dead, mut damaged, mut after) = (0, 0, 0);
    loop {
        let page = timer.dead_where(JobFilter::new().after(after).limit(PAGE))?;
        let Some(last) = page.last() else {
            return Ok((dead, damaged));
        };
        after = last.id;
        dead += page.len();
        let broken = page.iter().filter(|job| job.last_error.contains(DAMAGED));
        damaged += broken.count();
    }
}

fn state(job: &JobInfo) -> &'static str {
    match job.state {
        JobState::Running => "running",
        JobState::Dead => "dead",
        _ if job.rule.is_some() => "recurring",
        _ => "waiting",
    }
}

/// One job: a line, or all of it.
fn shown(job: &JobInfo, as_json: bool, whole: bool) -> String {
    let payload = match std::str::from_utf8(&job.payload) {
        Ok(text) => json!(text),
        Err(_) => json!({ "base64": BASE64_STANDARD.encode(&job.payload) }),
    };
    if as_json {
        let mut fields = json!({
            "id": job.id,
            "state": state(job),
            "kind": job.kind,
            "key": job.key,
            "due_ms": unix_millis(job.due),
            "attempts": job.attempts,
            "last_error": job.last_error,
            "rule": job.rule,
        });
        if whole {
            fields["payload"] = payload;
        }
        return fields.to_string();
    }
    let key = job
        .key
        .as_deref()
        .map_or("-".to_owned(), |key| format!("{key:?}"));
    let mut text = format!(
        "{}\t{}\t{:?}\t{key}\t{}\t{} attempts",
        job.id,
        state(job),
        job.kind,
        due(job.due),
        job.attempts
    );
    for (name, value) in [("rule", &job.rule), ("error", &job.last_error)] {
        if let Some(value) = value {
            let _ = write!(text, "\t{name}: {value:?}");
        }
    }
    if whole {
        let payload = match &payload {
            Value::String(text) => text.clone(),
            base64 => format!("base64 {}", base64["base64"].as_str().unwrap_or_default()),
        };
        let _ = write!(text, "\n{payload}");
    }
    text
}

/// Seconds from or until now.
fn due(time: SystemTime) -> String {
    match time.duration_since(SystemTime::now()) {
        Ok(left) => format!("in {:.1} s", left.as_secs_f64()),
        Err(past) => format!("{:.1} s ago", past.duration().as_secs_f64()),
    }
}

//! Starts the measurements and prints the table.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Name, title, and whether it needs the server.
const CONTESTANTS: [(&str, &str, bool); 10] = [
    ("own", "hashed-wheel-durable, file", false),
    ("own-pg", "hashed-wheel-durable, PostgreSQL", true),
    ("apalis-sqlite", "apalis 1.0.0, SQLite", false),
    (
        "apalis-sqlite-poll",
        "the same, polling every 100 ms",
        false,
    ),
    ("apalis-pg", "apalis 1.0.0, PostgreSQL", true),
    ("apalis-pg-poll", "the same, polling every 100 ms", true),
    ("fang", "fang 0.11.0, PostgreSQL", true),
    ("graphile", "graphile_worker 0.14.1, PostgreSQL", true),
    ("graphile-load", "the same, local queue and batches", true),
    ("awa", "awa 0.6.9, PostgreSQL", true),
];

/// How long jobs may take after the last kill before they count as lost: our own leases are half a minute.
const DRAIN: Duration = Duration::from_secs(75);

/// The columns, and the first one of each measurement.
const COLUMNS: [&str; 9] = [
    "late p50",
    "late most",
    "early",
    "stored a second",
    "stored and run a second",
    "overdue, run a second",
    "acknowledged in ten kills",
    "of these not run",
    "run twice",
];
const LATE: usize = 0;
const RATE: usize = 3;
const KILLS: usize = 6;

pub(crate) struct Options {
    postgres: Option<String>,
    only: Option<String>,
    skip: Vec<String>,
    quick: bool,
}

impl Options {
    pub(crate) fn parse(args: Vec<String>) -> std::result::Result<Options, String> {
        let mut options = Options {
            postgres: None,
            only: None,
            skip: Vec::new(),
            quick: false,
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--postgres" => options.postgres = Some(value()?),
                "--only" => {
                    let name = value()?;
                    if !CONTESTANTS.iter().any(|(known, ..)| *known == name) {
                        return Err(format!("there is no contestant {name:?}"));
                    }
                    options.only = Some(name);
                }
                "--skip" => {
                    let what = value()?;
                    if !["late", "rate", "kills"].contains(&what.as_str()) {
                        return Err(format!(
                            "--skip is {what:?}: it must be late, rate or kills"
                        ));
                    }
                    options.skip.push(what);
                }
                "--quick" => options.quick = true,
                other => return Err(format!("unknown option {other}")),
            }
        }
        Ok(options)
    }
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Makes empty stores.
struct Stores<'a> {
    folder: &'a Path,
    postgres: Option<&'a str>,
    made: AtomicU32,
}

impl Stores<'_> {
    fn fresh(&self, server: bool) -> Result<String> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let name = format!("rivals_{}_{number}", process::id());
        if !server {
            return Ok(self.folder.join(&name).display().to_string());
        }
        let url = self.postgres.ok_or("no server")?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let pool = sqlx::PgPool::connect(&format!("{url}/postgres")).await?;
            sqlx::raw_sql(sqlx::AssertSqlSafe(format!("CREATE DATABASE {name}")))
                .execute(&pool)
                .await?;
            pool.close().await;
            Ok::<(), sqlx::Error>(())
        })?;
        Ok(format!("{url}/{name}"))
    }
}

fn child(args: &[&str]) -> Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.arg("child").args(args).stdout(Stdio::piped());
    Ok(command)
}

/// Runs a measurement to its end: the words of each line it prints.
fn lines(args: &[&str]) -> Result<Vec<Vec<String>>> {
    let output = child(args)?.output()?;
    if !output.status.success() {
        return Err(format!("{args:?} ended with {}", output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text
        .lines()
        .map(|line| line.split(' ').map(str::to_owned).collect())
        .collect())
}

/// One row of the table.
struct Row {
    name: &'static str,
    title: &'static str,
    server: bool,
    cells: Mutex<Vec<String>>,
}

impl Row {
    fn fill(&self, from: usize, found: std::result::Result<Vec<String>, String>) {
        let found = found.unwrap_or_else(|error| {
            eprintln!("{}: {error}", self.name);
            vec!["failed".to_owned()]
        });
        let mut cells = self.cells.lock().expect("nobody panics here");
        for (at, cell) in found.into_iter().enumerate() {
            cells[from + at] = cell;
        }
    }
}

/// A measurement, of one contestant.
type Measure = fn(&Row, &Stores<'_>, bool) -> Result<Vec<String>>;

pub(crate) fn run(options: &Options) -> Result<()> {
    // Beside the program: the temporary folder may have no disk.
    let folder = Folder(env::current_dir()?.join(format!("rivals-{}", process::id())));
    fs::create_dir_all(&folder.0)?;
    let stores = Stores {
        folder: &folder.0,
        postgres: options.postgres.as_deref(),
        made: AtomicU32::new(0),
    };
    let wanted = |name: &str, server: bool| {
        options.only.as_deref().is_none_or(|only| only == name)
            && (!server || options.postgres.is_some())
    };
    let rows: Vec<Row> = CONTESTANTS
        .iter()
        .filter(|(name, _, server)| wanted(name, *server))
        .map(|&(name, title, server)| Row {
            name,
            title,
            server,
            cells: Mutex::new(vec!["—".to_owned(); COLUMNS.len()]),
        })
        .collect();
    let started = Instant::now();
    let measure = |what: &str, column: usize, together: bool, measure: Measure| {
        if options.skip.iter().any(|skip| skip == what) {
            return;
        }
        let one = |row: &Row| {
            let found = measure(row, &stores, options.quick).map_err(|error| error.to_string());
            row.fill(column, found);
            eprintln!("{:>4} s  {what}: {}", started.elapsed().as_secs(), row.name);
        };
        if together {
            thread::scope(|scope| {
                for row in &rows {
                    scope.spawn(|| one(row));
                }
            });
        } else {
            rows.iter().for_each(one);
        }
    };
    // What is waiting most of the time is measured for all at once, what takes the machine for one after the other.
    measure("late", LATE, true, late);
    measure("kills", KILLS, true, kills);
    measure("rate", RATE, false, rates);
    println!("| | {} |", COLUMNS.join(" | "));
    println!("|---|{}", "---|".repeat(COLUMNS.len()));
    for row in &rows {
        let cells = row.cells.lock().expect("nobody panics here");
        println!("| {} | {} |", row.title, cells.join(" | "));
    }
    Ok(())
}

fn in_millis(micros: i64) -> String {
    if micros.abs() < 10_000 {
        format!("{:.1} ms", micros as f64 / 1000.0)
    } else {
        format!("{} ms", micros / 1000)
    }
}

fn late(row: &Row, stores: &Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let store = stores.fresh(row.server)?;
    let count = if quick { "3" } else { "20" };
    let mut seen = Vec::new();
    for words in lines(&[row.name, &store, "", "late", count])? {
        if let [what, value] = &words[..]
            && what == "late"
        {
            seen.push(value.parse().unwrap_or(i64::MAX / 2));
        }
    }
    seen.sort_unstable();
    let most = *seen.last().ok_or("nothing was measured")?;
    let early = seen.iter().filter(|late| **late < 0).count();
    Ok(vec![
        in_millis(seen[seen.len() / 2]),
        in_millis(most),
        format!("{early} of {}", seen.len()),
    ])
}

fn rates(row: &Row, stores: &Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let (name, store) = (row.name, stores.fresh(row.server)?);
    let wanted = if quick { "300" } else { "3000" };
    let rate = |found: Vec<Vec<String>>| -> Result<(String, u64)> {
        let last = found.last().ok_or("nothing was measured")?;
        let (count, micros): (u64, u64) = (last[1].parse()?, last[2].parse()?);
        let rate = count as f64 * 1e6 / micros.max(1) as f64;
        Ok((format!("{rate:.0}"), count))
    };
    let (stored, count) = rate(lines(&[name, &store, "", "store", wanted, "16"])?)?;
    let (fired, _) = rate(lines(&[name, &store, "", "fire", &count.to_string()])?)?;
    let store = stores.fresh(row.server)?;
    let (passed, _) = rate(lines(&[name, &store, "", "pass", wanted, "16"])?)?;
    Ok(vec![stored, passed, fired])
}

/// A child that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a child and waits until its store is open.
fn start(args: &[&str]) -> Result<Killed> {
    let mut child = Killed(child(args)?.spawn()?);
    let output = child.0.stdout.take().ok_or("no output")?;
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line)?;
    if line.trim() == "open" {
        Ok(child)
    } else {
        Err(format!("{args:?} did not open its store").into())
    }
}

/// By job: whether it was acknowledged, and how often it ran.
fn account(log: &Path) -> Result<HashMap<u64, (bool, u32)>> {
    let mut jobs: HashMap<u64, (bool, u32)> = HashMap::new();
    for line in fs::read_to_string(log).unwrap_or_default().lines() {
        if let Some((what, id)) = line.split_once(' ') {
            let job = jobs.entry(id.parse()?).or_default();
            match what {
                "stored" => job.0 = true,
                _ => job.1 += 1,
            }
        }
    }
    Ok(jobs)
}

/// Only the end of a handler counts: a job that was killed in the middle has not run.
fn kills(row: &Row, stores: &Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let (name, store) = (row.name, stores.fresh(row.server)?);
    let log = stores.folder.join(format!("{name}.log"));
    let log_name = log.display().to_string();
    for kill in 0..if quick { 2 } else { 10 } {
        let first = (kill * 100_000).to_string();
        let child = start(&[name, &store, &log_name, "both", &first, "20"])?;
        thread::sleep(Duration::from_millis(1000 + 130 * kill));
        drop(child);
    }
    let _child = start(&[name, &store, &log_name, "work", "20"])?;
    let begin = Instant::now();
    // All have the same time, though nothing may be left before: what comes twice may come late.
    let drain = if quick { DRAIN / 2 } else { DRAIN };
    let lost = |jobs: &HashMap<u64, (bool, u32)>| {
        let lost = |(stored, runs): &&(bool, u32)| *stored && *runs == 0;
        jobs.values().filter(lost).count()
    };
    let mut done = None;
    let jobs = loop {
        thread::sleep(Duration::from_millis(200));
        let jobs = account(&log)?;
        if lost(&jobs) == 0 && done.is_none() {
            done = Some(begin.elapsed());
        }
        if begin.elapsed() > drain {
            break jobs;
        }
    };
    let stored = jobs.values().filter(|(stored, _)| *stored).count();
    let twice = jobs.values().filter(|(_, runs)| *runs > 1).count();
    let seconds = done.unwrap_or(drain).as_secs_f64().ceil();
    let after = format!("{} after {seconds:.0} s", lost(&jobs));
    Ok(vec![stored.to_string(), after, twice.to_string()])
}

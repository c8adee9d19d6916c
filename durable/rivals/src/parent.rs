//! Starts the measurements and prints the table.

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Name, title, and whether it needs the server.
const CONTESTANTS: [(&str, &str, bool); 8] = [
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
];

/// How long jobs may take after the last kill before they count as stuck.
const DRAIN: Duration = Duration::from_secs(100);

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
    made: u32,
}

impl Stores<'_> {
    fn fresh(&mut self, server: bool) -> Result<String> {
        self.made += 1;
        let name = format!("rivals_{}_{}", process::id(), self.made);
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

pub(crate) fn run(options: &Options) -> Result<()> {
    // Beside the program: the temporary folder may have no disk.
    let folder = Folder(env::current_dir()?.join(format!("rivals-{}", process::id())));
    fs::create_dir_all(&folder.0)?;
    let mut stores = Stores {
        folder: &folder.0,
        postgres: options.postgres.as_deref(),
        made: 0,
    };
    println!(
        "| | late p50 | late most | early | stored a second | stored and run a second | overdue, run a second | after 10 kills |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (name, title, server) in CONTESTANTS {
        let wanted = options.only.as_deref().is_none_or(|only| only == name);
        if !wanted
            || (server && options.postgres.is_none())
            || (name == "own-pg" && cfg!(not(feature = "postgres")))
        {
            continue;
        }
        let mut cells = vec!["—".to_owned(); 7];
        let mut fill = |from: usize, found: Result<Vec<String>>| match found {
            Ok(found) => found
                .into_iter()
                .enumerate()
                .for_each(|(at, cell)| cells[from + at] = cell),
            Err(error) => {
                eprintln!("{name}: {error}");
                cells[from] = "failed".to_owned();
            }
        };
        let skipped = |what: &str| options.skip.iter().any(|skip| skip == what);
        if !skipped("late") {
            fill(0, late(name, server, &mut stores, options.quick));
        }
        if !skipped("rate") {
            fill(3, rates(name, server, &mut stores, options.quick));
        }
        if !skipped("kills") {
            fill(6, kills(name, server, &mut stores, options.quick));
        }
        println!("| {title} | {} |", cells.join(" | "));
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

fn late(name: &str, server: bool, stores: &mut Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let store = stores.fresh(server)?;
    let count = if quick { "3" } else { "10" };
    let mut seen = Vec::new();
    for words in lines(&[name, &store, "", "late", count])? {
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

fn rates(name: &str, server: bool, stores: &mut Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let store = stores.fresh(server)?;
    let wanted = if quick { "300" } else { "3000" };
    let rate = |found: Vec<Vec<String>>| -> Result<(String, u64)> {
        let last = found.last().ok_or("nothing was measured")?;
        let (count, micros): (u64, u64) = (last[1].parse()?, last[2].parse()?);
        let rate = count as f64 * 1e6 / micros.max(1) as f64;
        Ok((format!("{rate:.0}"), count))
    };
    let (stored, count) = rate(lines(&[name, &store, "", "store", wanted, "16"])?)?;
    let (fired, _) = rate(lines(&[name, &store, "", "fire", &count.to_string()])?)?;
    let store = stores.fresh(server)?;
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

fn kills(name: &str, server: bool, stores: &mut Stores<'_>, quick: bool) -> Result<Vec<String>> {
    let store = stores.fresh(server)?;
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
    let drain = if quick { DRAIN / 10 } else { DRAIN };
    let (jobs, took) = loop {
        let jobs = account(&log)?;
        let open = jobs
            .values()
            .filter(|(stored, runs)| *stored && *runs == 0)
            .count();
        if open == 0 || begin.elapsed() > drain {
            break (jobs, begin.elapsed());
        }
        thread::sleep(Duration::from_millis(100));
    };
    // What comes twice may come a little later.
    thread::sleep(Duration::from_secs(2));
    let later = account(&log)?;
    let stored = jobs.values().filter(|(stored, _)| *stored).count();
    let stuck = jobs
        .values()
        .filter(|(stored, runs)| *stored && *runs == 0)
        .count();
    let twice = later.values().filter(|(_, runs)| *runs > 1).count();
    Ok(vec![format!(
        "{stored} stored: {stuck} not run after {:.0} s, {twice} run twice",
        took.as_secs_f64()
    )])
}

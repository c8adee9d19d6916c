//! The parent process: starts the children, contestants taking turns, and collects their figures.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use figures::machine;
use figures::sheet::{Sheet, number};
use figures::{in_repository, pages, targets, terminal};

use crate::case::{self, Case};
use crate::cli::{CHILD, Options};
use crate::contestant::{self, NETTY, netty};
use crate::journal::{Journal, OTHERS, Run};
use crate::measure::Neighbours;
use crate::workload::{Figures, parse_line};

/// No run takes longer, unless something hangs.
const LIMIT: Duration = Duration::from_mins(3);

/// A row of the comparison with those who take part in it.
struct Plan {
    case: Case,
    contestants: Vec<&'static str>,
    /// How long its last round took.
    took: Duration,
}

/// All rows that are selected.
fn plan(options: &Options, with_netty: bool) -> Vec<Plan> {
    let plans = case::all(options.quick).into_iter().map(|case| {
        let all = case.contestants().iter().copied();
        let contestants = all
            .filter(|name| options.selects(&case, name))
            .filter(|name| with_netty || *name != NETTY)
            .collect();
        Plan {
            case,
            contestants,
            took: Duration::ZERO,
        }
    });
    plans.filter(|plan| !plan.contestants.is_empty()).collect()
}

/// Shows what would be run.
pub(crate) fn list(options: &Options) {
    for plan in plan(options, true) {
        println!(
            "{:16} {}",
            plan.case.to_string(),
            plan.contestants.join(" ")
        );
    }
    println!();
    for info in contestant::ALL {
        println!("{:16} {}", info.name, info.what);
    }
}

/// Runs everything that is selected and shows it.
pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let netty = netty::prepare();
    if let Err(missing) = &netty {
        eprintln!("{NETTY} is left out: {missing}");
    }
    let mut plans = plan(options, netty.is_ok());
    if plans.is_empty() {
        return Err("nothing is selected; --list shows what there is".to_owned());
    }
    let mut journal = Journal::default();
    let mut load = machine::load().unwrap_or(0.0);
    if options.publish {
        journal = Journal::open(&head(options), options.goes_on)?;
        load = machine::wait_until_quiet(options.patience);
    }
    run_all(&mut plans, options, &mut journal)?;
    let mut sheet = Sheet::default();
    sheet.replace(|_| true, journal.figures());
    for plan in &plans {
        println!("{}", terminal::table(&sheet, &plan.case.to_string()));
    }
    println!("{}", targets::check(&sheet));
    if options.publish {
        publish(options, &journal, load)?;
    }
    let failed = journal
        .runs
        .iter()
        .filter(|run| run.figures.is_none())
        .count();
    match failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed", journal.runs.len())),
    }
}

/// What a journal belongs to: figures of two versions do not belong together.
fn head(options: &Options) -> String {
    let form = if options.quick { "quick" } else { "full" };
    format!(
        "{form} form, {}, {}",
        machine::commit(),
        machine::describe()
    )
}

/// Writes the figures into the file that pages and plots are made from. Rows of other programs stay; rows of this one do
/// too if a filter was set and they were not run.
fn publish(options: &Options, journal: &Journal, load: f64) -> Result<(), String> {
    let mut sheet = Sheet::published()?;
    let figures = journal.figures();
    let rows: Vec<String> = case::all(false).iter().map(ToString::to_string).collect();
    let run: Vec<String> = figures.iter().map(|it| it.row.clone()).collect();
    let is_compared = |row: &str| row.starts_with("compare-");
    if options.is_filtered() {
        sheet.replace(
            |row| {
                run.iter().any(|it| it == row)
                    || (!is_compared(row) && !rows.iter().any(|it| it == row))
            },
            figures,
        );
    } else {
        sheet.replace(|row| !is_compared(row), figures);
    }
    let mut others: Vec<f64> = journal
        .runs
        .iter()
        .filter_map(|run| run.value(OTHERS))
        .collect();
    others.sort_unstable_by(f64::total_cmp);
    let others = others.get(others.len() / 2).copied();
    let arguments: Vec<&str> = options
        .arguments
        .iter()
        .map(String::as_str)
        .filter(|it| !["--publish", "--continue"].contains(it))
        .collect();
    let command = format!("benches/rivals/publish {}", arguments.join(" "));
    sheet.set_head("machine", &machine::describe());
    sheet.set_head("versions", &versions());
    sheet.set_head(
        "rivals",
        &format!(
            "{}; {}; {}",
            machine::today(),
            machine::quietness(load, others),
            command.trim()
        ),
    );
    sheet.write(&in_repository(figures::FILE))?;
    pages::write(&sheet)?;
    println!("The figures are in {}.", figures::FILE);
    Ok(())
}

fn versions() -> String {
    let mut versions = format!(
        "hashed-wheel at {}, {}",
        machine::commit(),
        machine::compiler()
    );
    if let Some(netty) = netty::versions() {
        versions = format!("{versions}, {netty}");
    }
    let rust = contestant::ALL.iter().filter_map(|info| {
        info.what
            .split(", ")
            .next()
            .filter(|it| it.ends_with(|last: char| last.is_ascii_digit()))
    });
    for version in rust {
        versions = format!("{versions}, {version}");
    }
    versions
}

/// Every row once, then every row again, until all have had their runs or the time is up.
fn run_all(plans: &mut [Plan], options: &Options, journal: &mut Journal) -> Result<(), String> {
    let start = Instant::now();
    let end = options.time.map(|time| start + time);
    for round in 0..options.runs {
        for plan in plans.iter_mut() {
            let row = plan.case.to_string();
            let late = end.is_some_and(|end| Instant::now() + plan.took > end);
            if late || journal.rounds(&row, plan.contestants.len()) > round {
                continue;
            }
            let begin = Instant::now();
            run_round(plan, round, journal, start)?;
            plan.took = begin.elapsed();
        }
    }
    Ok(())
}

/// Every contestant once. Each round starts with another one, so that nobody always runs after the same neighbour.
fn run_round(
    plan: &Plan,
    round: usize,
    journal: &mut Journal,
    start: Instant,
) -> Result<(), String> {
    let count = plan.contestants.len();
    for turn in 0..count {
        let contestant = plan.contestants[(turn + round) % count];
        let case = Case {
            round: round as u64,
            ..plan.case.clone()
        };
        let row = case.to_string();
        // A round that was interrupted.
        let has_run =
            |run: &Run| run.row == row && run.contestant == contestant && run.round == round;
        if journal.runs.iter().any(has_run) {
            continue;
        }
        let neighbours = Neighbours::watch();
        let mut result = run_child(&case, contestant);
        if let Ok(figures) = &mut result {
            figures.push((OTHERS.to_owned(), 100.0 * neighbours.share()));
        }
        show(start, &row, contestant, round, &result);
        journal.add(Run {
            row,
            contestant: contestant.to_owned(),
            round,
            figures: result.ok(),
        })?;
    }
    Ok(())
}

/// One line on the standard error stream for every run.
fn show(start: Instant, row: &str, name: &str, round: usize, result: &Result<Figures, String>) {
    let figures = match result {
        Ok(figures) => {
            let pairs = figures.iter();
            let texts = pairs.map(|(name, value)| format!("{name} {}", number(*value)));
            texts.collect::<Vec<_>>().join(", ")
        }
        Err(message) => format!("FAILED: {message}"),
    };
    let seconds = start.elapsed().as_secs();
    eprintln!(
        "[{seconds:5} s] {row:16} {name:12} run {}: {figures}",
        round + 1
    );
}

fn run_child(case: &Case, contestant: &str) -> Result<Figures, String> {
    let mut command = if contestant == NETTY {
        netty::command()
    } else {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(own);
        command.args([CHILD, contestant]);
        command
    };
    let mut child = command
        .args(case.to_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start it: {error}"))?;
    wait(&mut child)?;
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout
            .read_to_string(&mut output)
            .map_err(|error| error.to_string())?;
    }
    parse_line(&output).ok_or_else(|| "it printed no figures".to_owned())
}

/// Waits for the child, but not for ever. It prints one line, so its pipe cannot fill up.
fn wait(child: &mut Child) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if start.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no end after {} s", LIMIT.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

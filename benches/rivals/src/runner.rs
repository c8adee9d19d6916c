//! The parent process: starts the children, contestants taking turns, and collects their figures.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::case::{self, Case};
use crate::cli::{CHILD, Options};
use crate::contestant::{self, Info, Program};
use crate::measure::Neighbours;
use crate::plot::{self, Medians};
use crate::table::{Row, Table};
use crate::workload::{Figures, parse_line};
use crate::{table, targets};

/// No run takes longer, unless something hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// A row of the comparison with those who take part in it.
struct Plan {
    case: Case,
    contestants: Vec<&'static Info>,
}

/// All rows that are selected, without those in `left_out`.
fn plan(options: &Options, left_out: &[&str]) -> Vec<Plan> {
    let plans = case::all(&options.sizes).into_iter().map(|case| {
        let all = contestant::ALL.iter();
        let contestants = all
            .filter(|info| info.takes_part(&case) && options.selects(&case, info.name))
            .filter(|info| !options.brief || info.is_in_brief(&case))
            .filter(|info| !left_out.contains(&info.name))
            .collect();
        Plan { case, contestants }
    });
    plans.filter(|plan| !plan.contestants.is_empty()).collect()
}

/// Shows what would be run.
pub(crate) fn list(options: &Options) {
    for plan in plan(options, &[]) {
        let names: Vec<&str> = plan.contestants.iter().map(|info| info.name).collect();
        println!("{:16} {}", plan.case.to_string(), names.join(" "));
    }
    println!();
    for info in contestant::ALL {
        println!("{:16} {}", info.name, info.what);
    }
}

/// Runs everything that is selected and shows it.
pub(crate) fn measure(options: &Options) -> Result<(), String> {
    let plans = plan(options, &left_out(options));
    if plans.is_empty() {
        return Err("nothing is selected; --list shows what there is".to_owned());
    }
    let mut progress = Progress::new(&plans, options.runs);
    let mut tables = Vec::new();
    for plan in &plans {
        let table = measure_row(plan, options.runs, &mut progress);
        println!("{table}");
        tables.push(table);
    }
    let verdict = targets::check(&tables);
    if !verdict.is_empty() {
        println!("{verdict}");
    }
    let csv = table::csv(&tables);
    if let Some(path) = &options.out {
        std::fs::write(path, &csv).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("All figures are in {}.", path.display());
    }
    if let Some(folder) = &options.plot {
        let mut medians = Medians::default();
        medians.add(&csv)?;
        plot::draw(&medians, folder)?;
    }
    match progress.failed {
        0 => Ok(()),
        failed => Err(format!("{failed} of {} runs failed", progress.all)),
    }
}

/// Prepares the contestants that are programs of their own, and says in one line each why one
/// cannot take part.
fn left_out(options: &Options) -> Vec<&'static str> {
    let plans = plan(options, &[]);
    let wanted = |info: &Info| plans.iter().any(|plan| plan.contestants.contains(&info));
    let mut names = Vec::new();
    for info in contestant::ALL.iter().filter(|info| wanted(info)) {
        let ready = match info.program {
            Program::Own => Ok(()),
            Program::Missing(how) => Err(how.to_owned()),
            Program::Script(script) => script.prepare(),
        };
        if let Err(missing) = ready {
            eprintln!("{} is left out: {missing}", info.name);
            names.push(info.name);
        }
    }
    names
}

/// Every contestant once, then every contestant again: a slow moment of the machine hits all.
/// Each round starts with another one, so that nobody always runs after the same neighbour.
fn measure_row(plan: &Plan, runs: usize, progress: &mut Progress) -> Table {
    let count = plan.contestants.len();
    let mut rows: Vec<Row> = plan.contestants.iter().map(|info| Row::new(info)).collect();
    let mut busiest: f64 = 0.0;
    for run in 0..runs {
        for turn in 0..count {
            let index = (turn + run) % count;
            let info = plan.contestants[index];
            let neighbours = Neighbours::watch();
            let case = Case {
                round: run as u64,
                ..plan.case.clone()
            };
            let result = run_child(&case, info);
            busiest = busiest.max(neighbours.share());
            progress.show(&plan.case, info.name, run + 1, &result);
            match result {
                Ok(figures) => rows[index].add(run, figures),
                Err(_) => rows[index].failed += 1,
            }
        }
    }
    Table::new(plan.case.clone(), rows, busiest)
}

fn run_child(case: &Case, info: &Info) -> Result<Figures, String> {
    let mut command = match info.program {
        Program::Script(script) => script.command(),
        Program::Own | Program::Missing(_) => {
            let own = std::env::current_exe().map_err(|error| error.to_string())?;
            let mut command = Command::new(own);
            command.args([CHILD, info.name]);
            command
        }
    };
    command.args(case.to_args());
    let mut child = command
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

/// One line on the standard error stream for every run.
struct Progress {
    start: Instant,
    all: usize,
    done: usize,
    failed: usize,
}

impl Progress {
    fn new(plans: &[Plan], runs: usize) -> Self {
        let all = plans.iter().map(|plan| plan.contestants.len() * runs).sum();
        Self {
            start: Instant::now(),
            all,
            done: 0,
            failed: 0,
        }
    }

    fn show(&mut self, case: &Case, name: &str, run: usize, result: &Result<Figures, String>) {
        self.done += 1;
        let seconds = self.start.elapsed().as_secs();
        let row = case.to_string();
        let figures = match result {
            Ok(figures) => {
                let pairs = figures.iter();
                let texts = pairs.map(|(name, value)| format!("{name} {}", table::number(*value)));
                texts.collect::<Vec<_>>().join(", ")
            }
            Err(message) => {
                self.failed += 1;
                format!("FAILED: {message}")
            }
        };
        eprintln!(
            "[{:4}/{} {seconds:5} s] {row:14} {name:12} run {run}: {figures}",
            self.done, self.all
        );
    }
}

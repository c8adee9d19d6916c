//! The comparison of timer designs behind `cargo run --release --example compare`: which wheel for my
//! load? See the README of this package.
//!
//! A `plan` of cases, each run by every `contestant` in turn, each run in a process of its own (`runner`,
//! `child`), gives `results`; `lines` and `findings` make sense of them. `decision`, `map` and `headline` are the
//! first screen (`answer`), `figures` puts together the rest, and `report`, `terminal`, `readme`, `sheet`, `plot` and
//! `csv` show it. `store` reads a run again.

mod answer;
mod case;
mod child;
mod cli;
mod contestant;
mod csv;
mod decision;
mod figures;
mod findings;
mod group;
mod headline;
mod lines;
mod load;
mod machine;
mod map;
mod measured;
mod os;
mod plan;
mod plot;
mod progress;
mod random;
mod readme;
mod report;
mod results;
mod runner;
mod sheet;
mod store;
mod telling;
mod terminal;
mod words;

use answer::Answer;
use cli::{Command, Options};
use figures::Picture;
use findings::Findings;
use machine::Machine;
use plan::{Extent, Plan};
use report::Report;
use results::Results;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use std::{fs, io};
use store::Run;

type Failure = Box<dyn std::error::Error>;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match cli::parse(&arguments) {
        Ok(Command::Compare(options)) => compare(&options),
        Ok(Command::List(options)) => {
            list(&options);
            Ok(true)
        }
        Ok(Command::Help) => {
            print!("{}", cli::USAGE);
            Ok(true)
        }
        Ok(Command::Child {
            extent,
            case,
            contestant,
        }) => child::run(extent, &case, contestant),
        Err(wrong) => {
            eprint!("{wrong}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn plan(options: &Options) -> Plan {
    let mut plan = Plan::new(options.extent);
    plan.retain(|case, contestant| options.wants(case, contestant));
    plan.limit_runs(options.rounds);
    plan
}

fn list(options: &Options) {
    for case in plan(options).cases {
        let names: Vec<_> = case.contestants.iter().map(|it| it.name()).collect();
        println!("{}, {} runs: {}", case.name(), case.runs, names.join(" "));
    }
}

/// Runs everything and shows it: whether every run has come to something.
fn compare(options: &Options) -> Result<bool, Failure> {
    let readme = options.readme.as_deref().map(Readme::open).transpose()?;
    let Run {
        plan,
        results,
        machine,
        remarks,
    } = match &options.from {
        Some(from) => store::read(from, options)?,
        None => run(options)?,
    };
    let from = Findings {
        plan: &plan,
        results: &results,
    };
    let report = Report {
        answer: Answer::new(from),
        summary: from.summary(),
        machine: &machine,
        remarks,
        crossings: figures::all_crossings(from),
        sections: figures::sections(from)?,
    };
    create(&options.out.join("plots"))?;
    write_all(&options.out, &report)?;
    if let Some(readme) = readme {
        readme.write(&report)?;
    }
    let hint = if options.details {
        ""
    } else {
        " (--details prints its tables)"
    };
    let mut text = terminal::first_screen(&report);
    if options.details {
        text.push_str(&terminal::details(&report));
    }
    let page = options.out.join("report.html");
    let _ = writeln!(text, "written: {}{hint}", page.display());
    // Whoever has closed the pipe has seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(results.failures.is_empty())
}

/// Runs the plan, and writes down what came of it before anything is made of it.
fn run(options: &Options) -> Result<Run, Failure> {
    let plan = plan(options);
    if plan.cases.is_empty() {
        return Err("nothing has these words in its name; --list shows what there is".into());
    }
    // Before the work, so that it is not lost.
    create(&options.out)?;
    let (busy, start) = (machine::busy(), Instant::now());
    let results = runner::run(&plan, options.extent);
    let machine = Machine::look();
    let remarks = remarks(options, &machine, &results, busy, start);
    let about = store::about(options.extent, &machine, &remarks);
    fs::write(options.out.join("run.txt"), about)?;
    fs::write(options.out.join("runs.csv"), csv::runs(&plan, &results))?;
    fs::write(
        options.out.join("medians.csv"),
        csv::medians(&plan, &results),
    )?;
    Ok(Run {
        plan,
        results,
        machine,
        remarks,
    })
}

fn create(directory: &Path) -> Result<(), Failure> {
    let created = fs::create_dir_all(directory);
    created.map_err(|error| format!("{}: {error}", directory.display()).into())
}

/// What a reader has to know before trusting a figure.
fn remarks(
    options: &Options,
    machine: &Machine,
    results: &Results,
    busy: Option<f64>,
    start: Instant,
) -> Vec<String> {
    let mut remarks = Vec::new();
    let form = match options.extent {
        Extent::Quick => "The quick form: small loads and few runs; the full form says more",
        Extent::Full => "The full form",
    };
    let seconds = start.elapsed().as_secs();
    remarks.push(format!(
        "{form}. It took {} min {} s.",
        seconds / 60,
        seconds % 60
    ));
    if cfg!(debug_assertions) {
        remarks
            .push("A DEBUG BUILD: its times mean nothing. Use `cargo run --release`.".to_owned());
    }
    if options.rounds < 5 && options.extent == Extent::Full {
        let plural = if options.rounds == 1 { "" } else { "s" };
        remarks.push(format!(
            "At most {} run{plural} of each case.",
            options.rounds
        ));
    }
    if options.is_filtered() {
        remarks.push("A filter was set: not everything was run.".to_owned());
    }
    if let Some(busy) = busy.filter(|&busy| busy > 0.5) {
        remarks.push(format!(
            "The machine was not calm: its load was {busy} on {} cores when this began. Look at the spread.",
            machine.cores
        ));
    }
    let failed = results.failures.iter().map(|why| format!("FAILED: {why}"));
    remarks.extend(failed);
    remarks
}

fn write_all(out: &Path, report: &Report) -> Result<(), Failure> {
    fs::write(out.join("report.html"), report.html())?;
    let pictures = report.sections.iter().flat_map(|it| &it.pictures);
    write_plots(&out.join("plots"), report, pictures)
}

/// The maps, and these.
fn write_plots<'a>(
    directory: &Path,
    report: &Report,
    pictures: impl Iterator<Item = &'a Picture>,
) -> Result<(), Failure> {
    for map in &report.answer.maps {
        let file = directory.join(format!("map-{}.svg", map.form.name()));
        fs::write(file, plot::standalone(&plot::grid(map)))?;
    }
    for picture in pictures {
        let file = directory.join(format!("{}.svg", picture.name));
        fs::write(file, plot::standalone(&picture.svg))?;
    }
    Ok(())
}

/// A README that takes the figures.
struct Readme<'a> {
    path: &'a Path,
    text: String,
}

impl Readme<'_> {
    /// Refuses a file that has no place for them.
    fn open(path: &Path) -> Result<Readme<'_>, Failure> {
        let wrong = |why: &dyn std::fmt::Display| format!("--readme {}: {why}", path.display());
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        readme::check(&text).map_err(|why| wrong(&why))?;
        Ok(Readme { path, text })
    }

    fn write(&self, report: &Report) -> Result<(), Failure> {
        let plots = self.path.parent().unwrap_or(Path::new(".")).join("plots");
        create(&plots)?;
        let pictures = report.sections.iter().flat_map(readme::shown);
        write_plots(&plots, report, pictures)?;
        fs::write(self.path, readme::filled(&self.text, report)?)?;
        Ok(())
    }
}

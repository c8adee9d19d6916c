//! The comparison of timer designs behind `cargo run --release --example compare`: which wheel for my
//! load? See the README of this package.
//!
//! A `plan` of cases, each run by every `contestant` in turn, each run in a process of its own (`runner`,
//! `child`), gives `results`. `answer` compares the crate's two wheels; `sections` has the plots and tables of everybody, and
//! `report` and `terminal` show both.

mod answer;
mod case;
mod child;
mod cli;
mod contestant;
mod csv;
mod group;
mod lines;
mod load;
mod measured;
mod os;
mod plan;
mod plot;
mod progress;
mod random;
mod report;
mod results;
mod runner;
mod sections;
mod sheet;
mod terminal;
mod words;

use ::figures::machine;
use cli::{Command, Options};
use plan::{Extent, Plan};
use report::Report;
use results::Results;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;
use std::{fs, io};

type Failure = Box<dyn std::error::Error>;

/// The program.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match cli::parse(&arguments) {
        Ok(Command::Compare(options)) if options.publish => publish(&options),
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
    let plan = plan(options);
    if plan.cases.is_empty() {
        return Err("nothing has these words in its name; --list shows what there is".into());
    }
    // Before the work, so that it is not lost.
    create(&options.out.join("plots"))?;
    let (load, start) = (machine::load(), Instant::now());
    let results = runner::run(&plan, options.extent);
    fs::write(options.out.join("runs.csv"), csv::runs(&plan, &results))?;
    fs::write(
        options.out.join("medians.csv"),
        csv::medians(&plan, &results),
    )?;
    let report = Report {
        answer: answer::sheet(&plan, &results),
        remarks: remarks(options, &results, load, start),
        sections: sections::sections(&plan, &results)?,
    };
    fs::write(options.out.join("report.html"), report.html())?;
    for picture in report.sections.iter().flat_map(|it| &it.pictures) {
        let file = options.out.join(format!("plots/{}.svg", picture.name));
        fs::write(file, plot::standalone(&picture.svg))?;
    }
    let mut text = terminal::answer(&report);
    if options.details {
        text.push_str(&terminal::details(&report));
    }
    let page = options.out.join("report.html");
    let _ = writeln!(text, "written: {}", page.display());
    // Whoever has closed the pipe has seen enough.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(results.failures.is_empty())
}

/// Runs the published loads on the two wheels, and writes their figures into the file that the pages are made from.
fn publish(options: &Options) -> Result<bool, Failure> {
    let mut plan = Plan::new(Extent::Full);
    answer::retain_published(&mut plan, options.rounds);
    let load = machine::wait_until_quiet(options.patience);
    let results = runner::run(&plan, Extent::Full);
    let mut sheet = ::figures::sheet::Sheet::published()?;
    let found = answer::sheet(&plan, &results);
    sheet.replace(|row| row.starts_with("compare-"), found.figures().to_vec());
    sheet.set_head("machine", &machine::describe());
    let quiet = machine::quietness(load, None);
    let command = "cargo run --release --example compare -- --publish";
    let about = format!("{}; {quiet}; {command}", machine::today());
    sheet.set_head("compare", &about);
    sheet.write(&::figures::in_repository(::figures::FILE))?;
    ::figures::pages::write(&sheet)?;
    print!("{}", terminal::words(&found));
    for failure in &results.failures {
        eprintln!("FAILED: {failure}");
    }
    Ok(results.failures.is_empty())
}

fn create(directory: &Path) -> Result<(), Failure> {
    let created = fs::create_dir_all(directory);
    created.map_err(|error| format!("{}: {error}", directory.display()).into())
}

/// What a reader has to know before trusting a figure.
fn remarks(options: &Options, results: &Results, load: Option<f64>, start: Instant) -> Vec<String> {
    let mut remarks = vec![format!(
        "{}, {}, {}, hashed-wheel {}.",
        machine::today(),
        machine::describe(),
        machine::compiler(),
        hashed_wheel::unstable::VERSION
    )];
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
    if options.is_filtered() {
        remarks.push("A filter was set: not everything was run.".to_owned());
    }
    let quiet = machine::quietness(load.unwrap_or(0.0), None);
    if quiet != "quiet" {
        remarks.push(format!("The machine was {quiet}. Look at the spread."));
    }
    if !results.repeated().0 {
        remarks.push("COUNTS DIFFERED between runs: they should not.".to_owned());
    }
    let failed = results.failures.iter().map(|why| format!("FAILED: {why}"));
    remarks.extend(failed);
    remarks
}

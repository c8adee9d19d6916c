//! The comparison of timer designs behind `cargo run --release --example compare`: which wheel for my
//! load? See the README of this package.
//!
//! A `plan` of cases, each run by every `contestant` in turn, each run in a process of its own (`runner`,
//! `child`), gives `results`; `lines` and `findings` make sense of them, `figures` puts together what is shown,
//! and `report`, `sheet`, `plot` and `csv` show it.

mod case;
mod child;
mod cli;
mod contestant;
mod csv;
mod figures;
mod findings;
mod group;
mod lines;
mod load;
mod machine;
mod measured;
mod os;
mod plan;
mod plot;
mod progress;
mod random;
mod report;
mod results;
mod runner;
mod sheet;
mod telling;
mod words;

use cli::{Command, Options};
use figures::Section;
use findings::Findings;
use machine::Machine;
use plan::{Extent, Plan};
use report::Report;
use results::Results;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

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
    fs::create_dir_all(options.out.join("plots"))
        .map_err(|error| format!("{}: {error}", options.out.display()))?;
    let (busy, start) = (machine::busy(), Instant::now());
    let results = runner::run(&plan, options.extent);
    let machine = Machine::look();
    let from = Findings {
        plan: &plan,
        results: &results,
    };
    let report = Report {
        summary: from.summary(),
        machine: &machine,
        remarks: remarks(options, &machine, &results, busy, start),
        crossings: figures::all_crossings(from),
        sections: figures::sections(from)?,
    };
    print_all(&report);
    write_all(&options.out, &report, from)?;
    println!("written: {}", options.out.join("report.html").display());
    Ok(results.failures.is_empty())
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

fn print_all(report: &Report) {
    for Section {
        level,
        title,
        sheets,
        ..
    } in &report.sections
    {
        if *level == 2 {
            println!("\n== {title} ==");
        }
        // On a terminal, of all that is counted only the sum and the wake-ups.
        let is_counted = title.starts_with("For each");
        let shown = sheets.iter().filter(|sheet| {
            !is_counted
                || sheet.caption.starts_with("wake-ups")
                || sheet.caption.starts_with("entries passed over or")
        });
        for sheet in shown {
            println!("\n{}", sheet.text().trim_end());
        }
    }
    println!("\n== Where the lines cross ==\n");
    for crossing in &report.crossings {
        let figures::Found {
            title,
            axis,
            crossing,
        } = crossing;
        println!(
            "- {title}: {}",
            telling::crossing(crossing, *axis).replace('`', "")
        );
    }
    println!("\n== Found ==\n\n{}\n", report.summary.replace('`', ""));
    println!("{}", report.machine.line());
    println!("{}", report.machine.command);
    for remark in &report.remarks {
        println!("{}", remark.replace('`', ""));
    }
}

fn write_all(out: &Path, report: &Report, from: Findings) -> Result<(), Failure> {
    fs::write(out.join("report.html"), report.html())?;
    fs::write(out.join("runs.csv"), csv::runs(from.plan, from.results))?;
    fs::write(
        out.join("medians.csv"),
        csv::medians(from.plan, from.results),
    )?;
    for picture in report.sections.iter().flat_map(|section| &section.pictures) {
        let file = out.join("plots").join(format!("{}.svg", picture.name));
        fs::write(file, plot::standalone(&picture.svg))?;
    }
    Ok(())
}

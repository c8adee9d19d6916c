//! hashed-wheel and its rivals, side by side.
//!
//! The parent process ([`runner`]) starts itself once for every run of every contestant, so that
//! memory and CPU time belong to that run alone, and lets the contestants take turns. A child
//! ([`child`]) runs one [`workload`] on one [`contestant`] and prints one line of figures. All lines are kept in a
//! [`journal`], from which a measurement that was interrupted goes on; the package `figures` sums them up.

mod case;
mod child;
mod cli;
mod contestant;
mod histogram;
mod journal;
mod measure;
mod runner;
mod workload;

use std::process::ExitCode;

use cli::Command;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match cli::parse(&args) {
        Ok(Command::Child { contestant, case }) => child::run(&contestant, &case),
        Ok(Command::Measure(options)) => runner::measure(&options),
        Ok(Command::List(options)) => {
            runner::list(&options);
            Ok(())
        }
        Ok(Command::Help) => {
            print!("{}", cli::USAGE);
            Ok(())
        }
        Err(message) => {
            eprintln!("rivals: {message}\n\n{}", cli::USAGE);
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rivals: {message}");
            ExitCode::FAILURE
        }
    }
}

//! The command: reads its options and runs the service or the demo.

use std::process::ExitCode;

use delay_queue_service::options::{Command, Options, USAGE};
use delay_queue_service::{api, demo};

fn main() -> ExitCode {
    let command = match Options::parse(std::env::args().skip(1)) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("{problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Command::Demo { quick, postgres } => demo::run(quick, postgres.as_deref()),
        Command::Serve(options) => api::serve(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

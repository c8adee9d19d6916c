//! The command: reads its options and runs the service or the demo.

use std::process::ExitCode;

use delay_queue_service::options::{Command, Options, usage};
use delay_queue_service::{demo, server};

fn main() -> ExitCode {
    // What is not UTF-8 is none of its options.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let args = std::env::args_os().skip(1);
    let args = args.map(|arg| arg.to_string_lossy().into_owned());
    let command = match Options::read(args, &environment) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("{problem}\n{}", usage());
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => {
            println!("{}", usage());
            return ExitCode::SUCCESS;
        }
        Command::Demo { quick, postgres } => demo::run(quick, postgres.as_deref()).map(|()| 0),
        Command::Serve(options) => server::serve(&options),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

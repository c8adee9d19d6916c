//! hashed-wheel-durable and its rivals, side by side: lateness of one job on an idle store, jobs a second, and what kills leave behind.
//!
//! ```text
//! durable/rivals/run                    # starts a PostgreSQL server of its own, measures all, stops it: five minutes
//! durable/rivals/run --only fang        # one of them
//! ```
//!
//! Every contestant has the settings of its documentation's first example, but for four handlers at a time; some appear a second time, with
//! settings that their documentation advises. Each measurement is made in a process of its own, on an
//! empty store.

mod child;
mod contestant;
mod parent;

use std::process::ExitCode;

const USAGE: &str = "\
usage: durable-rivals [--postgres URL] [--only NAME] [--skip late|rate|kills] [--quick]

  --postgres URL   a server on which databases can be made: postgres://USER@HOST:PORT
  --only NAME      one contestant: own, own-pg, apalis-sqlite, apalis-sqlite-poll, apalis-pg, apalis-pg-poll, fang, graphile, graphile-load, awa
  --skip WHAT      leaves out a measurement; may be repeated
  --quick          fewer repetitions";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = if args.first().is_some_and(|first| first == "child") {
        child::run(&args[1..])
    } else {
        match parent::Options::parse(args) {
            Ok(options) => parent::run(&options),
            Err(problem) => {
                eprintln!("{problem}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

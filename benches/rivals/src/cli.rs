//! The command line.

use std::time::Duration;

use crate::case::Case;

pub(crate) const USAGE: &str = "\
Usage: cargo run --release -p rivals -- [OPTIONS]

Measures this crate's timers and their rivals side by side, each run in a
process of its own, contestants taking turns. All rows are gone through once,
then again, until each has had its runs or the time is up.

  --runs N         runs of each contestant in each row (default 5)
  --minutes N      begin no round of a row that would end later than this
  --quick          a tenth of the work, and one run unless --runs says otherwise
  --filter WORDS   only what has all of these comma-separated words in its
                   row-and-contestant name, such as `churn,2p` or `fire,netty`;
                   repeated: what matches one of them
  --publish        wait for a quiet machine, and write the figures into
                   benches/figures.csv, which pages and plots are made from
  --now            publish without waiting for a quiet machine
  --continue       go on where the last --publish was interrupted
  --list           show rows and contestants, and stop
  --help           show this, and stop
";

#[derive(Debug)]
pub(crate) enum Command {
    Measure(Options),
    List(Options),
    Help,
    /// What the parent starts itself with: a contestant, and the arguments of a case.
    Child {
        contestant: String,
        case: Vec<String>,
    },
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) quick: bool,
    pub(crate) runs: usize,
    pub(crate) time: Option<Duration>,
    pub(crate) publish: bool,
    /// How long to wait for a quiet machine.
    pub(crate) patience: Duration,
    pub(crate) goes_on: bool,
    filters: Vec<Vec<String>>,
    /// As they were given.
    pub(crate) arguments: Vec<String>,
}

/// The first argument of a child.
pub(crate) const CHILD: &str = "--child";

pub(crate) fn parse(args: &[String]) -> Result<Command, String> {
    if args.first().is_some_and(|first| first == CHILD) {
        let contestant = args.get(1).ok_or("--child needs a contestant")?;
        return Ok(Command::Child {
            contestant: contestant.clone(),
            case: args[2..].to_vec(),
        });
    }
    let mut options = Options {
        quick: false,
        runs: 0,
        time: None,
        publish: false,
        patience: figures::machine::PATIENCE,
        goes_on: false,
        filters: Vec::new(),
        arguments: args.to_vec(),
    };
    let mut list = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => options.quick = true,
            "--runs" => options.runs = number(arg, value()?, 1..=1_000)?,
            "--minutes" => {
                let minutes = number(arg, value()?, 1..=1_000)?;
                options.time = Some(Duration::from_secs(60 * minutes as u64));
            }
            "--filter" => options.filters.push(words(value()?)),
            "--publish" => options.publish = true,
            "--now" => (options.publish, options.patience) = (true, Duration::ZERO),
            "--continue" => (options.publish, options.goes_on) = (true, true),
            "--list" => list = true,
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    if options.runs == 0 {
        options.runs = if options.quick { 1 } else { 5 };
    }
    if list {
        return Ok(Command::List(options));
    }
    Ok(Command::Measure(options))
}

fn number(
    option: &str,
    text: &str,
    range: std::ops::RangeInclusive<usize>,
) -> Result<usize, String> {
    let (low, high) = (range.start(), range.end());
    let wrong = || format!("{option} takes numbers from {low} to {high}, not `{text}`");
    let number = text.trim().parse().map_err(|_| wrong())?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(wrong())
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

impl Options {
    /// Whether this contestant is to run in this row.
    pub(crate) fn selects(&self, case: &Case, contestant: &str) -> bool {
        let name = format!("{case}/{contestant}");
        let all_in = |words: &Vec<String>| words.iter().all(|word| name.contains(word.as_str()));
        self.filters.is_empty() || self.filters.iter().any(all_in)
    }

    pub(crate) fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }
}

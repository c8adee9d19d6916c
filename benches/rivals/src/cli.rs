//! The command line.

use std::path::PathBuf;

use crate::case::{Case, Sizes, Workload};

pub(crate) const USAGE: &str = "\
Usage: cargo run --release -p rivals -- [OPTIONS]

Measures this crate's timers and their rivals side by side, each run in a
process of its own, contestants taking turns.

  --all            every row: also tails, oversubscribed, producers, at-once,
                   boundary, fine, at, memory-burst and growth, which otherwise run only
                   if a word of a filter is how their name begins
  --brief          every row, with this crate and the original only, except where
                   all are drawn or set a mark: about an hour
  --quick          a tenth of the work, and two runs of each unless --runs says otherwise
  --runs N         runs of each contestant in each row (default 5)
  --filter WORDS   only what has all of these comma-separated words in its
                   row-and-contestant name, such as `churn,2p` or `fire,netty`;
                   repeated: what matches one of them
  --growth         also the growth curves: 1 k to 10 M pending, 1 to 8 producers
  --flight LIST    timeouts in flight per producer in churn (default 1000,100000)
  --producers LIST numbers of producers in churn, 1 to 8 (default 1,2)
  --seconds N      each half of an oversubscribed run, 1 to 60 (default 5, quick 1)
  --out FILE       also write all figures as CSV
  --plot DIR       draw rivals.svg, tails.svg and growth.svg from the figures
  --csv FILE       with --plot: measure nothing, take the figures of this file;
                   repeated: of all of them, the later ones first in doubt
  --list           show rows and contestants, and stop
  --help           show this, and stop
";

#[derive(Debug)]
pub(crate) enum Command {
    Measure(Options),
    List(Options),
    /// Draw what has been measured before.
    Plot {
        files: Vec<PathBuf>,
        folder: PathBuf,
    },
    Help,
    /// What the parent starts itself with: a contestant, and the arguments of a case.
    Child {
        contestant: String,
        case: Vec<String>,
    },
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) sizes: Sizes,
    pub(crate) runs: usize,
    all: bool,
    pub(crate) brief: bool,
    growth: bool,
    filters: Vec<Vec<String>>,
    pub(crate) out: Option<PathBuf>,
    pub(crate) plot: Option<PathBuf>,
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
        sizes: Sizes {
            quick: false,
            flights: vec![1_000, 100_000],
            producers: vec![1, 2],
            seconds: 0,
        },
        runs: 0,
        all: false,
        brief: false,
        growth: false,
        filters: Vec::new(),
        out: None,
        plot: None,
    };
    let (mut list, mut files) = (false, Vec::new());
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--quick" => options.sizes.quick = true,
            "--all" => options.all = true,
            "--brief" => (options.all, options.brief) = (true, true),
            "--growth" => options.growth = true,
            "--list" => list = true,
            "--help" | "-h" => return Ok(Command::Help),
            "--runs" => options.runs = number(arg, value()?, 1..=1_000)?,
            "--filter" => options.filters.push(words(value()?)),
            "--flight" => options.sizes.flights = numbers(arg, value()?, 1..=10_000_000)?,
            "--producers" => options.sizes.producers = numbers(arg, value()?, 1..=8)?,
            "--seconds" => options.sizes.seconds = number(arg, value()?, 1..=60)? as u64,
            "--out" => options.out = Some(PathBuf::from(value()?)),
            "--plot" => options.plot = Some(PathBuf::from(value()?)),
            "--csv" => files.push(PathBuf::from(value()?)),
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    if options.runs == 0 {
        options.runs = if options.sizes.quick { 2 } else { 5 };
    }
    if options.sizes.seconds == 0 {
        options.sizes.seconds = if options.sizes.quick { 1 } else { 5 };
    }
    if !files.is_empty() {
        let folder = options.plot.ok_or("--csv needs --plot")?;
        return Ok(Command::Plot { files, folder });
    }
    if list {
        return Ok(Command::List(options));
    }
    Ok(Command::Measure(options))
}

type Range = std::ops::RangeInclusive<usize>;

fn number(option: &str, text: &str, range: Range) -> Result<usize, String> {
    let (low, high) = (range.start(), range.end());
    let wrong = || format!("{option} takes numbers from {low} to {high}, not `{text}`");
    let number = text.trim().parse().map_err(|_| wrong())?;
    if range.contains(&number) {
        Ok(number)
    } else {
        Err(wrong())
    }
}

fn numbers(option: &str, text: &str, range: Range) -> Result<Vec<usize>, String> {
    let parts = text.split(',');
    parts
        .map(|part| number(option, part, range.clone()))
        .collect()
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

impl Options {
    /// Whether this contestant is to run in this row.
    pub(crate) fn selects(&self, case: &Case, contestant: &str) -> bool {
        let row = case.to_string();
        let name = format!("{row}/{contestant}");
        let named = |words: &[String]| words.iter().any(|word| row.starts_with(word.as_str()));
        let all_in = |words: &[String]| words.iter().all(|word| name.contains(word.as_str()));
        let asked_for = !case.workload.is_extra()
            || self.all
            || self.growth && case.workload == Workload::Growth;
        if self.filters.is_empty() {
            return asked_for;
        }
        self.filters
            .iter()
            .any(|words| all_in(words) && (asked_for || named(words)))
    }
}

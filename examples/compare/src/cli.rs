//! The command line.

use crate::contestant::Contestant;
use crate::plan::Extent;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const USAGE: &str = "\
usage: cargo run --release --example compare -- [OPTIONS]

Which wheel for my load? Six designs under one front, side by side.

  --quick         below a minute, with less of everything; the full run takes
                  below thirty minutes on two cores
  --out DIR       where report.html, the plots and the CSV files go
                  (default target/compare)
  --filter WORDS  only what has all of these comma-separated words in its
                  case-and-contestant name, such as `churn`, `fire/` or
                  `delay,hashed`; repeated: what matches one of them
  --rounds N      run everything at most N times, 1 to 100: faster, and more is
                  within the noise
  --details       print all tables behind the answer
  --publish       wait for a quiet machine, run the published loads on the two
                  wheels, nine rounds unless --rounds says otherwise, and write
                  the figures into benches/figures.csv and the pages: five minutes
  --now           publish without waiting for a quiet machine
  --list          show the cases and who runs them, and stop
  --help          show this, and stop
";

#[derive(Debug)]
pub(crate) enum Command {
    Compare(Options),
    List(Options),
    Help,
    /// What this program starts itself with: one run of one case.
    Child {
        extent: Extent,
        case: String,
        contestant: Contestant,
    },
}

#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) extent: Extent,
    pub(crate) out: PathBuf,
    /// At most so many runs of each case.
    pub(crate) rounds: usize,
    pub(crate) details: bool,
    pub(crate) publish: bool,
    /// How long to wait for a quiet machine before publishing.
    pub(crate) patience: Duration,
    filters: Vec<Vec<String>>,
}

impl Options {
    /// Whether this contestant is to run this case.
    pub(crate) fn wants(&self, case: &str, contestant: Contestant) -> bool {
        let name = format!("{case}/{}", contestant.name());
        let all_in = |words: &Vec<String>| words.iter().all(|word| name.contains(word.as_str()));
        self.filters.is_empty() || self.filters.iter().any(all_in)
    }

    pub(crate) fn is_filtered(&self) -> bool {
        !self.filters.is_empty()
    }
}

const CHILD: &str = "--child";
const MOST_ROUNDS: usize = 100;
const PUBLISHED_ROUNDS: usize = 9;

/// The arguments that start a child.
pub(crate) fn child_arguments(extent: Extent, case: &str, contestant: Contestant) -> [String; 4] {
    [CHILD, extent.name(), case, contestant.name()].map(str::to_owned)
}

pub(crate) fn parse(arguments: &[String]) -> Result<Command, String> {
    if let [first, extent, case, contestant] = arguments {
        if first == CHILD {
            return Ok(Command::Child {
                extent: Extent::from_name(extent)
                    .ok_or_else(|| format!("there is no extent `{extent}`"))?,
                case: case.clone(),
                contestant: Contestant::from_name(contestant)
                    .ok_or_else(|| format!("there is no contestant `{contestant}`"))?,
            });
        }
    }
    let mut options = Options {
        extent: Extent::Full,
        out: PathBuf::from("target/compare"),
        rounds: 0,
        details: false,
        publish: false,
        patience: figures::machine::PATIENCE,
        filters: Vec::new(),
    };
    let mut list = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let value = arguments.next().filter(|value| !value.starts_with("--"));
            value.ok_or_else(|| format!("{argument} needs a value"))
        };
        match argument.as_str() {
            "--quick" => options.extent = Extent::Quick,
            "--out" => options.out = PathBuf::from(value()?),
            "--filter" => options.filters.push(words(value()?)),
            "--rounds" => options.rounds = rounds(value()?)?,
            "--details" => options.details = true,
            "--publish" => options.publish = true,
            "--now" => (options.publish, options.patience) = (true, Duration::ZERO),
            "--list" => list = true,
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    if options.rounds == 0 {
        options.rounds = if options.publish {
            PUBLISHED_ROUNDS
        } else {
            MOST_ROUNDS
        };
    }
    if list {
        return Ok(Command::List(options));
    }
    Ok(Command::Compare(options))
}

fn rounds(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MOST_ROUNDS).contains(number));
    number.ok_or_else(|| format!("--rounds takes a number from 1 to {MOST_ROUNDS}, not `{text}`"))
}

fn words(text: &str) -> Vec<String> {
    text.split(',').map(|word| word.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Command, child_arguments, parse};
    use crate::contestant::Contestant;
    use crate::plan::Extent;

    fn parsed(line: &str) -> Result<Command, String> {
        let arguments: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        parse(&arguments)
    }

    #[test]
    fn options_are_read() {
        let Ok(Command::Compare(options)) =
            parsed("--quick --out there --filter churn,heap --filter size")
        else {
            panic!("not a comparison");
        };
        assert_eq!(options.extent, Extent::Quick);
        assert_eq!(options.out.to_str(), Some("there"));
        assert!(options.wants("churn/1 k", Contestant::Heap));
        assert!(!options.wants("churn/1 k", Contestant::Hashed));
        assert!(options.wants("size/8", Contestant::Hashed));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(parsed("--fast").is_err());
        assert!(parsed("--out").is_err());
        assert!(parsed("--out --quick").is_err());
        assert!(parsed("report").is_err());
        for wrong in ["0", "101", "-1", "many"] {
            let said = parsed(&format!("--rounds {wrong}")).unwrap_err();
            assert!(said.contains("1 to 100") && said.contains(wrong), "{said}");
        }
    }

    #[test]
    fn a_child_is_told_its_case() {
        let arguments = child_arguments(Extent::Quick, "churn/1 k in flight", Contestant::Heap);
        let Ok(Command::Child { extent, case, .. }) = parse(&arguments) else {
            panic!("not a child");
        };
        assert_eq!(extent, Extent::Quick);
        assert_eq!(case, "churn/1 k in flight");
    }
}

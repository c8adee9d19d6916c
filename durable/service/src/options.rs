//! The command line.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// What the program says of itself.
pub const USAGE: &str = "\
usage: delay-queue-service [OPTIONS]

A delay queue over HTTP: post a job with an address, and its payload is posted there at its time.
Its page is at the address that it prints.

  --listen ADDRESS     where it answers; loopback only (127.0.0.1:8085 unless told; port 0: any free one)
  --file FILE          where the jobs are kept (delay-queue.redb unless told)
  --postgres URL       keeps them in PostgreSQL instead, shared with others (needs the feature `postgres`)
  --rate N             at most so many calls a second for each host, 1 to 1000 (10 unless told)
  --attempts N         a job that fails so often is a dead letter, 1 to 1000 (8 unless told)
  --backoff MS MS      the delay after the first failure, and the longest (1000 and 3600000 unless told)
  --timeout MS         how long a call may take, 1 to 600000 (10000 unless told)
  --lease MS           with --postgres: after so long without a sign of life another takes over (30000 unless told)
  --allow-host HOST    may be called too, beside loopback; may be repeated
  --demo               starts the service, kills it in the middle and starts it again: ten seconds
  --demo --quick       the same, shorter
  --demo --postgres URL   two services on one database, one of them killed";

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Serve(Options),
    Demo {
        quick: bool,
        postgres: Option<String>,
    },
    Help,
}

/// The settings of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    pub listen: SocketAddr,
    pub file: PathBuf,
    pub postgres: Option<String>,
    /// Calls a second for each host.
    pub rate: u32,
    pub attempts: u32,
    /// The delay after the first failure, and the longest.
    pub backoff: (Duration, Duration),
    /// The longest time of a call.
    pub timeout: Duration,
    pub lease: Duration,
    /// Hosts that may be called, beside loopback.
    pub allowed: Vec<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 8085)),
            file: PathBuf::from("delay-queue.redb"),
            postgres: None,
            rate: 10,
            attempts: 8,
            backoff: (Duration::from_secs(1), Duration::from_secs(3600)),
            timeout: Duration::from_secs(10),
            lease: Duration::from_secs(30),
            allowed: Vec::new(),
        }
    }
}

fn value(args: &mut impl Iterator<Item = String>, name: &str) -> Result<String, String> {
    args.next().ok_or_else(|| format!("{name} needs a value"))
}

fn number(
    args: &mut impl Iterator<Item = String>,
    name: &str,
    range: RangeInclusive<u32>,
) -> Result<u32, String> {
    let text = value(args, name)?;
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            format!("{name} is {text:?}: it must be a number from {low} to {high}")
        })
}

fn millis(
    args: &mut impl Iterator<Item = String>,
    name: &str,
    range: RangeInclusive<u32>,
) -> Result<Duration, String> {
    number(args, name, range).map(|number| Duration::from_millis(number.into()))
}

const DAY: u32 = 86_400_000;

impl Options {
    /// Reads the command line. An error names the value and what is allowed.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
        let mut args = args.into_iter();
        let mut options = Options::default();
        let (mut demo, mut quick, mut serves) = (false, false, None);
        while let Some(arg) = args.next() {
            if !["--demo", "--quick", "--postgres"].contains(&arg.as_str()) {
                serves = Some(arg.clone());
            }
            match arg.as_str() {
                "--help" | "-h" => return Ok(Command::Help),
                "--demo" => demo = true,
                "--quick" => quick = true,
                "--listen" => options.listen = listen(&value(&mut args, &arg)?)?,
                "--file" => options.file = PathBuf::from(value(&mut args, &arg)?),
                "--postgres" => options.postgres = Some(postgres(value(&mut args, &arg)?)?),
                "--rate" => options.rate = number(&mut args, &arg, 1..=1000)?,
                "--attempts" => options.attempts = number(&mut args, &arg, 1..=1000)?,
                "--backoff" => {
                    let first = millis(&mut args, &arg, 1..=DAY)?;
                    let most = millis(&mut args, &arg, 1..=DAY)?;
                    if first > most {
                        return Err(format!("--backoff: {first:?} is longer than {most:?}"));
                    }
                    options.backoff = (first, most);
                }
                "--timeout" => options.timeout = millis(&mut args, &arg, 1..=600_000)?,
                "--lease" => options.lease = millis(&mut args, &arg, 100..=DAY)?,
                "--allow-host" => {
                    let host = value(&mut args, &arg)?;
                    if host.is_empty() || host.contains(['/', '@', ' ']) {
                        return Err(format!(
                            "--allow-host is {host:?}: it must be a name or an address, without scheme and port"
                        ));
                    }
                    options.allowed.push(host.to_ascii_lowercase());
                }
                other => return Err(format!("unknown option {other}")),
            }
        }
        match (demo, quick, serves) {
            (true, _, Some(other)) => Err(format!("--demo does not take {other}")),
            (true, quick, None) => Ok(Command::Demo {
                quick,
                postgres: options.postgres,
            }),
            (false, true, _) => Err("--quick needs --demo".to_owned()),
            (false, false, _) => Ok(Command::Serve(options)),
        }
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| {
        format!("--listen is {text:?}: it must be an address and a port, like 127.0.0.1:8085")
    })?;
    if !address.ip().is_loopback() {
        return Err(format!(
            "--listen is {text}: it must be loopback, for there is no login; put a proxy with one in front"
        ));
    }
    Ok(address)
}

fn postgres(url: String) -> Result<String, String> {
    if cfg!(feature = "postgres") {
        Ok(url)
    } else {
        Err("--postgres needs the feature `postgres`".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn settings_are_read() {
        let Ok(Command::Serve(options)) = parse(
            "--listen [::1]:0 --file x.redb --rate 5 --attempts 3 --backoff 10 20 --timeout 500 --allow-host Example.org",
        ) else {
            panic!()
        };
        assert!(options.listen.is_ipv6());
        assert_eq!((options.rate, options.attempts), (5, 3));
        assert_eq!(options.backoff.1, Duration::from_millis(20));
        assert_eq!(options.allowed, ["example.org"]);
        assert_eq!(parse(""), Ok(Command::Serve(Options::default())));
    }

    #[test]
    fn bad_values_are_named_with_their_range() {
        for (line, words) in [
            ("--rate 0", "\"0\": it must be a number from 1 to 1000"),
            ("--rate x", "\"x\""),
            ("--rate", "needs a value"),
            ("--attempts 1001", "1 to 1000"),
            ("--backoff 20 10", "20ms is longer than 10ms"),
            ("--timeout 0", "1 to 600000"),
            ("--listen 0.0.0.0:80", "must be loopback"),
            ("--listen here", "\"here\""),
            ("--allow-host http://x", "without scheme"),
            ("--demo --rate 3", "does not take --rate"),
            ("--quick", "needs --demo"),
            ("--no-such-option", "unknown option"),
        ] {
            let problem = parse(line).unwrap_err();
            assert!(problem.contains(words), "{line}: {problem}");
        }
    }
}

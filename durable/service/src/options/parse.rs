//! From words to settings.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::{Command, Options, SPECS, Spec};

/// The text for `--help`.
pub fn usage() -> String {
    let mut text = "usage: delay-queue-service [OPTIONS]

A delay queue over HTTP: post a job with an address, and its payload is posted there at its time.
Its page is at the address that it prints. The value in parentheses holds unless another is given.

"
    .to_owned();
    for spec in SPECS {
        let name = format!("--{} {}", spec.name, spec.values);
        let many = if spec.many { "; may be repeated" } else { "" };
        let _ = writeln!(text, "  {name:<24} {}{many}", spec.help);
    }
    text += "  --config FILE            a file with lines such as `rate = 20`
  --demo [--quick]         starts the service, kills it in the middle and starts it again: ten seconds
  --demo --postgres URL    two services on one database, one of them killed

Each option can also stand in the environment (--calls-per-host: DELAY_QUEUE_CALLS_PER_HOST; several values with commas
between them) and in the file of --config. The command line wins over the environment, the environment over the file.";
    text
}

/// Where a value stands, and the value.
type Given = (String, String);

impl Options {
    /// Reads the command line alone.
    pub fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
        Options::read(args, &HashMap::new())
    }

    /// Reads the command line, the environment and the file of `--config`. An error names the place, the value and what is allowed.
    pub fn read(
        args: impl IntoIterator<Item = String>,
        environment: &HashMap<String, String>,
    ) -> Result<Command, String> {
        let mut args = args.into_iter();
        let mut line: HashMap<&'static str, Vec<Given>> = HashMap::new();
        let (mut demo, mut quick, mut serves, mut config) = (false, false, None, None);
        while let Some(arg) = args.next() {
            // `--name=value` is two words, too.
            let (arg, mut inline) = match arg.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_owned(), Some(value.to_owned()))
                }
                _ => (arg, None),
            };
            let mut value = || {
                inline
                    .take()
                    .or_else(|| args.next())
                    .ok_or_else(|| format!("{arg} needs a value"))
            };
            match arg.as_str() {
                "--help" | "-h" => return Ok(Command::Help),
                "--demo" => demo = true,
                "--quick" => quick = true,
                "--config" => config = Some(value()?),
                _ => {
                    let spec = find(arg.strip_prefix("--").unwrap_or_default())
                        .ok_or_else(|| format!("unknown option {arg}"))?;
                    if spec.name != "postgres" {
                        serves = Some(arg.clone());
                    }
                    let words: Result<Vec<String>, String> =
                        spec.values.split(' ').map(|_| value()).collect();
                    let text = words?.join(" ");
                    let given = line.entry(spec.name).or_default();
                    if !spec.many {
                        given.clear();
                    }
                    given.push((arg, text));
                }
            }
        }
        for name in environment.keys() {
            if let Some(rest) = name.strip_prefix("DELAY_QUEUE_")
                && rest != "CONFIG"
                && !is_of_a_service(rest)
                && !SPECS.iter().any(|spec| variable(spec) == *name)
            {
                return Err(format!("unknown option {name} in the environment"));
            }
        }
        let config = config.or_else(|| environment.get("DELAY_QUEUE_CONFIG").cloned());
        if demo {
            if let Some(other) = serves.or(config.as_ref().map(|_| "--config".to_owned())) {
                return Err(format!("--demo does not take {other}"));
            }
        } else if quick {
            return Err("--quick needs --demo".to_owned());
        }
        let file = config
            .map(|path| read_file(&path))
            .transpose()?
            .unwrap_or_default();
        let mut options = Options::default();
        for spec in SPECS {
            let given = line
                .get(spec.name)
                .cloned()
                .or_else(|| from_environment(spec, environment))
                .or_else(|| file.get(spec.name).cloned())
                .unwrap_or_default();
            for (place, text) in given {
                (spec.set)(&mut options, &text).map_err(|problem| format!("{place} {problem}"))?;
            }
        }
        if demo {
            return Ok(Command::Demo {
                quick,
                postgres: options.postgres,
            });
        }
        options.check()?;
        Ok(Command::Serve(Box::new(options)))
    }

    /// The rules between options.
    fn check(&self) -> Result<(), String> {
        if !self.listen.ip().is_loopback() && self.token_files.is_empty() {
            return Err(format!(
                "--listen is {}: beyond loopback it needs --token-file",
                self.listen
            ));
        }
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), None) => Err("--tls-cert needs --tls-key".to_owned()),
            (None, Some(_)) => Err("--tls-key needs --tls-cert".to_owned()),
            _ => Ok(()),
        }
    }
}

fn find(name: &str) -> Option<&'static Spec> {
    SPECS.iter().find(|spec| spec.name == name)
}

/// The name of an option in the environment.
fn variable(spec: &Spec) -> String {
    let name = spec.name.replace('-', "_").to_ascii_uppercase();
    format!("DELAY_QUEUE_{name}")
}

/// What Kubernetes sets in every container for a service that is called `delay-queue`: `DELAY_QUEUE_SERVICE_HOST`, `DELAY_QUEUE_PORT_80_TCP` and the like.
fn is_of_a_service(name: &str) -> bool {
    name == "PORT" || name.starts_with("PORT_") || name.starts_with("SERVICE_")
}

fn from_environment(spec: &Spec, environment: &HashMap<String, String>) -> Option<Vec<Given>> {
    let name = variable(spec);
    let text = environment.get(&name).filter(|text| !text.is_empty())?;
    let texts: Vec<&str> = if spec.many {
        text.split(',').map(str::trim).collect()
    } else {
        vec![text]
    };
    Some(
        texts
            .into_iter()
            .map(|text| (name.clone(), text.to_owned()))
            .collect(),
    )
}

/// Lines of `name = value`; `#` begins a remark.
fn read_file(path: &str) -> Result<HashMap<&'static str, Vec<Given>>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config {path}: it cannot be read: {error}"))?;
    let mut found: HashMap<&'static str, Vec<Given>> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let place = format!("{path} line {}:", number + 1);
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("{place} it must be NAME = VALUE"))?;
        let (name, value) = (name.trim(), value.trim());
        let spec = find(name).ok_or_else(|| format!("{place} unknown option {name:?}"))?;
        let given = found.entry(spec.name).or_default();
        if !given.is_empty() && !spec.many {
            return Err(format!("{place} {name} stands twice"));
        }
        given.push((format!("{place} {name}"), value.to_owned()));
    }
    Ok(found)
}

pub(super) fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (low, high) = (range.start(), range.end());
            format!("is {text:?}: it must be a number from {low} to {high}")
        })
}

pub(super) fn millis(text: &str, range: RangeInclusive<u32>) -> Result<Duration, String> {
    number(text, range).map(|number| Duration::from_millis(number.into()))
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("is empty: it must be the name of a file".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// An origin as a browser sends it: scheme and host, with the port if it is not the scheme's own.
pub(super) fn origin(text: &str) -> Result<String, String> {
    let origin = text.trim_end_matches('/').to_ascii_lowercase();
    let uri: Option<axum::http::Uri> = origin.parse().ok();
    let valid = uri.is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.path() == "/"
            && uri.query().is_none()
            && uri
                .authority()
                .is_some_and(|authority| !authority.as_str().contains('@'))
    });
    if !valid {
        return Err(format!(
            "is {text:?}: it must be a scheme and a host, like https://queue.example.org"
        ));
    }
    Ok(origin)
}

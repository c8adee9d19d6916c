//! The settings: from the command line, the environment and a file.
//!
//! Every option stands once, in [`SPECS`]. `--calls-per-host 8` on the command line is `DELAY_QUEUE_CALLS_PER_HOST=8` in the environment and
//! `calls-per-host = 8` in the file that `--config` names. The command line wins over the environment, the environment over the file.

mod parse;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::call::allowed::Rule;
use crate::log::Level;

pub use parse::usage;

/// The work to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Serve(Box<Options>),
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
    /// Origins under which a proxy offers this service, like `https://queue.example.org`.
    pub public_origins: Vec<String>,
    pub token_files: Vec<PathBuf>,
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// The most connections; fewer where descriptors are few.
    pub connections: usize,
    /// The longest time for the headers of a request.
    pub header_timeout: Duration,
    /// The longest time for the body of a request.
    pub body_timeout: Duration,
    /// How long a connection may rest between requests.
    pub idle_timeout: Duration,
    /// The longest time from SIGTERM to the end.
    pub grace: Duration,

    pub file: PathBuf,
    pub postgres: Option<String>,
    /// Certificates that the database's may be signed by, in place of the system's.
    pub postgres_ca: Option<PathBuf>,
    pub lease: Duration,
    /// How long the store may fail before the process ends with exit code 3. Zero: for ever.
    pub store_patience: Duration,

    /// Calls a second for each host.
    pub rate: u32,
    /// Calls at a time.
    pub calls: usize,
    /// Calls at a time for each host.
    pub calls_per_host: usize,
    pub attempts: u32,
    /// The delay after the first failure, and the longest.
    pub backoff: (Duration, Duration),
    /// The longest time of a call.
    pub timeout: Duration,
    /// Hosts, addresses and networks that may be called.
    pub allowed: Vec<Rule>,
    /// Certificates that a receiver's may be signed by, in place of the system's.
    pub callback_ca: Option<PathBuf>,
    pub signing_key_files: Vec<PathBuf>,

    pub log: Level,
}

impl Default for Options {
    fn default() -> Options {
        let seconds = Duration::from_secs;
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 8085)),
            public_origins: Vec::new(),
            token_files: Vec::new(),
            tls_cert: None,
            tls_key: None,
            connections: 1024,
            header_timeout: seconds(10),
            body_timeout: seconds(30),
            idle_timeout: seconds(60),
            grace: seconds(10),
            file: PathBuf::from("delay-queue.redb"),
            postgres: None,
            postgres_ca: None,
            lease: seconds(30),
            store_patience: seconds(60),
            rate: 10,
            calls: 512,
            calls_per_host: 8,
            attempts: 8,
            backoff: (seconds(1), seconds(3600)),
            timeout: seconds(10),
            allowed: Vec::new(),
            callback_ca: None,
            signing_key_files: Vec::new(),
            log: Level::Info,
        }
    }
}

impl Options {
    /// The store, for people: no password.
    pub fn store(&self) -> String {
        match self.postgres {
            Some(_) => "PostgreSQL".to_owned(),
            None => self.file.display().to_string(),
        }
    }
}

/// One option.
struct Spec {
    name: &'static str,
    /// What its values are called in the usage. One word for each value.
    values: &'static str,
    /// May it be given several times?
    many: bool,
    help: &'static str,
    set: fn(&mut Options, &str) -> Result<(), String>,
}

const DAY: u32 = 86_400_000;

/// Every option of the service, in the order of the usage.
const SPECS: &[Spec] = &[
    Spec {
        name: "listen",
        values: "ADDRESS",
        many: false,
        help: "where it answers (127.0.0.1:8085; port 0: any free one); beyond loopback it needs --token-file",
        set: |options, text| {
            options.listen = text.parse().map_err(|_| {
                format!("is {text:?}: it must be an address and a port, like 127.0.0.1:8085")
            })?;
            Ok(())
        },
    },
    Spec {
        name: "public-origin",
        values: "ORIGIN",
        many: true,
        help: "the origin under which a proxy offers it, like https://queue.example.org",
        set: |options, text| {
            options.public_origins.push(parse::origin(text)?);
            Ok(())
        },
    },
    Spec {
        name: "token-file",
        values: "FILE",
        many: true,
        help: "tokens that a request must have one of, a line each; read again at SIGHUP",
        set: |options, text| {
            options.token_files.push(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "tls-cert",
        values: "FILE",
        many: false,
        help: "its certificate and the chain, PEM: it answers HTTPS only",
        set: |options, text| {
            options.tls_cert = Some(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "tls-key",
        values: "FILE",
        many: false,
        help: "the private key of --tls-cert, PEM",
        set: |options, text| {
            options.tls_key = Some(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "connections",
        values: "N",
        many: false,
        help: "the most connections of clients, 1 to 100000 (1024; fewer where descriptors are few)",
        set: |options, text| {
            options.connections = parse::number(text, 1..=100_000)? as usize;
            Ok(())
        },
    },
    Spec {
        name: "header-timeout",
        values: "MS",
        many: false,
        help: "the longest time for the headers of a request (10000)",
        set: |options, text| {
            options.header_timeout = parse::millis(text, 10..=600_000)?;
            Ok(())
        },
    },
    Spec {
        name: "body-timeout",
        values: "MS",
        many: false,
        help: "the longest time for the body of a request (30000)",
        set: |options, text| {
            options.body_timeout = parse::millis(text, 10..=600_000)?;
            Ok(())
        },
    },
    Spec {
        name: "idle-timeout",
        values: "MS",
        many: false,
        help: "how long a connection may rest between requests (60000)",
        set: |options, text| {
            options.idle_timeout = parse::millis(text, 10..=DAY)?;
            Ok(())
        },
    },
    Spec {
        name: "grace",
        values: "MS",
        many: false,
        help: "the longest time from SIGTERM to the end, 100 to 600000 (10000)",
        set: |options, text| {
            options.grace = parse::millis(text, 100..=600_000)?;
            Ok(())
        },
    },
    Spec {
        name: "file",
        values: "FILE",
        many: false,
        help: "where the jobs are kept (delay-queue.redb)",
        set: |options, text| {
            options.file = parse::path(text)?;
            Ok(())
        },
    },
    Spec {
        name: "postgres",
        values: "URL",
        many: false,
        help: "keeps them in PostgreSQL instead, shared with others (needs the feature `postgres`)",
        set: |options, text| {
            if !cfg!(feature = "postgres") {
                return Err("needs the feature `postgres`".to_owned());
            }
            options.postgres = Some(text.to_owned());
            Ok(())
        },
    },
    Spec {
        name: "postgres-ca",
        values: "FILE",
        many: false,
        help: "roots for the certificate of PostgreSQL, PEM (the system's)",
        set: |options, text| {
            options.postgres_ca = Some(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "lease",
        values: "MS",
        many: false,
        help: "with --postgres: another service takes over after so long without a sign of life (30000)",
        set: |options, text| {
            options.lease = parse::millis(text, 100..=DAY)?;
            Ok(())
        },
    },
    Spec {
        name: "store-patience",
        values: "MS",
        many: false,
        help: "ends with exit code 3 when the store has failed for so long (60000; 0: never)",
        set: |options, text| {
            options.store_patience = parse::millis(text, 0..=DAY)?;
            Ok(())
        },
    },
    Spec {
        name: "rate",
        values: "N",
        many: false,
        help: "at most so many calls a second for each host, 1 to 100000 (10)",
        set: |options, text| {
            options.rate = parse::number(text, 1..=100_000)?;
            Ok(())
        },
    },
    Spec {
        name: "calls",
        values: "N",
        many: false,
        help: "calls at a time, 2 to 1000 (512; fewer where descriptors are few)",
        set: |options, text| {
            options.calls = parse::number(text, 2..=1000)? as usize;
            Ok(())
        },
    },
    Spec {
        name: "calls-per-host",
        values: "N",
        many: false,
        help: "calls at a time for each host, 1 to 1000 (8)",
        set: |options, text| {
            options.calls_per_host = parse::number(text, 1..=1000)? as usize;
            Ok(())
        },
    },
    Spec {
        name: "attempts",
        values: "N",
        many: false,
        help: "a job that fails so often is a dead letter, 1 to 1000 (8)",
        set: |options, text| {
            options.attempts = parse::number(text, 1..=1000)?;
            Ok(())
        },
    },
    Spec {
        name: "backoff",
        values: "MS MS",
        many: false,
        help: "the delay after the first failure, and the longest (1000 3600000)",
        set: |options, text| {
            let (first, most) = text
                .split_once([' ', ','])
                .ok_or_else(|| format!("is {text:?}: it must be two numbers"))?;
            let first = parse::millis(first, 1..=DAY)?;
            let most = parse::millis(most.trim(), 1..=DAY)?;
            if first > most {
                return Err(format!("{first:?} is longer than {most:?}"));
            }
            options.backoff = (first, most);
            Ok(())
        },
    },
    Spec {
        name: "timeout",
        values: "MS",
        many: false,
        help: "the longest time of a call, 1 to 600000 (10000)",
        set: |options, text| {
            options.timeout = parse::millis(text, 1..=600_000)?;
            Ok(())
        },
    },
    Spec {
        name: "allow-host",
        values: "HOST",
        many: true,
        help: "may be called: a name, *.NAME, * for every public host, or an address, with :PORT for one port of it",
        set: |options, text| {
            options.allowed.push(Rule::host(text)?);
            Ok(())
        },
    },
    Spec {
        name: "allow-net",
        values: "NET",
        many: true,
        help: "may be called: a network of addresses, like 10.0.0.0/8",
        set: |options, text| {
            options.allowed.push(Rule::net(text)?);
            Ok(())
        },
    },
    Spec {
        name: "callback-ca",
        values: "FILE",
        many: false,
        help: "roots for the certificates of receivers, PEM (the system's)",
        set: |options, text| {
            options.callback_ca = Some(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "signing-key-file",
        values: "FILE",
        many: true,
        help: "keys that calls are signed with, whsec_BASE64, a line each: all sign; read again at SIGHUP",
        set: |options, text| {
            options.signing_key_files.push(parse::path(text)?);
            Ok(())
        },
    },
    Spec {
        name: "log",
        values: "LEVEL",
        many: false,
        help: "error, warn, info, debug or off; JSON lines on standard error (info)",
        set: |options, text| {
            options.log = text.parse()?;
            Ok(())
        },
    },
];

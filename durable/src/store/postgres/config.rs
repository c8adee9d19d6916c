//! Where the database is and what the table is called: everything that a user can get wrong, with an error that says how.
//!
//! No error repeats the connection string: it may hold a password.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::error::Error;

/// The longest prefix: with the longest of our suffixes it has to fit into the 63 bytes of a name in PostgreSQL.
const MAX_PREFIX: usize = 40;

/// The prefix unless one is chosen.
pub(crate) const PREFIX: &str = "durable_";

/// The names of what a timer has in its database. They need no quotes.
#[derive(Debug, Clone)]
pub(super) struct Names {
    /// The table, and the channel of its notices.
    pub(super) jobs: String,
    /// The sequence that ids and tokens come from.
    pub(super) numbers: String,
    /// The table of processes.
    pub(super) processes: String,
    /// The table of paused kinds.
    pub(super) paused: String,
    /// What the names of functions begin with.
    pub(super) prefix: String,
}

impl Names {
    pub(super) fn new(prefix: &str) -> Result<Names, Error> {
        let letter = |c: char| c.is_ascii_lowercase() || c == '_';
        let valid = prefix.len() <= MAX_PREFIX
            && prefix.starts_with(letter)
            && prefix.chars().all(|c| letter(c) || c.is_ascii_digit());
        if !valid {
            return Err(Error::Config(format!(
                "the table prefix is {prefix:?}: it must have 1 to {MAX_PREFIX} of a-z, 0-9 and _, and not begin with a digit"
            )));
        }
        Ok(Names {
            jobs: format!("{prefix}jobs"),
            numbers: format!("{prefix}numbers"),
            processes: format!("{prefix}processes"),
            paused: format!("{prefix}paused"),
            prefix: prefix.to_owned(),
        })
    }
}

/// Reads a connection string.
pub(crate) fn parse(url: &str) -> Result<Config, Error> {
    url.parse()
        .map_err(|error| Error::Config(refusal(url, &error)))
}

fn refusal(url: &str, error: &tokio_postgres::Error) -> String {
    let reason = std::error::Error::source(error).map_or_else(String::new, ToString::to_string);
    // Names an option of ours or one of theirs, but a piece of a password that was not escaped may look like an option.
    let secret = url.contains('@') || url.contains("password");
    let reason = if reason.starts_with("invalid value for option")
        || (reason.starts_with("unknown option") && !secret)
    {
        format!(": {reason}")
    } else {
        String::new()
    };
    format!(
        "the connection string cannot be read{reason}; it must be postgres://USER:PASSWORD@HOST:PORT/DATABASE with what is special in a \
         password percent-encoded, or pairs such as host=HOST user=USER dbname=DATABASE"
    )
}

/// The same configuration for the asynchronous client.
pub(crate) fn translate(from: &::postgres::Config) -> Config {
    let mut to = Config::new();
    if let Some(user) = from.get_user() {
        to.user(user);
    }
    if let Some(password) = from.get_password() {
        to.password(password);
    }
    if let Some(name) = from.get_dbname() {
        to.dbname(name);
    }
    if let Some(options) = from.get_options() {
        to.options(options);
    }
    if let Some(name) = from.get_application_name() {
        to.application_name(name);
    }
    for host in from.get_hosts() {
        match host {
            Host::Tcp(name) => to.host(name),
            #[cfg(unix)]
            Host::Unix(path) => to.host_path(path),
        };
    }
    for &address in from.get_hostaddrs() {
        to.hostaddr(address);
    }
    for &port in from.get_ports() {
        to.port(port);
    }
    if let Some(&timeout) = from.get_connect_timeout() {
        to.connect_timeout(timeout);
    }
    if let Some(&timeout) = from.get_tcp_user_timeout() {
        to.tcp_user_timeout(timeout);
    }
    if let Some(interval) = from.get_keepalives_interval() {
        to.keepalives_interval(interval);
    }
    if let Some(retries) = from.get_keepalives_retries() {
        to.keepalives_retries(retries);
    }
    to.ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .target_session_attrs(from.get_target_session_attrs())
        .channel_binding(from.get_channel_binding())
        .load_balance_hosts(from.get_load_balance_hosts());
    to
}

/// Completes a configuration: a name for the server's lists, and limits on how long a broken network goes unnoticed.
pub(super) fn complete(mut config: Config, patience: Duration) -> Result<Config, Error> {
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err(Error::Config(
            "the connection string names no host".to_owned(),
        ));
    }
    let at = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
    if config.get_hosts().iter().any(at) {
        return Err(Error::Config(
            "the host in the connection string has an @: in a password it must be written %40"
                .to_owned(),
        ));
    }
    if config.get_application_name().is_none() {
        config.application_name("hashed-wheel-durable");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(patience);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(Duration::from_secs(20));
    }
    // The crate's own is two hours, as in libpq.
    if config.get_keepalives_idle() == Duration::from_secs(2 * 60 * 60) {
        config.keepalives_idle(Duration::from_secs(10));
        config.keepalives_interval(Duration::from_secs(5));
        config.keepalives_retries(2);
    }
    Ok(config)
}

/// The database, for people: no password.
pub(super) fn describe(config: &Config) -> String {
    let mut text = String::from("PostgreSQL at ");
    let ports = config.get_ports();
    for (number, host) in config.get_hosts().iter().enumerate() {
        if number > 0 {
            text += ", ";
        }
        match host {
            Host::Tcp(name) => text += name,
            #[cfg(unix)]
            Host::Unix(path) => {
                let _ = write!(text, "{}", path.display());
            }
        }
        let port = ports.get(number).or(ports.first()).unwrap_or(&5432);
        let _ = write!(text, ":{port}");
    }
    for address in config.get_hostaddrs() {
        let _ = write!(text, " ({address})");
    }
    if let Some(name) = config.get_dbname() {
        let _ = write!(text, ", database {name}");
    }
    if let Some(user) = config.get_user() {
        let _ = write!(text, ", user {user}");
    }
    text
}

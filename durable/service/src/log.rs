//! Structured logs: one JSON object a line, on standard error.
//!
//! A thread writes them, so that a reader that is slow holds up no request and no call. When [`QUEUED`] lines wait, further ones are counted and dropped, and a
//! line tells how many.

use std::io::Write as _;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

/// The most lines that wait to be written.
const QUEUED: usize = 10_000;

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        [
            Level::Off,
            Level::Error,
            Level::Warn,
            Level::Info,
            Level::Debug,
        ]
        .into_iter()
        .find(|level| level.name() == text)
        .ok_or_else(|| format!("is {text:?}: it must be error, warn, info, debug or off"))
    }
}

enum Message {
    Line(String),
    Flush(SyncSender<()>),
}

struct Sink {
    level: Level,
    lines: SyncSender<Message>,
    lost: AtomicU64,
}

static SINK: OnceLock<Sink> = OnceLock::new();

/// Begins to log. What the libraries log comes along.
pub fn start(level: Level) {
    let (lines, receiver) = sync_channel(QUEUED);
    let sink = Sink {
        level,
        lines,
        lost: AtomicU64::new(0),
    };
    if SINK.set(sink).is_err() {
        return;
    }
    let _ = std::thread::Builder::new()
        .name("log".to_owned())
        .spawn(move || write(&receiver));
    if ::log::set_logger(&Libraries).is_ok() {
        ::log::set_max_level(match level {
            Level::Off => ::log::LevelFilter::Off,
            Level::Error => ::log::LevelFilter::Error,
            Level::Warn => ::log::LevelFilter::Warn,
            Level::Info => ::log::LevelFilter::Info,
            Level::Debug => ::log::LevelFilter::Debug,
        });
    }
}

/// Is this level logged?
pub fn enabled(level: Level) -> bool {
    SINK.get().is_some_and(|sink| level <= sink.level)
}

/// Logs an event. `fields` is an object.
pub fn event(level: Level, name: &str, fields: Value) {
    let Some(sink) = SINK.get().filter(|sink| level <= sink.level) else {
        return;
    };
    let mut line = Map::new();
    line.insert("time".to_owned(), timestamp(SystemTime::now()).into());
    line.insert("level".to_owned(), level.name().into());
    line.insert("event".to_owned(), name.into());
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    let text = Value::Object(line).to_string();
    if let Err(TrySendError::Full(_)) = sink.lines.try_send(Message::Line(text)) {
        sink.lost.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits, for a second at most, until all that was logged is written.
pub fn flush() {
    let Some(sink) = SINK.get() else { return };
    let (done, written) = sync_channel(1);
    if sink.lines.send(Message::Flush(done)).is_ok() {
        let _ = written.recv_timeout(Duration::from_secs(1));
    }
}

fn write(receiver: &Receiver<Message>) {
    let mut error = std::io::stderr();
    while let Ok(message) = receiver.recv() {
        match message {
            Message::Line(mut text) => {
                text.push('\n');
                let _ = error.write_all(text.as_bytes());
            }
            Message::Flush(done) => {
                let _ = error.flush();
                let _ = done.try_send(());
            }
        }
        if let Some(sink) = SINK.get() {
            let lost = sink.lost.swap(0, Ordering::Relaxed);
            if lost > 0 {
                event(
                    Level::Warn,
                    "log_lines_dropped",
                    serde_json::json!({ "lines": lost }),
                );
            }
        }
    }
}

/// What the libraries log, as an event of ours.
struct Libraries;

impl ::log::Log for Libraries {
    fn enabled(&self, metadata: &::log::Metadata<'_>) -> bool {
        metadata.target().starts_with("hashed_wheel")
    }

    fn log(&self, record: &::log::Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let level = match record.level() {
            ::log::Level::Error => Level::Error,
            ::log::Level::Warn => Level::Warn,
            ::log::Level::Info => Level::Info,
            _ => Level::Debug,
        };
        event(
            level,
            "timer",
            serde_json::json!({ "message": record.args().to_string() }),
        );
    }

    fn flush(&self) {}
}

/// A moment as RFC 3339 has it, in UTC, to the millisecond.
pub fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Civil date from days since 1970, in eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_as_rfc_3339_has_them() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_763_480_471_042, "2025-11-18T15:41:11.042Z"),
            (4_107_542_399_999, "2100-02-28T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            assert_eq!(timestamp(time), text);
        }
    }
}

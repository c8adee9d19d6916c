//! What can go wrong.

use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// What a call of this crate can fail with.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{DurableTimer, Error};
/// use std::time::Duration;
///
/// let timer = DurableTimer::builder().open_in_memory(&ManualClock::new())?;
/// let refused = timer.job("mail").key("").after(Duration::ZERO);
/// assert!(matches!(refused, Err(Error::Key(_))));
/// timer.stop()?;
/// assert!(matches!(timer.job("mail").after(Duration::ZERO), Err(Error::Stopped)));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Error {
    /// A setting or the name of a kind is out of its range; the text has the value and the range.
    Config(String),
    /// A key is empty, longer than 512 bytes, or has a NUL in it.
    Key(String),
    /// [`stop`](crate::DurableTimer::stop) was called by a handler of the same timer.
    FromHandler,
    /// The file is open already, in this process or in another.
    InUse(PathBuf),
    /// A payload has more bytes than a job can have.
    PayloadTooLarge {
        /// Its length in bytes.
        len: usize,
        /// The most that is allowed.
        max: usize,
    },
    /// The timer has been stopped.
    Stopped,
    /// The store failed. If it was a write to a file, it may or may not have taken place, and every later call is [`Poisoned`](Error::Poisoned). A database that cannot
    /// be reached poisons nothing: the timer goes on when it is back.
    Store(StoreError),
    /// An earlier write to the file failed, and nothing can be made durable now. The timer opens the file again by itself, when that can be done, and goes on; jobs whose outcome
    /// could not be stored are run again after a restart.
    Poisoned {
        /// Why: the error of the write, or of the last attempt to open the file again.
        cause: StoreError,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(text) | Error::Key(text) => f.write_str(text),
            Error::FromHandler => f.write_str("stop was called by a handler of the same timer"),
            Error::InUse(path) => {
                write!(f, "{} is in use: another timer has it open", path.display())
            }
            Error::PayloadTooLarge { len, max } => {
                write!(
                    f,
                    "a payload of {len} bytes is too large: at most {max} are allowed"
                )
            }
            Error::Stopped => f.write_str("the timer has been stopped"),
            Error::Store(error) => error.fmt(f),
            Error::Poisoned { cause } => {
                write!(f, "an earlier write to the store failed: {cause}")
            }
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Error::Store(error) => error.source(),
            Error::Poisoned { cause } => Some(cause),
            _ => None,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Store(error)
    }
}

/// A failure of the store: what was being done, with the engine's own error as its source.
///
/// ```
/// use hashed_wheel_durable::{DurableTimer, Error};
///
/// let folder = std::env::temp_dir();
/// let Err(Error::Store(error)) = DurableTimer::builder().open(&folder) else { panic!() };
/// assert!(error.to_string().contains("is a folder"));
/// ```
#[derive(Debug, Clone)]
pub struct StoreError {
    text: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
    /// The text has what the source says.
    told: bool,
    fate: Fate,
}

impl StoreError {
    pub(crate) fn new(text: impl Into<String>) -> StoreError {
        StoreError {
            text: text.into(),
            source: None,
            told: false,
            fate: Fate::Stays,
        }
    }

    pub(crate) fn with(
        text: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> StoreError {
        StoreError {
            source: Some(Arc::new(source)),
            ..StoreError::new(text)
        }
    }

    /// A text that has what the source says.
    #[cfg(feature = "postgres")]
    pub(crate) fn telling(
        text: impl Into<String>,
        source: impl StdError + Send + Sync + 'static,
    ) -> StoreError {
        StoreError {
            told: true,
            ..StoreError::with(text, source)
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn that(self, fate: Fate) -> StoreError {
        StoreError { fate, ..self }
    }

    pub(crate) fn is_passing(&self) -> bool {
        self.fate != Fate::Stays
    }

    pub(crate) fn is_told(&self) -> bool {
        self.fate == Fate::Away
    }

    pub(crate) fn is_locked(&self) -> bool {
        self.fate == Fate::Locked
    }
}

/// What becomes of the store after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "an error of a file does not pass")
)]
pub(crate) enum Fate {
    Stays,
    /// It can be used again as it is.
    Passes,
    /// The same, and the store has told of it in the log: the database is away.
    Away,
    /// The same, and it was somebody else's lock.
    Locked,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) if !self.told => write!(f, "{}: {source}", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

impl StdError for StoreError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

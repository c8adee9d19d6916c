//! Jobs that come again: the rule of one, as it is stored, and the times that it gives.

use std::fmt;
use std::time::Duration;

use croner::Cron;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::error::Error;
use crate::time::Millis;

/// A run that could not begin for so long after its time was missed, in milliseconds.
const GRACE: Millis = 60_000;

/// What becomes of runs that were missed, because no process ran, its kind was paused, or no thread was free: for [`NewJob::catch_up`](crate::NewJob::catch_up).
///
/// A run is missed if it could not begin before the next one was due, or within a minute.
///
/// ```
/// use hashed_wheel::ManualClock;
/// use hashed_wheel_durable::{CatchUp, DurableTimer, Outcome};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let timer = DurableTimer::builder()
///     .on("report", |_| Outcome::Done)
///     .on("poll", |_| Outcome::Done)
///     .open_in_memory(&clock)?;
/// let hour = Duration::from_secs(3600);
/// timer.job("report").key("report").every(hour)?;
/// timer.job("poll").key("poll").catch_up(CatchUp::Skip).every(hour)?;
/// for kind in ["report", "poll"] {
///     timer.pause(kind)?;
/// }
/// clock.advance(hour * 5 / 2);
/// for kind in ["report", "poll"] {
///     timer.resume(kind)?;
/// }
/// clock.advance(Duration::from_millis(1));
/// // Two runs of each were missed: the report is made once.
/// assert_eq!(timer.stats().fired, 1);
/// clock.advance(hour / 2);
/// assert_eq!(timer.stats().fired, 3);
/// # Ok::<(), hashed_wheel_durable::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatchUp {
    /// One run for all that were missed, at once. It is due at the time of the first of them.
    #[default]
    Once,
    /// None of them.
    Skip,
}

/// When a job comes again. Its text is what is stored.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    times: Times,
    catch_up: CatchUp,
}

#[derive(Debug, Clone)]
enum Times {
    /// In milliseconds.
    Every(Millis),
    Cron {
        expression: String,
        cron: Box<Cron>,
        name: String,
        zone: TimeZone,
    },
}

/// What a recurring job does at one of its times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The next one; `None`: there is none.
    pub(crate) next: Option<Millis>,
    /// Is there a run for this one?
    pub(crate) run: bool,
}

impl Rule {
    pub(crate) fn every(period: Duration, catch_up: CatchUp) -> Result<Rule, Error> {
        let millis = Millis::try_from(period.as_nanos().div_ceil(1_000_000));
        match millis {
            Ok(millis) if period >= Duration::from_millis(1) => Ok(Rule {
                times: Times::Every(millis),
                catch_up,
            }),
            _ => Err(Error::Config(format!(
                "the period of a recurring job is {period:?}: it must be from 1 ms to {} ms",
                Millis::MAX
            ))),
        }
    }

    pub(crate) fn cron(expression: &str, zone: &str, catch_up: CatchUp) -> Result<Rule, Error> {
        let expression = expression.trim();
        let cron: Cron = expression.parse().map_err(|error| {
            Error::Config(format!(
                "the cron expression {expression:?} cannot be read: {error}"
            ))
        })?;
        let found = TimeZone::get(zone).map_err(|_| {
            Error::Config(format!(
                "the time zone {zone:?} is not known: it must be a name like Europe/Berlin or UTC"
            ))
        })?;
        Ok(Rule {
            times: Times::Cron {
                expression: expression.to_owned(),
                cron: Box::new(cron),
                name: zone.to_owned(),
                zone: found,
            },
            catch_up,
        })
    }

    /// From its text; `None` if that is not understood.
    pub(crate) fn parse(text: &str) -> Option<Rule> {
        let (catch_up, times) = match text.strip_prefix("skip ") {
            Some(times) => (CatchUp::Skip, times),
            None => (CatchUp::Once, text),
        };
        if let Some(period) = times.strip_prefix("every ") {
            let millis = period.strip_suffix(" ms")?.parse().ok()?;
            Rule::every(Duration::from_millis(millis), catch_up).ok()
        } else {
            let (expression, zone) = times.strip_prefix("cron ")?.rsplit_once(' ')?;
            Rule::cron(expression, zone, catch_up).ok()
        }
    }

    /// The first time after this one. `slot`: any time of the rule.
    pub(crate) fn after(&self, slot: Millis, time: Millis) -> Option<Millis> {
        match &self.times {
            Times::Every(period) => {
                let (slot, period) = (i128::from(slot), i128::from(*period));
                let periods = (i128::from(time) - slot).div_euclid(period) + 1;
                Millis::try_from(slot + periods * period).ok()
            }
            Times::Cron { cron, zone, .. } => cron_after(cron, zone, time),
        }
    }

    /// A time of the rule is there, or about to come.
    pub(crate) fn turn(&self, slot: Millis, now: Millis) -> Turn {
        let following = self.after(slot, slot);
        let missed =
            now > slot.saturating_add(GRACE) || following.is_some_and(|following| following <= now);
        Turn {
            next: if missed {
                self.after(slot, slot.max(now))
            } else {
                following
            },
            run: !missed || self.catch_up == CatchUp::Once,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.catch_up == CatchUp::Skip {
            f.write_str("skip ")?;
        }
        match &self.times {
            Times::Every(period) => write!(f, "every {period} ms"),
            Times::Cron {
                expression, name, ..
            } => write!(f, "cron {expression} {name}"),
        }
    }
}

/// Goes through the times of the wall clock that match, and takes the first whose moment is later. A time that comes twice stands for its first moment, one that is skipped for the
/// moment after the gap: so while the clock shows an hour again, nothing matches.
fn cron_after(cron: &Cron, zone: &TimeZone, time: Millis) -> Option<Millis> {
    let mut local = zone.to_datetime(Timestamp::from_millisecond(time).ok()?);
    loop {
        local = cron.find_next_occurrence(&local, false).ok()?;
        let moment = moment_of(zone, local)?.as_millisecond();
        if moment > time {
            return Some(moment);
        }
    }
}

/// The first moment at which a clock in this zone shows this time or a later one.
fn moment_of(zone: &TimeZone, local: DateTime) -> Option<Timestamp> {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(local).ok()
        }
        AmbiguousOffset::Gap { after, .. } => {
            let before_the_gap = after.to_timestamp(local).ok()?;
            let end = zone.following(before_the_gap).next()?;
            Some(end.timestamp())
        }
    }
}

#[cfg(test)]
mod tests;

//! When a job that failed is tried again, and when it gives up.

use std::time::Duration;

use crate::error::Error;
use crate::job::Outcome;
use crate::store::{Id, Verdict};
use crate::time::{Millis, WallClock};

/// The longest reason of a dead letter, in bytes.
pub(crate) const MAX_REASON: usize = 4096;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    pub(crate) max_attempts: u32,
    /// The delay after the first attempt, and the longest one.
    pub(crate) first: Duration,
    pub(crate) most: Duration,
}

impl Policy {
    pub(crate) fn new(
        max_attempts: u32,
        (first, most): (Duration, Duration),
    ) -> Result<Policy, Error> {
        if max_attempts == 0 {
            return Err(Error::Config(
                "max_attempts is 0: it must be at least 1".to_owned(),
            ));
        }
        if first > most {
            return Err(Error::Config(format!(
                "the first delay of the back-off is {first:?}: it must be at most its longest, {most:?}"
            )));
        }
        Ok(Policy {
            max_attempts,
            first,
            most,
        })
    }

    /// The delay after so many attempts: doubled each time, up to the longest, then between half of that and all of it. The jitter
    /// comes from id and attempt, so it differs between jobs and is the same in every run.
    pub(crate) fn delay(&self, id: Id, attempts: u32) -> Duration {
        let doubled = 1_u32
            .checked_shl(attempts.saturating_sub(1))
            .and_then(|factor| self.first.checked_mul(factor))
            .unwrap_or(self.most)
            .min(self.most);
        let half = doubled / 2;
        let random = scramble(id ^ (u64::from(attempts) << 48));
        let part = (half.as_nanos() * u128::from(random >> 32)) >> 32;
        half + Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
    }

    /// The end of attempt number `attempt`, by what its handler answered or the message of its panic.
    pub(crate) fn verdict(
        &self,
        wall: &dyn WallClock,
        id: Id,
        attempt: u32,
        outcome: Result<Outcome, String>,
    ) -> Verdict {
        let (delay, error) = match outcome {
            Ok(Outcome::Done) => return Verdict::Done,
            Ok(Outcome::Snooze(delay)) => {
                return Verdict::Snooze {
                    due: wall.after(delay),
                };
            }
            Ok(Outcome::Dead(error)) => {
                return Verdict::Dead {
                    error: shortened(error),
                };
            }
            Ok(Outcome::Retry) => (None, None),
            Ok(Outcome::RetryAfter(delay)) => (Some(delay), None),
            Ok(Outcome::RetryBecause(reason)) => (None, Some(reason)),
            Err(panic) => (None, Some(panic)),
        };
        if attempt >= self.max_attempts {
            let error = error.unwrap_or_else(|| "the handler asked for a retry".to_owned());
            return Verdict::Dead {
                error: shortened(error),
            };
        }
        let delay = delay.unwrap_or_else(|| self.delay(id, attempt));
        Verdict::Retry {
            due: wall.after(delay),
            error: error.map(shortened),
        }
    }

    /// When a job is tried again whose process died in its handler, this attempt counted; `None`: it has used up its attempts.
    pub(crate) fn interrupted(
        &self,
        wall: &dyn WallClock,
        id: Id,
        attempts: u32,
    ) -> Option<Millis> {
        (attempts < self.max_attempts).then(|| wall.after(self.delay(id, attempts)))
    }
}

/// Cuts a reason that is too long, between two characters, and marks that with an ellipsis.
fn shortened(mut reason: String) -> String {
    const MARK: char = '…';
    if reason.len() > MAX_REASON {
        let mut end = MAX_REASON - MARK.len_utf8();
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        reason.truncate(end);
        reason.push(MARK);
        reason.shrink_to_fit();
    }
    reason
}

/// The finalizer of `SplitMix64`.
pub(crate) fn scramble(mut number: u64) -> u64 {
    number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests;

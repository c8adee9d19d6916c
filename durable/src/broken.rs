//! Deliberate defects, for the torture program: it has to find each of them. They exist only with the feature `broken`.

/// One defect.
#[cfg_attr(
    not(feature = "postgres"),
    allow(dead_code, reason = "two are of PostgreSQL")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// Callers are answered before the commit.
    AckBeforeCommit,
    /// Handlers run before the claim is durable.
    ClaimNotDurable,
    /// A job that was moved also stays at its old time.
    StaleEntry,
    /// Every job that was claimed when the process died is charged with an attempt.
    ChargeBystanders,
    /// A time of a recurring job has two runs.
    SlotTwice,
    /// Callers are told that a write which failed has taken place.
    FailureAcknowledged,
    /// Checksums are not looked at.
    Unchecked,
    /// PostgreSQL: an acknowledgement is taken whatever its token.
    NoFencing,
    /// PostgreSQL: time is that of the machine instead of the database.
    MachineClock,
}

/// Is this the defect that `HASHED_WHEEL_DURABLE_BROKEN` asks for?
#[cfg(feature = "broken")]
pub(crate) fn is(defect: Defect) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<Defect>> = OnceLock::new();
    *CHOSEN.get_or_init(
        || match std::env::var("HASHED_WHEEL_DURABLE_BROKEN").as_deref() {
            Ok("ack") => Some(Defect::AckBeforeCommit),
            Ok("claim") => Some(Defect::ClaimNotDurable),
            Ok("generation") => Some(Defect::StaleEntry),
            Ok("charge") => Some(Defect::ChargeBystanders),
            Ok("slot") => Some(Defect::SlotTwice),
            Ok("full") => Some(Defect::FailureAcknowledged),
            Ok("flip") => Some(Defect::Unchecked),
            Ok("fencing") => Some(Defect::NoFencing),
            Ok("clock") => Some(Defect::MachineClock),
            _ => None,
        },
    ) == Some(defect)
}

#[cfg(not(feature = "broken"))]
#[inline]
pub(crate) fn is(_: Defect) -> bool {
    false
}

/// How far the machine's clock is ahead of the database's, in milliseconds, where [`Defect::MachineClock`] has it used: as if the machine were another one. From
/// `HASHED_WHEEL_DURABLE_CLOCK_AHEAD`.
#[cfg(feature = "postgres")]
pub(crate) fn clock_ahead() -> i64 {
    if is(Defect::MachineClock) {
        std::env::var("HASHED_WHEEL_DURABLE_CLOCK_AHEAD")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0)
    } else {
        0
    }
}

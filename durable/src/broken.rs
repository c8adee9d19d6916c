//! Deliberate defects, for the torture program: it has to find each of them. They exist only with the feature `broken`.

/// One defect.
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
            _ => None,
        },
    ) == Some(defect)
}

#[cfg(not(feature = "broken"))]
#[inline]
pub(crate) fn is(_: Defect) -> bool {
    false
}

//! The number of a boundary.

use std::fmt;

/// The number of a boundary: boundary `t` lies `t` × tick after the timer's start.
///
/// 45 bits are enough for a tick of a millisecond or more: time saturates at 2^64 ns, so no
/// boundary exceeds 2^64 ns / 1 ms < 1.85 × 10^13 < 2^45 = 3.5 × 10^13. With a shorter tick, what is due at
/// `Tick::NEVER` or later never fires: `Scale::due`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The number of bits that hold a tick.
    pub(crate) const BITS: u32 = 45;
    /// The timer's start. It counts as processed.
    pub(crate) const ZERO: Tick = Tick(0);
    /// The due tick of [`FOREVER`](super::FOREVER). It never comes.
    pub(crate) const NEVER: Tick = Tick((1 << Self::BITS) - 1);

    /// The boundary after this one.
    pub(crate) fn next(self) -> Tick {
        Tick(self.0 + 1)
    }

    /// The boundary before this one; zero has none before it.
    pub(crate) fn previous(self) -> Tick {
        Tick(self.0.saturating_sub(1))
    }
}

impl fmt::Debug for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Tick::NEVER {
            f.write_str("never")
        } else {
            write!(f, "tick {}", self.0)
        }
    }
}

#[cfg(test)]
mod tests;

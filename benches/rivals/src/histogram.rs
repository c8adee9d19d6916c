//! A histogram of nanoseconds: exact below 64, three percent above, no allocation once it is made.
//!
//! Log-linear, as in Java's `HdrHistogram`: 32 equal steps for each power of two. The maximum is kept
//! exactly. Recording is one addition to an array of 9 KiB, of which a run touches a few lines.

/// Bits of a value that are kept below its highest.
const BITS: u32 = 5;
const STEPS: usize = 1 << BITS;
/// Values from 2^40 ns on (18 minutes) share the last step.
const TOP: u32 = 40;
const LENGTH: usize = (TOP - BITS + 1) as usize * STEPS;

#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    counts: Box<[u64; LENGTH]>,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: Box::new([0; LENGTH]),
            max: 0,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        self.counts[index(nanos)] += 1;
        self.max = self.max.max(nanos);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (own, add) in self.counts.iter_mut().zip(other.counts.iter()) {
            *own += add;
        }
        self.max = self.max.max(other.max);
    }

    pub(crate) fn max(&self) -> u64 {
        self.max
    }

    /// The value that this share of all recorded values does not exceed; the upper end of its step.
    pub(crate) fn at(&self, share: f64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let wanted = (share * all as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper(index).min(self.max);
            }
        }
        self.max
    }
}

/// The step of a value: below 32 the value itself, then 32 steps for each power of two.
#[inline]
fn index(nanos: u64) -> usize {
    let high = (nanos | 1).ilog2();
    if high < BITS {
        return nanos as usize;
    }
    let shift = high - BITS;
    let step = (nanos >> shift) as usize - STEPS;
    ((shift as usize + 1) * STEPS + step).min(LENGTH - 1)
}

/// The largest value of a step.
fn upper(index: usize) -> u64 {
    if index < STEPS {
        return index as u64;
    }
    let (shift, step) = (index / STEPS - 1, index % STEPS);
    (((STEPS + step + 1) as u64) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_values_are_exact_and_large_ones_within_a_thirty_second() {
        for nanos in (0..100_000).chain([1 << 20, (1 << 33) + 12_345, (1 << 40) - 1]) {
            let top = upper(index(nanos));
            assert!(top >= nanos && top - nanos <= nanos / 32, "{nanos}: {top}");
            assert!(nanos >= 64 || top == nanos);
        }
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut histogram = Histogram::new();
        for nanos in 1..=1_000 {
            histogram.record(nanos * 10);
        }
        assert!((5_000..=5_160).contains(&histogram.at(0.5)));
        assert!((9_990..=10_000).contains(&histogram.at(0.999)));
        assert_eq!(histogram.at(1.0), 10_000);
        assert_eq!(histogram.at(0.0), 10);
    }

    #[test]
    fn values_beyond_the_top_are_kept_in_the_last_step_and_in_the_maximum() {
        let mut histogram = Histogram::new();
        histogram.record(u64::MAX);
        histogram.record(1 << 41);
        assert_eq!(histogram.max(), u64::MAX);
        assert_eq!(histogram.at(0.5), (1 << 40) - 1);
    }
}

//! Numbers at random: the same sequence in every run and for every contestant.

/// Xorshift64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        // The first few numbers of similar seeds are similar.
        for _ in 0..16 {
            random.next();
        }
        random
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`.
    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with this probability.
    #[inline]
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are what a float holds.
        ((self.next() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_spread_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        let mut heads = 0;
        for _ in 0..10_000 {
            counts[random.below(10) as usize] += 1;
            heads += u32::from(random.chance(0.25));
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)));
        assert!((2300..2700).contains(&heads));
        assert!(!Random::new(2).chance(0.0));
        assert!(Random::new(2).chance(1.0));
    }
}

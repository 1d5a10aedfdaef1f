//! Deterministic random numbers.

/// A random number generator (SplitMix64): the same seed always gives the same numbers.
#[derive(Debug, Clone)]
pub struct DiskRandom(u64);

impl DiskRandom {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        match u64::try_from(end) {
            Ok(end @ 1..) => usize::try_from(self.number() % end).unwrap_or(0),
            _ => 0,
        }
    }

    /// True with this probability.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.number() % 100 < percent
    }
}

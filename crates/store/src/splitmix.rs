//! A small generator for reproducible faults and walks: the same seed always gives the same numbers.

/// `SplitMix64`.
#[derive(Debug, Clone)]
pub struct SplitMix(u64);

impl SplitMix {
    /// Creates a generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Returns true once in `bound` times on average.
    pub fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_split_mix_64() {
        let mut from_nothing = SplitMix::new(0);
        let numbers = [(); 3].map(|()| from_nothing.draw());
        assert_eq!(numbers, [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
    }

    #[test]
    fn draws_every_number_below_the_bound() {
        let mut numbers = SplitMix::new(7);
        let mut again = SplitMix::new(7);
        let drawn: Vec<u64> = (0..100).map(|_| numbers.below(3)).collect();
        assert!([0, 1, 2].iter().all(|number| drawn.contains(number)) && drawn.iter().all(|n| *n < 3));
        let hits: Vec<bool> = (0..100).map(|_| again.one_in(3)).collect();
        assert_eq!(hits, drawn.iter().map(|number| *number == 0).collect::<Vec<_>>());
    }
}

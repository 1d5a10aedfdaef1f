//! All randomness: node names, write-ids, jitter. Workflows never see it.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use goldseam_core::WriteId;

/// A source of random numbers.
pub trait Entropy: Debug + Send + Sync + 'static {
    /// Returns the next number.
    fn next(&self) -> u64;

    /// Creates a write-id.
    fn write_id(&self) -> WriteId {
        WriteId(self.next())
    }
}

/// The random numbers of the operating system.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn next(&self) -> u64 {
        rand::random()
    }
}

/// The same numbers for the same seed, for tests and simulation.
#[derive(Debug)]
pub struct Seeded(AtomicU64);

impl Seeded {
    /// Creates a source that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Entropy for Seeded {
    fn next(&self) -> u64 {
        // splitmix64
        let mut z =
            self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

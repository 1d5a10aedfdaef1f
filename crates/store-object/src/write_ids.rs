//! Names for writes: no two objects ever have the same content, so equal content is one's own.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Names the writes of one process.
#[derive(Debug)]
pub(crate) struct Writes {
    process: u64,
    count: AtomicU64,
}

impl Writes {
    pub(crate) fn new() -> Self {
        Self { process: random(), count: AtomicU64::new(random()) }
    }

    /// A name that no other write has.
    pub(crate) fn next(&self) -> String {
        format!("{:016x}{:016x}", self.process, self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// A number from 0 to 1, for pauses.
pub(crate) fn chance() -> f64 {
    f64::from(u16::try_from(random() & 0xffff).unwrap_or_default()) / f64::from(u16::MAX)
}

/// The keys of the standard library's hasher are random.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

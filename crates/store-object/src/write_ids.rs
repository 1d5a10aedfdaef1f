//! Write-ids: no two objects ever have the same content, so equal content is a writer's own.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of write-ids of one process.
#[derive(Debug)]
pub(crate) struct WriteIds {
    process: u64,
    count: AtomicU64,
}

impl WriteIds {
    pub(crate) fn new() -> Self {
        Self { process: random(), count: AtomicU64::new(random()) }
    }

    /// Returns an id that no other write has.
    pub(crate) fn next(&self) -> String {
        format!("{:016x}{:016x}", self.process, self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// A random number: the standard library seeds its hashers randomly.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

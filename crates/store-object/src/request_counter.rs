//! Counts requests: on object storage, requests are what a run costs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestCounts {
    /// Writes.
    pub puts: u64,
    /// Writes that are beats of nodes; `puts` includes them.
    pub beats: u64,
    /// Reads of one object.
    pub gets: u64,
    /// Pages of lists.
    pub lists: u64,
    /// Removals.
    pub deletes: u64,
}

impl RequestCounts {
    /// The number of all requests.
    pub fn all(&self) -> u64 {
        self.puts + self.gets + self.lists + self.deletes
    }

    /// The requests since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            puts: self.puts - earlier.puts,
            beats: self.beats - earlier.beats,
            gets: self.gets - earlier.gets,
            lists: self.lists - earlier.lists,
            deletes: self.deletes - earlier.deletes,
        }
    }
}

/// Counts the requests of one store.
#[derive(Debug, Default)]
pub(crate) struct RequestCounter {
    puts: AtomicU64,
    beats: AtomicU64,
    gets: AtomicU64,
    lists: AtomicU64,
    deletes: AtomicU64,
}

impl RequestCounter {
    pub(crate) fn put(&self, key: &str) {
        tracing::trace!(key, "PUT");
        self.puts.fetch_add(1, Ordering::Relaxed);
        if key.starts_with(crate::keys::NODES) {
            self.beats.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, key: &str) {
        tracing::trace!(key, "GET");
        self.gets.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn list(&self, folder: &str) {
        tracing::trace!(folder, "LIST");
        self.lists.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn delete(&self, key: &str) {
        tracing::trace!(key, "DELETE");
        self.deletes.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> RequestCounts {
        RequestCounts {
            puts: self.puts.load(Ordering::Relaxed),
            beats: self.beats.load(Ordering::Relaxed),
            gets: self.gets.load(Ordering::Relaxed),
            lists: self.lists.load(Ordering::Relaxed),
            deletes: self.deletes.load(Ordering::Relaxed),
        }
    }
}

//! Wakes waiters when the store may have changed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use goldseam_store::ChangeMark;

use crate::clock::MonotonicTime;

/// The latest change that this process knows of, and which waiter looks for others.
#[derive(Debug)]
pub(crate) struct BucketWatch {
    pub(crate) mark: ChangeMark,
    changed_at: Mutex<MonotonicTime>,
    /// Held by the waiter that polls.
    pub(crate) polling: tokio::sync::Mutex<()>,
}

impl BucketWatch {
    pub(crate) fn new() -> Self {
        Self {
            mark: ChangeMark::default(),
            changed_at: Mutex::new(MonotonicTime::now()),
            polling: tokio::sync::Mutex::default(),
        }
    }

    /// Wakes waiters.
    pub(crate) fn bump(&self) {
        *self.changed_at.lock().unwrap_or_else(PoisonError::into_inner) = MonotonicTime::now();
        self.mark.bump();
    }

    /// Time since the last change.
    pub(crate) fn idle_for(&self) -> Duration {
        self.changed_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

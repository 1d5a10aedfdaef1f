//! Wakes waiters when the store may have changed.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::clock::MonotonicTime;

/// The mark of the latest change that this process knows of.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) mark: watch::Sender<u64>,
    changed_at: Mutex<MonotonicTime>,
    /// Held by the waiter that polls.
    pub(crate) polling: tokio::sync::Mutex<()>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            mark: watch::Sender::new(1),
            changed_at: Mutex::new(MonotonicTime::now()),
            polling: tokio::sync::Mutex::default(),
        }
    }

    /// Wakes waiters.
    pub(crate) fn bump(&self) {
        *self.changed_at.lock().unwrap_or_else(PoisonError::into_inner) = MonotonicTime::now();
        self.mark.send_modify(|mark| *mark += 1);
    }

    /// Time since the last change.
    pub(crate) fn idle_for(&self) -> Duration {
        self.changed_at.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Waits until the mark is not `seen`.
    pub(crate) async fn differs(&self, seen: u64) -> u64 {
        let mut marks = self.mark.subscribe();
        match marks.wait_for(|mark| *mark != seen).await {
            Ok(mark) => *mark,
            Err(_) => unreachable!("the sender lives as long as the watch"),
        }
    }
}

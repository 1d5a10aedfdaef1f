//! The cursors of walks that all engines of a store share: locks with reserved names, changed by compare-and-set.
//!
//! Invariant: an engine examines a slice only after it has moved the cursor behind it, so no two engines examine the
//! same slice. An engine that dies leaves at most its slice unexamined until the next walk.

use goldseam_core::id::{IdLiteral, kind};
use goldseam_core::lock::Lock;
use goldseam_core::{LockName, Millis};
use goldseam_store::{Expect, LockFilter, Store, StoreError, Written};
use serde::{Deserialize, Serialize};

const ROWS: IdLiteral<kind::Lock> = IdLiteral::new("goldseam.walk-rows");
const LOGS: IdLiteral<kind::Lock> = IdLiteral::new("goldseam.walk-logs");

/// The name of the walk over the rows of all active runs.
pub(crate) fn rows() -> LockName {
    ROWS.id()
}

/// The name of the walk over the logs of all runs.
pub(crate) fn logs() -> LockName {
    LOGS.id()
}

/// The progress of a walk.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct WalkCursor {
    /// The cursor of the next slice; none: the walk begins.
    #[serde(default)]
    pub(crate) after: Option<String>,
    /// Number of runs that this walk has read.
    #[serde(default)]
    pub(crate) seen: u64,
    /// Number of runs that the previous walk read; 0 if there was none.
    #[serde(default)]
    pub(crate) total: u64,
    /// When the next slice may be read.
    #[serde(default)]
    pub(crate) next_at: Millis,
}

impl WalkCursor {
    /// The cursor after a slice of `read` runs.
    pub(crate) fn advanced(&self, after: Option<String>, read: u64, next_at: Millis) -> Self {
        let seen = self.seen + read;
        match after {
            Some(after) => Self { after: Some(after), seen, total: self.total, next_at },
            None => Self { after: None, seen: 0, total: seen, next_at },
        }
    }
}

/// Reads the cursor of a walk and the lock that keeps it. An unreadable cursor begins the walk again.
pub(crate) async fn read(
    store: &dyn Store,
    name: LockName,
) -> Result<(WalkCursor, Option<Lock>), StoreError> {
    let filter = LockFilter { name: Some(name), limit: 1, ..LockFilter::default() };
    let lock = store.locks(filter).await?.into_iter().next();
    let text = lock.as_ref().and_then(|lock| lock.holder.as_deref());
    let cursor = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    Ok((cursor, lock))
}

/// Moves the cursor, unless another engine has moved it. Returns whether it did.
pub(crate) async fn write(
    store: &dyn Store,
    name: LockName,
    cursor: &WalkCursor,
    lock: Option<Lock>,
    now: Millis,
) -> Result<bool, StoreError> {
    let expect = lock.as_ref().map_or(Expect::Absent, |lock| Expect::Version(lock.version));
    let fence = lock.as_ref().map_or(0, |lock| lock.fence) + 1;
    let version = lock.as_ref().map_or(0, |lock| lock.version) + 1;
    let lock = Lock {
        name,
        holder: serde_json::to_string(cursor).ok(),
        fence,
        expires_at: Millis::NEVER,
        acquired_at: now,
        node: None,
        version,
        audit: Vec::new(),
    };
    Ok(matches!(store.put_lock(lock, expect).await?, Written::Done))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_walk_remembers_its_total_and_begins_again() {
        let begun = WalkCursor::default().advanced(Some("m".to_owned()), 5, Millis(30));
        assert_eq!((begun.after.as_deref(), begun.seen, begun.total), (Some("m"), 5, 0));
        let ended = begun.advanced(None, 3, Millis(60));
        assert_eq!(ended, WalkCursor { after: None, seen: 0, total: 8, next_at: Millis(60) });
    }
}

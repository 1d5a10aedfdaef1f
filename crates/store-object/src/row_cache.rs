//! Cached rows as objects: the form of `state.json`, and what this process remembers of rows.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use goldseam_core::task::Task;
use goldseam_core::{Millis, RunId, Seq, Status, Summary, TaskId};
use goldseam_store::{Row, StoreError};
use serde::{Deserialize, Serialize};

use crate::bucket::{ObjectTag, StoredObject};
use crate::clock::MonotonicTime;
use crate::fault::damaged;

/// Longest delay of a row that only says that its run is running.
pub(crate) const DEFER_MAX: Duration = Duration::from_secs(2);
/// Most rows that are remembered.
const REMEMBERED_MAX: usize = 20_000;
/// The format of `state.json` that this program writes.
const FORMAT: u32 = 1;

/// The content of `state.json`.
#[derive(Debug, Serialize, Deserialize)]
struct StateObject<'a> {
    /// Identifies the object as ours: other systems keep their states under the same names.
    goldseam: u32,
    id: Cow<'a, RunId>,
    status: Status,
    updated_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Cow<'a, TaskId>>,
    /// A batch of the log, at which the search for the log's end begins.
    batch: u64,
    /// The position after which the run was last activated; its marker names it.
    active: Seq,
    write: String,
    summary: Cow<'a, Summary>,
}

/// A stored row with the tag of its object.
#[derive(Debug, Clone)]
pub(crate) struct StoredRow {
    pub(crate) row: Row,
    pub(crate) batch: u64,
    pub(crate) active: Seq,
    pub(crate) tag: ObjectTag,
}

impl StoredRow {
    /// Decodes a `state.json`; none if another system wrote it.
    pub(crate) fn read(key: &str, object: StoredObject) -> Result<Option<Self>, StoreError> {
        #[derive(Deserialize)]
        struct Signature {
            goldseam: Option<u32>,
        }
        let state: StateObject<'static> = match serde_json::from_slice(&object.body) {
            Ok(state) => state,
            Err(error) => match serde_json::from_slice::<Signature>(&object.body) {
                Ok(Signature { goldseam: None }) => return Ok(None),
                _ => return Err(damaged(key, error)),
            },
        };
        let row = Row {
            summary: state.summary.into_owned(),
            task: state.task.map(Cow::into_owned),
            updated_at: state.updated_at,
        };
        Ok(Some(Self { row, batch: state.batch, active: state.active, tag: object.tag }))
    }

    /// The object of a row, unlike any other object because of its write-id.
    pub(crate) fn encode(row: &Row, batch: u64, active: Seq, write: String) -> Bytes {
        let state = StateObject {
            goldseam: FORMAT,
            id: Cow::Borrowed(&row.summary.run),
            status: row.summary.status,
            updated_at: row.updated_at,
            task: row.task.as_ref().map(Cow::Borrowed),
            batch,
            active,
            write,
            summary: Cow::Borrowed(&row.summary),
        };
        serde_json::to_vec(&state).unwrap_or_default().into()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.row.summary.status.is_terminal()
    }

    /// Whether the run has ended, or is parked or paused.
    pub(crate) fn is_stopped(&self) -> bool {
        !self.row.summary.status.is_active()
    }
}

/// What a read of a row found.
#[derive(Debug, Clone)]
pub(crate) enum RowState {
    /// Nothing, or the state of another system's workflow.
    None,
    Row(Box<StoredRow>),
    /// An object that cannot be decoded, and why.
    Unreadable(String),
}

impl RowState {
    pub(crate) fn row(self) -> Option<StoredRow> {
        match self {
            Self::Row(row) => Some(*row),
            Self::None | Self::Unreadable(_) => None,
        }
    }
}

/// A row to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewRow {
    pub(crate) summary: Summary,
    pub(crate) task: Option<TaskId>,
    pub(crate) batch: u64,
    /// The position in the run's marker if the run has just begun or was reactivated; none keeps the old one.
    pub(crate) active: Option<Seq>,
}

/// Changes after an append that are written later.
#[derive(Debug, Clone)]
pub(crate) struct DeferredRow {
    pub(crate) summary: Option<Summary>,
    pub(crate) batch: u64,
    /// Tasks whose creation failed.
    pub(crate) unmade: Vec<Task>,
    /// When the run's advance task must be due, if waking it failed.
    pub(crate) wake: Option<Millis>,
    pub(crate) since: MonotonicTime,
}

/// The rows that this process remembers, and those that it has deferred.
#[derive(Debug, Default)]
pub(crate) struct RowCache {
    known: Mutex<HashMap<RunId, StoredRow>>,
    deferred: Mutex<HashMap<RunId, DeferredRow>>,
    /// Whether a write of the deferred rows is scheduled.
    flush_scheduled: AtomicBool,
}

impl RowCache {
    /// The row that this process last saw. It may be outdated, but is enough to try a compare-and-set.
    pub(crate) fn last_seen(&self, run: &RunId) -> Option<StoredRow> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(run).cloned()
    }

    pub(crate) fn remember(&self, run: &RunId, row: Option<StoredRow>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        match row {
            Some(row) => known.insert(run.clone(), row),
            None => known.remove(run),
        };
    }

    fn deferred(&self) -> MutexGuard<'_, HashMap<RunId, DeferredRow>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a row for later. Returns whether the caller must schedule the write of deferred rows.
    pub(crate) fn defer(&self, run: &RunId, row: DeferredRow) -> bool {
        let mut deferred = self.deferred();
        deferred.insert(run.clone(), row);
        !self.flush_scheduled.swap(true, Ordering::SeqCst)
    }

    /// Runs whose rows have been deferred for [`DEFER_MAX`].
    pub(crate) fn due_deferred(&self) -> Vec<RunId> {
        let deferred = self.deferred();
        let due = deferred.iter().filter(|(_, row)| row.since.elapsed() >= DEFER_MAX);
        due.map(|(run, _)| run.clone()).collect()
    }

    /// Whether the caller must schedule one more write; if not, the next [`defer`](Self::defer) asks for one.
    pub(crate) fn has_more_deferred(&self) -> bool {
        let deferred = self.deferred();
        self.flush_scheduled.store(!deferred.is_empty(), Ordering::SeqCst);
        !deferred.is_empty()
    }

    pub(crate) fn take_deferred(&self, run: &RunId) -> Option<DeferredRow> {
        self.deferred().remove(run)
    }

    /// Keeps a row whose write failed, unless a newer one was deferred meanwhile.
    pub(crate) fn restore_deferred(&self, run: &RunId, row: DeferredRow) {
        self.deferred().entry(run.clone()).or_insert(row);
    }

    pub(crate) fn all_deferred(&self) -> Vec<RunId> {
        self.deferred().keys().cloned().collect()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

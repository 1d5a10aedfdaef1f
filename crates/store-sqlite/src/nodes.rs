//! Nodes: a row of beats, and an OS file lock that only the end of the process or of the node frees.
//!
//! Invariant: a node's lock is held before its row can be seen. The lock file is removed only by
//! whoever holds it, so a lock on a removed file is never mistaken for one that counts.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use goldseam_core::{Millis, NodeId};
use goldseam_store::{NodeRecord, NodeSeen, NodeState, Page, Pulse, RecordKind, StoreError, Unreadable};
use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::fault::Fault;
use crate::private;
use crate::rows::cell;
use crate::tasks::{id, is_unreadable, json, json_text, reason};
use crate::writer::Work;

const BEAT: &str = "INSERT INTO nodes (id, name, started_at, workflows, slots, state, beats, beat_at) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, 1, ?7) ON CONFLICT (id) DO UPDATE SET name = excluded.name, \
    started_at = excluded.started_at, workflows = excluded.workflows, slots = excluded.slots, \
    state = excluded.state, beats = beats + 1, beat_at = excluded.beat_at";
const LIST: &str =
    "SELECT id, name, started_at, workflows, slots, state, beats, beat_at FROM nodes ORDER BY id";
const FORGET: &str = "DELETE FROM nodes WHERE id = ?1";

/// Tries to lock a file that others keep replacing or testing.
const LOCK_ATTEMPTS_MAX: u32 = 64;

/// The liveness locks of this process, and where everybody's are.
#[derive(Debug)]
pub(crate) struct Liveness {
    folder: PathBuf,
    held: Mutex<HashMap<NodeId, File>>,
}

impl Liveness {
    /// Beside the database.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut folder = database.as_os_str().to_owned();
        folder.push("-nodes");
        Self { folder: PathBuf::from(folder), held: Mutex::default() }
    }

    fn held(&self) -> MutexGuard<'_, HashMap<NodeId, File>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, node: &NodeId) -> PathBuf {
        self.folder.join(format!("{node}.lock"))
    }

    /// Takes the node's lock unless this process has it.
    pub(crate) fn hold(&self, node: &NodeId) -> Result<(), StoreError> {
        let mut held = self.held();
        let path = self.path(node);
        if held.get(node).is_some_and(|file| is_at(file, &path)) {
            return Ok(());
        }
        held.remove(node);
        let file = self.lock(&path).map_err(|error| cannot_lock(&path, &error))?;
        held.insert(node.clone(), file);
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<File> {
        private::create_folder(&self.folder)?;
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let file = private::options().create(true).truncate(false).write(true).open(path)?;
            match file.try_lock() {
                // Between the two calls the file may have been removed by whoever forgot the node.
                Ok(()) if is_at(&file, path) => return Ok(file),
                // An observer tests it for a moment.
                Ok(()) | Err(TryLockError::WouldBlock) => std::thread::yield_now(),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds the lock"))
    }

    /// Lets go of the node's lock if this process has it. The file stays, so that the lock is seen to be free.
    pub(crate) fn release(&self, node: &NodeId) {
        drop(self.held().remove(node));
    }

    /// What the system knows about the node's process.
    fn pulse(&self, node: &NodeId) -> Pulse {
        if self.held().contains_key(node) {
            return Pulse::Held;
        }
        match File::open(self.path(node)) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Pulse::Dropped,
                Err(TryLockError::WouldBlock) => Pulse::Held,
                Err(TryLockError::Error(_)) => Pulse::Unknown,
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Pulse::Dropped,
            Err(_) => Pulse::Unknown,
        }
    }

    /// Removes the lock file, unless a living process of another's holds it.
    pub(crate) fn forget(&self, node: &NodeId) {
        let path = self.path(node);
        match self.held().remove(node) {
            Some(_held_until_removed) => remove(&path),
            None => {
                if let Ok(file) = File::open(&path)
                    && file.try_lock().is_ok()
                {
                    remove(&path);
                }
            }
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::debug!(%error, path = %path.display(), "failed to remove a liveness lock file");
    }
}

/// Whether this open file is the one that the path names.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

fn cannot_lock(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Refused {
        code: "GS0205",
        what: format!("cannot take the liveness lock {}: {error}", path.display()),
        hint: "check the permissions of this folder, and that no two nodes have the same id".to_owned(),
    }
}

/// Whether a node says that it has ended.
pub(crate) fn is_over(node: &NodeRecord) -> bool {
    matches!(node.state, NodeState::Left | NodeState::Gone)
}

/// Counts a beat.
pub(crate) fn beat(work: &Work<'_>, node: &NodeRecord) -> Result<Millis, Fault> {
    work.conn.prepare_cached(BEAT)?.execute(params![
        node.id.as_str(),
        node.name,
        node.started_at.0,
        json_text(Some(&node.workflows))?,
        node.slots,
        word(node.state),
        work.now.0,
    ])?;
    Ok(work.now)
}

/// Forgets the row.
pub(crate) fn forget(work: &Work<'_>, node: &NodeId) -> Result<(), Fault> {
    work.conn.prepare_cached(FORGET)?.execute([node.as_str()])?;
    Ok(())
}

/// Every node, with its pulse.
pub(crate) fn list(conn: &Connection, liveness: &Liveness) -> Result<Vec<NodeSeen>, Fault> {
    let mut statement = conn.prepare_cached(LIST)?;
    let seen = statement.query_map([], seen)?.filter_map(Result::transpose);
    let seen = seen.collect::<rusqlite::Result<Vec<NodeSeen>>>()?;
    Ok(seen.into_iter().map(|node| NodeSeen { pulse: liveness.pulse(&node.record.id), ..node }).collect())
}

/// A node as lists show it: one whose record cannot be read is up, as far as can be known.
fn seen(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<NodeSeen>> {
    match read(row) {
        Err(error) if is_unreadable(&error) => {
            let Value::Text(id) = cell(row, 0)? else { return Ok(None) };
            let beat_at = match cell(row, 7)? {
                Value::Integer(at) => Millis(at),
                _ => Millis(0),
            };
            Ok(NodeId::new(id).ok().map(|id| Unreadable::node(id, beat_at, Pulse::Unknown)))
        }
        read => read.map(Some),
    }
}

/// All nodes whose records cannot be read.
pub(crate) fn unreadable(conn: &Connection) -> Result<Page<Unreadable>, Fault> {
    let mut statement = conn.prepare_cached(LIST)?;
    let mut rows = statement.query([])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        if let Err(error) = read(row) {
            let key = match cell(row, 0)? {
                Value::Text(id) => id,
                _ => "(unreadable id)".to_owned(),
            };
            page.items.push(Unreadable::new(RecordKind::Node, key, reason(&error)));
        }
    }
    Ok(page)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<NodeSeen> {
    let state: String = row.get(5)?;
    Ok(NodeSeen {
        record: NodeRecord {
            id: id(row, 0)?,
            name: row.get(1)?,
            started_at: Millis(row.get(2)?),
            workflows: json(row, 3)?.unwrap_or_default(),
            slots: row.get(4)?,
            state: STATES
                .into_iter()
                .find(|known| word(*known) == state)
                .ok_or_else(|| rusqlite::Error::InvalidColumnType(5, state, rusqlite::types::Type::Text))?,
        },
        beats: row.get::<_, i64>(6)?.unsigned_abs(),
        beat_at: Millis(row.get(7)?),
        pulse: Pulse::Unknown,
    })
}

const STATES: [NodeState; 4] = [NodeState::Up, NodeState::Leaving, NodeState::Left, NodeState::Gone];

fn word(state: NodeState) -> &'static str {
    match state {
        NodeState::Up => "up",
        NodeState::Leaving => "leaving",
        NodeState::Left => "left",
        NodeState::Gone => "gone",
    }
}
